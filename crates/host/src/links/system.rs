//! The host's real network.

use super::{Door, InnerLink, Inside, LinkEvent, Network, Others, PeerSpace};
use crate::HostError;
use crate::netlink::message::{link_message, netlink_messages, nsid_message};
use crate::netlink::{LinkMessage, Rtnetlink};
use crate::netns;
use cofferdam_types::NetnsId;
use netlink_sys::{Socket, SocketAddr, protocols::NETLINK_ROUTE};
use nix::sched::{CloneFlags, setns};
use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::mem::{size_of, zeroed};
use std::os::fd::{AsRawFd, BorrowedFd};

const RTNLGRP_LINK: u32 = 1;
const RTNLGRP_NSID: u32 = 28;
const NETLINK_LISTEN_ALL_NSID: libc::c_int = 8;
/// Size of the event buffer, for a thousand containers that start together between two readings.
const EVENT_BUFFER_BYTES: u32 = 4 << 20;

/// Sockets in the host's network namespace.
pub(crate) struct SystemNetwork {
    requests: Rtnetlink,
    events: Socket,
    host: File,
    buffer: Vec<u8>,
}

impl SystemNetwork {
    /// Opens the sockets in the namespace of the file `host`, and subscribes.
    pub fn open(host: File, is_own: bool) -> Result<SystemNetwork, HostError> {
        let open = || Ok((Rtnetlink::open()?, subscribe()?));
        let opened = if is_own {
            open()
        } else {
            netns::in_namespace(&host, open).and_then(|opened| opened)
        };
        let (requests, events) = opened.map_err(HostError::request_error("subscribe to links"))?;
        Ok(SystemNetwork {
            requests,
            events,
            host,
            buffer: vec![0; 64 << 10],
        })
    }

    fn look(&mut self, door: &Door, others: Others<'_>) -> io::Result<Inside> {
        let file = netns::open(&door.file, door.netns)?;
        setns(&file, CloneFlags::CLONE_NEWNET)?;
        let mut inner = Rtnetlink::open()?;
        let links = inner.links()?;
        let host_nsid = inner.nsid(&self.host)?;
        let mut elsewhere: Option<HashMap<i32, NetnsId>> = None;
        let mut space = |link: &LinkMessage| match link.peer_nsid {
            None => PeerSpace::Same,
            Some(nsid) if Some(nsid) == host_nsid => PeerSpace::Host,
            // This is rare: it checks every known namespace again, so only if necessary.
            Some(nsid) => {
                let map = elsewhere.get_or_insert_with(|| numbered(&mut inner, &others()));
                PeerSpace::Other(map.get(&nsid).copied())
            }
        };
        let links = links
            .into_iter()
            .filter(LinkMessage::is_in_use)
            .map(|link| InnerLink {
                peer_space: space(&link),
                link,
            })
            .collect();
        Ok(Inside {
            nsid: self.requests.nsid(&file)?,
            links,
        })
    }
}

/// Returns the numbers of `others` in the namespace of `inner`.
fn numbered(inner: &mut Rtnetlink, others: &[Door]) -> HashMap<i32, NetnsId> {
    let mut map = HashMap::new();
    for other in others {
        let Ok(file) = netns::open(&other.file, other.netns) else {
            continue;
        };
        if let Ok(Some(nsid)) = inner.nsid(&file) {
            map.insert(nsid, other.netns);
        }
    }
    map
}

fn subscribe() -> io::Result<Socket> {
    let mut socket = Socket::new(NETLINK_ROUTE)?;
    socket.bind(&SocketAddr::new(0, 0))?;
    socket.set_non_blocking(true)?;
    // Two options that need privileges; without them fewer changes arrive, and are lost sooner.
    if force_buffer(&socket).is_err() {
        let _ = socket.set_rx_buf_sz(EVENT_BUFFER_BYTES);
    }
    let _ = socket.set_listen_all_namespaces(true);
    socket.add_membership(RTNLGRP_LINK)?;
    socket.add_membership(RTNLGRP_NSID)?;
    Ok(socket)
}

fn force_buffer(socket: &Socket) -> io::Result<()> {
    let bytes = EVENT_BUFFER_BYTES;
    // SAFETY: the pointer and length describe `bytes`, which outlives the call.
    let result = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_RCVBUFFORCE,
            (&raw const bytes).cast(),
            size_of::<u32>() as libc::socklen_t,
        )
    };
    if result == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

/// Receives one datagram and the namespace from which it comes. netlink-sys does not return the
/// ancillary data that names the namespace, hence the direct system call.
fn receive(socket: &Socket, buffer: &mut [u8]) -> io::Result<(usize, Option<i32>)> {
    let mut control = [0u64; 16];
    let mut part = libc::iovec {
        iov_base: buffer.as_mut_ptr().cast(),
        iov_len: buffer.len(),
    };
    // SAFETY: msghdr is plain data, for which all zeroes is a valid value.
    let mut header: libc::msghdr = unsafe { zeroed() };
    header.msg_iov = &raw mut part;
    header.msg_iovlen = 1;
    header.msg_control = control.as_mut_ptr().cast();
    header.msg_controllen = size_of_val(&control);
    // SAFETY: `header` points to `part` and `control`, which point to live buffers of the
    // stated sizes; all of them outlive the call.
    let length = unsafe { libc::recvmsg(socket.as_raw_fd(), &raw mut header, 0) };
    let length = usize::try_from(length).map_err(|_| io::Error::last_os_error())?;
    if header.msg_flags & libc::MSG_TRUNC != 0 {
        return Err(io::Error::from_raw_os_error(libc::ENOBUFS));
    }
    let mut nsid = None;
    // SAFETY: the kernel filled `control` and set `msg_controllen`; the CMSG macros stay within
    // it, and the data of this message type is one int, read without assuming alignment.
    unsafe {
        let mut cmsg = libc::CMSG_FIRSTHDR(&raw const header);
        while !cmsg.is_null() {
            if (*cmsg).cmsg_level == libc::SOL_NETLINK
                && (*cmsg).cmsg_type == NETLINK_LISTEN_ALL_NSID
            {
                nsid = Some(libc::CMSG_DATA(cmsg).cast::<i32>().read_unaligned());
            }
            cmsg = libc::CMSG_NXTHDR(&raw const header, cmsg);
        }
    }
    // The kernel writes -1 for the socket's own namespace.
    Ok((length, nsid.filter(|nsid| *nsid >= 0)))
}

impl Network for SystemNetwork {
    fn fd(&self) -> BorrowedFd<'_> {
        // SAFETY: the socket lives, and keeps its descriptor, while `self` is borrowed.
        unsafe { BorrowedFd::borrow_raw(self.events.as_raw_fd()) }
    }

    fn drain(&mut self) -> Vec<LinkEvent> {
        let mut out = Vec::new();
        loop {
            match receive(&self.events, &mut self.buffer) {
                Ok((length, nsid)) => {
                    let datagram = self.buffer.get(..length).unwrap_or(&[]);
                    for message in netlink_messages(datagram) {
                        if let Some(link) = link_message(&message) {
                            out.push(LinkEvent::Link { nsid, link });
                        } else if let Some((libc::RTM_DELNSID, gone)) = nsid_message(&message) {
                            out.push(LinkEvent::NsidGone(gone));
                        }
                    }
                }
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) if e.raw_os_error() == Some(libc::ENOBUFS) => out.push(LinkEvent::Lost),
                Err(_) => return out,
            }
        }
    }

    fn host_links(&mut self) -> Result<Vec<LinkMessage>, HostError> {
        self.requests
            .links()
            .map_err(HostError::request_error("list links"))
    }

    fn look_inside(&mut self, doors: &[Door], others: Others<'_>) -> HashMap<NetnsId, Inside> {
        if doors.is_empty() {
            return HashMap::new();
        }
        std::thread::scope(|scope| {
            let worker = scope.spawn(|| {
                let look = |door: &Door| Some((door.netns, self.look(door, others).ok()?));
                doors.iter().filter_map(look).collect()
            });
            worker.join().unwrap_or_default()
        })
    }
}
