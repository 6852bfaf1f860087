//! Limits: more containers or events than there is room for are counted and reported, and the other
//! counts stay right.

mod common;

use cofferdam_accounting::{Accountant, Options};
use cofferdam_lab::fixtures::traffic::{self, Udp};
use cofferdam_lab::fixtures::{Cgroup, FakeContainer};
use cofferdam_types::{CgroupId, Reason};
use common::*;

/// Promise 6.
#[test]
fn a_container_without_a_slot_gets_the_next_free_one() {
    alone(60, || {
        let first = FakeContainer::new("first");
        let mut accountant = accountant_with(Options {
            slots: 1,
            measure_programs: false,
        });
        let second = FakeContainer::new("second");
        let mut source = Source::new();
        let to = source.join(second.namespace(), 9000);
        let send = || {
            let sink = traffic::udp_sink(&second, Some(RECEIVER_CPU), to, 2000);
            traffic::udp_send(
                &source.namespace,
                Some(SENDER_CPU),
                Udp::to(to).packets(2000),
            )
            .finish();
            assert_eq!(sink.finish()[0], 2000);
        };
        let ((), full) = during(&mut accountant, send);
        assert!(
            full.health.containers_without_slot >= 1,
            "{:?}",
            full.health
        );
        assert!(
            unattributed(&full, Reason::NoSlot) > 0,
            "{:?}",
            full.unattributed_ns
        );
        assert_eq!(ledger(&full, first.id()).rx_packets, 0);
        assert!(
            full.containers
                .iter()
                .all(|c| c.container.cgroup != CgroupId(second.id()))
        );
        assert_conserved(&full);

        drop(first);
        follow_for_ms(&mut accountant, 200);
        let ((), free) = exactly(&mut accountant, send);
        let counts = ledger(&free, second.id());
        assert!((2000..2020).contains(&counts.rx_packets), "{counts:?}");
        assert_eq!(unattributed(&free, Reason::NoSlot), 0);
    });
}

/// Promise 6.
#[test]
fn lost_events_are_counted_and_made_good_by_a_scan() {
    alone(120, || {
        let mut accountant = accountant();
        // More events than the ring has room for, and no reader.
        let crowd: Vec<_> = (0..2600).map(|_| Cgroup::new("crowd")).collect();
        let late = FakeContainer::new("late");
        let snapshot = snapshot(&mut accountant);
        assert!(snapshot.health.events_lost > 0, "{:?}", snapshot.health);
        let found = snapshot
            .containers
            .iter()
            .find(|c| c.container.cgroup == CgroupId(late.id()));
        assert!(
            found.is_some_and(|c| c.container.netns.is_some()),
            "its event was lost, it is not"
        );
        drop(crowd);
        follow_for_ms(&mut accountant, 200);
    });
}

/// Promise 6.
#[test]
fn memory_is_fixed_at_load() {
    alone(60, || {
        let mut accountant = accountant();
        let at_load = accountant.memory_bytes();
        assert!(
            at_load > 0 && at_load < 8 << 20,
            "{at_load} bytes for 64 slots"
        );
        let crowd: Vec<_> = (0..80).map(|_| FakeContainer::new("crowd")).collect();
        follow_for_ms(&mut accountant, 300);
        assert_eq!(accountant.memory_bytes(), at_load);
        assert!(snapshot(&mut accountant).health.containers_without_slot >= 80 - 64);
        drop(crowd);
    });
}

/// Most instructions that the verifier may walk to load all programs of the accounting. It walks
/// about three per microsecond, and every start of the agent waits for it.
const MOST_VERIFIED: u32 = 100_000;

/// Promise 6.
#[test]
fn loading_the_programs_is_little_work_for_the_verifier() {
    alone(60, || {
        let accountant: Accountant = accountant();
        let walked = cofferdam_lab::fixtures::leftovers::verified_instructions();
        drop(accountant);
        assert!(walked.len() > 10, "{walked:?}");
        let all: u32 = walked.iter().map(|(_, walked)| walked).sum();
        assert!(all > 0 && all <= MOST_VERIFIED, "{all}: {walked:?}");
    });
}

/// Promise 66.
#[test]
fn dropping_it_leaves_no_program_and_no_lock() {
    alone(60, || {
        let before = cofferdam_lab::fixtures::leftovers::bpf_programs();
        let accountant: Accountant = accountant();
        assert!(cofferdam_lab::fixtures::leftovers::bpf_programs().len() > before.len());
        drop(accountant);
        cofferdam_lab::fixtures::wait_until(
            "the programs to go",
            std::time::Duration::from_secs(5),
            || cofferdam_lab::fixtures::leftovers::bpf_programs().len() <= before.len(),
        );
        assert!(!std::path::Path::new("/run/cofferdam/accounting.lock").exists());
    });
}
