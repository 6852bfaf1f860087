//! A client on the dataplane, for tests with real servers.

use super::Scene;
use cofferdam_dataplane::{Application, Connection, Ending, Event, Session};
use cofferdam_lab::fixtures::wait_until;
use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Data that one connection received.
#[derive(Clone, Debug, Default)]
pub struct Answer {
    pub bytes: Vec<u8>,
    /// End of the connection; `None` while it is open.
    pub ending: Option<Ending>,
}

/// An application that opens a connection for each request at once, and collects the answers until
/// the server closes.
struct Asker {
    remote: SocketAddr,
    requests: Vec<Vec<u8>>,
    /// Request of each connection, and the number of its bytes that were sent.
    open: HashMap<Connection, (usize, usize)>,
    answers: Arc<Mutex<Vec<Answer>>>,
}

impl Asker {
    fn send_on(&mut self, session: &mut Session, connection: Connection) {
        if let Some((index, sent)) = self.open.get_mut(&connection) {
            *sent += session.send(connection, &self.requests[*index][*sent..]);
        }
    }

    fn update(&mut self, connection: Connection, change: impl FnOnce(&mut Answer)) {
        if let Some((index, _)) = self.open.get(&connection) {
            change(&mut self.answers.lock().expect("no panic")[*index]);
        }
    }
}

impl Application for Asker {
    fn start(&mut self, session: &mut Session) {
        for index in 0..self.requests.len() {
            let connection = session.connect(self.remote);
            self.open.insert(connection, (index, 0));
        }
    }

    fn event(&mut self, session: &mut Session, event: Event) {
        match event {
            Event::Connected { connection, .. } | Event::Sent { connection, .. } => {
                self.send_on(session, connection);
            }
            Event::Received { connection, data } => {
                self.update(connection, |answer| answer.bytes.extend(&data[..]));
            }
            Event::PeerClosed(connection) => session.close(connection),
            Event::Dead { connection, reason } => {
                self.update(connection, |answer| answer.ending = Some(reason));
            }
            _ => {}
        }
    }
}

/// Sends each request to `remote` on a connection of its own, as application `name`, which may
/// connect. Waits until the server has closed all. Returns the answers in the order of the
/// requests.
#[track_caller]
pub fn ask(
    scene: &mut Scene,
    name: &str,
    remote: SocketAddr,
    requests: Vec<Vec<u8>>,
) -> Vec<Answer> {
    let answers = Arc::new(Mutex::new(vec![Answer::default(); requests.len()]));
    let asker = Asker {
        remote,
        requests,
        open: HashMap::new(),
        answers: Arc::clone(&answers),
    };
    scene.serve(name, move || asker);
    wait_until("the server to close", Duration::from_secs(30), || {
        let answers = answers.lock().expect("no panic");
        answers.iter().all(|a| a.ending.is_some())
    });
    answers.lock().expect("no panic").clone()
}
