//! Bulk TCP: N flows, written as fast as the peer receives, or at a rate.

use super::sink::{epoll, wait};
use super::{Args, Control, Failure, tcp};
use nix::sys::epoll::{EpollEvent, EpollFlags};
use std::io::{ErrorKind, Write};
use std::net::Ipv4Addr;
use std::time::Duration;

/// Streams. Counts write calls as packets. Arguments: `--to IP --port P --flows N --size BYTES
/// [--rate WRITES_PER_S]`: the size of a write call, and the rate of all flows together.
pub(crate) fn run(mut args: Args, control: &mut Control) -> Result<(), Failure> {
    let to: Ipv4Addr = args.need("to")?;
    let port: u16 = args.need("port")?;
    let count: usize = args.need("flows")?;
    let size: usize = args.need("size")?;
    let rate: Option<f64> = args.take("rate")?;
    args.finish()?;
    let mut written = 0_u64;
    let epoll = epoll()?;
    let mut flows = Vec::with_capacity(count);
    for i in 0..count {
        let flow = tcp::connect(to, port)?;
        // At a rate each write must become a segment at once.
        flow.set_nodelay(rate.is_some())
            .map_err(|e| format!("cannot set up a flow: {e}"))?;
        flow.set_nonblocking(true)
            .map_err(|e| format!("cannot set up a flow: {e}"))?;
        epoll
            .add(&flow, EpollEvent::new(EpollFlags::EPOLLOUT, i as u64))
            .map_err(|e| format!("cannot watch a flow: {e}"))?;
        flows.push(flow);
    }
    let buffer = vec![0x5a_u8; size];
    let mut events = vec![EpollEvent::empty(); count.max(1)];
    control.start()?;
    while !control.done() {
        if let Some(rate) = rate {
            let due = Duration::from_secs_f64(written as f64 / rate);
            // A sleep's overshoot leaves it behind; it then writes the missed data at once.
            if let Some(early) = due.checked_sub(control.elapsed()) {
                std::thread::sleep(early.min(Duration::from_millis(50)));
                continue;
            }
        }
        let ready = wait(&epoll, &mut events)?;
        for event in &events[..ready] {
            let flow = &mut flows[event.data() as usize];
            match flow.write(&buffer) {
                Ok(bytes) => {
                    written += 1;
                    control.count(1, bytes as u64);
                }
                Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
                Err(e) => return Err(format!("cannot send to {to}: {e}")),
            }
        }
    }
    control.report()
}
