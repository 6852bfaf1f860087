//! The TCP and UDP sockets of a network namespace with their cgroups, by sock_diag.
//! Source: sock_diag(7), `linux/inet_diag.h`.

use super::message::{Message, attributes};
use super::socket::Rtnetlink;
use cofferdam_types::CgroupId;
use netlink_sys::protocols::NETLINK_SOCK_DIAG;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

const SOCK_DIAG_BY_FAMILY: u16 = 20;
/// struct inet_diag_req_v2: family, protocol, extensions, padding, states, socket id.
const REQUEST_BYTES: usize = 56;
const ALL_STATES: u32 = u32::MAX;
/// struct inet_diag_msg up to its attributes.
const ANSWER_BYTES: usize = 72;
/// Offset of the owner's number in it.
const ANSWER_UID: usize = 64;
/// Cookie of a query for a socket by its addresses alone (INET_DIAG_NOCOOKIE).
const NO_COOKIE: [u8; 8] = [0xff; 8];
const INET_DIAG_CGROUP_ID: u16 = 21;

/// TCP or UDP socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct InetSocket {
    /// Number of its protocol: 6 or 17.
    pub protocol: u8,
    /// Address at which it receives; the unspecified address for all. An IPv4-mapped address is
    /// converted to IPv4.
    pub local: SocketAddr,
    /// Address of the other end, if it is connected.
    pub remote: Option<SocketAddr>,
    /// Cgroup in the unified hierarchy; `None` if the kernel does not report it (before Linux 5.8).
    pub cgroup: Option<CgroupId>,
}

/// Queries the sockets of one network namespace.
pub struct SockDiag(Rtnetlink);

impl SockDiag {
    /// Opens it in the calling thread's network namespace, where it stays.
    ///
    /// # Errors
    /// The errors of socket(2) and bind(2).
    pub fn open() -> io::Result<SockDiag> {
        Rtnetlink::open_protocol(NETLINK_SOCK_DIAG).map(SockDiag)
    }

    /// Lists the TCP and UDP sockets of the namespace, IPv4 and IPv6. A protocol that the kernel
    /// lacks has none.
    ///
    /// # Errors
    /// The errors of the kernel's answer, and `Unsupported` if it has sock_diag for neither
    /// protocol.
    pub fn sockets(&mut self) -> io::Result<Vec<InetSocket>> {
        let mut found = Vec::new();
        let mut answered = false;
        for protocol in [libc::IPPROTO_TCP as u8, libc::IPPROTO_UDP as u8] {
            for family in [libc::AF_INET as u8, libc::AF_INET6 as u8] {
                let mut request = [0; REQUEST_BYTES];
                (request[0], request[1]) = (family, protocol);
                request[4..8].copy_from_slice(&ALL_STATES.to_ne_bytes());
                let flags = libc::NLM_F_DUMP;
                let result = self.0.query(SOCK_DIAG_BY_FAMILY, flags, &request, |m| {
                    found.extend(inet_socket(m, protocol));
                });
                match result {
                    Ok(_) => answered = true,
                    Err(e) if e.raw_os_error() == Some(libc::ENOENT) => {}
                    Err(e) => return Err(e),
                }
            }
        }
        if !answered {
            let why = "the kernel has no sock_diag (CONFIG_INET_DIAG), \
                       which tells whose sockets are whose";
            return Err(io::Error::new(io::ErrorKind::Unsupported, why));
        }
        Ok(found)
    }

    /// Returns the number of the user whose TCP socket is at `local` and connected to `remote`;
    /// `None` if this network namespace has no such socket. Costs one look-up in the kernel,
    /// however many there are.
    ///
    /// # Errors
    /// The errors of the kernel's answer.
    pub fn owner_of_tcp(
        &mut self,
        local: SocketAddr,
        remote: SocketAddr,
    ) -> io::Result<Option<u32>> {
        let (local_ip, remote_ip) = (local.ip().to_canonical(), remote.ip().to_canonical());
        let mut request = [0; REQUEST_BYTES];
        request[1] = libc::IPPROTO_TCP as u8;
        request[4..8].copy_from_slice(&ALL_STATES.to_ne_bytes());
        request[8..10].copy_from_slice(&local.port().to_be_bytes());
        request[10..12].copy_from_slice(&remote.port().to_be_bytes());
        let mut put = |at: usize, ip: IpAddr| match ip {
            IpAddr::V4(v4) => request[at..at + 4].copy_from_slice(&v4.octets()),
            IpAddr::V6(v6) => request[at..at + 16].copy_from_slice(&v6.octets()),
        };
        put(12, local_ip);
        put(28, remote_ip);
        request[48..].copy_from_slice(&NO_COOKIE);
        request[0] = match local_ip {
            IpAddr::V4(_) => libc::AF_INET as u8,
            IpAddr::V6(_) => libc::AF_INET6 as u8,
        };
        let mut owner = None;
        let result = self.0.query(SOCK_DIAG_BY_FAMILY, 0, &request, |m| {
            if let Some(bytes) = m.payload.get(ANSWER_UID..).and_then(<[u8]>::first_chunk) {
                owner = Some(u32::from_ne_bytes(*bytes));
            }
        });
        match result {
            Ok(_) => Ok(owner),
            Err(e) if e.raw_os_error() == Some(libc::ENOENT) => Ok(None),
            Err(e) => Err(e),
        }
    }
}

/// Decodes the socket of `protocol` in an answer; `None` for other messages, and for a truncated
/// one.
pub fn inet_socket(message: &Message<'_>, protocol: u8) -> Option<InetSocket> {
    if message.kind != SOCK_DIAG_BY_FAMILY {
        return None;
    }
    // family, state, timer, retrans; ports; local address; remote address; interface; cookie; …
    let payload = message.payload;
    let is_v6 = match libc::c_int::from(*payload.first()?) {
        libc::AF_INET => false,
        libc::AF_INET6 => true,
        _ => return None,
    };
    let port = |at| Some(u16::from_be_bytes(*payload.get(at..)?.first_chunk()?));
    let address = |at: usize| -> Option<IpAddr> {
        let bytes = payload.get(at..)?;
        Some(match is_v6 {
            false => Ipv4Addr::from(*bytes.first_chunk::<4>()?).into(),
            true => Ipv6Addr::from(*bytes.first_chunk::<16>()?).to_canonical(),
        })
    };
    let remote = SocketAddr::new(address(24)?, port(6)?);
    let cgroup = attributes(payload.get(ANSWER_BYTES..)?)
        .find(|(kind, _)| *kind == INET_DIAG_CGROUP_ID)
        .and_then(|(_, value)| Some(CgroupId(u64::from_ne_bytes(*value.first_chunk()?))));
    Some(InetSocket {
        protocol,
        local: SocketAddr::new(address(8)?, port(4)?),
        remote: (remote.port() != 0).then_some(remote),
        cgroup,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(family: u8, local: &[u8], attributes: &[u8]) -> Vec<u8> {
        let mut payload = vec![0; ANSWER_BYTES];
        payload[0] = family;
        payload[4..6].copy_from_slice(&4711_u16.to_be_bytes());
        payload[8..8 + local.len()].copy_from_slice(local);
        payload.extend(attributes);
        payload
    }

    fn read(payload: &[u8]) -> Option<InetSocket> {
        let message = Message {
            kind: SOCK_DIAG_BY_FAMILY,
            flags: 0,
            sequence: 1,
            payload,
        };
        inet_socket(&message, 17)
    }

    #[test]
    fn a_socket_is_told_with_its_cgroup() {
        let cgroup = super::super::message::attribute(INET_DIAG_CGROUP_ID, &77_u64.to_ne_bytes());
        let mut payload = answer(libc::AF_INET as u8, &[10, 0, 0, 2], &cgroup);
        let expected = InetSocket {
            protocol: 17,
            local: "10.0.0.2:4711".parse().unwrap(),
            remote: None,
            cgroup: Some(CgroupId(77)),
        };
        assert_eq!(read(&payload), Some(expected));
        payload[6..8].copy_from_slice(&80_u16.to_be_bytes());
        payload[24..28].copy_from_slice(&[10, 0, 0, 1]);
        let remote = Some("10.0.0.1:80".parse().unwrap());
        assert_eq!(read(&payload), Some(InetSocket { remote, ..expected }));
    }

    /// Promise 73.
    #[test]
    fn the_owner_of_a_connected_socket_is_found() {
        use std::net::{TcpListener, TcpStream};
        let mut sockets = SockDiag::open().unwrap();
        for address in ["127.0.0.1:0", "[::1]:0"] {
            let listener = TcpListener::bind(address).unwrap();
            let server = listener.local_addr().unwrap();
            let client = TcpStream::connect(server).unwrap();
            let own = client.local_addr().unwrap();
            let mut owner = |local, remote| sockets.owner_of_tcp(local, remote).unwrap();
            // The user of the test.
            let uid =
                std::os::unix::fs::MetadataExt::uid(&std::fs::metadata("/proc/self").unwrap());
            assert_eq!(owner(own, server), Some(uid), "{address}");
            assert_eq!(owner(SocketAddr::new(own.ip(), 1), server), None);
        }
        let v6 = TcpListener::bind("[::]:0").unwrap();
        let port = v6.local_addr().unwrap().port();
        let client = TcpStream::connect(("127.0.0.1", port)).unwrap();
        let (accepted, remote) = v6.accept().unwrap();
        let local = accepted.local_addr().unwrap();
        assert!(
            sockets.owner_of_tcp(remote, local).unwrap().is_some(),
            "{client:?}"
        );
    }

    #[test]
    fn mapped_addresses_are_ipv4_and_others_are_not() {
        let mapped = Ipv4Addr::new(10, 0, 0, 2).to_ipv6_mapped().octets();
        let socket = read(&answer(libc::AF_INET6 as u8, &mapped, &[])).unwrap();
        assert_eq!(socket.local, "10.0.0.2:4711".parse().unwrap());
        let all = read(&answer(libc::AF_INET6 as u8, &[0; 16], &[])).unwrap();
        assert_eq!(all.local, "[::]:4711".parse().unwrap());
        assert_eq!(all.cgroup, None);
    }

    #[test]
    fn what_is_cut_off_or_of_another_family_is_nothing() {
        let whole = answer(libc::AF_INET6 as u8, &[1; 16], &[]);
        for length in 0..ANSWER_BYTES {
            assert_eq!(read(&whole[..length]), None, "{length}");
        }
        assert_eq!(read(&answer(libc::AF_UNIX as u8, &[], &[])), None);
    }
}
