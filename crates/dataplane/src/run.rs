//! A dataplane from its configuration: device, loop and control plane.

use crate::config::{Config, Kind};
use crate::control::Control;
use crate::engine::{Engine, EngineError};
use cofferdam_xsk::{Device, Memory, Port, PortError, Socket, SocketOptions, Tap};
use nix::sched::{CpuSet, sched_setaffinity};
use nix::unistd::Pid;
use std::io::{self, Read};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A dataplane that could not be run.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The device.
    #[error(transparent)]
    Port(#[from] PortError),
    /// The loop.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// The control plane, or the CPU.
    #[error("{0}")]
    Os(#[from] io::Error),
}

/// Runs a dataplane until `stop`. Calls `ready` when applications can attach.
///
/// Undone at the end, and by the kernel after a kill: the redirecting program, its addresses,
/// the sockets. `stop` is noticed within 50 ms when its owner wakes nobody.
pub fn run(config: &Config, stop: &Arc<AtomicBool>, ready: impl FnOnce()) -> Result<(), RunError> {
    let mut memory = Memory::new(config.device.frames, config.device.frame_bytes)?;
    match config.device.kind {
        Kind::Tap => {
            let mut mac = [2; 6];
            let random: [u8; 16] = secret()?;
            mac[1..].copy_from_slice(&random[..5]);
            let tap = Tap::open(&config.device.name, mac)?;
            serve(tap, memory, config, stop, ready)
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
            serve(socket, memory, config, stop, ready)
        }
    }
}

fn serve<P: Port>(
    port: P,
    memory: Memory,
    config: &Config,
    stop: &Arc<AtomicBool>,
    ready: impl FnOnce(),
) -> Result<(), RunError> {
    let facts = port.facts();
    let stack = config.stack(facts.mac, facts.mtu_bytes, secret()?);
    let mut engine = Engine::new(port, memory, stack, config.options)?;
    let control = Control::open(config.clone(), engine.remote(), engine.maker())?;
    let remote = engine.remote();
    let watched = stop.clone();
    let control = std::thread::Builder::new()
        .name("control".to_owned())
        .spawn(move || {
            control.run(&watched);
            // The loop may sleep without end.
            remote.order(crate::engine::Order::Look);
        })?;
    if let Some(cpu) = config.device.cpu {
        let mut set = CpuSet::new();
        set.set(cpu).map_err(io::Error::from)?;
        sched_setaffinity(Pid::from_raw(0), &set).map_err(io::Error::from)?;
    }
    ready();
    engine.run(stop);
    stop.store(true, Ordering::Relaxed);
    // It ends within one of its short waits.
    let _ = control.join();
    Ok(())
}

fn secret() -> io::Result<[u8; 16]> {
    let mut secret = [0; 16];
    std::fs::File::open("/dev/urandom")?.read_exact(&mut secret)?;
    Ok(secret)
}
