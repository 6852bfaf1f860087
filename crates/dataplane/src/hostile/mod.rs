//! A hostile application for the fuzzer. It writes its input into the rings of a dataplane over a
//! pipe, and checks that an honest application is answered.

mod attacker;

pub use attacker::{Attacker, offend};

use crate::abi::{Call, Entry};
use crate::channel::MappedChannel;
use crate::engine::{Engine, Life, Options, Order};
use crate::policy::Rights;
use cofferdam_netstack::{Config, InterfaceAddress, MacAddress};
use cofferdam_xsk::{Memory, Pipe, pipe};
use std::sync::Arc;

/// A dataplane with one honest application.
pub struct Hostile {
    engine: Engine<Pipe>,
    honest: MappedChannel,
    rounds: u64,
}

impl Hostile {
    /// Sets up the dataplane.
    ///
    /// # Panics
    /// The machine has no memory for it.
    #[allow(clippy::new_without_default)]
    pub fn new() -> Hostile {
        let (port, _) = pipe(1500).expect("a pipe");
        let memory = Memory::new(512, 2048).expect("memory");
        let address = InterfaceAddress {
            ip: [10, 0, 0, 9].into(),
            prefix_len: 24,
        };
        let config = Config::new(MacAddress([2, 0, 0, 0, 0, 1]), vec![address], [7; 16]);
        let options = Options {
            area_bytes: 1 << 20,
            ..Options::default()
        };
        let engine = Engine::new(port, memory, config, options).expect("an engine");
        let honest = attach(&engine, Arc::default());
        Hostile {
            engine,
            honest,
            rounds: 0,
        }
    }

    /// Attaches, writes `bytes` as calls of 64 bytes each, and leaves.
    ///
    /// # Panics
    /// The honest application is not answered: a finding.
    pub fn attack(&mut self, bytes: &[u8]) {
        let life = Arc::new(Life::default());
        let mut hostile = attach(&self.engine, life.clone());
        self.turns(1);
        for part in bytes.chunks(64).take(4096) {
            hostile.first().push(entry(part));
        }
        hostile.first().publish();
        self.turns(3);
        life.end();
        self.turns(3);
        self.rounds += 1;
        let local = ([0, 0, 0, 0], 0).into();
        let cookie = self.rounds;
        self.honest
            .first()
            .push(Call::UdpBind { local, cookie }.into());
        self.honest.first().publish();
        self.turns(1);
        let answer = self
            .honest
            .first()
            .take()
            .expect("the honest one is answered");
        assert_eq!(answer.cookie, cookie);
        self.honest.first().release();
    }

    fn turns(&mut self, count: u32) {
        for _ in 0..count {
            self.engine.turn(|| false);
        }
    }
}

fn attach(engine: &Engine<Pipe>, life: Arc<Life>) -> MappedChannel {
    let shared = engine.maker().make(0, "fuzz", Rights::all(), life);
    let (domains, outside) = shared.expect("memory");
    for (core, domain) in domains.into_iter().enumerate() {
        assert!(engine.hub().order(core, Order::Attach(Box::new(domain))));
    }
    outside.map().expect("mapped")
}

/// The bytes as an entry of a ring; missing bytes are zero.
fn entry(bytes: &[u8]) -> Entry {
    let mut all = [0; 64];
    for (to, from) in all.iter_mut().zip(bytes) {
        *to = *from;
    }
    let word = |at: usize| {
        let mut eight = [0; 8];
        eight.copy_from_slice(&all[at..at + 8]);
        u64::from_ne_bytes(eight)
    };
    let mut ip = [0; 16];
    ip.copy_from_slice(&all[32..48]);
    Entry {
        // One kind in four is not a call.
        kind: u32::from(all[0]) % 20,
        len: word(0).wrapping_shr(32) as u32,
        handle: word(8),
        cookie: word(16),
        offset: word(24),
        ip,
        port: word(48) as u16,
        reserved: 0,
        value: word(48).wrapping_shr(32) as u32,
        more: word(56),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise 69.
    #[test]
    fn random_bytes_in_the_rings_harm_no_neighbour() {
        let mut random = fastrand::Rng::with_seed(5);
        let mut target = Hostile::new();
        for _ in 0..200 {
            let len = random.usize(0..4096);
            let bytes: Vec<u8> = (0..len).map(|_| random.u8(..)).collect();
            target.attack(&bytes);
        }
    }
}
