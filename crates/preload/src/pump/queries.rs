//! Queries and settings of connections.

use super::connection::Conn;
use super::{Name, Pump};
use crate::internal::Internal;
use cofferdam_dataplane::{Connection, ConnectionInfo, ConnectionOptions};

impl Pump {
    /// Sets the options of a connection. One that is not open gets them when it opens.
    pub fn set_options(&mut self, name: Name, options: ConnectionOptions) {
        let connection = self.conns.get_mut(name).and_then(|conn| conn.connection());
        if let (Some(connection), Some(session)) = (connection, &mut self.session) {
            session.set_options(connection, options);
            session.flush();
        }
    }

    /// Uses the library's end of a connection's pair.
    pub fn with_end(&mut self, name: Name, body: impl FnOnce(&Internal)) {
        if let Some(conn) = self.conns.get_mut(name) {
            body(conn.end());
        }
    }

    /// Requests the state of a connection; `None` if it is not open. [`Pump::info`] returns the
    /// answer.
    pub fn ask_info(&mut self, name: Name) -> Option<Connection> {
        let connection = self.conns.get_mut(name)?.connection()?;
        let session = self.session.as_mut()?;
        if !session.ask_info(connection) {
            return None;
        }
        self.infos.remove(&connection);
        session.flush();
        Some(connection)
    }

    /// The answer, once it has arrived; its value is `None` if the connection has ended.
    pub fn info(&mut self, name: Name, asked: Connection) -> Option<Option<ConnectionInfo>> {
        if let Some(info) = self.infos.remove(&asked) {
            return Some(Some(*info));
        }
        let is_there = |conn: &mut Conn| conn.connection() == Some(asked);
        let is_there = self.conns.get_mut(name).is_some_and(is_there);
        (!is_there).then_some(None)
    }
}
