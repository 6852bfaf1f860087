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

/// What a client prints as its last line.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LoadReport {
    /// Answers a second within the measured time.
    pub requests_per_s: f64,
    /// Times from when a request was due to its answer.
    pub latency: crate::data::Latency,
    /// Share of the measured time in which the generator had work, 0 to 1; `None` where the client
    /// is none.
    pub busy: Option<f64>,
}

/// What a server prints as its last line.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ServerReport {
    /// Packets that came in; 0 where the server cannot know.
    pub packets: u64,
    /// Payload sent, and of that what the loop copied, bytes; 0 where the server cannot know.
    #[serde(default)]
    pub payload_bytes: [u64; 2],
    /// Cycles in each stage of the loop; empty for servers without one.
    pub stage_cycles: BTreeMap<String, u64>,
}

/// What a dataplane does when it has nothing to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Idle {
    /// It looks for more.
    Polls,
    /// It sleeps at once: its CPU is not its own.
    Sleeps,
    /// As long as its settings say by default the one, then the other.
    Adapts,
}

labels!(Idle { Polls => "polls", Sleeps => "sleeps", Adapts => "adapts" });

/// Runs one of them.
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

/// A dataplane in these experiments.
struct Setup {
    device: String,
    address: Ipv4Addr,
    /// The bound of a batch, packets.
    batch: u32,
    /// Connections that its tables have room for.
    connections: u32,
    frame_bytes: u32,
}

impl Setup {
    /// `--device D --address IP --batch B --connections N --frame-bytes F`
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

/// A dataplane over generic AF_XDP: the receive work is then done where RPS steers it,
/// as for Linux. Its application's answers are waited for as long as `answer_wait`, by default for a
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

/// Keys of an application that root runs as a process.
const OF_ROOT: &str = "user = \"0\"\n";

/// The settings of a dataplane with one application, which has these keys, on the same CPUs. Each of
/// `cores` is a core's CPU, or `any`.
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
        "socket = \"{socket}\"\n[device]\nname = \"{device}\"\nmode = \"generic\"\nframes = {FRAMES}\n\
         frame_bytes = {frame_bytes}\n\
         checksums = \"trust\"\n[network]\naddresses = [\"{address}/24\"]\n[tcp]\nconnections = {connections}\n\
         [loop]\nbatch = {batch}\n{spin}yields = true\n{cores}\
         [[application]]\nname = \"bench\"\nbind = [\"tcp/*:*\"]\n{application}"
    );
    Config::parse(&text)
        .map_err(|problems| problems.first().map_or_else(String::new, |p| p.to_string()))
}

fn report(report: &impl Serialize) -> Result<(), Failure> {
    control::say_json(report)
}
