//! Properties that hold after every event.

use super::*;
use crate::host::Shape;
use crate::scenario::{Cgroup, Load, Policy, Quota, Tenant};
use cofferdam_types::CpuAmount;
use proptest::prelude::*;
use std::collections::HashMap;
use std::time::Duration;

const MS: u64 = 1_000_000;
/// Longest time that a thread waits next to an idle CPU, milliseconds per CPU of the host, plus two
/// ticks. That is three balancing attempts, two of which spare threads that have just run.
const IDLE_WAIT_MS: u64 = 6;

fn tenant(name: String, loads: Vec<Load>) -> Tenant {
    Tenant {
        cgroup: Cgroup {
            name,
            parent: None,
            weight: 100,
            quota: None,
            cpus: None,
        },
        reserved: None,
        loads,
    }
}

fn behaviour() -> impl Strategy<Value = Behaviour> {
    let time = 50_000..20_000_000u64;
    prop_oneof![
        Just(Behaviour::CpuBound),
        (time.clone(), 0..20_000_000u64)
            .prop_map(|(run_ns, sleep_ns)| Behaviour::Periodic { run_ns, sleep_ns }),
        (time.clone(), time.clone()).prop_map(|(mean_run_ns, mean_sleep_ns)| Behaviour::Bursts {
            mean_run_ns,
            mean_sleep_ns
        }),
        time.prop_map(|run_ns| Behaviour::Phases { run_ns }),
    ]
}

#[derive(Clone, Debug)]
struct RandomScenario {
    shape: Shape,
    tenants: Tenants,
    policy: Policy,
    seed: u64,
}

fn random_scenario() -> impl Strategy<Value = RandomScenario> {
    let loads = prop::collection::vec(
        (1..4u32, behaviour()).prop_map(|(threads, behaviour)| Load { threads, behaviour }),
        1..3,
    );
    let one = (
        loads,
        prop_oneof![Just(1u32), Just(100), Just(10_000), 1..1000u32],
        prop::option::of((5..300u64, 10..200u64)),
        prop::option::of(prop::collection::btree_set(0..8usize, 1..4)),
        prop::option::of(100..2_000u32),
        any::<bool>(),
    );
    let shape = (1..3u32, 1..3u32, 1..3u32, 1..3u32).prop_map(|(a, b, c, d)| Shape {
        nodes: a,
        llcs_per_node: b,
        cores_per_llc: c,
        threads_per_core: d,
    });
    let policy = prop::sample::select(Policy::ALL.to_vec());
    let group = prop::option::of((10..200u64, 20..100u64));
    let all = (
        shape,
        prop::collection::vec(one, 1..6),
        group,
        policy,
        0..1000u64,
    );
    all.prop_map(|(shape, drawn, group, policy, seed)| {
        let quota = |q: Option<(u64, u64)>| {
            q.map(|(quota, period)| Quota {
                quota_ns: quota * MS,
                period_ns: period * MS,
            })
        };
        let cpus = shape.cpus().unwrap();
        let above = Cgroup {
            quota: quota(group),
            ..tenant("above".to_owned(), vec![]).cgroup
        };
        let tenants = drawn.into_iter().enumerate();
        let tenants = tenants.map(|(i, (loads, weight, limit, places, reserved, below))| {
            let mut one = tenant(format!("t{i}"), loads);
            one.cgroup.weight = weight;
            one.cgroup.quota = quota(limit);
            one.cgroup.parent = below.then_some(0);
            one.reserved = reserved.and_then(CpuAmount::from_milli_cpus);
            if one.reserved.is_none() {
                one.cgroup.cpus = places.map(|p| p.into_iter().map(|c| c % cpus).collect());
            }
            one
        });
        RandomScenario {
            shape,
            tenants: Tenants {
                groups: vec![above],
                tenants: tenants.collect(),
            },
            policy,
            seed,
        }
    })
}

fn host(shape: Shape) -> Host {
    Host::new(shape.topology().unwrap())
}

fn scenario<'a>(host: &'a Host, tenants: &'a Tenants, policy: Policy, seed: u64) -> Scenario<'a> {
    Scenario {
        host,
        tenants,
        policy,
        duration: Duration::from_millis(300),
        seed,
        keep_cpus: 1,
    }
}

impl Machine<'_> {
    /// Checks that redundant counts agree.
    fn check(&self) {
        for (cpu, one) in self.cpus.iter().enumerate() {
            let root = self.tree.queue(0, cpu);
            if let Some(thread) = one.current {
                let tenant = self.threads[thread].tenant;
                assert!(self.allowed[tenant].has(cpu), "{thread} runs on {cpu}");
                assert!(!self.threads[thread].is_asleep);
                assert_eq!(self.tree.places[thread].1, cpu);
                assert!(!self.is_throttled(self.group(tenant), cpu));
                assert!(self.tree.queues[root].running.is_some());
            } else {
                assert_eq!(self.tree.queues[root].tasks, 0, "{cpu} is idle");
            }
            assert_eq!(self.idle.has(cpu), one.current.is_none(), "{cpu}");
        }
        let mut runnable: HashMap<usize, u32> = HashMap::new();
        for thread in 0..self.threads.len() {
            let entity = &self.tree.entities[thread];
            let asleep = self.threads[thread].is_asleep;
            assert_eq!(entity.queued && !entity.delayed, !asleep, "thread {thread}");
            let (group, cpu) = self.tree.places[thread];
            if asleep {
                continue;
            }
            assert!(self.allowed[self.threads[thread].tenant].has(cpu));
            let mut next = Some(self.tree.queue(group, cpu));
            while let Some(queue) = next {
                *runnable.entry(queue).or_default() += 1;
                let throttled = self.tree.queues[queue].throttled;
                next = self.tree.parent(queue).filter(|_| !throttled);
            }
        }
        for (queue, one) in self.tree.queues.iter().enumerate() {
            let tasks = runnable.get(&queue).copied().unwrap_or(0);
            assert_eq!(one.tasks, tasks, "queue {queue} at {}", self.now_ns);
            let load: f64 = one
                .queued
                .iter()
                .map(|e| self.tree.entities[*e as usize].weight)
                .sum();
            assert!(
                (one.load - load).abs() <= 1e-6 * load.max(1.0),
                "load of {queue}"
            );
            if let Some(parent) = self.tree.parent(queue) {
                let entity = self.tree.entity_of(queue);
                let inside = self.tree.queues[parent].queued.contains(&(entity as u32));
                assert_eq!(inside, self.tree.entities[entity].queued);
                assert!(!(one.throttled && inside), "throttled and queued");
            }
        }
    }

    /// Pairs of a waiting thread and an idle CPU of the same cache on which it may run. Between
    /// nodes only whole groups are compared, as in the kernel.
    fn could_run(&self) -> Vec<(usize, usize)> {
        let idle: Vec<usize> = self.idle.iter().collect();
        let mut pairs = Vec::new();
        for thread in 0..self.threads.len() {
            let (group, cpu) = self.tree.places[thread];
            let waits = !self.threads[thread].is_asleep
                && self.cpus[cpu].current != Some(thread)
                && !self.is_throttled(group, cpu);
            let allowed = &self.allowed[self.threads[thread].tenant];
            let near = |c: &&usize| allowed.has(**c) && self.llc[cpu].has(**c);
            if waits {
                pairs.extend(idle.iter().filter(near).map(|c| (thread, *c)));
            }
        }
        pairs
    }

    fn step_checked(&mut self, end_ns: u64) {
        let cpus = self.cpus.len() as u64;
        let most_ns = IDLE_WAIT_MS * cpus * MS + 2 * self.tick_ns;
        let mut since: HashMap<(usize, usize), u64> = HashMap::new();
        while let Some((time, event)) = self.events.next(end_ns) {
            self.now_ns = time;
            self.handle(event);
            self.reschedule_pending();
            self.check();
            let pairs = self.could_run();
            since.retain(|pair, _| pairs.contains(pair));
            for pair in pairs {
                let begun = *since.entry(pair).or_insert(self.now_ns);
                assert!(
                    self.now_ns - begun <= most_ns,
                    "{pair:?} since {begun} at {}",
                    self.now_ns
                );
            }
        }
        self.now_ns = end_ns;
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    /// Promise 48.
    #[test]
    fn counts_cpusets_and_balance_hold_after_every_event(random in random_scenario()) {
        let host = host(random.shape);
        if crate::input::check(&random.tenants, &host).is_err() {
            return Ok(());
        }
        let scenario = scenario(&host, &random.tenants, random.policy, random.seed);
        let mut machine = Machine::new(&scenario);
        machine.step_checked(300 * MS);
    }

    /// Promise 48.
    #[test]
    fn no_period_exceeds_its_quota_by_more_than_the_slack(
        quota in 5..150u64,
        period in 10..150u64,
        threads in 1..6u32,
        behaviour in behaviour(),
        seed in 0..100u64,
    ) {
        let shape = Shape {
            nodes: 1,
            llcs_per_node: 1,
            cores_per_llc: 4,
            threads_per_core: 1,
        };
        let host = host(shape);
        let mut one = tenant("capped".to_owned(), vec![Load { threads, behaviour }]);
        one.cgroup.quota = Some(Quota {
            quota_ns: quota * MS,
            period_ns: period * MS,
        });
        let tenants = Tenants {
            groups: vec![],
            tenants: vec![one],
        };
        let mut machine = Machine::new(&scenario(&host, &tenants, Policy::Standard, seed));
        // Runtime that CPUs keep of a slice, and time that they run beyond it until the next tick.
        let slack = 4 * (bandwidth::BANDWIDTH_SLICE_NS as u64 + machine.tick_ns);
        let mut before = 0;
        for i in 1..10 {
            machine.step_checked(i * period * MS);
            machine.update_all();
            machine.reschedule_pending();
            let used = machine.accounts.tenants[0].used_ns;
            // Periods of the quota begin with its first use: two of them may overlap one of ours.
            prop_assert!(used - before <= 2 * quota * MS + slack);
            prop_assert!(used <= (i + 1) * quota * MS + slack);
            before = used;
        }
    }
}
