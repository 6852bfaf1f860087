//! Shuffle: many concurrent TCP flows that send in bursts, by a trace.

use super::sink::epoll;
use super::trace::{LARGEST_TRACE_BYTES, Trace};
use super::{Args, Control, Failure, tcp};
use nix::sys::epoll::{EpollEvent, EpollFlags, EpollTimeout};
use std::io::{ErrorKind, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::time::Duration;

const WRITE_BYTES: usize = 64 * 1024;

struct Flow {
    socket: TcpStream,
    backlog_bytes: u64,
}

/// Plays the trace. A flow that is still busy when its next burst is due sends that burst later.
/// Counts write calls as packets. Arguments: `--to IP --port P [--trace FILE]`.
pub(crate) fn run(mut args: Args, control: &mut Control) -> Result<(), Failure> {
    let to: Ipv4Addr = args.need("to")?;
    let port: u16 = args.need("port")?;
    let trace = match args.take::<String>("trace")? {
        None => Trace::terasort(),
        Some(path) => cofferdam_paths::read_text(path.as_ref(), LARGEST_TRACE_BYTES)
            .map_err(|e| format!("cannot read the trace {path}: {e}"))
            .and_then(|text| Trace::parse(&text).map_err(|e| format!("{path}, {e}")))?,
    };
    args.finish()?;
    let epoll = epoll()?;
    let mut flows = Vec::new();
    for i in 0..trace.flows() {
        let socket = tcp::connect(to, port)?;
        socket
            .set_nonblocking(true)
            .map_err(|e| format!("cannot set up a flow: {e}"))?;
        // Edge-triggered: an idle flow is always writable and must not wake the loop.
        let events = EpollFlags::EPOLLOUT | EpollFlags::EPOLLET;
        epoll
            .add(&socket, EpollEvent::new(events, u64::from(i)))
            .map_err(|e| format!("cannot watch a flow: {e}"))?;
        flows.push(Flow {
            socket,
            backlog_bytes: 0,
        });
    }
    let buffer = vec![0x5a_u8; WRITE_BYTES];
    let mut events = vec![EpollEvent::empty(); flows.len()];
    let (mut round, mut next) = (0_u32, 0_usize);
    control.start()?;
    while !control.done() {
        let burst = trace.bursts[next];
        let due = trace.length * round + burst.start;
        let wait = due.saturating_sub(control.elapsed());
        if wait.is_zero() {
            let flow = &mut flows[burst.flow as usize];
            flow.backlog_bytes += burst.bytes;
            push(flow, &buffer, control)?;
            next += 1;
            if next == trace.bursts.len() {
                (round, next) = (round + 1, 0);
            }
            continue;
        }
        let timeout_ms = wait.min(Duration::from_millis(50)).as_millis() as u16 + 1;
        let ready = match epoll.wait(&mut events, EpollTimeout::from(timeout_ms)) {
            Ok(n) => n,
            Err(nix::errno::Errno::EINTR) => 0,
            Err(e) => return Err(format!("cannot wait: {e}")),
        };
        for event in &events[..ready] {
            push(&mut flows[event.data() as usize], &buffer, control)?;
        }
    }
    control.report()
}

/// Writes until the flow is idle or its socket is full.
fn push(flow: &mut Flow, buffer: &[u8], control: &Control) -> Result<(), Failure> {
    while flow.backlog_bytes > 0 && !control.done() {
        let size = flow.backlog_bytes.min(buffer.len() as u64) as usize;
        match flow.socket.write(&buffer[..size]) {
            Ok(bytes) => {
                flow.backlog_bytes -= bytes as u64;
                control.count(1, bytes as u64);
            }
            Err(e) if e.kind() == ErrorKind::WouldBlock => return Ok(()),
            Err(e) if e.kind() == ErrorKind::Interrupted => {}
            Err(e) => return Err(format!("cannot send a burst: {e}")),
        }
    }
    Ok(())
}
