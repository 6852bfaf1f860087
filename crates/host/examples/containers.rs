//! Lists the containers of this host, then follows its network devices for some seconds:
//! `cargo run -p cofferdam-host --example containers -- 10`.

use cofferdam_host::Inventory;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::resource::{UsageWho, getrusage};
use std::time::{Duration, Instant};

fn cpu_ms() -> i64 {
    let usage = getrusage(UsageWho::RUSAGE_SELF).expect("always allowed");
    let (user, system) = (usage.user_time(), usage.system_time());
    (user.tv_sec() + system.tv_sec()) * 1000 + (user.tv_usec() + system.tv_usec()) / 1000
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let seconds = std::env::args().nth(1).map_or(Ok(0), |s| s.parse())?;
    let start = Instant::now();
    let mut inventory = Inventory::scan()?;
    let scan = start.elapsed();
    let all: Vec<_> = inventory.containers().cloned().collect();
    for c in all.iter().take(20) {
        let pairs: Vec<String> = c
            .interfaces
            .iter()
            .map(|i| {
                let inner = i.container_name.as_deref().unwrap_or("?");
                format!("{inner}={}", i.host_name.as_deref().unwrap_or("-"))
            })
            .collect();
        println!(
            "{:10} {:24} {} [{}]",
            c.runtime,
            c.name,
            c.cgroup_path.display(),
            pairs.join(" ")
        );
    }
    println!(
        "{} containers; scan took {scan:?}, {} ms of CPU",
        all.len(),
        cpu_ms()
    );
    for round in ["first", "second"] {
        let start = Instant::now();
        let read = all
            .iter()
            .filter(|c| inventory.cpu_usage_ns(c).is_ok())
            .count();
        println!(
            "{round} reading of CPU use: {read} in {:?}",
            start.elapsed()
        );
    }
    let (before, end) = (cpu_ms(), Instant::now() + Duration::from_secs(seconds));
    let mut changes = 0;
    while Instant::now() < end {
        let mut fds = [PollFd::new(inventory.link_fd(), PollFlags::POLLIN)];
        poll(&mut fds, PollTimeout::from(100u16))?;
        changes += inventory.handle_links().len();
    }
    println!(
        "{changes} changes in {seconds} s, {} ms of CPU",
        cpu_ms() - before
    );
    Ok(())
}
