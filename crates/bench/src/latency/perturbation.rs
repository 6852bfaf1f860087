//! Cost of the measurement for the measured containers.
//!
//! States: off; loaded and idle (no container, or one whose packets the filter refuses); on. For
//! comparison: empty programs at the devices of the path (tcx), and ftrace on the same events. Each
//! round draws a new order of the states; within a state, blocks with and without it take turns.

use super::testbed::LatencyTestbed;
use super::wire::FAR;
use super::{Options, failed, keep, load, measure_error, us};
use crate::error::BenchError;
use crate::experiment::Rig;
use crate::latency::data::{LatencyProgramRow, LatencyResult, PerturbationRow};
use crate::stats::{estimate, median};
use cofferdam_bpf::{EmptyHooks, EmptyProgram, RuntimeStatistics};
use cofferdam_latency::ping::Kind;
use cofferdam_latency::{Filter, Meter, Start};
use nix::mount::{MntFlags, MsFlags, mount, umount2};
use std::fs;
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// States that are measured in turns with blocks of `off`.
const STATES: [&str; 8] = [
    "idle",
    "no match",
    "on (queue)",
    "on (send)",
    "idle (device)",
    "on (device)",
    AT_DEVICES,
    "ftrace",
];
const OFF: &str = "off";
const AT_DEVICES: &str = "empty at devices";
const NO_TCX: &str = "cannot attach programs to devices (tcx, Linux 6.6)";
/// Round trips of a block: some 3 ms.
const PINGS: u32 = 200;
/// Tracepoints of the programs, as ftrace names them.
const EVENTS: [&str; 10] = [
    "net/net_dev_queue",
    "net/net_dev_start_xmit",
    "net/netif_receive_skb",
    "skb/consume_skb",
    "skb/kfree_skb",
    "skb/skb_copy_datagram_iovec",
    "sock/sk_data_ready",
    "sock/inet_sock_set_state",
    "tcp/tcp_probe",
    "qdisc/qdisc_dequeue",
];

/// Measurement that can be switched on and off. Dropping it removes it.
enum State {
    Meter(Box<Meter>),
    /// Empty programs, and their attachments.
    Hooks(Box<EmptyHooks>, Vec<[OwnedFd; 2]>),
    Ftrace(Ftrace),
}

impl State {
    /// Loads the state and switches it on.
    fn load(state: &str, testbed: &LatencyTestbed) -> Result<State, BenchError> {
        let meter = |start, filter: Option<Filter>| -> Result<State, BenchError> {
            let mut meter = load(start)?;
            if let Some(filter) = filter {
                meter.on(testbed.netns, &filter).map_err(measure_error)?;
            }
            Ok(State::Meter(Box::new(meter)))
        };
        // Matches only TCP: neither the echoes nor the flood.
        let none = Filter {
            classes: [false, false, true, false],
            ..Filter::default()
        };
        match state {
            "idle" => meter(Start::Queue, None),
            "no match" => meter(Start::Queue, Some(none)),
            "on (queue)" => meter(Start::Queue, Some(Filter::default())),
            "on (send)" => meter(Start::Send, Some(Filter::default())),
            "idle (device)" => meter(Start::Device, None),
            "on (device)" => meter(Start::Device, Some(Filter::default())),
            AT_DEVICES => {
                let hooks = EmptyHooks::load();
                let hooks = hooks.map_err(|e| BenchError::Latency(format!("no tcx: {e}")))?;
                Ok(State::Hooks(Box::new(hooks), Vec::new()))
            }
            _ => Ok(State::Ftrace(Ftrace::start()?)),
        }
    }

    fn switch(&mut self, on: bool, testbed: &LatencyTestbed) -> Result<(), BenchError> {
        match self {
            State::Meter(meter) => meter.attach(on).map_err(measure_error),
            State::Hooks(hooks, links) => {
                links.clear();
                if on {
                    let programs = hooks.programs();
                    let attached = [
                        testbed.inside(|| programs.attach(testbed.inner))?,
                        testbed.outside(|| programs.attach(testbed.device))?,
                        testbed.outside(|| programs.attach(testbed.nic))?,
                    ];
                    for link in attached {
                        links.push(link.map_err(failed(NO_TCX))?);
                    }
                }
                Ok(())
            }
            State::Ftrace(ftrace) => ftrace.switch(on),
        }
    }
}

/// Results of a state in one round, and of the adjacent blocks of `off`; pairs are on, off.
#[derive(Default)]
struct Round {
    /// Every round trip, µs.
    trips_us: [Vec<f64>; 2],
    /// Medians of the blocks, µs.
    blocks_us: [Vec<f64>; 2],
    /// Each `on` block minus the adjacent `off` block, µs.
    added_us: Vec<f64>,
    /// Datagrams a second.
    rates: [f64; 2],
}

/// Measures one state, with blocks on and off in turns, milliseconds apart: on a shared machine a
/// round trip changes by half between seconds. On and off begin in turn.
fn round(testbed: &LatencyTestbed, options: &Options, name: &str) -> Result<Round, BenchError> {
    let mut state = State::load(name, testbed)?;
    let mut round = Round::default();
    let (turns, seconds) = if options.quick { (12, 0.1) } else { (24, 0.2) };
    for turn in 0..turns {
        let mut medians = [0.0; 2];
        for second in [false, true] {
            let on = second != (turn % 2 == 0);
            state.switch(on, testbed)?;
            let trips = pings(testbed, PINGS)?;
            let side = usize::from(!on);
            medians[side] = median(&trips).unwrap_or_default();
            round.blocks_us[side].push(medians[side]);
            round.trips_us[side].extend(trips);
        }
        round.added_us.push(medians[0] - medians[1]);
    }
    for on in [true, false] {
        state.switch(on, testbed)?;
        round.rates[usize::from(!on)] = flood(testbed, seconds)?;
    }
    Ok(round)
}

/// Measures round trips and datagrams in every state, then the programs' own cost.
pub(super) fn measure(
    rig: &mut Rig<'_>,
    options: &Options,
    testbed: &LatencyTestbed,
    result: &mut LatencyResult,
) -> Result<(), BenchError> {
    let mut states = STATES.to_vec();
    if !has_tcx(testbed)? {
        states.retain(|state| *state != AT_DEVICES);
    }
    // The last row is `off`, from the blocks between those of all states.
    let off = states.len();
    let mut rtt: Vec<Vec<f64>> = vec![Vec::new(); off + 1];
    let (mut added, mut rate) = (rtt.clone(), rtt.clone());
    for number in 0..options.rounds() {
        let mut order: Vec<usize> = (0..off).collect();
        rig.random.shuffle(&mut order);
        for state in order {
            let round = round(testbed, options, states[state])?;
            let [on_us, off_us] = &round.trips_us;
            keep(rig, "perturbation", states[state], number, on_us)?;
            keep(rig, "perturbation", OFF, number, off_us)?;
            for (side, row) in [state, off].into_iter().enumerate() {
                rtt[row].extend(median(&round.blocks_us[side]));
                rate[row].push(round.rates[side]);
            }
            added[state].extend(median(&round.added_us));
            added[off].push(0.0);
            rig.check()?;
        }
    }
    for (row, name) in [(off, OFF)].into_iter().chain((0..).zip(states)) {
        let of = |values: &[f64]| estimate(values, rig.seed);
        if let (Some(rtt_us), Some(added_us), Some(packets_per_s)) =
            (of(&rtt[row]), of(&added[row]), of(&rate[row]))
        {
            result.perturbation.push(PerturbationRow {
                state: name.to_owned(),
                rtt_us,
                added_us,
                packets_per_s,
            });
        }
    }
    result.programs = programs(testbed, options)?;
    Ok(())
}

/// Whether this kernel has the hooks of [`AT_DEVICES`].
fn has_tcx(testbed: &LatencyTestbed) -> Result<bool, BenchError> {
    let Ok(hooks) = EmptyHooks::load() else {
        return Ok(false);
    };
    let programs = hooks.programs();
    testbed.outside(|| programs.attach(testbed.nic).is_ok())
}

fn pings(testbed: &LatencyTestbed, count: u32) -> Result<Vec<f64>, BenchError> {
    testbed.inside(|| {
        let mut prober = testbed.probe(Kind::Icmp, 10)?;
        let mut values = Vec::new();
        for _ in 0..count {
            let probe = prober.probe(Duration::from_secs(1));
            let probe = probe.map_err(failed("cannot ping"))?;
            values.extend(probe.map(|p| us(p.received_ns - p.sent_ns)));
        }
        Ok(values)
    })?
}

/// Datagrams a second that one sender can send.
fn flood(testbed: &LatencyTestbed, seconds: f64) -> Result<f64, BenchError> {
    testbed.inside(|| {
        let socket = UdpSocket::bind("0.0.0.0:0").map_err(failed("cannot send"))?;
        let to = SocketAddr::from((FAR, 9000));
        socket.connect(to).map_err(failed("cannot send"))?;
        let (begin, mut sent) = (Instant::now(), 0u64);
        while begin.elapsed().as_secs_f64() < seconds {
            for _ in 0..64 {
                sent += u64::from(socket.send(&[0x5a; 64]).is_ok());
            }
        }
        Ok(sent as f64 / begin.elapsed().as_secs_f64())
    })?
}

/// Nanoseconds a run of each program by the kernel's statistics, without the time of the
/// statistics.
fn programs(
    testbed: &LatencyTestbed,
    options: &Options,
) -> Result<Vec<LatencyProgramRow>, BenchError> {
    let _on = RuntimeStatistics::enable().map_err(failed("cannot measure the programs"))?;
    let empty = EmptyProgram::start()
        .map_err(|e| BenchError::Latency(format!("cannot measure the programs: {e}")))?;
    let mut meter = load(Start::Send)?;
    meter
        .on(testbed.netns, &Filter::default())
        .map_err(measure_error)?;
    pings(testbed, options.block() * 10)?;
    flood(testbed, 0.5)?;
    let own = empty
        .cost()
        .map_err(failed("cannot measure the programs"))?;
    let own_ns = own.run_time_ns as f64 / own.runs.max(1) as f64;
    let costs = meter.program_costs().map_err(measure_error)?;
    Ok(costs
        .into_iter()
        .filter(|c| c.runs > 0)
        .map(|c| LatencyProgramRow {
            ns_per_run: (c.run_time_ns as f64 / c.runs as f64 - own_ns).max(0.0),
            name: c.name,
            runs: c.runs,
        })
        .collect())
}

/// ftrace in an instance of its own. Dropping it removes the instance.
struct Ftrace {
    instance: PathBuf,
    mounted: Option<PathBuf>,
}

impl Ftrace {
    fn start() -> Result<Ftrace, BenchError> {
        let usual = Path::new("/sys/kernel/tracing");
        let (root, mounted) = if usual.join("instances").is_dir() {
            (usual.to_owned(), None)
        } else {
            let place = PathBuf::from(format!("/run/cofferdam-trace-{}", std::process::id()));
            fs::create_dir_all(&place).map_err(failed("cannot mount tracefs"))?;
            mount(
                Some("tracefs"),
                &place,
                Some("tracefs"),
                MsFlags::empty(),
                None::<&str>,
            )
            .map_err(|e| BenchError::Latency(format!("cannot mount tracefs: {e}")))?;
            (place.clone(), Some(place))
        };
        let instance = root.join(format!("instances/cofferdam-{}", std::process::id()));
        let mut ftrace = Ftrace { instance, mounted };
        fs::create_dir(&ftrace.instance).map_err(failed("cannot make a tracing instance"))?;
        ftrace.switch(true)?;
        Ok(ftrace)
    }

    fn switch(&mut self, on: bool) -> Result<(), BenchError> {
        for event in EVENTS {
            let enable = self.instance.join("events").join(event).join("enable");
            // A missing event costs nothing.
            if enable.exists() {
                let word = if on { "1" } else { "0" };
                fs::write(enable, word).map_err(failed("cannot switch ftrace"))?;
            }
        }
        Ok(())
    }
}

impl Drop for Ftrace {
    fn drop(&mut self) {
        let _ = fs::write(self.instance.join("events/enable"), "0");
        let _ = fs::remove_dir(&self.instance);
        if let Some(place) = &self.mounted {
            let _ = umount2(place, MntFlags::MNT_DETACH);
            let _ = fs::remove_dir(place);
        }
    }
}
