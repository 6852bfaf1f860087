//! `cofferdam latency ping`.

use super::args::PingArgs;
use super::client::Connection;
use super::schema::{PingRecord, RoundRecord};
use super::text::nanoseconds;
use crate::exit::{Failure, Outcome, is_root};
use crate::interrupt::Interrupt;
use crate::output::{Output, json_line};
use cofferdam_host::{in_namespace, resolve};
use cofferdam_latency::ping::{Kind, ProbeReport, Prober, Round};
use cofferdam_latency::{Filter, Fleet, LatencySizes, Meter, Miss, Reader, Start, measurable};
use cofferdam_types::{NetnsId, Selector};
use std::collections::BTreeMap;
use std::fs::File;
use std::net::{IpAddr, ToSocketAddrs};
use std::os::unix::fs::MetadataExt;
use std::time::{Duration, Instant};

/// Longest time until the report of an answer comes: on a busy host the server waits for a CPU.
const PATIENCE: Duration = Duration::from_millis(300);

/// Pings until all probes are sent or a signal comes.
pub fn run(args: &PingArgs, interrupt: &Interrupt) -> Outcome {
    let to = address(&args.host)?;
    let kind = match (args.udp, args.tcp_connect) {
        (Some(port), _) => Kind::Udp(port),
        (_, Some(port)) => Kind::TcpConnect(port),
        _ => Kind::Icmp,
    };
    let open = || Prober::open(to, kind, args.size as usize);
    match &args.container {
        Some(selector) => {
            let (netns, file) = container(selector)?;
            let mut meter = Meter::load(LatencySizes::default(), Start::Send)?;
            let meter = &mut meter;
            meter.on(netns, &Filter::default())?;
            let reader = meter.reader()?;
            let inside = in_namespace(&file, || {
                let mut rounds = Pinger::new(args, to, open().map_err(|e| refused(to, &e))?);
                let mut kernel = Kernel {
                    meter,
                    reader,
                    netns,
                };
                rounds.run(&mut kernel, interrupt)
            });
            inside.map_err(|e| {
                Failure::failed(format!(
                    "cannot enter the container's network namespace: {e}"
                ))
            })?
        }
        None => {
            let mut connection = Connection::open(&args.client)?;
            connection.ask("on")?;
            let prober = open().map_err(|e| refused(to, &e))?;
            let outcome =
                Pinger::new(args, to, prober).run(&mut Socket(&mut connection), interrupt);
            // This ping started the measurement.
            let _ = connection.ask("off");
            outcome
        }
    }
}

fn refused(to: IpAddr, error: &std::io::Error) -> Failure {
    Failure::failed(format!("cannot ping {to}: {error}"))
}

fn address(host: &str) -> Result<IpAddr, Failure> {
    if let Ok(address) = host.parse() {
        return Ok(address);
    }
    let found = (host, 0)
        .to_socket_addrs()
        .map_err(|e| Failure::failed(format!("cannot find the address of '{host}': {e}")))?;
    let all: Vec<IpAddr> = found.map(|a| a.ip()).collect();
    let first = all.iter().find(|a| a.is_ipv4()).or(all.first()).copied();
    first.ok_or_else(|| Failure::failed(format!("'{host}' has no address")))
}

fn container(selector: &Selector) -> Result<(NetnsId, File), Failure> {
    // Without root's rights no container's namespace can be read, so none would seem to run.
    if !is_root() {
        return Err(Failure::Unsupported(
            "pinging from a container needs root on the host: run it with sudo".to_owned(),
        ));
    }
    let fleet = Fleet::scan().map_err(|e| Failure::failed(e.to_string()))?;
    let found =
        resolve(selector, &fleet.containers()).map_err(|e| Failure::failed(e.to_string()))?;
    let [container] = found.as_slice() else {
        return Err(Failure::failed(format!(
            "'{selector}' matches {} containers; select one",
            found.len()
        )));
    };
    let netns = measurable(container).map_err(|e| Failure::failed(e.to_string()))?;
    let pid = container.pid.unwrap_or(0);
    let ended = || Failure::failed(format!("container {} is gone", container.name));
    let file = File::open(format!("/proc/{pid}/ns/net")).map_err(|_| ended())?;
    match file.metadata() {
        Ok(m) if m.ino() == u64::from(netns.0) => Ok((netns, file)),
        _ => Err(ended()),
    }
}

/// Source of reports.
trait Reports {
    fn take(&mut self, reports: &mut Vec<ProbeReport>) -> Result<(), Failure>;

    /// Packets without a report, by reason; `None` if unknown.
    fn misses(&self) -> Result<Option<Misses>, Failure>;
}

type Misses = BTreeMap<String, u64>;

struct Kernel<'a> {
    meter: &'a Meter,
    reader: Reader,
    netns: NetnsId,
}

impl Reports for Kernel<'_> {
    fn take(&mut self, reports: &mut Vec<ProbeReport>) -> Result<(), Failure> {
        let netns = self.netns;
        self.reader.take(|sample| {
            if sample.report.netns == netns {
                reports.push(ProbeReport::of(&sample));
            }
        });
        Ok(())
    }

    fn misses(&self) -> Result<Option<Misses>, Failure> {
        let counts = self.meter.counts(self.netns)?;
        let mut misses = Misses::new();
        for (index, reason) in Miss::ALL.iter().enumerate() {
            let count: u64 = counts.misses.iter().map(|of_way| of_way[index]).sum();
            if count > 0 {
                misses.insert(reason.label().to_owned(), count);
            }
        }
        Ok(Some(misses))
    }
}

struct Socket<'a>(&'a mut Connection);

impl Reports for Socket<'_> {
    fn take(&mut self, reports: &mut Vec<ProbeReport>) -> Result<(), Failure> {
        let lines = self.0.ask("read")?;
        reports.extend(lines.iter().filter_map(|line| ProbeReport::parse(line)));
        Ok(())
    }

    fn misses(&self) -> Result<Option<Misses>, Failure> {
        Ok(None)
    }
}

struct Pinger<'a> {
    args: &'a PingArgs,
    to: IpAddr,
    prober: Prober,
    rounds: Vec<Round>,
    sent: u32,
}

impl<'a> Pinger<'a> {
    fn new(args: &'a PingArgs, to: IpAddr, prober: Prober) -> Pinger<'a> {
        Pinger {
            args,
            to,
            prober,
            rounds: Vec::new(),
            sent: 0,
        }
    }

    fn run(&mut self, reports: &mut impl Reports, interrupt: &Interrupt) -> Outcome {
        let mut output = Output::stdout();
        let mut due = Instant::now();
        while self.sent < self.args.count && !interrupt.raised() {
            std::thread::sleep(due.saturating_duration_since(Instant::now()));
            due = Instant::now() + self.args.interval;
            self.sent += 1;
            let probe = self.prober.probe(self.args.timeout);
            let probe = probe.map_err(|e| refused(self.to, &e))?;
            let Some(probe) = probe else {
                if !self.args.json {
                    output.write(&format!("{}: {} no answer\n", self.to, self.sent))?;
                }
                continue;
            };
            let mut received = Vec::new();
            let patience = Instant::now() + PATIENCE;
            let round = loop {
                reports.take(&mut received)?;
                let round = Round::join(&probe, &received);
                let whole = round.egress_ns.is_some() && round.ingress_ns.is_some();
                if whole || Instant::now() >= patience {
                    break round;
                }
                std::thread::sleep(Duration::from_millis(2));
            };
            if !self.args.json {
                output.write(&line(self.to, &round))?;
            }
            self.rounds.push(round);
        }
        let mut record = PingRecord::new(&self.args.host, self.to, self.sent, &self.rounds);
        record.misses = reports.misses()?;
        if self.args.json {
            output.write(&json_line(&record)?)?;
        } else {
            output.write(&summary(&record))?;
        }
        if interrupt.raised() {
            return Err(Failure::Interrupted(None));
        }
        if self.rounds.is_empty() {
            return Err(Failure::failed(format!("no answer from {}", self.to)));
        }
        Ok(())
    }
}

fn optional(ns: Option<u64>) -> String {
    ns.map_or("-".to_owned(), |ns| nanoseconds(ns as f64))
}

fn line(to: IpAddr, round: &Round) -> String {
    let r = RoundRecord::new(round);
    format!(
        "{to}: {} rtt={} egress={} ingress={} added={} corrected={} wire={}\n",
        r.sequence,
        nanoseconds(r.rtt_ns as f64),
        optional(r.egress_ns),
        optional(r.ingress_ns),
        optional(r.added_ns),
        optional(r.corrected_ns),
        optional(r.wire_ns),
    )
}

fn summary(record: &PingRecord) -> String {
    let mut text = format!(
        "\n{} sent, {} answered, {} measured in both directions\n",
        record.sent, record.received, record.measured
    );
    let line = format!(
        "{:10}{:>10}{:>10}{:>10}{:>10}\n",
        "", "p50", "p90", "p99", "max"
    );
    text.push_str(&line);
    for (name, d) in &record.distributions {
        let figures = [d.p50_ns, d.p90_ns, d.p99_ns, d.max_ns].map(|ns| nanoseconds(ns as f64));
        let [p50, p90, p99, max] = figures;
        text.push_str(&format!("{name:10}{p50:>10}{p90:>10}{p99:>10}{max:>10}\n"));
    }
    if record.measured < record.received {
        text.push_str(&why_not_measured(record));
    }
    text
}

/// Reason why some probes, or all, have no figures but the round trip.
fn why_not_measured(record: &PingRecord) -> String {
    let misses = record.misses.clone().unwrap_or_default();
    let count = |reason: Miss| misses.get(reason.label()).copied().unwrap_or(0);
    // A loopback address is the container's own: its packets pass no device. Other misses are those
    // of both ways of a packet to the host's own stack and back.
    let loops_back = record
        .address
        .parse()
        .is_ok_and(|a: IpAddr| a.is_loopback());
    if loops_back || count(Miss::Local) + count(Miss::NoStart) > 0 {
        return format!(
            "\n{} answers on this host: its packets pass no outgoing device, so there is \
             nothing to measure between the container and the wire. Ping an address beyond \
             this host.\n",
            record.address
        );
    }
    if misses.is_empty() {
        return "\nThe probes without figures have no report: is the address beyond this host, \
                and do packets to it leave by the container's own interface?\n"
            .to_owned();
    }
    let reasons: Vec<String> = misses.iter().map(|(why, n)| format!("{why} {n}")).collect();
    format!(
        "\nPackets without a report, by reason: {} (the reasons are in the book, Latency).\n",
        reasons.join(", ")
    )
}
