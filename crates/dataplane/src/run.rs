//! A dataplane from its configuration: device, loop and control plane.

use crate::channel::SPANS;
use crate::config::{Config, Kind};
use crate::control::Control;
use crate::engine::{Engine, EngineError};
use cofferdam_xsk::{Device, LinkState, Memory, Port, PortError, Socket, SocketOptions, Tap};
use nix::ifaddrs::getifaddrs;
use nix::sched::{CpuSet, sched_setaffinity};
use nix::unistd::Pid;
use std::io::{self, Read};
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A dataplane that could not be run.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The device.
    #[error(transparent)]
    Port(#[from] PortError),
    /// An address that Linux has.
    #[error(
        "{address} is an address of Linux, on {device}: give the dataplane one of its own in [network], or take it from Linux (`ip address del` … `dev {device}`)"
    )]
    Address {
        /// The address.
        address: IpAddr,
        /// Who has it.
        device: String,
    },
    /// The loop.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// The control plane, or the CPU.
    #[error("{0}")]
    Os(#[from] io::Error),
}

/// What a dataplane has to say while it runs; one line each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Notice {
    /// Applications can attach.
    Ready,
    /// The device was set down, or came up again.
    Device(LinkState),
    /// This many applications were ended for breaking the rules; which was the last, and why.
    Offence {
        /// Since the last notice of this kind.
        count: u64,
        /// Application and reason.
        last: String,
    },
}

/// Runs a dataplane until `stop`, and tells `say` what its owner should know.
///
/// Undone at the end, and by the kernel after a kill: the redirecting program, its addresses,
/// the sockets. `stop` is noticed within 50 ms when its owner wakes nobody, and so is the end of
/// the device, which ends the dataplane with [`PortError::Gone`].
pub fn run(
    config: &Config,
    stop: &Arc<AtomicBool>,
    say: impl Fn(Notice) + Send + Sync,
) -> Result<(), RunError> {
    refuse_addresses_of_linux(config)?;
    let mut memory = Memory::with_spans(config.device.frames, config.device.frame_bytes, SPANS)?;
    match config.device.kind {
        Kind::Tap => {
            let mut mac = [2; 6];
            let random: [u8; 16] = secret()?;
            mac[1..].copy_from_slice(&random[..5]);
            let tap = Tap::open(&config.device.name, mac)?;
            serve(tap, memory, config, stop, &say)
        }
        Kind::Xdp(mode) => {
            let device = Device::open(&config.device.name, mode)?;
            let options = SocketOptions {
                queue: config.device.queue,
                ring_entries: (config.device.frames / 4)
                    .next_power_of_two()
                    .clamp(64, 4096),
                ..SocketOptions::default()
            };
            let socket = Socket::open(&device, &mut memory, options)?;
            // Claimed last: until now everything passed to Linux.
            for address in &config.addresses {
                device.claim(address.ip)?;
            }
            serve(socket, memory, config, stop, &say)
        }
    }
}

/// Both would answer for it, each with connections that the other resets.
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
        if config.addresses.iter().any(|own| own.ip == ip) {
            return Err(RunError::Address {
                address: ip,
                device: found.interface_name,
            });
        }
    }
    Ok(())
}

fn serve<P: Port>(
    port: P,
    memory: Memory,
    config: &Config,
    stop: &Arc<AtomicBool>,
    say: &(impl Fn(Notice) + Send + Sync),
) -> Result<(), RunError> {
    let facts = port.facts().clone();
    let stack = config.stack(facts.mac, facts.mtu_bytes, secret()?);
    let mut engine = Engine::new(port, memory, stack, config.options)?;
    let control = Control::open(config.clone(), facts.index, engine.remote(), engine.maker())?;
    let remote = engine.remote();
    std::thread::scope(|scope| {
        let control = std::thread::Builder::new()
            .name("control".to_owned())
            .spawn_scoped(scope, move || {
                let outcome = control.run(stop, say);
                stop.store(true, Ordering::Relaxed);
                // The loop may sleep without end.
                remote.order(crate::engine::Order::Look);
                outcome
            })?;
        let pinned = config.device.cpu.map_or(Ok(()), pin);
        if pinned.is_ok() {
            say(Notice::Ready);
            engine.run(stop);
        }
        stop.store(true, Ordering::Relaxed);
        // It ends within one of its short waits.
        let watched = control
            .join()
            .map_err(|_| io::Error::other("the control plane's thread panicked"))?;
        pinned?;
        Ok(watched?)
    })
}

fn pin(cpu: usize) -> io::Result<()> {
    let mut set = CpuSet::new();
    let pinned = set
        .set(cpu)
        .and_then(|()| sched_setaffinity(Pid::from_raw(0), &set));
    pinned.map_err(|e| {
        let e = io::Error::from(e);
        io::Error::new(e.kind(), format!("device.cpu = {cpu}: {e}"))
    })
}

fn secret() -> io::Result<[u8; 16]> {
    let mut secret = [0; 16];
    std::fs::File::open("/dev/urandom")?.read_exact(&mut secret)?;
    Ok(secret)
}
