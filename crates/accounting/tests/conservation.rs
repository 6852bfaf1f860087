//! Conservation of time: the ledgers add up to the measured time, and the measured time agrees with
//! an independent clock.

mod common;

use cofferdam_bpf::ReferenceClock;
use cofferdam_lab::fixtures::FakeContainer;
use cofferdam_lab::fixtures::traffic::{self, Udp};
use common::*;
use std::time::Duration;

/// Time that the other clock's programs may take between the two readings of one softirq.
const PROGRAM_NS: u64 = 600;

/// Promise 1.
#[test]
fn the_ledgers_add_up_and_agree_with_another_clock() {
    alone(90, || {
        let flooded = FakeContainer::new("flooded");
        let mut source = Source::new();
        let to = source.join(flooded.namespace(), 9000);
        let mut accountant = accountant();
        let clock = ReferenceClock::start().expect("the reference clock loads");
        let read = || [0, 1].map(|cpu| clock.read(cpu).expect("the clock can be read"));
        let (reference, interval) = during(&mut accountant, || {
            let before = read();
            let sink = traffic::udp_sink(&flooded, Some(RECEIVER_CPU), to, u64::MAX);
            let flood = Udp::to(to).bytes(22).flood(Duration::from_secs(3));
            traffic::udp_send(&source.namespace, Some(SENDER_CPU), flood).finish();
            sink.finish();
            let after = read();
            [0, 1].map(|cpu| {
                let (a, b): (_, cofferdam_bpf::ReferenceTime) = (after[cpu], before[cpu]);
                (a.softirq_ns - b.softirq_ns, a.softirqs - b.softirqs)
            })
        });
        assert_conserved(&interval);
        let (reference_ns, softirqs) = reference[RECEIVER_CPU];
        let ours_ns = interval.cpus[RECEIVER_CPU].1.softirq_ns;
        let slack_ns = (reference_ns as f64 * SUM_WITHIN) as u64 + softirqs * PROGRAM_NS;
        assert!(
            ours_ns.abs_diff(reference_ns) <= slack_ns,
            "ours {ours_ns} ns, the other clock {reference_ns} ns over {softirqs} softirqs"
        );
        let charged: u64 = interval
            .cpus
            .iter()
            .map(|(_, t)| t.charged_ns + t.charged_nobody_ns)
            .sum();
        let measured: u64 = interval.cpus.iter().map(|(_, t)| t.measured_ns()).sum();
        assert!(
            charged.abs_diff(measured) <= measured / 100,
            "what was charged ({charged} ns) is what was measured ({measured} ns)"
        );
    });
}
