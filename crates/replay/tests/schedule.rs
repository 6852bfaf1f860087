//! Tests of the diagnosis: each cause of lost CPU time is produced on purpose, and its loss is
//! exact to the nanosecond.

use cofferdam_replay::Machine;
use cofferdam_replay::schedule::{CPUS, Leave, Runqueues, Thread};
use proptest::prelude::*;
use proptest::test_runner::RngSeed;

const MS: u64 = 1_000_000;
const A: u32 = 2;
const B: u32 = 3;
/// Masks of CPUs.
const FIRST: u64 = 1;
const BOTH: u64 = 3;

fn queues(machine: &Machine) -> Runqueues<'_> {
    Runqueues::new(machine, 6)
}

/// Wakes all threads on this CPU now.
fn wake(queues: &mut Runqueues<'_>, cpu: u32, threads: &[Thread]) {
    threads.iter().for_each(|t| queues.enqueue(*t, cpu));
}

/// Promise 10.
#[test]
fn two_threads_on_a_cpu_wait_behind_each_other() {
    let machine = Machine::new(CPUS);
    let mut queues = queues(&machine);
    let [a, b] = [A, B].map(|row| queues.thread(Runqueues::group_of(row), FIRST));
    wake(&mut queues, 0, &[a, b]);
    queues.switch(0, Leave::Asleep, Some(a));
    for _ in 0..30 {
        queues.pass(3 * MS);
        queues.switch(0, Leave::Preempted, Some(b));
        queues.pass(4 * MS);
        queues.switch(0, Leave::Preempted, Some(a));
    }
    for (row, other, run, wait) in [(A, B, 90, 120), (B, A, 120, 90)] {
        let cell = queues.cell(0, row);
        assert_eq!((cell.run_ns, cell.shared_ns), (run * MS, wait * MS));
        assert_eq!((cell.stranded_ns, cell.throttled_ns), (0, 0));
        assert_eq!(cell.with_row, other);
        // The thread may use no other CPU: an idle one elsewhere is no phantom.
        assert_eq!(queues.phantom_ns(row), 0);
    }
}

/// The neighbour's thread on the second CPU has exhausted its quota and leaves the CPU idle, while
/// its other thread makes the target wait on the first.
fn during_an_idle_cpu(queues: &mut Runqueues<'_>, mask: u64) -> (Thread, Thread) {
    let capped = Runqueues::group_of(B);
    let target = queues.thread(Runqueues::group_of(A), mask);
    let [here, there] = [FIRST, 2].map(|mask| queues.thread(capped, mask));
    wake(queues, 1, &[there]);
    queues.switch(1, Leave::Asleep, Some(there));
    queues.pass(60 * MS);
    queues.switch(1, Leave::Throttled, None);
    wake(queues, 0, &[here, target]);
    queues.switch(0, Leave::Asleep, Some(here));
    (target, here)
}

/// Promise 10.
#[test]
fn a_long_wait_during_an_idle_cpu_is_phantom() {
    for (mask, stranded) in [(BOTH, 3), (FIRST, 0)] {
        let machine = Machine::new(CPUS);
        let mut queues = queues(&machine);
        let (target, _) = during_an_idle_cpu(&mut queues, mask);
        queues.pass(3 * MS);
        queues.switch(0, Leave::Preempted, Some(target));
        let cell = queues.cell(0, A);
        assert_eq!(cell.stranded_ns, stranded * MS);
        assert_eq!(cell.shared_ns, (3 - stranded) * MS);
        assert_eq!(cell.with_row, B);
    }
}

/// Short waits are not compared with idle CPUs one by one, but once a period, with the idle time
/// that throttled threads have left meanwhile.
/// Promise 10.
#[test]
fn short_waits_are_phantom_within_throttled_idle_time() {
    for (mask, phantom) in [(BOTH, 100), (FIRST, 0)] {
        let machine = Machine::new(CPUS);
        let mut queues = queues(&machine);
        let (target, other) = during_an_idle_cpu(&mut queues, mask);
        // Two windows of 100 ms, in which it waits half of the time, and the wait that ends them.
        for _ in 0..201 {
            queues.pass(MS / 2);
            queues.switch(0, Leave::Preempted, Some(target));
            queues.pass(MS / 2);
            queues.switch(0, Leave::Preempted, Some(other));
        }
        let cell = queues.cell(0, A);
        assert_eq!((cell.shared_ns, cell.stranded_ns), (201 * MS / 2, 0));
        assert_eq!(queues.phantom_ns(A), phantom * MS);
        assert_eq!(queues.phantom_ns(B), 0, "it is its own quota");
    }
}

/// Promise 10.
#[test]
fn a_containers_own_quota_is_no_neighbours_fault() {
    let machine = Machine::new(CPUS);
    let mut queues = queues(&machine);
    let thread = queues.thread(Runqueues::group_of(A), FIRST);
    wake(&mut queues, 0, &[thread]);
    queues.switch(0, Leave::Asleep, Some(thread));
    for _ in 0..10 {
        queues.pass(30 * MS);
        queues.switch(0, Leave::Throttled, None);
        queues.pass(70 * MS);
        queues.unthrottle(Runqueues::group_of(A), 0);
        queues.switch(0, Leave::Preempted, Some(thread));
    }
    let cell = queues.cell(0, A);
    assert_eq!((cell.run_ns, cell.throttled_ns), (300 * MS, 700 * MS));
    assert_eq!((cell.shared_ns, cell.stranded_ns), (0, 0));
    let cpu = queues.cpu(0);
    assert_eq!((cpu.idle_ns, cpu.left_idle_ns), (700 * MS, 700 * MS));
}

/// In windows the programs are attached again and again: nothing from before is counted.
/// Promise 10.
#[test]
fn counting_begins_in_the_middle_of_waits_and_runs() {
    let machine = Machine::new(CPUS);
    let mut queues = queues(&machine);
    let [a, b] = [A, B].map(|row| queues.thread(Runqueues::group_of(row), FIRST));
    let alone = queues.thread(Runqueues::group_of(4), 2);
    wake(&mut queues, 0, &[a, b]);
    wake(&mut queues, 1, &[alone]);
    queues.switch(1, Leave::Asleep, Some(alone));
    queues.switch(0, Leave::Asleep, Some(a));
    queues.pass(3 * MS);
    queues.switch(0, Leave::Preempted, Some(b));
    // B has the CPU for a second, during which no program counts.
    let before = [A, B].map(|row| queues.cell(0, row));
    queues.pass(1000 * MS);
    queues.begin();
    queues.pass(2 * MS);
    queues.switch(0, Leave::Preempted, Some(a));
    let after = [A, B].map(|row| queues.cell(0, row));
    assert_eq!(after[0].shared_ns - before[0].shared_ns, 2 * MS);
    assert_eq!(after[1].run_ns - before[1].run_ns, 2 * MS);
    assert_eq!((after[0].with_row, after[0].with_ns), (B, 2 * MS));
    // The thread that has the other CPU to itself runs since then, though the CPU has not switched.
    let cpu = queues.cpu(1);
    assert_eq!((cpu.row, cpu.began_at_ns), (4, cpu.counting_at_ns));
    queues.pass(5 * MS);
    queues.switch(1, Leave::Asleep, None);
    assert_eq!(queues.cell(1, 4).run_ns, 7 * MS);
}

/// Promise 10.
#[test]
fn a_wait_before_the_counting_is_ignored() {
    let machine = Machine::new(CPUS);
    let mut queues = queues(&machine);
    let [a, b] = [A, B].map(|row| queues.thread(Runqueues::group_of(row), FIRST));
    wake(&mut queues, 0, &[a, b]);
    queues.switch(0, Leave::Asleep, Some(a));
    queues.pass(MS);
    queues.switch(0, Leave::Preempted, Some(b));
    // No program counts while A runs once more and goes to sleep; the cell still says that it is
    // queued.
    queues.uncounted(0, Leave::Preempted, Some(a));
    queues.pass(MS);
    queues.uncounted(0, Leave::Asleep, Some(b));
    queues.pass(100 * MS);
    queues.begin();
    queues.pass(10 * MS);
    wake(&mut queues, 0, &[a]);
    queues.pass(MS);
    let before = queues.cell(0, A).shared_ns;
    queues.switch(0, Leave::Preempted, Some(a));
    assert_eq!(queues.cell(0, A).shared_ns - before, MS);
}

/// Promise 10.
#[test]
fn a_sleeper_loses_nothing_and_waits_for_host_tasks() {
    let machine = Machine::new(CPUS);
    let mut queues = queues(&machine);
    let sleeper = queues.thread(Runqueues::group_of(A), FIRST);
    let host = queues.thread(1, FIRST);
    for _ in 0..10 {
        wake(&mut queues, 0, &[sleeper]);
        queues.switch(0, Leave::Asleep, Some(sleeper));
        queues.pass(2 * MS);
        queues.switch(0, Leave::Asleep, None);
        queues.pass(8 * MS);
    }
    let cell = queues.cell(0, A);
    assert_eq!((cell.run_ns, cell.shared_ns), (20 * MS, 0));
    // The thread wakes up while a task of the host has the CPU.
    wake(&mut queues, 0, &[host]);
    queues.switch(0, Leave::Asleep, Some(host));
    queues.pass(MS);
    wake(&mut queues, 0, &[sleeper]);
    queues.pass(2 * MS);
    queues.switch(0, Leave::Asleep, Some(sleeper));
    let cell = queues.cell(0, A);
    assert_eq!((cell.shared_ns, cell.with_row), (2 * MS, 1));
    assert_eq!(queues.cpu(0).host_ns, 3 * MS);
}

/// Promise 10.
#[test]
fn a_wait_ends_when_the_thread_migrates() {
    let machine = Machine::new(CPUS);
    let mut queues = queues(&machine);
    let [a, b] = [A, B].map(|row| queues.thread(Runqueues::group_of(row), BOTH));
    wake(&mut queues, 0, &[a, b]);
    queues.switch(0, Leave::Asleep, Some(a));
    queues.pass(MS);
    queues.switch(0, Leave::Preempted, Some(b));
    queues.pass(2 * MS);
    queues.migrate(a, 1);
    assert_eq!(queues.cell(0, A).shared_ns, 2 * MS);
    queues.switch(1, Leave::Asleep, Some(a));
    queues.pass(5 * MS);
    queues.switch(1, Leave::Asleep, None);
    assert_eq!(queues.cell(1, A).run_ns, 5 * MS);
    // The thread is not queued here any more: nothing is added.
    queues.switch(0, Leave::Asleep, None);
    assert_eq!(queues.cell(0, A).shared_ns, 2 * MS);
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 1_000,
        failure_persistence: None,
        rng_seed: RngSeed::Fixed(3),
        ..ProptestConfig::default()
    })]

    /// For any sequence of events, the times of containers, host and idle add up to the time of
    /// each CPU, and no container waits longer on a CPU than it does not run there.
    /// Promise 10.
    #[test]
    fn all_time_of_a_cpu_has_an_owner(
        steps in prop::collection::vec((0_u64..4 * MS, 0..CPUS, 0_usize..9, 0_usize..2), 1..150),
    ) {
        let machine = Machine::new(CPUS);
        let mut queues = queues(&machine);
        let groups = [1, 102, 102, 103, 103, 104, 105, 105];
        let threads = groups.map(|group| queues.thread(group, BOTH));
        // CPU on which each thread is queued, and running threads.
        let (mut at, mut running) = ([None; 8], [None; CPUS as usize]);
        let mut began = [None; CPUS as usize];
        for (ns, cpu, which, how) in steps {
            queues.pass(ns);
            let leave = [Leave::Preempted, Leave::Asleep][how];
            let old: Option<usize> = running[cpu as usize];
            let next = (which < 8).then_some(which);
            if let Some(next) = next {
                if at[next].is_some_and(|on| on != cpu) || old == Some(next) {
                    continue;
                }
                if at[next].is_none() {
                    queues.enqueue(threads[next], cpu);
                    at[next] = Some(cpu);
                    queues.pass(ns / 2);
                }
            }
            if let (Some(old), Leave::Asleep) = (old, leave) {
                at[old] = None;
            }
            queues.switch(cpu, leave, next.map(|next| threads[next]));
            running[cpu as usize] = next;
            let seen = queues.cpu(cpu);
            let first = *began[cpu as usize].get_or_insert(machine.now_ns());
            let ran: u64 = (A..A + 6).map(|row| queues.cell(cpu, row).run_ns).sum();
            prop_assert_eq!(ran + seen.host_ns + seen.idle_ns, seen.began_at_ns - first);
            for row in A..A + 6 {
                let cell = queues.cell(cpu, row);
                let waited = cell.shared_ns + cell.stranded_ns + cell.throttled_ns;
                prop_assert!(waited + cell.run_ns <= machine.now_ns() - 1_000_000_000);
            }
            prop_assert_eq!(seen.rejected, 0);
        }
    }
}
