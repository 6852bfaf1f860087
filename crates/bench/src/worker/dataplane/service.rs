//! Work of a server: the same code on sockets and on the dataplane.

use super::work::Work;
use cofferdam_dataplane::applications::{Echo, Memcached, Store};
use cofferdam_dataplane::{Application, Event, Session};
use std::net::SocketAddr;
use std::time::Duration;

/// Memory of a cache, bytes: more than all mixes need.
const STORE_BYTES: usize = 64 << 20;
/// Backlog of each further port.
const BACKLOG: u32 = 1024;

/// Server on sockets.
pub(super) enum Service {
    Echo { bytes: u64, message_bytes: u64 },
    Memcached(Box<Store>),
}

impl Service {
    pub fn new(work: Work) -> Service {
        match work {
            Work::Echo(bytes) => Service::Echo {
                bytes: 0,
                message_bytes: u64::from(bytes),
            },
            Work::Usr | Work::Etc => Service::Memcached(Box::new(Store::new(STORE_BYTES))),
        }
    }

    /// Answers the data of a connection. Returns the answer, and whether the connection stays open.
    pub fn serve<'a>(&'a mut self, partial: &mut Vec<u8>, data: &'a [u8]) -> (&'a [u8], bool) {
        match self {
            Service::Echo { bytes, .. } => {
                *bytes += data.len() as u64;
                (data, true)
            }
            Service::Memcached(store) => store.serve(partial, data),
        }
    }

    /// Number of answered requests.
    pub fn requests(&self) -> u64 {
        match self {
            Service::Echo {
                bytes,
                message_bytes,
            } => bytes / message_bytes,
            Service::Memcached(store) => store.commands_answered(),
        }
    }
}

/// Server on the dataplane, at one port or several.
pub(super) struct DataplaneServer {
    address: SocketAddr,
    ports: u16,
    message_bytes: u64,
    kind: Kind,
    /// Period of a timer that does nothing.
    pub ticks: Option<Duration>,
}

enum Kind {
    Echo(Echo),
    Memcached(Box<Memcached>),
}

impl DataplaneServer {
    pub fn new(work: Work, port: u16, ports: u16) -> DataplaneServer {
        let address = SocketAddr::from(([0, 0, 0, 0], port));
        let (kind, bytes) = match work {
            Work::Echo(bytes) => (Kind::Echo(Echo::new(address)), bytes),
            Work::Usr | Work::Etc => {
                let server = Memcached::new(address, STORE_BYTES);
                (Kind::Memcached(Box::new(server)), 1)
            }
        };
        DataplaneServer {
            address,
            ports,
            message_bytes: u64::from(bytes),
            kind,
            ticks: None,
        }
    }

    /// Number of answered requests.
    pub fn requests(&self) -> u64 {
        match &self.kind {
            Kind::Echo(echo) => echo.bytes / self.message_bytes,
            Kind::Memcached(server) => server.store.commands_answered(),
        }
    }
}

impl DataplaneServer {
    fn tick(&self, session: &mut Session) {
        if let Some(period) = self.ticks {
            session.timer(period, 0);
        }
    }
}

impl Application for DataplaneServer {
    fn start(&mut self, session: &mut Session) {
        match &mut self.kind {
            Kind::Echo(echo) => echo.start(session),
            Kind::Memcached(server) => server.start(session),
        }
        for n in 1..self.ports {
            let mut further = self.address;
            further.set_port(further.port() + n);
            session.listen(further, BACKLOG);
        }
        self.tick(session);
    }

    fn event(&mut self, session: &mut Session, event: Event) {
        if matches!(event, Event::Timer(_)) {
            return self.tick(session);
        }
        match &mut self.kind {
            Kind::Echo(echo) => echo.event(session, event),
            Kind::Memcached(server) => server.event(session, event),
        }
    }
}
