//! What the measurement costs those it measures: off, loaded and idle (no container, or one whose
//! packets the filter refuses), on, and, for comparison, ftrace on the same events. Blocks in an order drawn anew each round.

use super::scene::{FAR, Scene};
use super::{Options, failed, keep, load, lost, us};
use crate::data::{LatencyProgramRow, LatencyResult, PerturbationRow};
use crate::error::BenchError;
use crate::experiment::Rig;
use crate::stats::{estimate, median};
use cofferdam_bpf::{EmptyProgram, RuntimeStatistics};
use cofferdam_latency::ping::Kind;
use cofferdam_latency::{Filter, Meter, Start};
use nix::mount::{MntFlags, MsFlags, mount, umount2};
use std::fs;
use std::net::{SocketAddr, UdpSocket};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

const STATES: [&str; 6] = [
    "off",
    "idle",
    "no match",
    "on (queue)",
    "on (send)",
    "ftrace",
];
/// The tracepoints of the programs, as ftrace names them.
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

/// What is on while it lives.
enum State {
    None,
    Meter { _meter: Box<Meter> },
    Ftrace { _events: Ftrace },
}

fn begin(state: &str, scene: &Scene) -> Result<State, BenchError> {
    let meter = |start, filter: Option<Filter>| -> Result<State, BenchError> {
        let mut meter = load(start)?;
        if let Some(filter) = filter {
            meter.on(scene.netns, &filter).map_err(lost)?;
        }
        Ok(State::Meter {
            _meter: Box::new(meter),
        })
    };
    // Neither an echo nor the flood: only TCP.
    let none = Filter {
        classes: [false, false, true, false],
        ..Filter::default()
    };
    match state {
        "idle" => meter(Start::Queue, None),
        "no match" => meter(Start::Queue, Some(none)),
        "on (queue)" => meter(Start::Queue, Some(Filter::default())),
        "on (send)" => meter(Start::Send, Some(Filter::default())),
        "ftrace" => Ok(State::Ftrace {
            _events: Ftrace::on()?,
        }),
        _ => Ok(State::None),
    }
}

/// Round trips and datagrams in every state, then the programs' own cost.
pub(super) fn measure(
    rig: &mut Rig<'_>,
    options: &Options,
    scene: &Scene,
    result: &mut LatencyResult,
) -> Result<(), BenchError> {
    let mut rtt: Vec<Vec<f64>> = vec![Vec::new(); STATES.len()];
    let mut rate: Vec<Vec<f64>> = vec![Vec::new(); STATES.len()];
    for round in 0..options.rounds() {
        let mut order: Vec<usize> = (0..STATES.len()).collect();
        rig.random.shuffle(&mut order);
        for state in order {
            let on = begin(STATES[state], scene)?;
            let values = pings(scene, options.block() * 4)?;
            let seconds = if options.quick { 0.15 } else { 0.3 };
            rate[state].push(flood(scene, seconds)?);
            drop(on);
            keep(rig, "perturbation", STATES[state], round, &values)?;
            rtt[state].extend(median(&values));
            rig.check()?;
        }
    }
    for (i, state) in STATES.iter().enumerate() {
        let added: Vec<f64> = rtt[i].iter().zip(&rtt[0]).map(|(a, b)| a - b).collect();
        let of = |values: &[f64]| estimate(values, rig.seed);
        if let (Some(rtt_us), Some(added_us), Some(packets_per_s)) =
            (of(&rtt[i]), of(&added), of(&rate[i]))
        {
            result.perturbation.push(PerturbationRow {
                state: (*state).to_owned(),
                rtt_us,
                added_us,
                packets_per_s,
            });
        }
    }
    result.programs = programs(scene, options)?;
    Ok(())
}

fn pings(scene: &Scene, count: u32) -> Result<Vec<f64>, BenchError> {
    scene.inside(|| {
        let mut prober = scene.probe(Kind::Icmp, 10)?;
        let mut values = Vec::new();
        for _ in 0..count {
            let probe = prober.probe(Duration::from_secs(1));
            let probe = probe.map_err(failed("cannot ping"))?;
            values.extend(probe.map(|p| us(p.received_ns - p.sent_ns)));
        }
        Ok(values)
    })?
}

/// Datagrams a second that one sender gets rid of.
fn flood(scene: &Scene, seconds: f64) -> Result<f64, BenchError> {
    scene.inside(|| {
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

/// Nanoseconds a run, by the kernel's statistics, their own time taken off.
fn programs(scene: &Scene, options: &Options) -> Result<Vec<LatencyProgramRow>, BenchError> {
    let _on = RuntimeStatistics::enable().map_err(failed("cannot measure the programs"))?;
    let empty = EmptyProgram::start()
        .map_err(|e| BenchError::Latency(format!("cannot measure the programs: {e}")))?;
    let mut meter = load(Start::Send)?;
    meter.on(scene.netns, &Filter::default()).map_err(lost)?;
    pings(scene, options.block() * 10)?;
    flood(scene, 0.5)?;
    let own = empty
        .cost()
        .map_err(failed("cannot measure the programs"))?;
    let own_ns = own.run_time_ns as f64 / own.runs.max(1) as f64;
    let costs = meter.program_costs().map_err(lost)?;
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

/// ftrace in an instance of its own; taken away when dropped.
struct Ftrace {
    instance: PathBuf,
    mounted: Option<PathBuf>,
}

impl Ftrace {
    fn on() -> Result<Ftrace, BenchError> {
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
        let ftrace = Ftrace { instance, mounted };
        fs::create_dir(&ftrace.instance).map_err(failed("cannot make a tracing instance"))?;
        for event in EVENTS {
            let enable = ftrace.instance.join("events").join(event).join("enable");
            // An event that this kernel lacks costs nothing.
            if enable.exists() {
                fs::write(enable, "1").map_err(failed("cannot enable ftrace"))?;
            }
        }
        Ok(ftrace)
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
