//! Answers in capitals: the server of docs/src/dataplane/first-server.md, which has the same text.

use cofferdam_dataplane::{Application, Event, EventLoop, Session};
use std::{env, error::Error, time::Duration};

/// The server, and why its address was refused, if so.
#[derive(Default)]
pub struct Shout {
    refused: Option<String>,
}

impl Application for Shout {
    fn start(&mut self, session: &mut Session) {
        session.listen(([10, 0, 0, 9], 7).into(), 128);
    }

    fn event(&mut self, session: &mut Session, event: Event) {
        match event {
            Event::Bound { result, .. } => self.refused = result.err().map(|why| why.to_string()),
            Event::Knock(knock) => {
                session.accept(&knock);
            }
            Event::Received { connection, data } => {
                session.send(connection, &data.to_ascii_uppercase());
            }
            Event::PeerClosed(connection) => session.close(connection),
            _ => {}
        }
    }

    fn failure(&self) -> Option<&str> {
        self.refused.as_deref()
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let socket = env::args().nth(1);
    let socket = socket.as_deref().unwrap_or("/run/cofferdam/dataplane.sock");
    let session = Session::attach(socket.as_ref(), "shout")?;
    let mut server = EventLoop::new(session, Shout::default());
    Ok(server.run(Duration::from_secs(1), |_| false)?)
}
