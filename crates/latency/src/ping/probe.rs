//! Sends one probe and waits for its answer.

use super::icmp;
use crate::clock::monotonic_ns;
use cofferdam_bpf::latency::Class;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::socket::{
    AddressFamily, MsgFlags, SockFlag, SockProtocol, SockType, SockaddrStorage, recv, sendto,
    socket,
};
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream, UdpSocket};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::time::{Duration, Instant};

/// Protocol of the probes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Echo requests.
    Icmp,
    /// Datagrams to an echo server at this port.
    Udp(u16),
    /// Connections to this port, each closed at once.
    TcpConnect(u16),
}

/// Probe that was answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Probe {
    /// Number of the probe, from 1.
    pub sequence: u32,
    /// Protocol.
    pub class: Class,
    /// Address of the far end.
    pub remote: IpAddr,
    /// The local port; ICMP: the echo's number.
    pub number: u32,
    /// CLOCK_MONOTONIC before it was sent, ns.
    pub sent_ns: u64,
    /// CLOCK_MONOTONIC after it was answered, ns.
    pub received_ns: u64,
}

enum Socket {
    Icmp { fd: OwnedFd, raw: bool, id: u16 },
    Udp(UdpSocket),
    Tcp,
}

/// Sends probes from the namespace in which it was made.
pub struct Prober {
    socket: Socket,
    to: IpAddr,
    kind: Kind,
    payload: usize,
    sequence: u32,
}

impl Prober {
    /// Opens the sockets, in the calling thread's network namespace.
    pub fn open(to: IpAddr, kind: Kind, payload: usize) -> io::Result<Prober> {
        let socket = match kind {
            Kind::Icmp => icmp_socket(to)?,
            Kind::Udp(port) => {
                let any: IpAddr = match to {
                    IpAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
                    IpAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
                };
                let socket = UdpSocket::bind((any, 0))?;
                socket.connect((to, port))?;
                Socket::Udp(socket)
            }
            Kind::TcpConnect(_) => Socket::Tcp,
        };
        Ok(Prober {
            socket,
            to,
            kind,
            payload,
            sequence: 0,
        })
    }

    /// Sends one probe and waits for its answer; `None` if none came in time.
    ///
    /// # Errors
    /// The network refuses: no route, or no listener at the port.
    pub fn probe(&mut self, timeout: Duration) -> io::Result<Option<Probe>> {
        self.sequence += 1;
        match &self.socket {
            Socket::Icmp { fd, raw, id } => self.echo(fd, *raw, *id, timeout),
            Socket::Udp(socket) => self.datagram(socket, timeout),
            Socket::Tcp => self.connect(timeout),
        }
    }

    fn answered(&self, class: Class, number: u32, sent_ns: u64, received_ns: u64) -> Probe {
        Probe {
            sequence: self.sequence,
            class,
            remote: self.to,
            number,
            sent_ns,
            received_ns,
        }
    }

    fn echo(&self, fd: &OwnedFd, raw: bool, id: u16, wait: Duration) -> io::Result<Option<Probe>> {
        let number = (self.sequence & 0xffff) as u16;
        let request = icmp::request(self.to, id, number, self.payload);
        let to = SockaddrStorage::from(SocketAddr::new(self.to, 0));
        let end = Instant::now() + wait;
        let sent_ns = monotonic_ns();
        sendto(fd.as_raw_fd(), &request, &to, MsgFlags::empty())?;
        let mut buffer = vec![0; 65_536];
        let id = raw.then_some(id);
        while readable(fd, end)? {
            let n = recv(fd.as_raw_fd(), &mut buffer, MsgFlags::MSG_DONTWAIT);
            let received_ns = monotonic_ns();
            match n {
                Ok(n) if icmp::answers(&buffer[..n], self.to.is_ipv4(), raw, id, number) => {
                    let probe = self.answered(Class::Icmp, number.into(), sent_ns, received_ns);
                    return Ok(Some(probe));
                }
                Ok(_) | Err(nix::errno::Errno::EAGAIN) => {}
                Err(e) => return Err(e.into()),
            }
        }
        Ok(None)
    }

    fn datagram(&self, socket: &UdpSocket, wait: Duration) -> io::Result<Option<Probe>> {
        let mut request = self.sequence.to_be_bytes().to_vec();
        request.resize(self.payload.max(4), 0x5a);
        let port = socket.local_addr()?.port();
        let end = Instant::now() + wait;
        let sent_ns = monotonic_ns();
        socket.send(&request)?;
        let mut buffer = vec![0; 65_536];
        while readable(socket, end)? {
            let n = socket.recv(&mut buffer)?;
            let received_ns = monotonic_ns();
            if buffer[..n].starts_with(&self.sequence.to_be_bytes()) {
                let probe = self.answered(Class::Udp, port.into(), sent_ns, received_ns);
                return Ok(Some(probe));
            }
        }
        Ok(None)
    }

    fn connect(&self, wait: Duration) -> io::Result<Option<Probe>> {
        let Kind::TcpConnect(port) = self.kind else {
            return Ok(None);
        };
        let sent_ns = monotonic_ns();
        match TcpStream::connect_timeout(&SocketAddr::new(self.to, port), wait) {
            Ok(stream) => {
                let received_ns = monotonic_ns();
                let port = stream.local_addr()?.port();
                Ok(Some(self.answered(
                    Class::Tcp,
                    port.into(),
                    sent_ns,
                    received_ns,
                )))
            }
            Err(e) if e.kind() == io::ErrorKind::TimedOut => Ok(None),
            Err(e) => Err(e),
        }
    }
}

/// Opens a raw socket, or a ping socket if the right for a raw one is missing.
fn icmp_socket(to: IpAddr) -> io::Result<Socket> {
    let (family, protocol) = match to {
        IpAddr::V4(_) => (AddressFamily::Inet, SockProtocol::Icmp),
        IpAddr::V6(_) => (AddressFamily::Inet6, SockProtocol::IcmpV6),
    };
    // Another ping hardly has the same id, and the number is checked anyway.
    let id = (std::process::id() & 0xffff) as u16;
    let open = |kind| socket(family, kind, SockFlag::SOCK_CLOEXEC, protocol);
    match open(SockType::Raw) {
        Ok(fd) => Ok(Socket::Icmp { fd, raw: true, id }),
        Err(_) => {
            let fd = open(SockType::Datagram)?;
            Ok(Socket::Icmp { fd, raw: false, id })
        }
    }
}

fn readable(fd: &impl AsFd, end: Instant) -> io::Result<bool> {
    loop {
        let left = end.saturating_duration_since(Instant::now());
        let milliseconds = left.as_micros().div_ceil(1000).min(60_000) as u16;
        let mut fds = [PollFd::new(fd.as_fd(), PollFlags::POLLIN)];
        match poll(&mut fds, PollTimeout::from(milliseconds)) {
            Ok(0) => return Ok(false),
            Ok(_) => return Ok(true),
            Err(nix::errno::Errno::EINTR) => {}
            Err(e) => return Err(e.into()),
        }
    }
}
