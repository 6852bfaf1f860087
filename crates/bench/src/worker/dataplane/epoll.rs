//! The baseline: an echo server of one thread over epoll, that sleeps or polls.

use super::{Args, Control, Failure, ServerReport, report};
use crate::worker::tcp;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};
use std::collections::HashMap;
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::os::fd::{AsFd, AsRawFd};

/// `--port P --spin 0|1`: with `--spin 1` it never sleeps.
pub(super) fn serve(mut args: Args, control: &mut Control) -> Result<(), Failure> {
    let port: u16 = args.need("port")?;
    let spin: u8 = args.need("spin")?;
    args.finish()?;
    let listener = tcp::listen(port)?;
    let failed = |e: nix::errno::Errno| format!("epoll failed: {e}");
    let epoll = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC).map_err(failed)?;
    epoll
        .add(&listener, EpollEvent::new(EpollFlags::EPOLLIN, u64::MAX))
        .map_err(failed)?;
    let timeout = if spin == 0 {
        EpollTimeout::from(100_u8)
    } else {
        EpollTimeout::ZERO
    };
    control.start()?;
    let mut flows: HashMap<u64, TcpStream> = HashMap::new();
    let mut events = [EpollEvent::empty(); 256];
    let mut buffer = vec![0; 64 << 10];
    let mut turns = 0_u32;
    // Looking at the clock each turn would be work that the other servers do not do.
    while !turns.is_multiple_of(64) || !control.done() {
        turns = turns.wrapping_add(1);
        let count = epoll.wait(&mut events, timeout).unwrap_or(0);
        for event in events.iter().take(count) {
            if event.data() == u64::MAX {
                while let Ok((flow, _)) = listener.accept() {
                    let set = flow
                        .set_nonblocking(true)
                        .and_then(|()| flow.set_nodelay(true));
                    set.map_err(|e| format!("cannot set up a connection: {e}"))?;
                    let key = flow.as_raw_fd() as u64;
                    epoll
                        .add(&flow, EpollEvent::new(EpollFlags::EPOLLIN, key))
                        .map_err(failed)?;
                    flows.insert(key, flow);
                }
            } else if let Some(flow) = flows.get_mut(&event.data())
                && !echo(flow, &mut buffer)
            {
                flows.remove(&event.data());
            }
        }
        if spin == 0 {
            turns = 0;
        }
    }
    report(&ServerReport::default())
}

/// False when the connection has ended.
fn echo(flow: &mut TcpStream, buffer: &mut [u8]) -> bool {
    let len = match flow.read(buffer) {
        Ok(0) => return false,
        Ok(len) => len,
        Err(e) => return e.kind() == ErrorKind::WouldBlock,
    };
    let mut rest = &buffer[..len];
    while !rest.is_empty() {
        match flow.write(rest) {
            Ok(sent) => rest = &rest[sent..],
            Err(e) if e.kind() == ErrorKind::WouldBlock => {
                let mut fds = [PollFd::new(flow.as_fd(), PollFlags::POLLOUT)];
                if poll(&mut fds, PollTimeout::from(1000_u16)) != Ok(1) {
                    return false;
                }
            }
            Err(_) => return false,
        }
    }
    true
}
