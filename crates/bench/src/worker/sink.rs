//! Sinks: read, count and discard all received data.

use super::mmsg::Batch;
use super::{Args, Control, Failure, tcp};
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};
use std::io::{ErrorKind, Read};
use std::net::{Ipv4Addr, TcpStream, UdpSocket};
use std::os::fd::AsFd;

/// Datagrams a system call.
const BATCH: usize = 64;
/// Largest datagram that is read completely; longer ones are cut but counted in full.
const DATAGRAM_BYTES: usize = 2_048;
/// Bytes a read on a TCP flow.
const READ_BYTES: usize = 256 * 1024;
/// Time between two checks of an idle sink for its end, milliseconds.
const IDLE_MS: u8 = 50;

/// Receives on N sockets at ports P, P + 1, … Arguments: `--port P --flows N`.
pub(crate) fn udp(mut args: Args, control: &mut Control) -> Result<(), Failure> {
    let port: u16 = args.need("port")?;
    let flows: u16 = args.need("flows")?;
    args.finish()?;
    let sockets = (0..flows)
        .map(|i| UdpSocket::bind((Ipv4Addr::UNSPECIFIED, port + i)))
        .collect::<std::io::Result<Vec<_>>>()
        .map_err(|e| format!("cannot bind {flows} ports from {port}: {e}"))?;
    let epoll = epoll()?;
    for (i, socket) in sockets.iter().enumerate() {
        epoll
            .add(socket, EpollEvent::new(EpollFlags::EPOLLIN, i as u64))
            .map_err(|e| format!("cannot watch a socket: {e}"))?;
    }
    let mut batch = Batch::new(BATCH, DATAGRAM_BYTES);
    let mut events = vec![EpollEvent::empty(); sockets.len().max(1)];
    control.start()?;
    while !control.done() {
        let ready = wait(&epoll, &mut events)?;
        for event in &events[..ready] {
            let socket = &sockets[event.data() as usize];
            match batch.receive(socket.as_fd()) {
                Ok((packets, bytes)) => control.count(packets as u64, bytes),
                Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
                Err(e) => return Err(format!("cannot receive: {e}")),
            }
        }
    }
    control.report()
}

/// Accepts any number of flows. Counts read calls as packets. Arguments: `--port P`.
pub(crate) fn tcp(mut args: Args, control: &mut Control) -> Result<(), Failure> {
    const LISTENER: u64 = u64::MAX;
    let port: u16 = args.need("port")?;
    args.finish()?;
    let listener = tcp::listen(port)?;
    let epoll = epoll()?;
    epoll
        .add(&listener, EpollEvent::new(EpollFlags::EPOLLIN, LISTENER))
        .map_err(|e| format!("cannot watch the listener: {e}"))?;
    let mut flows: Vec<Option<TcpStream>> = Vec::new();
    let mut events = vec![EpollEvent::empty(); 256];
    let mut buffer = vec![0_u8; READ_BYTES];
    control.start()?;
    while !control.done() {
        let ready = wait(&epoll, &mut events)?;
        for event in &events[..ready] {
            let token = event.data();
            if token == LISTENER {
                while let Ok((flow, _)) = listener.accept() {
                    flow.set_nonblocking(true)
                        .map_err(|e| format!("cannot set up a flow: {e}"))?;
                    epoll
                        .add(
                            &flow,
                            EpollEvent::new(EpollFlags::EPOLLIN, flows.len() as u64),
                        )
                        .map_err(|e| format!("cannot watch a flow: {e}"))?;
                    flows.push(Some(flow));
                }
                continue;
            }
            let slot = &mut flows[token as usize];
            let Some(flow) = slot else { continue };
            match flow.read(&mut buffer) {
                Ok(0) => *slot = None,
                Ok(bytes) => control.count(1, bytes as u64),
                Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
                // A sender that has ended resets its flows; that is no failure of the sink.
                Err(_) => *slot = None,
            }
        }
    }
    control.report()
}

pub(crate) fn epoll() -> Result<Epoll, Failure> {
    Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC).map_err(|e| format!("cannot make an epoll: {e}"))
}

pub(crate) fn wait(epoll: &Epoll, events: &mut [EpollEvent]) -> Result<usize, Failure> {
    match epoll.wait(events, EpollTimeout::from(IDLE_MS)) {
        Ok(n) => Ok(n),
        Err(nix::errno::Errno::EINTR) => Ok(0),
        Err(e) => Err(format!("cannot wait for packets: {e}")),
    }
}
