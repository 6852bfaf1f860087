//! CPU time and memory of an agent that manages many containers, by its duty.
//!
//! Most containers are idle, as on a real host; ten of them receive 200 datagrams a second each.
//! Every round measures each duty once, in random order, with a new agent that is scraped once.

use super::process::{Agent, Status};
use super::viewer::Viewer;
use super::{Options, sample};
use crate::agent::data::{AgentCostRow, AgentDuty, AgentExperiment, AgentResult, AgentSample};
use crate::data::{Limit, Path};
use crate::error::BenchError;
use crate::experiment::Rig;
use crate::scratch_folder::Folder;
use crate::spawn::Worker;
use crate::stats::estimate;
use crate::topology::{MadeBy, Spec, Tenant, Topology};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Containers with traffic.
const BUSY: u32 = 10;
/// Datagrams a second to each of them.
const RATE: u32 = 200;
/// Rules of the agent with many rules.
const MANY_RULES: u32 = 1_000;
/// Time after the agent's start: it discovers the containers and loads its programs.
const SETTLE: Duration = Duration::from_secs(2);
/// Time limit of a scrape.
const PATIENCE: Duration = Duration::from_secs(5);

pub(super) fn measure(
    rig: &mut Rig<'_>,
    options: &Options,
    result: &mut AgentResult,
) -> Result<(), BenchError> {
    let (count, rounds) = (options.containers(), options.rounds());
    let what = format!("cost: making {count} containers");
    rig.progress.step(0, rounds as usize, &what);
    let crowd = Crowd::make(rig, count)?;
    let mut samples: Vec<(AgentDuty, AgentSample)> = Vec::new();
    for round in 0..rounds {
        rig.progress.step(round as usize, rounds as usize, "cost");
        let mut duties = AgentDuty::ALL.to_vec();
        rig.random.shuffle(&mut duties);
        for duty in duties {
            let sample = period(rig, options, &crowd, duty, round)?;
            rig.dir.sample(&sample)?;
            samples.push((duty, sample));
        }
    }
    for duty in AgentDuty::ALL {
        let of = |value: fn(&AgentSample) -> Option<f64>| {
            let own = samples.iter().filter(|(d, _)| d == duty);
            let values: Vec<f64> = own.filter_map(|(_, s)| value(s)).collect();
            estimate(&values, rig.seed)
        };
        let own = samples.iter().filter(|(d, _)| d == duty);
        let resident = own.filter_map(|(_, s)| s.resident_bytes).max();
        if let (Some(cpu_pct), Some(step_ms), Some(resident_bytes)) =
            (of(|s| s.cpu_pct), of(|s| s.step_ms), resident)
        {
            result.cost.push(AgentCostRow {
                duty: *duty,
                containers: count,
                busy: BUSY.min(count),
                cpu_pct,
                resident_bytes,
                step_ms,
            });
        }
    }
    Ok(())
}

/// Measures one agent for one period.
fn period(
    rig: &mut Rig<'_>,
    options: &Options,
    crowd: &Crowd,
    duty: AgentDuty,
    round: u32,
) -> Result<AgentSample, BenchError> {
    let dir = Folder::of_this_process(&format!("agent-{round}-{duty}"))?;
    let history = match duty {
        AgentDuty::History | AgentDuty::Page => dir.path().join("history"),
        _ => PathBuf::from("off"),
    };
    let mut more = format!("[history]\npath = \"{}\"\n", history.display());
    let page = dir.path().join("page.sock");
    if duty == AgentDuty::Page {
        more += &format!("[web]\naddress = \"unix:{}\"\n", page.display());
    }
    let agent = Agent::start(dir.path(), &(crowd.rules(duty) + &more), "127.0.0.1:0")?;
    rig.pass(SETTLE)?;
    let status = await_status(&agent, options.containers())?;
    let viewer = match duty {
        AgentDuty::Page => Some(Viewer::open(&page)?),
        _ => None,
    };
    let (before, from) = (cpu_time(agent.pid()), Instant::now());
    rig.pass(options.period() / 2)?;
    if let Some(address) = status.agent.metrics_address {
        scrape(address)?;
    }
    rig.pass(options.period() / 2)?;
    let used = cpu_time(agent.pid()).saturating_sub(before);
    let cpu_pct = used.as_secs_f64() / from.elapsed().as_secs_f64() * 100.0;
    if let Some(viewer) = viewer
        && viewer.close()? == 0
    {
        return Err(BenchError::Worker {
            worker: "agent".to_owned(),
            reason: "its page showed nothing".to_owned(),
        });
    }
    let status = await_status(&agent, options.containers())?;
    Ok(AgentSample {
        cpu_pct: Some(cpu_pct),
        resident_bytes: Some(status.agent.resident_bytes),
        step_ms: Some(status.agent.last_step_s * 1e3),
        ..sample(AgentExperiment::Cost, duty.label(), round)
    })
}

/// Waits until the agent has discovered all containers, and returns its status. A figure of an
/// agent without its containers would be worthless.
fn await_status(agent: &Agent, containers: u32) -> Result<Status, BenchError> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        match agent.status() {
            Some(status) if status.containers_known >= u64::from(containers) => return Ok(status),
            None if Instant::now() >= deadline => return Err(agent.silent(false)),
            Some(status) if Instant::now() >= deadline => {
                return Err(BenchError::Worker {
                    worker: "agent".to_owned(),
                    reason: format!(
                        "the agent found {} of {containers} containers",
                        status.containers_known
                    ),
                });
            }
            _ => std::thread::sleep(Duration::from_millis(50)),
        }
    }
}

/// Scrapes once, as Prometheus does.
fn scrape(address: SocketAddr) -> Result<(), BenchError> {
    let asked = TcpStream::connect_timeout(&address, PATIENCE).and_then(|mut stream| {
        stream.set_read_timeout(Some(PATIENCE))?;
        stream
            .write_all(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")?;
        let mut page = Vec::new();
        stream.read_to_end(&mut page)
    });
    asked.map(drop).map_err(|e| BenchError::Worker {
        worker: "agent".to_owned(),
        reason: format!("its metrics at {address} cannot be read: {e}"),
    })
}

/// CPU time of a process and its threads, by the scheduler's clock.
fn cpu_time(pid: u32) -> Duration {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task"));
    let ns = tasks.into_iter().flatten().flatten().filter_map(|task| {
        let text = std::fs::read_to_string(task.path().join("schedstat")).ok()?;
        text.split_whitespace().next()?.parse::<u64>().ok()
    });
    Duration::from_nanos(ns.sum())
}

/// Containers with a process each, and traffic to some of them.
pub(super) struct Crowd {
    names: String,
    _traffic: Vec<Worker>,
    _processes: Vec<Worker>,
    // Last: fields are dropped in order, and this removes the place of the others.
    _topology: Topology,
}

impl Crowd {
    pub(super) fn make(rig: &Rig<'_>, count: u32) -> Result<Crowd, BenchError> {
        let names = format!("crowd-{}-", std::process::id());
        let all: Vec<String> = (0..count).map(|i| format!("{names}{i}")).collect();
        let all: Vec<&str> = all.iter().map(String::as_str).collect();
        let spec = Spec {
            path: Path::Veth,
            containers: Tenant::equals(&all),
            victim_cpu: rig.victim_cpu,
            peer_cpu: rig.peer_cpu,
            segmentation_offload: true,
            htb_gbit_per_s: None,
            limit: Limit::Weights,
            made_by: MadeBy::Ourselves,
        };
        let topology = Topology::build(&spec)?;
        let (mut processes, mut traffic) = (Vec::new(), Vec::new());
        for i in 0..count {
            rig.check()?;
            let place = topology.container(i as usize);
            let (address, port) = topology.target(i as usize);
            let busy = i < BUSY;
            let line = match busy {
                true => format!("udp-sink --port {port} --flows 1 --limit 1800"),
                false => "hold --limit 1800".to_owned(),
            };
            let mut process = Worker::start(&place, &line)?;
            // The other processes never start their work: waiting costs nothing.
            if busy {
                process.go()?;
                let line = format!(
                    "udp-flood --to {address} --port {port} --flows 1 --size 64 --rate {RATE} \
                     --limit 1800"
                );
                let mut sender = Worker::start(&topology.peer(), &line)?;
                sender.go()?;
                traffic.push(sender);
            }
            processes.push(process);
        }
        Ok(Crowd {
            names,
            _traffic: traffic,
            _processes: processes,
            _topology: topology,
        })
    }

    fn rules(&self, duty: AgentDuty) -> String {
        let rule = |name: &str, class: &str| {
            format!("[[rule]]\nmatch = \"{name}*\"\nnetwork_cpu = \"{class}\"\n")
        };
        match duty {
            AgentDuty::Observe => rule(&self.names, "observe"),
            AgentDuty::Enforce | AgentDuty::History | AgentDuty::Page => {
                rule(&self.names, "enforce")
            }
            AgentDuty::ThousandRules => {
                let others = (1..MANY_RULES).map(|i| rule(&format!("nobody-{i}-"), "enforce"));
                others.collect::<String>() + &rule(&self.names, "enforce")
            }
        }
    }
}
