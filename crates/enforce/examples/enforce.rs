//! Small agent: enforces the network CPU of the containers that match, until Ctrl-C.
//!
//! `enforce [--means napi_thread,weight_correction,…] [--napi-in-root] [--period-ms 20]
//! [--verbose] [PART-OF-A-CGROUP-PATH…]`; without a path, every container.

use anyhow::{Context, bail};
use cofferdam_accounting::Accountant;
use cofferdam_enforce::{ContainerPolicy, EnforceOptions, Enforcer};
use cofferdam_types::{Means, NetworkCpu, Policy};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

fn main() -> anyhow::Result<()> {
    let mut options = EnforceOptions::default();
    let (mut period, mut verbose, mut parts) = (Duration::from_millis(20), false, Vec::new());
    let mut args = std::env::args().skip(1);
    while let Some(arg) = args.next() {
        match arg.as_str() {
            "--means" => {
                let list = args.next().context("--means needs a list")?;
                options.network.means = list.split(',').map(means).collect::<Result<_, _>>()?;
            }
            "--napi-in-root" => options.network.napi_in_container = false,
            "--verbose" => verbose = true,
            "--period-ms" => {
                let ms = args.next().context("--period-ms needs a number")?;
                period = Duration::from_millis(ms.parse()?);
            }
            _ if arg.starts_with("--") => bail!("unknown option {arg}"),
            _ => parts.push(arg),
        }
    }
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
        signal_hook::flag::register(signal, stop.clone())?;
    }
    let mut enforcer = Enforcer::open(options)?;
    eprintln!("taken over: {:?}", enforcer.leftover());
    let mut accountant = Accountant::start(cofferdam_accounting::Options::default())?;
    let mut earlier = accountant.snapshot()?;
    let policy = Policy {
        network_cpu: NetworkCpu::Enforce,
        ..Policy::default()
    };
    let (mut last_report, mut longest) = (Instant::now(), Duration::ZERO);
    while !stop.load(Ordering::Relaxed) {
        accountant.follow(Instant::now() + period, None)?;
        let matches = |path: &str| parts.is_empty() || parts.iter().any(|p| path.contains(p));
        let containers = accountant.containers().into_iter();
        let wanted = containers
            .filter(|c| matches(&c.cgroup_path.to_string_lossy()))
            .map(|container| ContainerPolicy::new(container, policy));
        enforcer.set(wanted.collect());
        let now = accountant.snapshot()?;
        let interval = now.since(&earlier);
        enforcer.step(&interval);
        earlier = now;
        longest = longest.max(enforcer.status().last_step);
        if verbose && last_report.elapsed() > Duration::from_millis(300) {
            last_report = Instant::now();
            let status = enforcer.status();
            eprintln!(
                "changes {} failed {} longest step {longest:?}",
                status.changes_in_force, status.failed_changes
            );
            longest = Duration::ZERO;
            let length_ns = interval.length.as_nanos() as f64;
            for (cpu, time) in &interval.cpus {
                eprintln!(
                    "  CPU {cpu}: softirq {:.3} NAPI threads {:.3} attributed {:.3}",
                    time.softirq_ns as f64 / length_ns,
                    time.napi_thread_ns as f64 / length_ns,
                    time.attributed_ns as f64 / length_ns,
                );
            }
            eprintln!("  without owner: {:?}", interval.unattributed_ns);
            for row in interval.containers.iter().filter(|r| !r.ledger.is_idle()) {
                eprintln!(
                    "  {} caused {:?} charged {:?} billed {}",
                    row.container.name,
                    row.caused_by_cpu_ns,
                    row.charged_by_cpu_ns,
                    row.ledger.cpu_usage_ns
                );
            }
            for container in status.containers {
                eprintln!("  {} {:?}", container.name, container.network);
            }
        }
    }
    drop(accountant);
    eprintln!("{:?}", enforcer.revert());
    Ok(())
}

fn means(name: &str) -> anyhow::Result<Means> {
    let all = Means::ALL.iter().copied();
    let mut found = all.filter(|means| means.label() == name);
    found.next().with_context(|| format!("no means {name}"))
}
