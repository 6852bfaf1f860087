//! The planner with synthetic cores and loads, in explicit time.

use super::*;

const INTERVAL: Duration = Duration::from_millis(100);
/// Service time of a packet.
const SERVICE_S: f64 = 5e-6;

/// A dataplane of some cores, whose flow groups have loads.
struct World {
    planner: Planner,
    now: Duration,
    owners: [u8; GROUPS],
    cores: usize,
    /// Busy share of a core that each group causes.
    loads: [f64; GROUPS],
    /// Factor of the waiting times, for bursty packets.
    burst: f64,
    /// Busy share of the first core for receiving others' packets, relative to their load.
    receiving: f64,
    noise: Option<fastrand::Rng>,
    connections: [u32; GROUPS],
    plans: Vec<(Duration, Plan)>,
    moved: [Option<Duration>; GROUPS],
}

impl World {
    fn new(cores: u8) -> World {
        World::with(Elastic::for_cores(cores), cores)
    }

    fn with(settings: Elastic, cores: u8) -> World {
        World {
            planner: Planner::new(settings, 1000),
            now: Duration::ZERO,
            owners: std::array::from_fn(|group| {
                (group * usize::from(settings.least_cores) / GROUPS) as u8
            }),
            cores: usize::from(cores),
            loads: [0.0; GROUPS],
            burst: 1.0,
            receiving: 0.0,
            noise: None,
            connections: [0; GROUPS],
            plans: Vec::new(),
            moved: [None; GROUPS],
        }
    }

    fn reading(&mut self) -> Reading {
        let mut wanted = vec![0.0; self.cores];
        for (group, owner) in self.owners.iter().enumerate() {
            wanted[usize::from(*owner)] += self.loads[group];
            if *owner != 0 {
                wanted[0] += self.loads[group] * self.receiving;
            }
        }
        let mut shake = |value: f64| match &mut self.noise {
            None => value,
            Some(random) => value * (0.9 + 0.2 * random.f64()),
        };
        let core = |wanted: &f64| {
            let waiting = wanted / (1.0 - wanted).max(1e-3);
            let delay_s = (SERVICE_S * waiting * self.burst).min(4e-3);
            CoreReading {
                busy: shake(*wanted).min(1.0),
                delay: Duration::from_secs_f64(shake(delay_s)),
            }
        };
        let cores = wanted.iter().map(core).collect();
        // An overloaded core takes fewer packets of all its groups.
        let packets = std::array::from_fn(|group| {
            let served = 1.0 / wanted[usize::from(self.owners[group])].max(1.0);
            (self.loads[group] * served / SERVICE_S * INTERVAL.as_secs_f64()) as u64
        });
        Reading {
            cores,
            packets,
            connections: self.connections,
        }
    }

    /// Runs one interval, and executes a plan at once.
    fn step(&mut self) -> Verdict {
        self.now += INTERVAL;
        let reading = self.reading();
        let verdict = self.planner.plan(self.now, &self.owners, &reading);
        if let Verdict::Go(plan) = &verdict {
            assert!(!plan.moves.is_empty(), "{plan:?}");
            for Move { group, to } in plan.moves.iter().copied() {
                let group = usize::from(group);
                assert_ne!(self.owners[group], to, "{plan:?}");
                assert!(usize::from(to) < self.cores, "{plan:?}");
                let pause = self.planner.settings.pause;
                let rested = self.moved[group].is_none_or(|at| self.now - at >= pause);
                assert!(rested, "group {group} again: {:?}", self.plans);
                self.moved[group] = Some(self.now);
                self.owners[group] = to;
                self.planner.moved(group as u8, self.now);
            }
            self.planner.finish_plan(self.now);
            self.plans.push((self.now, plan.clone()));
        }
        verdict
    }

    fn run(&mut self, intervals: usize) {
        for _ in 0..intervals {
            self.step();
        }
    }

    fn used(&self) -> Vec<u8> {
        let mut used = self.owners.to_vec();
        used.sort_unstable();
        used.dedup();
        used
    }

    fn load_of(&self, core: u8) -> f64 {
        let own = self.owners.iter().zip(&self.loads);
        own.filter(|(owner, _)| **owner == core)
            .map(|(_, load)| load)
            .sum()
    }

    /// Divides a load evenly among `groups`.
    fn spread(&mut self, load: f64, groups: usize) {
        self.loads = std::array::from_fn(|group| match group < groups {
            true => load / groups as f64,
            false => 0.0,
        });
    }

    fn changes(&self) -> Vec<Change> {
        self.plans.iter().map(|(_, plan)| plan.change).collect()
    }
}

/// Promise 54.
#[test]
fn a_load_brings_cores_and_its_end_takes_them_away() {
    let mut world = World::new(4);
    world.run(50);
    assert_eq!(world.changes(), [], "nothing to do");
    world.spread(2.1, 128);
    world.run(100);
    assert_eq!(world.used(), [0, 1, 2]);
    assert_eq!(world.changes(), [Change::Add(1), Change::Add(2)]);
    let first = &world.plans[0].1;
    assert_eq!(first.moves.len(), 64, "half of what there is");
    assert!(
        first.why.starts_with(
            "core 1 added, with 64 flow groups: a packet waited 4000 µs on core 0, more than 100 µs"
        ),
        "{}",
        first.why
    );
    assert!((0..3).all(|core| (world.load_of(core) - 0.7).abs() < 0.1));
    world.spread(0.1, 128);
    world.run(100);
    assert_eq!(world.used(), [0]);
    let (_, last) = world.plans.last().expect("a plan");
    assert!(matches!(last.change, Change::Remove(1 | 2)), "{last:?}");
    assert_eq!(world.plans.len(), 4, "{:?}", world.changes());
    assert!(
        last.why
            .contains("each other core will be busy for at most 10% of its time"),
        "{}",
        last.why
    );
    // The pauses were respected.
    for pair in world.plans.windows(2) {
        assert!(pair[1].0 - pair[0].0 >= Duration::from_secs(1));
    }
}

/// Promise 54.
#[test]
fn one_reading_is_not_enough_for_a_change() {
    let mut world = World::new(2);
    for _ in 0..50 {
        world.spread(0.99, 128);
        world.run(2);
        world.spread(0.1, 128);
        world.run(1);
    }
    assert_eq!(world.changes(), []);
}

/// Promise 54.
#[test]
fn a_flow_group_that_fills_a_core_stays() {
    let mut world = World::new(4);
    world.loads[77] = 1.5;
    world.run(100);
    assert_eq!(world.changes(), []);
    let Verdict::Stay(Some(why)) = world.step() else {
        panic!("it says why it does nothing");
    };
    assert!(why.contains("cannot be divided"), "{why}");
    // The other groups of its core move away.
    world.loads[3] = 0.4;
    world.loads[4] = 0.3;
    world.run(100);
    assert_eq!(world.owners[77], 0);
    assert_ne!((world.owners[3], world.owners[4]), (0, 0));
}

/// Promise 54.
#[test]
fn a_core_far_busier_than_another_gives_it_flow_groups() {
    let mut world = World::new(2);
    world.spread(1.2, 128);
    world.run(50);
    assert_eq!(world.changes(), [Change::Add(1)]);
    // The remaining load is on one of them.
    world.loads = std::array::from_fn(|group| match world.owners[group] {
        0 => 0.9 / 64.0,
        _ => 0.05 / 64.0,
    });
    world.run(50);
    assert_eq!(world.changes(), [Change::Add(1), Change::Balance]);
    assert!((world.load_of(0) - world.load_of(1)).abs() < 0.15);
    let why = &world.plans[1].1.why;
    assert!(
        why.contains("from core 0 to core 1: they were busy 90% and 5%"),
        "{why}"
    );
}

/// Promise 54.
#[test]
fn a_core_that_came_for_bursts_stays_while_they_last() {
    let mut world = World::new(2);
    world.spread(0.3, 64);
    world.burst = 50.0;
    world.run(1000);
    // One core would be busy for less than the bound, but packets waited there.
    assert_eq!(world.changes(), [Change::Add(1)]);
    world.burst = 1.0;
    world.run(100);
    assert_eq!(world.changes(), [Change::Add(1)], "the same load");
    world.spread(0.2, 64);
    world.run(100);
    assert_eq!(world.changes(), [Change::Add(1), Change::Remove(1)]);
}

/// Promise 54.
#[test]
fn no_core_gets_more_connections_than_fit() {
    let mut world = World::new(2);
    world.spread(1.2, 128);
    world.connections = [9; GROUPS];
    world.run(50);
    assert_eq!(world.changes(), [Change::Add(1)]);
    // One core could do the work but has no room for 1,152 connections.
    world.spread(0.2, 128);
    world.run(100);
    assert_eq!(world.changes(), [Change::Add(1)]);
    world.connections = [5; GROUPS];
    world.run(100);
    assert_eq!(world.changes(), [Change::Add(1), Change::Remove(1)]);
}

/// Promise 54.
#[test]
fn the_least_and_the_most_cores_are_kept() {
    let settings = Elastic {
        least_cores: 2,
        most_cores: 3,
        ..Elastic::for_cores(4)
    };
    let mut world = World::with(settings, 4);
    world.spread(3.9, 128);
    world.run(200);
    assert_eq!(world.used(), [0, 1, 2]);
    let Verdict::Stay(Some(why)) = world.step() else {
        panic!("it says why it does nothing");
    };
    assert!(
        why.contains("no core is left to add to the 3 in use"),
        "{why}"
    );
    world.spread(0.0, 128);
    world.run(200);
    assert_eq!(world.used(), [0, 1]);
}

/// Promise 54.
#[test]
fn a_group_moved_by_hand_stays_for_a_pause() {
    let settings = Elastic {
        pause: Duration::from_secs(5),
        ..Elastic::for_cores(2)
    };
    let mut world = World::with(settings, 2);
    world.owners[9] = 1;
    world.planner.moved(9, world.now);
    world.moved[9] = Some(world.now);
    world.run(49);
    assert_eq!((world.changes(), world.owners[9]), (vec![], 1));
    world.run(10);
    assert_eq!(world.used(), [0], "nothing to do: one core is enough");
}

/// Promise 54.
#[test]
fn groups_that_were_all_moved_away_by_hand_come_home() {
    let mut world = World::new(3);
    world.owners = [1; GROUPS];
    world.spread(0.2, 128);
    world.run(100);
    assert_eq!(world.changes(), [Change::Remove(1)]);
    assert_eq!(world.used(), [0]);
}

/// Promise 54.
#[test]
fn at_a_constant_load_cores_stop_changing() {
    for seed in 0..300 {
        let mut random = fastrand::Rng::with_seed(seed);
        let cores = random.u8(2..=8);
        let mut world = World::new(cores);
        world.burst = 1.0 + 60.0 * random.f64() * random.f64();
        world.receiving = 0.5 * random.f64();
        let total = random.f64() * f64::from(cores);
        let shares: [f64; GROUPS] = std::array::from_fn(|_| match random.u8(..3) {
            0 => 0.0,
            1 => random.f64(),
            _ => random.f64().powi(6) * 20.0,
        });
        let sum: f64 = shares.iter().sum();
        world.loads = shares.map(|share| share / sum * total);
        let is_noisy = seed % 2 == 1;
        if is_noisy {
            world.noise = Some(fastrand::Rng::with_seed(seed + 1000));
        }
        world.run(600);
        let before = world.plans.len();
        world.run(600);
        let changes = world.changes();
        let seen = format!("seed {seed}: {changes:?}");
        // No core is removed that was added for a reason, so that none is added twice.
        assert!(
            !changes.iter().any(|c| matches!(c, Change::Remove(_))),
            "{seen}"
        );
        let added = changes.iter().filter(|c| matches!(c, Change::Add(_)));
        assert!(added.count() < usize::from(cores), "{seen}");
        if !is_noisy {
            assert_eq!(before, changes.len(), "{seen}");
        }
        // Balancing ends: no group moves twice for it.
        let mut evened = [0; GROUPS];
        for (_, plan) in &world.plans {
            if plan.change == Change::Balance {
                plan.moves
                    .iter()
                    .for_each(|m| evened[usize::from(m.group)] += 1);
            }
        }
        assert!(
            evened.iter().all(|times| *times <= usize::from(cores)),
            "{seen}"
        );
    }
}

/// Promise 54.
#[test]
fn any_readings_give_a_plan_that_can_be_carried_out() {
    let mut random = fastrand::Rng::with_seed(7);
    for _ in 0..300 {
        let cores = random.u8(1..=32);
        let settings = Elastic {
            least_cores: random.u8(1..=cores),
            most_cores: cores,
            queue_delay: Duration::from_micros(random.u64(..200)),
            intervals: random.u32(1..4),
            pause: INTERVAL * random.u32(..4),
            ..Elastic::for_cores(cores)
        };
        let mut world = World::with(settings, cores);
        for _ in 0..60 {
            world.burst = random.f64() * 30.0;
            let scale = random.f64() * 0.3;
            world.loads = std::array::from_fn(|_| scale * random.f64().powi(4));
            let before = world.used().len();
            world.step();
            let after = world.used();
            assert!(after.len().abs_diff(before) <= 1);
            assert!((0..settings.least_cores).all(|core| after.contains(&core)));
        }
    }
}
