//! A blocking netlink socket: one request, its answers.

use super::message::{self, LinkMessage, NETNSA_FD, attribute, link_message, netlink_messages};
use netlink_sys::{Socket, SocketAddr, protocols::NETLINK_ROUTE};
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;

/// Most attempts at a dump that the kernel marks as inconsistent.
const DUMP_ATTEMPTS: u32 = 8;
/// Leaves out statistics: they are most of a link message.
const RTEXT_FILTER_SKIP_STATS: u32 = 1 << 3;
const IFLA_EXT_MASK: u16 = 29;

/// Socket in the network namespace of the thread that opened it; it stays there.
pub struct Rtnetlink {
    socket: Socket,
    sequence: u32,
}

impl Rtnetlink {
    /// Opens it in the calling thread's network namespace.
    pub fn open() -> io::Result<Rtnetlink> {
        Rtnetlink::open_protocol(NETLINK_ROUTE)
    }

    /// Opens a socket of another netlink family; the framing is the same.
    pub fn open_protocol(protocol: isize) -> io::Result<Rtnetlink> {
        let mut socket = Socket::new(protocol)?;
        socket.bind_auto()?;
        socket.connect(&SocketAddr::new(0, 0))?;
        Ok(Rtnetlink {
            socket,
            sequence: 0,
        })
    }

    /// Lists all devices of the socket's namespace.
    pub fn links(&mut self) -> io::Result<Vec<LinkMessage>> {
        let mut payload = vec![0; 16];
        payload.extend(attribute(
            IFLA_EXT_MASK,
            &RTEXT_FILTER_SKIP_STATS.to_ne_bytes(),
        ));
        let mut links = Vec::new();
        for _ in 0..DUMP_ATTEMPTS {
            links.clear();
            let consistent = self.query(libc::RTM_GETLINK, libc::NLM_F_DUMP, &payload, |m| {
                links.extend(link_message(m));
            })?;
            if consistent {
                break;
            }
        }
        // The last try is returned even if devices came and went all the time: each such change
        // also raises an event.
        Ok(links)
    }

    /// Returns the number of the namespace `file` in the socket's namespace.
    pub fn nsid(&mut self, file: &File) -> io::Result<Option<i32>> {
        let mut payload = vec![0; 4];
        payload.extend(attribute(NETNSA_FD, &file.as_raw_fd().to_ne_bytes()));
        let mut nsid = None;
        self.query(libc::RTM_GETNSID, 0, &payload, |m| {
            nsid = message::nsid_message(m)
                .map(|(_, nsid)| nsid)
                .filter(|nsid| *nsid >= 0);
        })?;
        Ok(nsid)
    }

    /// Sends a request whose only answer is an acknowledgement.
    pub fn request(&mut self, kind: u16, flags: libc::c_int, payload: &[u8]) -> io::Result<()> {
        self.query(kind, flags, payload, |_| {}).map(drop)
    }

    /// Sends a request and passes every answer to `take`. False if the dump was inconsistent.
    pub fn query(
        &mut self,
        kind: u16,
        flags: libc::c_int,
        payload: &[u8],
        mut take: impl FnMut(&message::Message<'_>),
    ) -> io::Result<bool> {
        self.sequence = self.sequence.wrapping_add(1);
        let flags = libc::NLM_F_REQUEST | libc::NLM_F_ACK | flags;
        self.socket
            .send(&message::request(kind, flags, self.sequence, payload), 0)?;
        let mut consistent = true;
        loop {
            let (datagram, _) = self.socket.recv_from_full()?;
            for m in netlink_messages(&datagram).filter(|m| m.sequence == self.sequence) {
                consistent &= i32::from(m.flags) & libc::NLM_F_DUMP_INTR == 0;
                match i32::from(m.kind) {
                    libc::NLMSG_DONE => return Ok(consistent),
                    // An acknowledgement is an error message with code 0.
                    libc::NLMSG_ERROR => {
                        let code = message::u32_at(m.payload, 0).map_or(0, u32::cast_signed);
                        return match code {
                            0 => Ok(consistent),
                            _ => Err(io::Error::from_raw_os_error(code.saturating_neg())),
                        };
                    }
                    _ => take(&m),
                }
            }
        }
    }
}
