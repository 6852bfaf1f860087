//! Unmodified programs of the distribution as servers: on the kernel's sockets, and on the
//! dataplane by `cofferdam dataplane exec`. Their own clients send the requests, if they have one.

use super::servers::PORT;
use super::testbed::DataplaneTestbed;
use crate::data::Latency;
use crate::dataplane::data::{DataplaneExperiment, EchoServer};
use crate::error::BenchError;
use crate::experiment::Rig;
use crate::worker::LoadReport;
use cofferdam_lab::{Netns, Process};
use nix::sched::{CloneFlags, setns};
use nix::sys::signal::Signal;
use std::fs::{self, File};
use std::io::Read;
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Time limit for a program to listen, and to end.
const PATIENCE: Duration = Duration::from_secs(10);
/// Bytes of a value, and of nginx's answer.
const VALUE_BYTES: usize = 64;
/// Requests in flight on one connection if they are pipelined.
const PIPELINE: u32 = 16;
/// Requests of redis-benchmark for one second: about the rate of one CPU.
const REQUESTS_PER_S: f64 = 60_000.0;
/// Requests of redis-benchmark for one second with [`PIPELINE`].
const PIPELINED_PER_S: f64 = 500_000.0;

/// Program that serves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Program {
    /// redis-server; its client has `pipeline` requests in flight on each connection.
    Redis { pipeline: u32 },
    /// memcached with one thread.
    Memcached,
    /// nginx with a master and one worker.
    Nginx,
}

impl Program {
    /// Program of an experiment.
    pub fn of(experiment: DataplaneExperiment) -> Option<Program> {
        match experiment {
            DataplaneExperiment::Redis => Some(Program::Redis { pipeline: 1 }),
            DataplaneExperiment::RedisPipelined => Some(Program::Redis { pipeline: PIPELINE }),
            DataplaneExperiment::Memcached => Some(Program::Memcached),
            DataplaneExperiment::Nginx => Some(Program::Nginx),
            _ => None,
        }
    }

    fn server(self, address: Ipv4Addr, folder: &Path) -> Result<String, BenchError> {
        let at = folder.display();
        Ok(match self {
            Program::Redis { .. } => format!(
                "redis-server --bind {address} --port {PORT} --protected-mode no --dir {at} \
                 --save  --appendonly no --loglevel warning"
            ),
            Program::Memcached => {
                format!("memcached -u root -l {address} -p {PORT} -U 0 -t 1 -m 256 -c 4096")
            }
            Program::Nginx => {
                let text = format!(
                    "daemon off; user root; worker_processes 1; pid {at}/nginx.pid; error_log \
                     stderr;\n\
                     events {{ worker_connections 4096; }}\n\
                     http {{ access_log off; keepalive_requests 1000000000;\n\
                     server {{ listen {address}:{PORT}; location / {{ return 200 \"{}\"; }} }} \
                     }}\n",
                    "v".repeat(VALUE_BYTES)
                );
                let path = folder.join("nginx.conf");
                fs::write(&path, text).map_err(BenchError::host("write", &path))?;
                format!("nginx -p {at} -c {}", path.display())
            }
        })
    }
}

/// Running program. Dropping it ends it.
pub(super) struct RunningProgram {
    process: Process,
    log: PathBuf,
}

impl RunningProgram {
    /// Starts the program on `cpu`, and waits until it listens.
    pub fn start(
        program: Program,
        server: EchoServer,
        testbed: &DataplaneTestbed,
        cpu: u32,
    ) -> Result<RunningProgram, BenchError> {
        let (pair, folder) = (testbed.pair(server), testbed.folder());
        let line = program.server(pair.address, folder)?;
        let mut words: Vec<String> = Vec::new();
        if server == EchoServer::Preload {
            let own = std::env::current_exe();
            let own = own.map_err(BenchError::host("find", Path::new("/proc/self/exe")))?;
            let socket = testbed.socket().display().to_string();
            words.push(own.display().to_string());
            words.extend(["dataplane", "exec", "--name", "bench", "--socket"].map(str::to_owned));
            words.extend([socket, "--".to_owned()]);
        }
        // Split at single spaces: two of them mark an empty argument.
        words.extend(line.split(' ').map(str::to_owned));
        let log = folder.join("program.log");
        let to = File::create(&log).map_err(BenchError::host("write", &log))?;
        let also = to.try_clone().map_err(BenchError::host("write", &log))?;
        let mut command = inside(&pair.server, cpu, &words);
        command.stdin(Stdio::null()).stdout(to).stderr(also);
        let process = start(&words, &mut command)?;
        let mut running = RunningProgram { process, log };
        running.wait_until_it_listens(&pair.client, SocketAddr::from((pair.address, PORT)))?;
        Ok(running)
    }

    fn wait_until_it_listens(&mut self, from: &Netns, at: SocketAddr) -> Result<(), BenchError> {
        let until = Instant::now() + PATIENCE;
        while !answers(from, at)? {
            if !self.process.is_alive() || Instant::now() > until {
                let log = fs::read_to_string(&self.log).unwrap_or_default();
                let last = log.trim().lines().last().unwrap_or("it says nothing");
                return Err(failed("the program", &format!("does not listen: {last}")));
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(())
    }
}

impl Drop for RunningProgram {
    fn drop(&mut self) {
        // nginx's worker ends with its master only after SIGTERM.
        self.process.signal(Signal::SIGTERM);
        let until = Instant::now() + PATIENCE;
        while self.process.is_alive() && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

fn failed(program: &str, reason: &str) -> BenchError {
    BenchError::Worker {
        worker: program.to_owned(),
        reason: reason.to_owned(),
    }
}

/// Command in a namespace, on one CPU.
fn inside(netns: &Netns, cpu: u32, words: &[String]) -> Command {
    let mut command = Command::new("ip");
    command.args(["netns", "exec", netns.name().unwrap_or_default()]);
    command.args(["taskset", "-c", &cpu.to_string()]);
    command.args(words);
    command
}

fn start(words: &[String], command: &mut Command) -> Result<Process, BenchError> {
    Process::start(command).map_err(|e| failed(&words.join(" "), &e.to_string()))
}

/// Whether a connection can be opened from a namespace.
fn answers(from: &Netns, to: SocketAddr) -> Result<bool, BenchError> {
    let netns = from.open()?;
    let asking = std::thread::spawn(move || {
        setns(netns, CloneFlags::CLONE_NEWNET).is_ok()
            && TcpStream::connect_timeout(&to, Duration::from_secs(1)).is_ok()
    });
    Ok(asking.join().unwrap_or(false))
}

/// Runs the program's own client for about `seconds`.
pub(super) fn ask(
    rig: &Rig<'_>,
    testbed: &DataplaneTestbed,
    (program, server): (Program, EchoServer),
    connections: u32,
    seconds: f64,
) -> Result<LoadReport, BenchError> {
    let pair = testbed.pair(server);
    let address = pair.address;
    type OutputReader = Box<dyn Fn(&str) -> Option<LoadReport>>;
    let (line, read): (String, OutputReader) = match program {
        Program::Redis { pipeline } => {
            let rate = match pipeline {
                1 => REQUESTS_PER_S,
                _ => PIPELINED_PER_S,
            };
            let requests = (rate * seconds) as u64;
            let line = format!(
                "redis-benchmark -h {address} -p {PORT} -c {connections} -n {requests} -t get \
                 -d {VALUE_BYTES} -P {pipeline} --csv"
            );
            let read = move |output: &str| redis_benchmark(output, requests);
            (line, Box::new(read))
        }
        _ => {
            let line = format!(
                "wrk -t 1 -c {connections} -d {}s --latency http://{address}:{PORT}/",
                seconds.ceil() as u64
            );
            (line, Box::new(wrk))
        }
    };
    let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
    let mut command = inside(&pair.client, rig.peer_cpu, &words);
    command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null());
    let process = start(&words, &mut command)?;
    // The output is a page at most, which fits the pipe.
    while process.is_alive() {
        rig.check()?;
        std::thread::sleep(Duration::from_millis(5));
    }
    let mut output = String::new();
    if let Some(mut out) = process.stdout() {
        out.read_to_string(&mut output)
            .map_err(|e| failed(&words[0], &e.to_string()))?;
    }
    read(&output).ok_or_else(|| failed(&words[0], &format!("it said '{}'", output.trim())))
}

/// Reads the output of `redis-benchmark --csv` for its one test.
fn redis_benchmark(output: &str, requests: u64) -> Option<LoadReport> {
    let mut lines = output.lines().filter(|line| line.starts_with('"'));
    let (names, values) = (lines.next()?, lines.next()?);
    let value = |name: &str| -> Option<f64> {
        let place = names.split(',').position(|n| n.trim_matches('"') == name)?;
        values.split(',').nth(place)?.trim_matches('"').parse().ok()
    };
    Some(LoadReport {
        requests_per_s: value("rps")?,
        latency: Latency {
            requests,
            p50_us: value("p50_latency_ms")? * 1000.0,
            p99_us: value("p99_latency_ms")? * 1000.0,
            max_us: value("max_latency_ms")? * 1000.0,
            ..Latency::default()
        },
        busy: None,
    })
}

/// Reads the output of `wrk --latency`.
fn wrk(output: &str) -> Option<LoadReport> {
    let line = |name: &str| -> Option<&str> {
        let mut lines = output.lines().map(str::trim);
        lines
            .find_map(|line| line.strip_prefix(name))
            .map(str::trim)
    };
    let requests = output
        .lines()
        .find_map(|line| line.trim().split_once(" requests in "))?;
    Some(LoadReport {
        requests_per_s: line("Requests/sec:")?.parse().ok()?,
        latency: Latency {
            requests: requests.0.parse().ok()?,
            lost: u64::from(line("Socket errors:").is_some() || output.contains("Non-2xx")),
            p50_us: time_us(line("50%")?)?,
            p90_us: time_us(line("90%")?)?,
            p99_us: time_us(line("99%")?)?,
            ..Latency::default()
        },
        busy: None,
    })
}

/// Microseconds of a time as wrk prints it: `812.00us`, `1.20ms`, `2.00s`.
fn time_us(text: &str) -> Option<f64> {
    let units = [("us", 1.0), ("ms", 1e3), ("s", 1e6)];
    let (number, factor) =
        (units.iter()).find_map(|(unit, factor)| Some((text.strip_suffix(unit)?, factor)))?;
    Some(number.parse::<f64>().ok()? * factor)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise 46.
    #[test]
    fn what_the_clients_say_is_read() {
        let csv = "\"test\",\"rps\",\"avg_latency_ms\",\"min_latency_ms\",\"p50_latency_ms\",\
                   \"p95_latency_ms\",\"p99_latency_ms\",\"max_latency_ms\"\n\
                   \"GET\",\"62500.00\",\"0.500\",\"0.100\",\"0.463\",\"0.700\",\"0.959\",\"3.007\"\n";
        let report = redis_benchmark(csv, 1000).expect("read");
        assert_eq!(report.requests_per_s, 62_500.0);
        assert_eq!(
            (report.latency.p50_us, report.latency.p99_us),
            (463.0, 959.0)
        );
        assert_eq!(redis_benchmark("Could not connect", 1000), None);
        let output = "Running 1s test @ http://10.79.1.1:7007/\n  1 threads and 50 connections\n\
                      Latency Distribution\n     50%  812.00us\n     75%    1.10ms\n\
                         90%    1.20ms\n\
                         99%    2.00s \n  61234 requests in 1.10s, 12.00MB read\n\
                    Requests/sec:  55667.28\nTransfer/sec:     11.00MB\n";
        let report = wrk(output).expect("read");
        assert_eq!(report.requests_per_s, 55_667.28);
        assert_eq!((report.latency.p50_us, report.latency.p99_us), (812.0, 2e6));
        assert_eq!((report.latency.requests, report.latency.lost), (61_234, 0));
        let errors = format!("{output}  Socket errors: connect 0, read 3, write 0, timeout 0\n");
        assert_eq!(wrk(&errors).expect("read").latency.lost, 1);
        assert_eq!(wrk("unable to connect"), None);
    }
}
