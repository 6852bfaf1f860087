//! The number of rows is fixed, rows are reused, and a stopped diagnosis leaves nothing behind.

mod common;

use cofferdam_diagnosis::{Diagnosis, DiagnosisOptions};
use cofferdam_lab::fixtures::{FakeContainer, wait_until};
use cofferdam_types::CgroupId;
use common::*;
use std::time::Duration;

/// Promise 6.
#[test]
fn a_container_without_a_row_gets_the_next_free_one() {
    alone(60, || {
        let mut diagnosis = Diagnosis::start(DiagnosisOptions {
            slots: 1,
            ..DiagnosisOptions::default()
        })
        .expect("the diagnosis starts");
        let memory = diagnosis.memory_bytes();
        let all = cofferdam_host::Inventory::scan().expect("the host can be scanned");
        let others: Vec<CgroupId> = all.containers().map(|c| c.cgroup).collect();
        let ours = |diagnosis: &mut Diagnosis| {
            let inventory = cofferdam_host::Inventory::scan().expect("the host can be scanned");
            // Other programs' containers would take the only row.
            let new = inventory
                .containers()
                .filter(|c| !others.contains(&c.cgroup));
            let new: Vec<_> = new.cloned().collect();
            diagnosis.snapshot(&new).expect("it can be read")
        };
        let first = FakeContainer::new("first");
        ours(&mut diagnosis);
        let second = FakeContainer::new("second");
        let _thread = spin(&second, None);
        let before = ours(&mut diagnosis);
        let used = second.cgroup().cpu_usage();
        wait_until("the second to run", Duration::from_secs(30), || {
            second.cgroup().cpu_usage() > used + Duration::from_millis(50)
        });
        let full = ours(&mut diagnosis).since(&before);
        assert!(full.health.containers_without_slot >= 1, "{full:?}");
        assert_eq!(
            of(&full, &first).time.run_ns,
            0,
            "the row is the first one's"
        );
        drop(first);
        let before = ours(&mut diagnosis);
        // The thread has its CPU to itself and is counted from the next switch on.
        wait_until("the second to be counted", Duration::from_secs(30), || {
            let free = ours(&mut diagnosis).since(&before);
            of(&free, &second).time.run_ns > 0
        });
        assert_eq!(
            diagnosis.memory_bytes(),
            memory,
            "memory is fixed at the start"
        );
    });
}

/// Promise 66.
#[test]
fn stopping_it_leaves_no_program() {
    alone(60, || {
        let attached = || {
            let programs = cofferdam_lab::fixtures::leftovers::bpf_programs();
            programs
                .iter()
                .filter(|p| p.starts_with("schedule_"))
                .count()
        };
        let are_detached = || attached() == 0;
        // The kernel frees the programs of the previous test a moment after their last descriptor
        // closes.
        wait_until("no program", Duration::from_secs(5), are_detached);
        let diagnosis = diagnosis();
        assert_eq!(attached(), 2);
        diagnosis.stop();
        wait_until("the programs to go", Duration::from_secs(5), are_detached);
    });
}
