//! Each frame, send, timer and place has one owner. At the end of any history, sudden ends
//! included, all are as at its start.

use super::*;
use crate::hostile::Attacker;
use nix::sys::socket::{AddressFamily, SockFlag, SockType, socketpair};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

const FRAMES: u32 = 1024;
const LIMIT: Duration = Duration::from_secs(20);

fn address(node: u8) -> [u8; 4] {
    [10, 0, 0, 9 + node]
}

/// A dataplane and its attackers.
struct Side {
    engine: Engine<Pipe>,
    attackers: Vec<(Attacker, Arc<Life>)>,
    ports: Vec<SocketAddr>,
    peers: Vec<SocketAddr>,
}

impl Side {
    fn new(port: Pipe, node: u8, options: Options) -> Side {
        let memory = Memory::new(FRAMES, 2048).expect("memory");
        let own = InterfaceAddress {
            ip: address(node).into(),
            prefix_len: 24,
        };
        let mut config = Config::new(MacAddress([2, 0, 0, 0, 0, node]), vec![own], [7; 16]);
        config.limits.connections = 64;
        config.limits.timers = 64;
        config.limits.neighbours = 64;
        let ports = (1000..1006).map(|port| (address(node), port).into());
        // The other side, and a host that does not exist.
        let peers = [address(1 - node), [10, 0, 0, 77]];
        let peers = peers.into_iter().flat_map(|ip| {
            let one = move |port| (ip, port).into();
            (1000..1006).map(one)
        });
        Side {
            engine: Engine::new(port, memory, config, options).expect("an engine"),
            attackers: Vec::new(),
            ports: ports.collect(),
            peers: peers.collect(),
        }
    }

    fn attach(&mut self, client: u8) {
        let life = Arc::new(Life::default());
        let shared = self
            .engine
            .maker()
            .make(client, "evil", Rights::all(), life.clone());
        let (domains, outside) = shared.expect("a place");
        for domain in domains {
            self.engine.attach(Box::new(domain));
        }
        let (socket, _) = socketpair(
            AddressFamily::Unix,
            SockType::SeqPacket,
            None,
            SockFlag::SOCK_CLOEXEC,
        )
        .expect("a pair");
        let mapped = outside.map().expect("mapped");
        self.attackers.push((Attacker::new(mapped, socket), life));
    }

    /// Does one random step.
    fn step(&mut self, random: &mut fastrand::Rng) {
        // Attackers that broke a rule have ended, or are about to.
        self.attackers.retain(|(_, life)| !life.has_ended());
        if self.attackers.len() < 3 && random.u8(..8) == 0 {
            self.attach(random.u8(0..3));
        }
        for (attacker, life) in &mut self.attackers {
            for _ in 0..random.u32(0..60) {
                let words = std::array::from_fn(|_| random.u64(..));
                attacker.act(words, &self.ports, &self.peers);
            }
            attacker.show();
            if random.bool() {
                attacker.take();
            }
            if random.u8(..64) == 0 {
                life.end();
            }
        }
        self.engine.turn(|| false);
    }

    fn is_at_rest(&mut self) -> bool {
        let engine = &mut self.engine;
        let usage = engine.stack.usage();
        engine.domains.iter().next().is_none()
            && engine.tally().free_frames == FRAMES
            && [usage.connections, usage.chunks, usage.kept] == [0; 3]
            && engine.pools.is_untouched()
            && engine.bounds.is_empty()
            && engine.owners.count() == 0
    }
}

fn history(seed: u64, options: Options) {
    let mut random = fastrand::Rng::with_seed(seed);
    let (one, other) = pipe(1500).expect("a pipe");
    let mut sides = [Side::new(one, 0, options), Side::new(other, 1, options)];
    for _ in 0..300 {
        let [one, other] = &mut sides;
        one.step(&mut random);
        other.step(&mut random);
    }
    for side in &sides {
        for (_, life) in &side.attackers {
            life.end();
        }
    }
    let until = Instant::now() + LIMIT;
    while !sides.iter_mut().all(Side::is_at_rest) {
        for side in &mut sides {
            side.engine.turn(|| false);
        }
        if Instant::now() > until {
            let tallies = sides.each_mut().map(|side| side.engine.tally());
            let usages = sides.each_ref().map(|side| side.engine.stack.usage());
            panic!("seed {seed}: something is kept: {tallies:?} {usages:?}");
        }
    }
    for side in &mut sides {
        // All places are free at once.
        let maker = side.engine.maker();
        let domains: Vec<_> = (0..MOST_APPLICATIONS)
            .map(|_| maker.make(0, "next", Rights::all(), Arc::default()))
            .collect();
        let places = domains.iter().filter(|domains| domains.is_ok()).count();
        // Two other applications are guaranteed one place each.
        assert_eq!(places, MOST_APPLICATIONS - 2, "seed {seed}");
    }
}

/// Promise 66.
/// Promise 70.
#[test]
fn an_application_gets_everything_back_after_any_history() {
    let seed = fastrand::u64(..);
    println!("seed {seed}");
    for n in 0..6 {
        let options = Options {
            area_bytes: 1 << 20,
            private_frames: (n % 2 == 0).then_some(128),
            shares: crate::policy::Shares::equal(3),
            ..Options::default()
        };
        history(seed.wrapping_add(n), options);
    }
}
