//! Processes of a server, their CPU time and their memory.

use super::cores::Cores;
use super::programs::{Program, RunningProgram};
use super::testbed::DataplaneTestbed;
use crate::cpustat;
use crate::dataplane::data::EchoServer;
use crate::error::BenchError;
use crate::experiment::Rig;
use crate::spawn::{Place, Worker};
use crate::worker::{Idle, ServerReport, Work};
use cofferdam_host::TICKS_PER_S;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// First port of all servers.
pub(super) const PORT: u16 = 7007;

/// Server to start.
#[derive(Clone, Copy, Debug)]
pub(super) struct Plan {
    pub server: EchoServer,
    pub work: Work,
    pub batch: u32,
    /// Connections that the tables can hold.
    pub room: u32,
    /// Number of ports from [`PORT`] on; Linux's servers have one.
    pub ports: u16,
    /// Threads or loops of the server; `inline` has one.
    pub cores: Cores,
    /// Program that serves in place of the bench's own code.
    pub program: Option<Program>,
    /// Whether the dataplane polls and sleeps as it does by default. Otherwise it sleeps only on a
    /// shared CPU.
    pub adapts: bool,
}

/// Server processes; the last is stopped first.
pub(super) struct Servers {
    /// Ends before the dataplane that it uses.
    program: Option<RunningProgram>,
    workers: Vec<Worker>,
    /// Socket on which a dataplane in a process of its own reports its counts.
    socket: Option<PathBuf>,
    cpus: Vec<u32>,
}

/// Counts of a server at one moment.
#[derive(Clone, Copy, Debug)]
pub(super) struct Moment {
    at: Instant,
    /// CPUs of the server.
    cpus: usize,
    /// Seconds in which these were idle, or stolen by the hypervisor, summed.
    free_s: f64,
    requests: u64,
    /// Turns or polls without work.
    in_vain: u64,
}

impl Servers {
    pub fn start(
        rig: &Rig<'_>,
        testbed: &DataplaneTestbed,
        plan: Plan,
    ) -> Result<Servers, BenchError> {
        let pair = testbed.pair(plan.server);
        let cpus = plan.cores.cpus(rig);
        let idle = match plan.cores.sleep(rig) {
            _ if plan.adapts => Idle::Adapts,
            true => Idle::Sleeps,
            false => Idle::Polls,
        };
        let place = |cpu: Option<u32>| Place {
            netns: pair.server.clone(),
            cgroups: Vec::new(),
            cpu,
        };
        let (address, socket) = (pair.address, testbed.socket());
        let path = socket.display();
        let Plan {
            work,
            batch,
            room,
            ports,
            ..
        } = plan;
        let serves = format!("--port {PORT} --work {work}");
        let several = format!("{serves} --ports {ports}");
        let frame_bytes = testbed.link().frame_bytes();
        let loops = format!(
            "--device eth0 --address {address} --batch {batch} --connections {room} \
             --frame-bytes {frame_bytes}"
        );
        let shared = u8::from(cpus.len() > 1);
        let linux = |spin: u8| {
            let line = format!("dp-epoll {serves} --spin {spin} --shared {shared}");
            // One process a CPU, each with a listener of its own.
            let each = cpus.iter().map(move |cpu| (Some(*cpu), line.clone()));
            each.collect::<Vec<_>>()
        };
        let any: String = cpus.iter().map(|cpu| format!(" --cpu {cpu}")).collect();
        let dataplane = || {
            let cores = plan.cores.arguments(&cpus);
            format!("dp-dataplane {loops} --socket {path}{cores} --idle {idle}{any}")
        };
        let lines = match plan.server {
            _ if plan.program.is_some() && plan.server.is_linux() => Vec::new(),
            EchoServer::Preload => vec![(None, dataplane())],
            EchoServer::Blocking => linux(0),
            EchoServer::BusyPolling => linux(1),
            EchoServer::Inline => vec![(
                cpus.first().copied(),
                format!("dp-inline {loops} {several} --idle {idle}"),
            )],
            EchoServer::Pkey => vec![(
                cpus.first().copied(),
                format!("dp-pkey {loops} {several} --socket {path} --idle {idle}"),
            )],
            EchoServer::Process => vec![
                (None, dataplane()),
                (None, format!("dp-attached {several} --socket {path}{any}")),
            ],
        };
        let mut workers = Vec::new();
        for (cpu, line) in lines {
            let mut worker = Worker::start(&place(cpu), &line)?;
            worker.go()?;
            workers.push(worker);
        }
        let has_dataplane = matches!(
            plan.server,
            EchoServer::Pkey | EchoServer::Process | EchoServer::Preload
        );
        if has_dataplane {
            empty_turns(&socket)?;
        }
        let program = match (plan.program, cpus.first()) {
            (Some(program), Some(cpu)) => {
                Some(RunningProgram::start(program, plan.server, testbed, *cpu)?)
            }
            _ => None,
        };
        Ok(Servers {
            program,
            workers,
            socket: has_dataplane.then_some(socket),
            cpus,
        })
    }

    /// Stops all processes. Returns the report of the first, which runs the loop.
    pub fn end(self) -> Result<ServerReport, BenchError> {
        let mut report = ServerReport::default();
        drop(self.program);
        for worker in self.workers.into_iter().rev() {
            report = worker.end_with()?;
        }
        Ok(report)
    }

    /// Reads the counts until now.
    pub fn moment(&mut self) -> Result<Moment, BenchError> {
        let stats = self.cpus.iter().filter_map(|cpu| cpustat::read(*cpu));
        let mut moment = Moment {
            at: Instant::now(),
            cpus: self.cpus.len(),
            free_s: stats.map(|s| (s.idle + s.steal) / TICKS_PER_S).sum(),
            requests: 0,
            in_vain: 0,
        };
        // A dataplane's own process answers no requests, unless it contains the application.
        let has_others = self.workers.len() > 1;
        for worker in self
            .workers
            .iter_mut()
            .skip(usize::from(self.socket.is_some() && has_others))
        {
            let reading = worker.read()?;
            moment.requests += reading.packets;
            moment.in_vain += reading.bytes;
        }
        if let Some(socket) = &self.socket {
            moment.in_vain = empty_turns(socket)?;
        }
        Ok(moment)
    }

    /// Memory of all processes, bytes. Shared pages count once; file pages do not count.
    pub fn memory_bytes(&self) -> Result<u64, BenchError> {
        let mut bytes = 0;
        for worker in &self.workers {
            let path = PathBuf::from(format!("/proc/{}/smaps_rollup", worker.pid()));
            bytes += kilobytes(&path, "Pss_Anon:")? + kilobytes(&path, "Pss_Shmem:")?;
        }
        Ok(bytes)
    }
}

impl Moment {
    /// The moment with the client's number of requests, for a server that counts none.
    pub fn with_requests(self, requests: Option<u64>) -> Moment {
        Moment {
            requests: requests.unwrap_or(self.requests),
            ..self
        }
    }

    /// Cost of an empty poll, seconds, from an interval without requests since `earlier`; `None`
    /// without a poll.
    pub fn poll_cost_s(&self, earlier: &Moment) -> Option<f64> {
        let polls = self.in_vain.saturating_sub(earlier.in_vain);
        let awake_s = self.given_s(earlier) - (self.free_s - earlier.free_s);
        (polls > 0).then(|| awake_s.max(0.0) / polls as f64)
    }

    /// CPU time of a request since `earlier`, all CPUs together, microseconds, without idle time
    /// and empty polls. Only the poll's own cost is subtracted: kernel work that interrupts a poll
    /// stays in it.
    pub fn cpu_us_per_request(&self, earlier: &Moment, poll_cost_s: Option<f64>) -> Option<f64> {
        let requests = self.requests.saturating_sub(earlier.requests);
        let in_vain_s =
            self.in_vain.saturating_sub(earlier.in_vain) as f64 * poll_cost_s.unwrap_or(0.0);
        let free_s = self.free_s - earlier.free_s;
        let busy_s = self.given_s(earlier) - free_s - in_vain_s;
        (requests > 0 && busy_s > 0.0).then(|| busy_s * 1e6 / requests as f64)
    }

    /// `count` since `earlier` ÷ requests since then; `None` without a request.
    pub fn per_request(&self, earlier: &Moment, count: u64) -> Option<f64> {
        let requests = self.requests.saturating_sub(earlier.requests);
        (requests > 0).then(|| count as f64 / requests as f64)
    }

    /// Time of all CPUs since `earlier`, seconds.
    fn given_s(&self, earlier: &Moment) -> f64 {
        (self.at - earlier.at).as_secs_f64() * self.cpus as f64
    }
}

/// Reads the dataplane's count of empty turns. Waits until the dataplane answers: it may have just
/// started.
fn empty_turns(socket: &Path) -> Result<u64, BenchError> {
    let until = Instant::now() + Duration::from_secs(5);
    loop {
        match cofferdam_dataplane::status(socket) {
            Ok(shown) => {
                let value = shown.pointer("/counts/empty_turns");
                return Ok(value.and_then(serde_json::Value::as_u64).unwrap_or(0));
            }
            Err(_) if Instant::now() < until => std::thread::sleep(Duration::from_millis(10)),
            Err(e) => {
                return Err(BenchError::Worker {
                    worker: "dp-dataplane".to_owned(),
                    reason: e.to_string(),
                });
            }
        }
    }
}

/// Kernel memory for objects of the whole host, bytes.
pub(super) fn slab_bytes() -> Result<u64, BenchError> {
    kilobytes(Path::new("/proc/meminfo"), "Slab:")
}

/// Value of the line that begins with `name`, bytes.
fn kilobytes(path: &Path, name: &str) -> Result<u64, BenchError> {
    let failed = |source| BenchError::host("read", path)(source);
    let text = fs::read_to_string(path).map_err(failed)?;
    let line = text.lines().find_map(|l| l.strip_prefix(name));
    let number = line.and_then(|l| l.split_whitespace().next()?.parse::<u64>().ok());
    number
        .map(|kb| kb * 1024)
        .ok_or_else(|| failed(std::io::Error::other(format!("it has no {name}"))))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise 46.
    #[test]
    fn idle_time_and_vain_polls_are_not_charged_to_requests() {
        let start = Instant::now();
        let moment = |seconds: f64, free_s, requests, in_vain| Moment {
            at: start + Duration::from_secs_f64(seconds),
            cpus: 1,
            free_s,
            requests,
            in_vain,
        };
        // A poller with 1 µs an empty poll, then 300,000 polls and 100,000 requests in a second.
        let (a, b) = (moment(0.0, 0.0, 0, 0), moment(0.1, 0.0, 0, 100_000));
        let c = moment(1.1, 0.0, 100_000, 400_000);
        let cost = b.poll_cost_s(&a);
        assert!((cost.expect("polls") - 1e-6).abs() < 1e-9);
        let us = c.cpu_us_per_request(&b, cost).expect("requests");
        assert!((us - 7.0).abs() < 1e-6, "{us}");
        // A sleeper that is idle half of the time.
        let (a, b) = (moment(0.0, 5.0, 0, 0), moment(1.0, 5.5, 100_000, 0));
        let us = b.cpu_us_per_request(&a, a.poll_cost_s(&a));
        assert!((us.expect("requests") - 5.0).abs() < 1e-6);
        assert_eq!(a.cpu_us_per_request(&b, None), None, "nothing was served");
        // Two CPUs, idle for half a second together.
        let two = |m: Moment| Moment { cpus: 2, ..m };
        let us = two(b).cpu_us_per_request(&two(a), None);
        assert!((us.expect("requests") - 15.0).abs() < 1e-6);
    }

    #[test]
    fn memory_is_read_from_the_kernels_files() {
        assert!(slab_bytes().expect("it is there") > 1 << 20);
        let own = kilobytes(Path::new("/proc/self/smaps_rollup"), "Pss_Anon:");
        assert!(own.expect("it is there") > 1 << 16);
        let missing = kilobytes(Path::new("/proc/meminfo"), "Nothing:");
        assert!(
            missing
                .expect_err("no such line")
                .to_string()
                .contains("Nothing:")
        );
    }
}
