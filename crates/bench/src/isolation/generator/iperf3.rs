//! iperf3: datagrams to an iperf3 server at the peer.
//!
//! Client and server negotiate over a TCP connection through the same link, so a flood may delay
//! the start. The figures are the server's.

use super::program::Program;
use super::{Generator, whole_seconds};
use crate::error::BenchError;
use crate::isolation::guest::LoadFigures;
use crate::isolation::levels::{DATAGRAM_BYTES, Load};
use crate::isolation::testbed::IsolationTestbed;
use serde_json::Value;
use std::path::Path;
use std::time::{Duration, Instant};

/// Generator iperf3, the client.
pub(super) struct Iperf3;

/// Time limit for the server to listen.
const LISTEN: Duration = Duration::from_secs(10);

impl Generator for Iperf3 {
    fn program(&self) -> &'static str {
        "iperf3"
    }

    fn arguments(&self, load: &Load, warmup: Duration, measure: Duration) -> Option<Vec<String>> {
        let Load::Source {
            to,
            bits,
            bytes,
            threads,
        } = load
        else {
            return None;
        };
        let (address, port) = to.rsplit_once(':')?;
        let line = format!(
            "--client {address} --port {port} --udp --bitrate {:.0} --length {bytes} \
             --parallel {threads} --time {} --interval 0.1 --json --connect-timeout 5000",
            bits / f64::from(*threads),
            whole_seconds(warmup + measure)
        );
        Some(line.split_whitespace().map(str::to_owned).collect())
    }

    fn parse_figures(
        &self,
        output: &str,
        warmup: Duration,
        measure: Duration,
    ) -> Result<LoadFigures, String> {
        figures_within(output, warmup, measure)
    }
}

/// Bytes and datagrams of the intervals within the window.
fn figures_within(
    output: &str,
    warmup: Duration,
    measure: Duration,
) -> Result<LoadFigures, String> {
    let report: Value =
        serde_json::from_str(output).map_err(|_| "iperf3's report is not JSON".to_owned())?;
    let own = report["error"].as_str();
    let intervals = report["intervals"].as_array();
    let (from, to) = (warmup.as_secs_f64(), (warmup + measure).as_secs_f64());
    // iperf3's intervals end a little late.
    const SLACK: f64 = 0.02;
    let (mut seconds, mut bytes) = (0.0, 0.0);
    for sum in intervals.into_iter().flatten().map(|i| &i["sum"]) {
        let number = |name: &str| sum[name].as_f64().filter(|n| n.is_finite() && *n >= 0.0);
        let (Some(start), Some(end), Some(length), Some(moved)) = (
            number("start"),
            number("end"),
            number("seconds"),
            number("bytes"),
        ) else {
            continue;
        };
        if start >= from - SLACK && end <= to + SLACK {
            seconds += length;
            bytes += moved;
        }
    }
    if seconds <= 0.0 {
        return Err(own.map_or_else(
            || "iperf3 reported no interval within the window".to_owned(),
            |own| format!("iperf3 says '{own}'"),
        ));
    }
    Ok(LoadFigures {
        window_s: seconds,
        ops: (bytes / f64::from(DATAGRAM_BYTES)) as u64,
        bytes: bytes as u64,
        ..LoadFigures::default()
    })
}

/// iperf3 server at the peer, for one test.
pub(in crate::isolation) struct Iperf3Sink {
    program: Program,
    window: [Duration; 2],
}

impl Iperf3Sink {
    /// Starts the server and waits until it listens.
    pub fn start(testbed: &IsolationTestbed, port: u16) -> Result<Iperf3Sink, BenchError> {
        let mut command = testbed.in_peer(Path::new("iperf3"));
        command.args(["--server", "--one-off", "--json", "--interval", "0.1"]);
        command.args(["--port", &port.to_string()]);
        let mut sink = Iperf3Sink {
            program: Program::start("iperf3's server", command)?,
            window: [Duration::ZERO; 2],
        };
        let deadline = Instant::now() + LISTEN;
        while !listens(sink.program.pid(), port) {
            let soon = Instant::now() + Duration::from_millis(10);
            if let Some(output) = sink.program.output(soon)? {
                return Err(sink.program.failure(&output, "it ended at once"));
            }
            if Instant::now() > deadline {
                return Err(BenchError::Worker {
                    worker: "iperf3's server".to_owned(),
                    reason: format!("it did not listen within {} s", LISTEN.as_secs()),
                });
            }
        }
        Ok(sink)
    }

    /// Sets the window that counts.
    pub fn go(&mut self, warmup: Duration, measure: Duration) {
        self.window = [warmup, measure];
    }

    /// Figures of the server after its client's end; `None` if it does not end within `patience`.
    pub fn await_figures(&mut self, patience: Duration) -> Result<Option<LoadFigures>, BenchError> {
        let Some(output) = self.program.output(Instant::now() + patience)? else {
            return Ok(None);
        };
        let [warmup, measure] = self.window;
        match figures_within(&output.text, warmup, measure) {
            Ok(done) => Ok(Some(done)),
            Err(reason) => Err(self.program.failure(&output, &reason)),
        }
    }
}

/// Whether a TCP socket listens at `port` in the network namespace of `pid`.
fn listens(pid: u32, port: u16) -> bool {
    const LISTEN: &str = "0A";
    let end = format!(":{port:04X}");
    ["tcp", "tcp6"].iter().any(|family| {
        let text = std::fs::read_to_string(format!("/proc/{pid}/net/{family}"));
        text.unwrap_or_default().lines().any(|line| {
            let mut words = line.split_whitespace().skip(1);
            let (local, state) = (words.next(), words.nth(1));
            local.is_some_and(|l| l.ends_with(&end)) && state == Some(LISTEN)
        })
    })
}
