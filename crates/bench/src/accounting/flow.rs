//! One flow from the peer to a container, sent packet by packet. This process has both ends, and
//! nothing sleeps on them, so the cost of a packet includes no wake-up.

use nix::sys::socket::{
    AddressFamily, MsgFlags, SockFlag, SockProtocol, SockType, SockaddrStorage, recv, sendto,
    setsockopt, socket, sockopt,
};
use std::ffi::OsString;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::{AsRawFd, OwnedFd};

/// Packet of a flow: IPv6 if the target's address is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shape {
    /// Datagram with this number of payload bytes.
    Udp(usize),
    /// Full segment of an open connection.
    Tcp,
    /// Echo request; the container's kernel answers it.
    Icmp,
}

/// Payload of a TCP segment: it fills an MTU of 1500 bytes in IPv6 with timestamps.
const SEGMENT_BYTES: usize = 1_428;
/// Payload of an echo request.
const ECHO_BYTES: usize = 56;

/// Port of a flow. Each flow has its own: an IPv6 socket would take the IPv4 port as well.
fn port(shape: Shape, v6: bool) -> u16 {
    let base = if v6 { 9_000 } else { 7_000 };
    match shape {
        Shape::Udp(bytes) => base + 1 + bytes.min(1_500) as u16,
        Shape::Tcp | Shape::Icmp => base,
    }
}

/// End of a flow in the container.
pub(super) enum Receiver {
    Udp(UdpSocket),
    Tcp(TcpListener, Option<TcpStream>),
    /// The kernel.
    Icmp,
}

impl Receiver {
    /// Binds the socket. Must run inside the container's namespace.
    pub fn bind(shape: Shape, v6: bool) -> io::Result<Receiver> {
        let any: IpAddr = match v6 {
            true => Ipv6Addr::UNSPECIFIED.into(),
            false => Ipv4Addr::UNSPECIFIED.into(),
        };
        let at = SocketAddr::new(any, port(shape, v6));
        Ok(match shape {
            Shape::Udp(_) => {
                let socket = UdpSocket::bind(at)?;
                setsockopt(&socket, sockopt::RcvBufForce, &(4 << 20))?;
                socket.set_nonblocking(true)?;
                Receiver::Udp(socket)
            }
            Shape::Tcp => Receiver::Tcp(TcpListener::bind(at)?, None),
            Shape::Icmp => Receiver::Icmp,
        })
    }
}

/// End of a flow at the peer.
enum Sender {
    Udp(UdpSocket),
    Tcp(TcpStream),
    Icmp(OwnedFd, SockaddrStorage),
}

/// Flow with both ends.
pub(super) struct Flow {
    sender: Sender,
    receiver: Receiver,
    packet: Vec<u8>,
    buffer: Vec<u8>,
}

impl Flow {
    /// Connects to the receiver in the container at `to`. Must run inside the peer's namespace.
    pub fn connect(shape: Shape, to: IpAddr, mut receiver: Receiver) -> io::Result<Flow> {
        let (sender, bytes) = match shape {
            Shape::Udp(bytes) => {
                let any: IpAddr = match to {
                    IpAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
                    IpAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
                };
                let socket = UdpSocket::bind((any, 0))?;
                socket.connect((to, port(shape, to.is_ipv6())))?;
                (Sender::Udp(socket), bytes)
            }
            Shape::Tcp => {
                let stream = TcpStream::connect((to, port(shape, to.is_ipv6())))?;
                stream.set_nodelay(true)?;
                // The host's default congestion control may pace (BBR); a batch is sent at once.
                setsockopt(&stream, sockopt::TcpCongestion, &OsString::from("reno"))?;
                (Sender::Tcp(stream), SEGMENT_BYTES)
            }
            Shape::Icmp => (raw_socket(to)?, ECHO_BYTES),
        };
        if let Receiver::Tcp(listener, accepted) = &mut receiver {
            let (stream, _) = listener.accept()?;
            stream.set_nonblocking(true)?;
            *accepted = Some(stream);
        }
        let packet = match (shape, to) {
            (Shape::Icmp, IpAddr::V4(_)) => echo_request(8, bytes),
            (Shape::Icmp, IpAddr::V6(_)) => echo_request(128, bytes),
            _ => vec![0x5a; bytes],
        };
        Ok(Flow {
            sender,
            receiver,
            packet,
            buffer: vec![0; 1 << 17],
        })
    }

    /// Sends one packet.
    pub fn send(&mut self) -> io::Result<()> {
        match &mut self.sender {
            Sender::Udp(socket) => socket.send(&self.packet).map(drop),
            Sender::Tcp(stream) => stream.write_all(&self.packet),
            Sender::Icmp(socket, to) => {
                let flags = MsgFlags::empty();
                sendto(socket.as_raw_fd(), &self.packet, to, flags)?;
                Ok(())
            }
        }
    }

    /// Reads and discards all data at both ends.
    pub fn drain(&mut self) -> io::Result<()> {
        let buffer = &mut self.buffer;
        match &mut self.receiver {
            Receiver::Udp(socket) => until_empty(|| socket.recv(buffer))?,
            Receiver::Tcp(_, Some(stream)) => until_empty(|| stream.read(buffer))?,
            Receiver::Tcp(_, None) | Receiver::Icmp => {}
        }
        if let Sender::Icmp(socket, _) = &self.sender {
            let flags = MsgFlags::MSG_DONTWAIT;
            until_empty(|| Ok(recv(socket.as_raw_fd(), buffer, flags)?))?;
        }
        Ok(())
    }
}

fn until_empty(mut take: impl FnMut() -> io::Result<usize>) -> io::Result<()> {
    loop {
        match take() {
            Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
            Ok(_) => {}
            Err(e) if e.kind() == ErrorKind::WouldBlock => return Ok(()),
            Err(e) => return Err(e),
        }
    }
}

fn raw_socket(to: IpAddr) -> io::Result<Sender> {
    let (family, protocol) = match to {
        IpAddr::V4(_) => (AddressFamily::Inet, SockProtocol::Icmp),
        IpAddr::V6(_) => (AddressFamily::Inet6, SockProtocol::IcmpV6),
    };
    let socket = socket(family, SockType::Raw, SockFlag::SOCK_CLOEXEC, protocol)?;
    Ok(Sender::Icmp(socket, SocketAddr::new(to, 0).into()))
}

/// Echo request: type, code, checksum, id, sequence, payload (RFC 792, RFC 4443). The kernel fills
/// in the checksum of ICMPv6.
fn echo_request(kind: u8, bytes: usize) -> Vec<u8> {
    let mut packet = vec![kind, 0, 0, 0, 0x0c, 0xf0, 0, 1];
    packet.resize(8 + bytes, 0x5a);
    if kind == 8 {
        let words = packet.chunks(2);
        let sum: u32 = words
            .map(|w| u32::from(w[0]) << 8 | u32::from(w.get(1).copied().unwrap_or(0)))
            .sum();
        let folded = (sum & 0xffff) + (sum >> 16);
        let checksum = !((folded & 0xffff) + (folded >> 16)) as u16;
        packet[2..4].copy_from_slice(&checksum.to_be_bytes());
    }
    packet
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_echo_request_sums_to_all_ones() {
        let packet = echo_request(8, 56);
        let sum: u32 = packet
            .chunks(2)
            .map(|w| u32::from(w[0]) << 8 | u32::from(w[1]))
            .sum();
        assert_eq!((sum & 0xffff) + (sum >> 16), 0xffff);
        assert_eq!(packet.len(), 64);
    }
}
