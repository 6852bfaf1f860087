//! What a running agent costs: makes N containers (100 unless told) with a trickle of traffic to
//! each, starts `cofferdam agent` (the binary given second) with a rule that enforces for all of
//! them, and prints its CPU use and memory over ten rounds of three seconds, while it is scraped
//! once a round.
//!
//! `cargo run -p cofferdam-agent --example cost -- 100 target/debug/cofferdam` as root.

use cofferdam_agent::Client;
use cofferdam_testkit::traffic::{Udp, udp_send, udp_sink};
use cofferdam_testkit::{FakeContainer, Host, Namespace, Net, VethPair};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

/// Containers with traffic; the others are quiet, as most are on a real host.
const BUSY: usize = 10;

fn main() {
    let mut args = std::env::args().skip(1);
    let count: usize = args.next().and_then(|n| n.parse().ok()).unwrap_or(100);
    let binary = args.next().unwrap_or("target/debug/cofferdam".into());
    let rule = args.next().unwrap_or("enforce".into());
    let more = args.next().unwrap_or_default();
    let crowd: Vec<_> = (0..count).map(|_| FakeContainer::new("crowd")).collect();
    let source = Namespace::new("source");
    let mut held = Vec::new();
    for (i, container) in crowd.iter().take(BUSY).enumerate() {
        let device = format!("s{i}");
        let pair = VethPair::new((&source, &device), (container.namespace(), "eth0"));
        source.address(&device, &format!("10.96.{i}.1/24"));
        container
            .namespace()
            .address("eth0", &format!("10.96.{i}.2/24"));
        let to = format!("10.96.{i}.2:9000").parse().expect("an address");
        let sink = udp_sink(container, None, to, u64::MAX);
        let send = udp_send(&source, None, Udp::to(to).packets(u64::MAX).rate(200));
        held.push((pair, sink, send));
    }
    let folder = tempfile::tempdir().expect("a folder");
    let (config, socket) = (folder.path().join("c.toml"), folder.path().join("s.sock"));
    let text = format!(
        "socket.path = \"{}\"\nmetrics.address = \"127.0.0.1:0\"\n{more}\n\
         [[rule]]\nmatch = \"cf-*\"\nnetwork_cpu = \"{rule}\"\n",
        socket.display()
    );
    std::fs::write(&config, text).expect("writes");
    let agent = Host.spawn(&format!("{binary} agent --config {}", config.display()));
    let begin = Instant::now();
    let mut client = loop {
        match Client::connect(&socket) {
            Ok(client) => break client,
            Err(e) if begin.elapsed() > Duration::from_secs(60) => panic!("{e}"),
            Err(_) => std::thread::sleep(Duration::from_millis(100)),
        }
    };
    std::thread::sleep(Duration::from_secs(2));
    let mut used = Vec::new();
    for _ in 0..10 {
        let (before, from) = (cpu(agent.pid()), Instant::now());
        std::thread::sleep(Duration::from_secs(3));
        let status = client.status().expect("answers");
        let address = status.agent.metrics_address.expect("serves metrics");
        let mut scrape = TcpStream::connect(address).expect("connects");
        let asked = scrape.write_all(b"GET /metrics HTTP/1.1\r\n\r\n");
        asked.expect("asks");
        let mut page = Vec::new();
        scrape.read_to_end(&mut page).expect("reads");
        let share = (cpu(agent.pid()) - before).as_secs_f64() / from.elapsed().as_secs_f64();
        println!(
            "CPU {:.2}%, resident {:.1} MiB, step {:.2} ms of {:.0}, {} containers, {} changes, scrape {} KiB",
            share * 100.0,
            status.agent.resident_bytes as f64 / f64::from(1 << 20),
            status.agent.last_step_s * 1e3,
            status.agent.control_period_s * 1e3,
            status.containers_known,
            status.changes_in_force,
            page.len() / 1024,
        );
        used.push(share * 100.0);
    }
    used.sort_by(f64::total_cmp);
    println!("median {:.2}% ({:.2} to {:.2})", used[5], used[0], used[9]);
    client.stop().expect("stops");
    std::thread::sleep(Duration::from_secs(1));
}

/// CPU time of a process and its threads, by the scheduler's own clock.
fn cpu(pid: u32) -> Duration {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task"));
    let ns = tasks.into_iter().flatten().flatten().filter_map(|task| {
        let text = std::fs::read_to_string(task.path().join("schedstat")).ok()?;
        text.split_whitespace().next()?.parse::<u64>().ok()
    });
    Duration::from_nanos(ns.sum())
}
