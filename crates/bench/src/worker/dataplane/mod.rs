//! Servers and clients of `bench dataplane`.

mod ask;
mod attached;
mod epoll;
mod load;
mod pkey;
mod service;
mod work;

pub(crate) use work::Work;

use super::{Args, Control, Failure, control};
use cofferdam_dataplane::config::Config;
use cofferdam_dataplane::{Engine, Options, packet_memory};
use cofferdam_netstack::{Config as StackConfig, InterfaceAddress, MacAddress};
use cofferdam_xsk::{Device, Mode, Port, Socket, SocketOptions};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::time::Duration;

/// Last line of a client.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LoadReport {
    /// Answers a second within the measured time.
    pub requests_per_s: f64,
    /// Time from a request's due time to its answer.
    pub latency: crate::data::Latency,
    /// Share of the measured time in which the generator had work, 0 to 1; `None` for other
    /// clients.
    pub busy: Option<f64>,
}

/// Last line of a server.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ServerReport {
    /// Received packets; 0 if the server cannot count them.
    pub packets: u64,
    /// Bytes of payload sent, and those of them that the loop copied; 0 if the server cannot count
    /// them.
    #[serde(default)]
    pub payload_bytes: [u64; 2],
    /// Cycles in each stage of the loop; empty for servers without one.
    pub stage_cycles: BTreeMap<String, u64>,
}

/// Behaviour of an idle dataplane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Idle {
    /// Polls for work.
    Polls,
    /// Sleeps at once, because it shares its CPU.
    Sleeps,
    /// Polls and then sleeps, as by default.
    Adapts,
}

labels!(Idle { Polls => "polls", Sleeps => "sleeps", Adapts => "adapts" });

/// Runs the server or client of this kind.
pub(super) fn run(kind: &str, args: Args, control: &mut Control) -> Result<(), Failure> {
    match kind {
        "dp-epoll" => epoll::serve(args, control),
        "dp-inline" => attached::inline(args, control),
        "dp-pkey" => pkey::serve(args, control),
        "dp-dataplane" => attached::dataplane(args, control),
        "dp-attached" => attached::attached(args, control),
        "dp-load" => load::run(args, control),
        "dp-ask" => ask::run(args, control),
        other => Err(format!("unknown kind '{other}'")),
    }
}

/// Frames of a dataplane in these experiments.
const FRAMES: u32 = 32768;

/// Settings of a dataplane in these experiments.
struct Setup {
    device: String,
    address: Ipv4Addr,
    /// Batch bound, packets.
    batch: u32,
    /// Connections that its tables can hold.
    connections: u32,
    frame_bytes: u32,
}

impl Setup {
    /// Reads `--device D --address IP --batch B --connections N --frame-bytes F`.
    fn take(args: &mut Args) -> Result<Setup, Failure> {
        Ok(Setup {
            device: args.need("device")?,
            address: args.need("address")?,
            batch: args.need("batch")?,
            connections: args.need("connections")?,
            frame_bytes: args.need("frame-bytes")?,
        })
    }
}

/// Makes a dataplane over generic AF_XDP, so that its receive work runs where RPS steers it, as for
/// Linux. An acknowledgement waits `answer_wait` for the application's answer, by default a
/// server's time.
fn engine(
    setup: &Setup,
    answer_wait: Option<Duration>,
) -> Result<(Device, Engine<Socket>), Failure> {
    let failed = |e: &dyn std::fmt::Display| format!("cannot set a dataplane up: {e}");
    let device = Device::open(&setup.device, Mode::Generic).map_err(|e| failed(&e))?;
    let memory = packet_memory(device.facts(), FRAMES, setup.frame_bytes);
    let mut memory = memory.map_err(|e| failed(&e))?;
    let options = SocketOptions {
        ring_entries: FRAMES / 4,
        ..SocketOptions::default()
    };
    let socket = Socket::open(&device, &mut memory, options).map_err(|e| failed(&e))?;
    device.claim(setup.address.into()).map_err(|e| failed(&e))?;
    let own = InterfaceAddress {
        ip: setup.address.into(),
        prefix_len: 24,
    };
    let facts = socket.facts().clone();
    let mut config = StackConfig::new(MacAddress(facts.mac), vec![own], [42; 16]);
    config.interfaces[0].mtu_bytes = facts.mtu_bytes;
    // The other end of a veth pair leaves checksums to a NIC that does not exist.
    config.received_checksums_verified = true;
    if let Some(wait) = answer_wait {
        config.tcp.answer_wait = wait;
    }
    config.limits.connections = setup.connections;
    config.limits.time_wait = setup.connections;
    config.limits.chunks = 65536;
    let options = Options {
        batch: setup.batch,
        area_bytes: 64 << 20,
        ..Options::default()
    };
    let engine = Engine::new(socket, memory, config, options).map_err(|e| failed(&e))?;
    Ok((device, engine))
}

/// Configuration of an application that root runs as a process.
const OF_ROOT: &str = "user = \"0\"\n";

/// Configuration of a dataplane with one application, which has the keys `application`, on the same
/// CPUs. Each of `cores` is the CPU of a core, or `any`.
fn config(
    setup: &Setup,
    socket: &str,
    cores: &[String],
    idle: Idle,
    application: &str,
) -> Result<Config, Failure> {
    let spin = match idle {
        Idle::Polls => "spin = \"1s\"\n",
        Idle::Sleeps => "spin = \"0s\"\n",
        Idle::Adapts => "",
    };
    let core = |cpu: &String| match cpu.as_str() {
        "any" => "[[core]]\n".to_owned(),
        cpu => format!("[[core]]\ncpu = {cpu}\n"),
    };
    let cores: String = cores.iter().map(core).collect();
    let Setup {
        device,
        address,
        batch,
        connections,
        frame_bytes,
    } = setup;
    let text = format!(
        "socket = \"{socket}\"\n[device]\nname = \"{device}\"\nmode = \"generic\"\nframes = \
         {FRAMES}\n\
         frame_bytes = {frame_bytes}\n\
         checksums = \"trust\"\n[network]\naddresses = [\"{address}/24\"]\n[tcp]\nconnections = \
         {connections}\n\
         [loop]\nbatch = {batch}\n{spin}yields = true\n{cores}[[application]]\nname = \
         \"bench\"\nbind = [\"tcp/*:*\"]\n{application}"
    );
    Config::parse(&text)
        .map_err(|problems| problems.first().map_or_else(String::new, |p| p.to_string()))
}

fn report(report: &impl Serialize) -> Result<(), Failure> {
    control::say_json(report)
}
