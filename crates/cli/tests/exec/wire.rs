//! A bad link: a namespace between two devices, in which a thread forwards frames, most of them.

use cofferdam_lab::fixtures::{Namespace, VethPair};
use nix::errno::Errno;
use nix::net::if_::if_nametoindex;
use nix::sys::socket::{
    AddressFamily, LinkAddr, MsgFlags, SockFlag, SockProtocol, SockType, recvfrom, sendto,
    setsockopt, socket, sockopt,
};
use nix::sys::time::TimeVal;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;

/// Frames of a thousand that are lost.
const LOST: u32 = 20;
const REPEATED: u32 = 10;
const REORDERED: u32 = 10;
/// Number of frames that overtake a reordered one.
const LATE_BY: usize = 4;
/// Packet type of frames that a host has sent itself (PACKET_OUTGOING).
const OWN: u8 = 4;

/// Counts of what happened to frames.
#[derive(Default)]
pub struct Did {
    pub lost: AtomicU64,
    pub repeated: AtomicU64,
    pub reordered: AtomicU64,
}

/// The link, which works until it is dropped.
pub struct Wire {
    pub did: Arc<Did>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
    _pairs: [VethPair; 2],
    _between: Namespace,
}

impl Wire {
    /// Creates the link between the devices `eth0` of two namespaces, which it creates too.
    pub fn new(one: &Namespace, other: &Namespace) -> Wire {
        let between = Namespace::new("between");
        let pairs = [
            VethPair::new((one, "eth0"), (&between, "one")),
            VethPair::new((other, "eth0"), (&between, "other")),
        ];
        let (did, stop) = (Arc::<Did>::default(), Arc::<AtomicBool>::default());
        let (theirs, stops) = (did.clone(), stop.clone());
        let thread = between.thread(move || pass(&theirs, &stops));
        Wire {
            did,
            stop,
            thread: Some(thread),
            _pairs: pairs,
            _between: between,
        }
    }
}

impl Drop for Wire {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// One device, and frames on their way out of it.
struct Side {
    index: usize,
    address: Option<LinkAddr>,
    late: Vec<(usize, Vec<u8>)>,
}

fn pass(did: &Did, stop: &AtomicBool) {
    let flags = SockFlag::SOCK_CLOEXEC;
    let all = SockProtocol::EthAll;
    let socket = socket(AddressFamily::Packet, SockType::Raw, flags, all).unwrap();
    setsockopt(&socket, sockopt::ReceiveTimeout, &TimeVal::new(0, 20_000)).unwrap();
    setsockopt(&socket, sockopt::RcvBufForce, &(8 << 20)).unwrap();
    let side = |name| Side {
        index: if_nametoindex(name).unwrap() as usize,
        address: None,
        late: Vec::new(),
    };
    let mut sides = [side("one"), side("other")];
    let mut random = fastrand::Rng::with_seed(7);
    let mut bytes = vec![0; 1 << 16];
    while !stop.load(Ordering::Relaxed) {
        let (len, from) = match recvfrom::<LinkAddr>(socket.as_raw_fd(), &mut bytes) {
            Ok((len, Some(from))) => (len, from),
            Ok(_) | Err(Errno::EAGAIN | Errno::EINTR | Errno::ENETDOWN) => continue,
            Err(error) => panic!("{error}"),
        };
        let place = sides.iter().position(|side| side.index == from.ifindex());
        let Some(place) = place.filter(|_| from.pkttype() != OWN) else {
            continue;
        };
        sides[place].address = Some(from);
        let to = &mut sides[1 - place];
        let frame = &bytes[..len];
        match random.u32(..1000) {
            n if n < LOST => {
                did.lost.fetch_add(1, Ordering::Relaxed);
            }
            n if n < LOST + REPEATED => {
                did.repeated.fetch_add(1, Ordering::Relaxed);
                send(&socket, to, frame);
                send(&socket, to, frame);
            }
            n if n < LOST + REPEATED + REORDERED => {
                did.reordered.fetch_add(1, Ordering::Relaxed);
                to.late.push((LATE_BY, frame.to_vec()));
            }
            _ => send(&socket, to, frame),
        }
        let Some(due) = to.late.iter_mut().position(|(left, _)| {
            *left -= 1;
            *left == 0
        }) else {
            continue;
        };
        let (_, frame) = to.late.remove(due);
        send(&socket, to, &frame);
    }
}

/// Sends a frame. The address of a device is unknown until it has sent; the peers repeat what is
/// lost.
fn send(socket: &OwnedFd, to: &Side, frame: &[u8]) {
    if let Some(address) = &to.address {
        let _ = sendto(socket.as_raw_fd(), frame, address, MsgFlags::empty());
    }
}
