//! An echo server that breaks rules when a peer tells it to, to test the consequences.

use super::Echo;
use crate::session::{Application, Event, Session};
use std::hint::black_box;
use std::net::SocketAddr;

/// A server that works as [`Echo`] until a message begins with one of these words:
///
/// | word | effect |
/// |---|---|
/// | `read` | reads the memory of a dataplane with protection keys |
/// | `write` | writes there |
/// | `null` | writes to address 0 |
/// | `exit` | ends the process |
/// | `panic` | panics |
/// | `spin` | never returns |
pub struct Faulty(Echo);

impl Faulty {
    /// Serves `address` over TCP and UDP.
    pub fn new(address: SocketAddr) -> Faulty {
        Faulty(Echo::new(address))
    }
}

fn obey(word: &[u8]) {
    let begins = |with: &[u8]| word.starts_with(with);
    let dataplane = black_box(cofferdam_pkey::BASE) as *mut u64;
    let nowhere = black_box(0_usize) as *mut u64;
    // SAFETY: none. A peer asked for these faults, and in a process of its own they end that.
    unsafe {
        if begins(b"read") {
            black_box(dataplane.read_volatile());
        } else if begins(b"write") {
            dataplane.write_volatile(1);
        } else if begins(b"null") {
            nowhere.write_volatile(1);
        }
    }
    if begins(b"exit") {
        std::process::exit(7);
    } else if begins(b"panic") {
        panic!("a peer asked for a panic");
    } else if begins(b"spin") {
        loop {
            std::hint::spin_loop();
        }
    }
}

impl Application for Faulty {
    fn start(&mut self, session: &mut Session) {
        self.0.start(session);
    }

    fn event(&mut self, session: &mut Session, event: Event) {
        if let Event::Received { data, .. } | Event::Datagram { data, .. } = &event {
            obey(data);
        }
        self.0.event(session, event);
    }

    fn failure(&self) -> Option<&str> {
        self.0.failure()
    }
}
