//! TCP sockets of all workers: with congestion control cubic, whatever the host's default, because
//! BBR paces by timers and would move work between runs.

use super::Failure;
use nix::sys::socket::{
    AddressFamily, Backlog, SockFlag, SockType, SockaddrIn, bind, listen as nix_listen, setsockopt,
    socket, sockopt,
};
use std::ffi::OsString;
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::time::{Duration, Instant};

fn cubic(fd: &impl AsFd) -> Result<(), Failure> {
    setsockopt(fd, sockopt::TcpCongestion, &OsString::from("cubic")).map_err(|e| {
        format!(
            "cannot set TCP congestion control to cubic: {e}: load it with 'modprobe tcp_cubic'"
        )
    })
}

fn new_socket() -> Result<OwnedFd, Failure> {
    let fd = socket(
        AddressFamily::Inet,
        SockType::Stream,
        SockFlag::SOCK_CLOEXEC,
        None,
    )
    .map_err(|e| format!("cannot make a socket: {e}"))?;
    cubic(&fd)?;
    Ok(fd)
}

/// Non-blocking listener on all addresses; accepted flows inherit cubic.
pub(crate) fn listen(port: u16) -> Result<TcpListener, Failure> {
    listen_beside(port, false)
}

/// Non-blocking listener that, if `shared`, shares its port with others. The kernel gives each new
/// flow to one of them, by its hash.
pub(crate) fn listen_beside(port: u16, shared: bool) -> Result<TcpListener, Failure> {
    let failed = |e: nix::errno::Errno| format!("cannot listen on port {port}: {e}");
    let fd = new_socket()?;
    setsockopt(&fd, sockopt::ReuseAddr, &true).map_err(failed)?;
    setsockopt(&fd, sockopt::ReusePort, &shared).map_err(failed)?;
    bind(fd.as_raw_fd(), &SockaddrIn::new(0, 0, 0, 0, port)).map_err(failed)?;
    nix_listen(&fd, Backlog::new(1024).map_err(failed)?).map_err(failed)?;
    let listener = TcpListener::from(fd);
    listener
        .set_nonblocking(true)
        .map_err(|e| format!("cannot listen on port {port}: {e}"))?;
    Ok(listener)
}

/// Makes closing a connection send RST. No state then waits for a peer that may have gone, and no
/// port is in TIME_WAIT for the next connection.
pub(crate) fn reset_on_close(flow: &TcpStream) -> Result<(), Failure> {
    let linger = libc::linger {
        l_onoff: 1,
        l_linger: 0,
    };
    setsockopt(flow, sockopt::Linger, &linger).map_err(|e| format!("cannot set linger: {e}"))
}

/// Opens a blocking connection. Retries for two seconds: the path may not be ready yet.
pub(crate) fn connect(to: Ipv4Addr, port: u16) -> Result<TcpStream, Failure> {
    let deadline = Instant::now() + Duration::from_secs(2);
    let [a, b, c, d] = to.octets();
    loop {
        let fd = new_socket()?;
        match nix::sys::socket::connect(fd.as_raw_fd(), &SockaddrIn::new(a, b, c, d, port)) {
            Ok(()) => return Ok(TcpStream::from(fd)),
            Err(_) if Instant::now() < deadline => std::thread::sleep(Duration::from_millis(50)),
            Err(e) => return Err(format!("cannot connect to {to} port {port}: {e}")),
        }
    }
}
