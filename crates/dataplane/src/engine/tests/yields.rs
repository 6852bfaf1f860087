//! An application on the loop's own CPU.

use super::{attach, engine, small};
use crate::engine::Options;
use crate::session::{Event, Session};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

/// Number of wake-ups of an application that makes a call and waits `ROUNDS` times.
fn wakeups(yields: bool) -> u64 {
    let mut engine = engine(Options { yields, ..small() });
    let mapped = attach(&mut engine, "near");
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            let mut session = Session::new(mapped, None);
            for _ in 0..ROUNDS {
                // The address is invalid, so that the call is refused at once.
                session.udp_bind(([0, 0, 0, 0], 0).into());
                while !matches!(session.next_event(), Some(Event::Bound { .. })) {
                    session
                        .wait(Some(Duration::from_secs(10)))
                        .expect("it is there");
                }
            }
            done.store(true, Ordering::Release);
        });
        while !done.load(Ordering::Acquire) {
            // The application has time to fall asleep.
            thread::sleep(Duration::from_micros(300));
            engine.turn(|| false);
        }
    });
    engine.tally().wakeups
}

const ROUNDS: u64 = 100;

/// Promise 54.
#[test]
fn an_application_on_the_loops_cpu_needs_no_wake_up() {
    let (yielding, sleeping) = (wakeups(true), wakeups(false));
    // A loop that is delayed for longer than it lingers sleeps as well.
    assert!(yielding < ROUNDS / 4, "{yielding} of {ROUNDS}");
    assert!(sleeping > ROUNDS / 2, "{sleeping} of {ROUNDS}");
}

/// While the loop sleeps, no thread needs the CPU.
/// Promise 54.
#[test]
fn an_application_sleeps_when_the_loop_does() {
    let mut engine = engine(Options {
        yields: true,
        ..small()
    });
    let mapped = attach(&mut engine, "near");
    let mut session = Session::new(mapped, None);
    for domain in engine.domains.iter() {
        domain.sleep(true);
    }
    session
        .wait(Some(Duration::from_millis(1)))
        .expect("waited");
    assert!(!session.lingers(), "the loop sleeps");
    for domain in engine.domains.iter() {
        domain.sleep(false);
    }
    assert!(session.lingers(), "the loop polls");
}
