//! Measures the cost of following many containers. Makes N containers (1,000 by default) and reads
//! once a second for ten seconds, while one container a second comes and goes. Prints the CPU use
//! of this process and the time after which each newcomer was discovered.
//!
//! `cargo run -p cofferdam-accounting --example follow -- 1000` as root.

use cofferdam_accounting::{Accountant, Options};
use cofferdam_lab::fixtures::FakeContainer;
use cofferdam_types::CgroupId;
use nix::sys::time::TimeValLike;
use nix::time::{ClockId, clock_gettime};
use std::time::{Duration, Instant};

fn cpu() -> Duration {
    let time = clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).expect("the clock can be read");
    Duration::from_nanos(time.num_nanoseconds().unsigned_abs())
}

fn main() {
    let count = std::env::args()
        .nth(1)
        .and_then(|n| n.parse().ok())
        .unwrap_or(1000);
    let _crowd: Vec<_> = (0..count).map(|_| FakeContainer::new("crowd")).collect();
    let start = Instant::now();
    let mut accountant = Accountant::start(Options::default()).expect("the accounting starts");
    println!("start with {count} containers: {:?}", start.elapsed());
    let (mut spent, mut delays) = (Duration::ZERO, Vec::new());
    let begin = Instant::now();
    for second in 1..=10 {
        let container = FakeContainer::new("newcomer");
        let (from, before) = (Instant::now(), cpu());
        let id = CgroupId(container.id());
        while !accountant
            .containers()
            .iter()
            .any(|c| c.cgroup == id && c.netns.is_some())
        {
            accountant
                .follow(Instant::now() + Duration::from_millis(1), None)
                .expect("follows");
            assert!(from.elapsed() < Duration::from_secs(5), "never seen");
        }
        delays.push(from.elapsed());
        drop(container);
        let until = begin + Duration::from_secs(second);
        accountant.follow(until, None).expect("follows");
        accountant.snapshot().expect("reads");
        spent += cpu() - before;
    }
    println!(
        "CPU {:?} in {:?} = {:.2}% of one CPU; newcomers discovered after {:?}",
        spent,
        begin.elapsed(),
        spent.as_secs_f64() / begin.elapsed().as_secs_f64() * 100.0,
        delays
    );
}
