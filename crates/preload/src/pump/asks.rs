//! What the program asks about a connection, and sets at it.

use super::connection::Conn;
use super::{Name, Pump};
use crate::internal::Internal;
use cofferdam_dataplane::{Connection, ConnectionInfo, ConnectionOptions};

impl Pump {
    /// Settings of a connection; one that is not open yet gets them when it is.
    pub fn set_options(&mut self, name: Name, options: ConnectionOptions) {
        let connection = self.conns.get_mut(name).and_then(|conn| conn.connection());
        if let (Some(connection), Some(session)) = (connection, &mut self.session) {
            session.set_options(connection, options);
            session.flush();
        }
    }

    /// Uses our end of a connection's pair.
    pub fn with_end(&mut self, name: Name, body: impl FnOnce(&Internal)) {
        if let Some(conn) = self.conns.get_mut(name) {
            body(conn.end());
        }
    }

    /// Asks for a connection as it is; none when it is not open. [`Pump::info`] has the answer.
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

    /// The answer, once it is there; none in it where the connection has ended meanwhile.
    pub fn info(&mut self, name: Name, asked: Connection) -> Option<Option<ConnectionInfo>> {
        if let Some(info) = self.infos.remove(&asked) {
            return Some(Some(*info));
        }
        let is_there = |conn: &mut Conn| conn.connection() == Some(asked);
        let is_there = self.conns.get_mut(name).is_some_and(is_there);
        (!is_there).then_some(None)
    }
}
