//! Running a dataplane from its configuration: device, loop and control plane.

use crate::config::{Config, Link, LinkKind};
use crate::control::Control;
use crate::engine::{Engine, EngineError};
use crate::notice::Notice;
use crate::pkey;
use crate::tuning::memory::{
    LEAST_RING_ENTRIES, MOST_RING_ENTRIES, RING_PART, SPANS, SPANS_FOR_LARGE_MTU,
};
use cofferdam_affinity::run_on;
use cofferdam_pkey::{OpenError, Region, SealError};
use cofferdam_types::CpuId;
use cofferdam_xsk::{Device, Facts, Memory, Port, PortError, Socket, SocketOptions, Tap};
use nix::ifaddrs::getifaddrs;
use std::io::{self, Read};
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// The reason why a dataplane does not run.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The device failed.
    #[error(transparent)]
    Port(#[from] PortError),
    /// Linux has one of the addresses.
    #[error(
        "{address} is an address of Linux, on {device}: give the dataplane one of its own in \
            [network], or remove it from Linux (`ip address del` … `dev {device}`)"
    )]
    Address {
        /// The address of both.
        address: IpAddr,
        /// Device of Linux that has it.
        device: String,
    },
    /// The loop could not be set up.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// An application needs protection keys, and there are none, or no region behind them.
    #[error(
        "application '{application}' has domain = \"pkey\": {source}; set domain = \"process\" for \
            it"
    )]
    Region {
        /// Name of the application.
        application: String,
        /// Cause of the failure.
        source: OpenError,
    },
    /// An application is refused.
    #[error("application '{application}' has domain = \"pkey\": {source}")]
    Seal {
        /// Name of the application.
        application: String,
        /// Cause of the refusal.
        source: SealError,
    },
    /// The loop's thread did not return from its application.
    #[error("application '{application}' did not return to the dataplane, which ends without it")]
    Stuck {
        /// Name of the application.
        application: String,
    },
    /// The control plane failed, or the CPU is not usable.
    #[error("{0}")]
    Os(#[from] io::Error),
}

/// Runs a dataplane until `stop`, and passes notices to `notify`.
///
/// At the end the redirecting program, its addresses and the sockets are removed; after a kill the
/// kernel does it. Without a signal, `stop` is noticed within 50 ms. So is the removal of a device,
/// which ends the dataplane with [`PortError::Gone`].
pub fn run(
    config: &Config,
    stop: &Arc<AtomicBool>,
    notify: impl Fn(Notice) + Send + Sync,
) -> Result<(), RunError> {
    let region = match config.guest() {
        None => None,
        Some((_, client, _)) => Some(Region::open().map_err(|source| RunError::Region {
            application: client.name.clone(),
            source,
        })?),
    };
    // A copy out of the application's reach; the caller's may be within it.
    let own = region.as_ref().map(|_| config.clone());
    let config = own.as_ref().unwrap_or(config);
    let region = region.as_ref();
    refuse_addresses_of_linux(config)?;
    let (frames, frame_bytes) = (config.packets.frames, config.packets.frame_bytes);
    let (mut devices, mut tap) = (Vec::new(), None);
    for link in &config.links {
        match link.kind {
            LinkKind::Tap => tap = Some(Tap::open(&link.name, random_mac()?)?),
            LinkKind::Xdp(mode) => devices.push((Device::open(&link.name, mode)?, link)),
        }
    }
    if let Some(tap) = tap {
        let memory = packet_memory(tap.facts(), frames, frame_bytes)?;
        return serve(region, vec![(vec![tap], memory)], config, stop, &notify);
    }
    let Some((first, _)) = devices.first() else {
        return Err(io::Error::other("a dataplane needs a device").into());
    };
    let memory = packet_memory(first.facts(), frames, frame_bytes)?;
    let sockets = sockets(&devices, memory, config)?;
    // The addresses are claimed last, so that everything passed to Linux until now.
    for (device, link) in &devices {
        for address in &link.addresses {
            device.claim(address.ip)?;
        }
    }
    serve(region, sockets, config, stop, &notify)
}

/// Hardware address of a new device.
fn random_mac() -> io::Result<[u8; 6]> {
    let mut mac = [2; 6];
    mac[1..].copy_from_slice(&secret()?[..5]);
    Ok(mac)
}

/// Packet memory for a device: `frames` of `frame_bytes` (2048 or 4096), and spans for packets that
/// do not fit.
///
/// # Errors
/// Errors of [`Memory::with_spans`].
pub fn packet_memory(facts: &Facts, frames: u32, frame_bytes: u32) -> io::Result<Memory> {
    let spans = match Memory::fits(facts.mtu_bytes, frame_bytes) {
        true => SPANS,
        false => SPANS_FOR_LARGE_MTU,
    };
    Memory::with_spans(frames, frame_bytes, spans)
}

/// Refuses addresses that Linux has: both would answer for them, each resetting the other's
/// connections.
fn refuse_addresses_of_linux(config: &Config) -> Result<(), RunError> {
    for found in getifaddrs().map_err(io::Error::from)? {
        let Some(address) = found.address else {
            continue;
        };
        let ip = match (address.as_sockaddr_in(), address.as_sockaddr_in6()) {
            (Some(v4), _) => IpAddr::V4(v4.ip()),
            (_, Some(v6)) => IpAddr::V6(v6.ip()),
            _ => continue,
        };
        if config.addresses().any(|own| own.ip == ip) {
            return Err(RunError::Address {
                address: ip,
                device: found.interface_name,
            });
        }
    }
    Ok(())
}

/// Opens a socket for each core and device over one packet memory. Returns those of each core, in
/// order.
fn sockets(
    devices: &[(Device, &Link)],
    memory: Memory,
    config: &Config,
) -> Result<Vec<(Vec<Socket>, Memory)>, PortError> {
    let cores = config.cores.len() as u32;
    let rings = cores * devices.len() as u32;
    let mut all: Vec<(Vec<Socket>, Memory)> = Vec::new();
    for (core, mut part) in config.cores.iter().zip(memory.split(cores)) {
        let mut own: Vec<Socket> = Vec::new();
        for (n, (device, link)) in devices.iter().enumerate() {
            let options = SocketOptions {
                queue: link.queue.unwrap_or(core.queue),
                ring_entries: (config.packets.frames / RING_PART / rings)
                    .next_power_of_two()
                    .clamp(LEAST_RING_ENTRIES, MOST_RING_ENTRIES),
                segmentation: config.packets.segmentation,
                ..SocketOptions::default()
            };
            // The socket that has the queue, or else the one that has registered the memory.
            let mut there = all.iter().filter_map(|(sockets, _)| sockets.get(n));
            let same = there.find(|socket| socket.queue() == options.queue);
            let first = all.first().map_or(&own, |(sockets, _)| sockets).first();
            let socket = match same.or(first) {
                None => Socket::open(device, &mut part, options)?,
                Some(other) => Socket::open_beside(other, device, &mut part, options)?,
            };
            own.push(socket);
        }
        all.push((own, part));
    }
    Ok(all)
}

fn serve<P: Port + Send + 'static>(
    region: Option<&Region>,
    ports: Vec<(Vec<P>, Memory)>,
    config: &Config,
    stop: &Arc<AtomicBool>,
    notify: &(impl Fn(Notice) + Send + Sync),
) -> Result<(), RunError> {
    let of_first = ports.iter().take(1).flat_map(|(ports, _)| ports);
    let facts: Vec<Facts> = of_first.map(|port| port.facts().clone()).collect();
    let devices: Vec<_> = facts.iter().map(|one| (one.mac, one.mtu_bytes)).collect();
    let stack = config.stack(&devices, secret()?);
    let mut engines = Engine::several(ports, &stack, config.options)?;
    if let (Some(region), 1) = (region, engines.len())
        && let Some(engine) = engines.pop()
    {
        return pkey::serve(region, engine, &facts, config, stop, notify);
    }
    let Some((first, others)) = engines.split_first_mut() else {
        return Err(io::Error::other("a dataplane needs a core").into());
    };
    let hub = first.hub();
    let control = Control::open(config.clone(), &facts, hub.clone(), first.maker())?;
    // The loops may sleep without limit.
    let end = || {
        stop.store(true, Ordering::Relaxed);
        hub.wake_cores();
    };
    let end = &end;
    let mut tasks: Vec<(String, Task<'_>)> = vec![(
        "control".to_owned(),
        Box::new(move || Ok(control.run(stop, notify)?)),
    )];
    for (n, engine) in (1..).zip(others) {
        let body = move || drive(engine, config, n, stop);
        tasks.push((format!("core {n}"), Box::new(body)));
    }
    std::thread::scope(|scope| {
        let mut threads = Vec::new();
        let mut begun = Ok(());
        for (name, body) in tasks {
            let thread = std::thread::Builder::new().name(name);
            let spawned = thread.spawn_scoped(scope, move || {
                let outcome = body();
                end();
                outcome
            });
            begun = begun.and(spawned.map(|thread| threads.push(thread)));
        }
        let mut outcome = begun.map_err(RunError::Os).and_then(|()| {
            pin(config, 0)?;
            notify(Notice::Ready);
            first.run(stop);
            Ok(())
        });
        end();
        for thread in threads {
            let theirs = thread.join().unwrap_or_else(|_| {
                Err(io::Error::other("a thread of the dataplane panicked").into())
            });
            // The first reason is reported.
            outcome = outcome.and(theirs);
        }
        outcome
    })
}

/// Body of a thread.
type Task<'a> = Box<dyn FnOnce() -> Result<(), RunError> + Send + 'a>;

fn drive<P: Port>(
    engine: &mut Engine<P>,
    config: &Config,
    core: usize,
    stop: &AtomicBool,
) -> Result<(), RunError> {
    pin(config, core)?;
    engine.run(stop);
    Ok(())
}

/// Binds the calling thread to its core's CPU.
pub(crate) fn pin(config: &Config, core: usize) -> io::Result<()> {
    let Some(cpu) = config.cores.get(core).and_then(|core| core.cpu) else {
        return Ok(());
    };
    // A number beyond that of any CPU is refused as a CPU that this host does not have.
    let number = CpuId(u32::try_from(cpu).unwrap_or(u32::MAX));
    run_on(number).map_err(|e| io::Error::new(e.kind(), format!("core {core}: cpu = {cpu}: {e}")))
}

pub(crate) fn secret() -> io::Result<[u8; 16]> {
    let mut secret = [0; 16];
    std::fs::File::open("/dev/urandom")?.read_exact(&mut secret)?;
    Ok(secret)
}
