//! Baseline: a server of one thread with epoll, which sleeps or polls.

use super::service::Service;
use super::work::Work;
use super::{Args, Control, Failure, ServerReport, report};
use crate::worker::tcp;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use std::collections::HashMap;
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::os::fd::{AsFd, AsRawFd};

struct Flow {
    stream: TcpStream,
    /// Begin of a request that is incomplete.
    partial: Vec<u8>,
}

/// Serves with epoll. Counts requests, and empty polls in place of bytes. Arguments: `--port P
/// --work W --spin 0|1 --shared 0|1`. With `--spin 1` it never sleeps; with `--shared 1` it shares
/// the port with others.
pub(super) fn serve(mut args: Args, control: &mut Control) -> Result<(), Failure> {
    let port: u16 = args.need("port")?;
    let spin: u8 = args.need("spin")?;
    let shared: u8 = args.need("shared")?;
    let work: Work = args.need("work")?;
    args.finish()?;
    // A connection needs a descriptor; the soft limit is often 1,024.
    let limits = getrlimit(Resource::RLIMIT_NOFILE);
    limits
        .and_then(|(_, most)| setrlimit(Resource::RLIMIT_NOFILE, most, most))
        .map_err(|e| format!("cannot raise the limit of descriptors: {e}"))?;
    let listener = tcp::listen_beside(port, shared == 1)?;
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
    let mut service = Service::new(work);
    let mut flows: HashMap<u64, Flow> = HashMap::new();
    let mut events = [EpollEvent::empty(); 256];
    let mut buffer = vec![0; 64 << 10];
    let (mut turns, mut in_vain, mut counted) = (0_u32, 0, 0);
    // Reading the clock in each turn would be work that the other servers do not have.
    while !turns.is_multiple_of(64) || !control.done() {
        turns = turns.wrapping_add(1);
        let count = epoll.wait(&mut events, timeout).unwrap_or(0);
        in_vain += u64::from(count == 0 && spin != 0);
        for event in events.iter().take(count) {
            if event.data() == u64::MAX {
                while let Ok((stream, _)) = listener.accept() {
                    let set = stream
                        .set_nonblocking(true)
                        .and_then(|()| stream.set_nodelay(true));
                    set.map_err(|e| format!("cannot set up a connection: {e}"))?;
                    let key = stream.as_raw_fd() as u64;
                    epoll
                        .add(&stream, EpollEvent::new(EpollFlags::EPOLLIN, key))
                        .map_err(failed)?;
                    let partial = Vec::new();
                    flows.insert(key, Flow { stream, partial });
                }
            } else if let Some(flow) = flows.get_mut(&event.data())
                && !answer(flow, &mut buffer, &mut service, control)
            {
                flows.remove(&event.data());
            }
        }
        if spin == 0 {
            turns = 0;
        }
        if turns.is_multiple_of(64) {
            let requests = service.requests();
            control.count(requests - counted, in_vain);
            (counted, in_vain) = (requests, 0);
        }
    }
    // The client has gone, and its next one has the same ports. Remains of these connections would
    // delay each of its SYNs by a second.
    for flow in flows.values() {
        tcp::reset_on_close(&flow.stream)?;
    }
    drop(flows);
    report(&ServerReport::default())
}

/// Answers a request. Returns false if the connection has ended, or accepts nothing for a second.
fn answer(flow: &mut Flow, buffer: &mut [u8], service: &mut Service, control: &Control) -> bool {
    let mut patience = 100;
    let len = match flow.stream.read(buffer) {
        Ok(0) => return false,
        Ok(len) => len,
        Err(e) => return e.kind() == ErrorKind::WouldBlock,
    };
    let (mut rest, goes_on) = service.serve(&mut flow.partial, &buffer[..len]);
    while !rest.is_empty() {
        match flow.stream.write(rest) {
            Ok(sent) => rest = &rest[sent..],
            Err(e) if e.kind() == ErrorKind::WouldBlock => {
                let mut fds = [PollFd::new(flow.stream.as_fd(), PollFlags::POLLOUT)];
                // A client that has gone leaves many of these behind.
                if poll(&mut fds, PollTimeout::from(10_u8)) != Ok(1) {
                    patience -= 1;
                    if patience == 0 || control.done() {
                        return false;
                    }
                }
            }
            Err(_) => return false,
        }
    }
    goes_on
}
