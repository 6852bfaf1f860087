//! Wire behind the NIC: a thread that answers echo requests and datagrams, and stamps the packets
//! that it reads and writes.

use cofferdam_latency::monotonic_ns;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::net::Ipv4Addr;
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::fs::OpenOptionsExt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

/// Address of the wire's far end.
pub(super) const FAR: Ipv4Addr = Ipv4Addr::new(10, 97, 0, 2);
/// Port whose datagrams are answered.
pub(super) const ECHO_PORT: u16 = 7;

/// Stamps of one answered packet.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stamp {
    /// IP protocol number.
    pub protocol: u8,
    /// Sequence number of the echo, or the near end's port.
    pub number: u16,
    /// Time after reading it, ns.
    pub read_ns: u64,
    /// Time before writing the answer, ns.
    pub write_ns: u64,
}

#[derive(Default)]
struct WireState {
    stop: AtomicBool,
    stamping: AtomicBool,
    /// Delay of each answer, ns.
    hold_ns: AtomicU64,
    stamps: Mutex<Vec<Stamp>>,
}

/// Running wire. Dropping it ends its thread.
pub(super) struct Wire {
    shared: Arc<WireState>,
    device: Arc<File>,
    thread: Option<JoinHandle<()>>,
}

impl Wire {
    /// Makes the device in the calling thread's namespace.
    pub fn start(name: &str) -> io::Result<Wire> {
        let device = Arc::new(tun(name)?);
        let shared = Arc::new(WireState::default());
        let (theirs, file) = (shared.clone(), device.clone());
        let thread = std::thread::Builder::new()
            .name("cofferdam-wire".into())
            .spawn(move || serve(&file, &theirs))?;
        Ok(Wire {
            shared,
            device,
            thread: Some(thread),
        })
    }

    /// Starts or stops stamping; returns the stamps so far.
    pub fn stamps(&self, on: bool) -> Vec<Stamp> {
        self.shared.stamping.store(on, Ordering::Relaxed);
        let mut stamps = self
            .shared
            .stamps
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        std::mem::take(&mut stamps)
    }

    /// Delays each answer by `ns`.
    pub fn hold(&self, ns: u64) {
        self.shared.hold_ns.store(ns, Ordering::Relaxed);
    }

    /// Sends a packet towards the host.
    pub fn send(&self, packet: &[u8]) -> io::Result<()> {
        (&*self.device).write(packet).map(drop)
    }
}

impl Drop for Wire {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn tun(name: &str) -> io::Result<File> {
    const TUNSETIFF: libc::c_ulong = 0x4004_54ca;
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .custom_flags(libc::O_NONBLOCK)
        .open("/dev/net/tun")?;
    // struct ifreq: name, flags, padding.
    let mut request = [0u8; 40];
    request[..name.len()].copy_from_slice(name.as_bytes());
    let flags = (libc::IFF_TUN | libc::IFF_NO_PI) as u16;
    request[16..18].copy_from_slice(&flags.to_ne_bytes());
    // SAFETY: the request points to a live struct ifreq of 40 bytes with a name that ends in
    // NUL; the kernel reads and writes no more than that.
    let status = unsafe { libc::ioctl(file.as_raw_fd(), TUNSETIFF, request.as_mut_ptr()) };
    match status {
        0 => Ok(file),
        _ => Err(io::Error::last_os_error()),
    }
}

fn serve(device: &File, shared: &WireState) {
    let mut packet = vec![0; 65_536];
    while !shared.stop.load(Ordering::Relaxed) {
        let mut fds = [PollFd::new(device.as_fd(), PollFlags::POLLIN)];
        let _ = poll(&mut fds, PollTimeout::from(20u8));
        let mut device = device;
        while let Ok(length) = device.read(&mut packet) {
            let read_ns = monotonic_ns();
            let Some(bytes) = packet.get_mut(..length) else {
                break;
            };
            let Some((protocol, number)) = turn(bytes) else {
                continue;
            };
            let until = read_ns + shared.hold_ns.load(Ordering::Relaxed);
            while monotonic_ns() < until {
                std::hint::spin_loop();
            }
            let write_ns = monotonic_ns();
            let _ = device.write(bytes);
            if shared.stamping.load(Ordering::Relaxed) {
                let mut stamps = shared.stamps.lock().unwrap_or_else(PoisonError::into_inner);
                stamps.push(Stamp {
                    protocol,
                    number,
                    read_ns,
                    write_ns,
                });
            }
            if shared.stop.load(Ordering::Relaxed) {
                break;
            }
        }
    }
}

/// Turns an IPv4 echo request, or a datagram to the echo port, into its answer. Returns its
/// protocol and number. Swapping addresses and ports leaves the checksums valid.
fn turn(packet: &mut [u8]) -> Option<(u8, u16)> {
    let header = usize::from(packet.first()? & 15) * 4;
    if packet.first()? >> 4 != 4 || packet.len() < header + 8 || header < 20 {
        return None;
    }
    let protocol = packet[9];
    let swap = |packet: &mut [u8]| {
        for i in 12..16 {
            packet.swap(i, i + 4);
        }
    };
    let word = |p: &[u8], at: usize| u16::from_be_bytes([p[at], p[at + 1]]);
    match protocol {
        1 if packet[header] == 8 => {
            swap(packet);
            packet[header] = 0;
            let sum = u32::from(word(packet, header + 2)) + 0x0800;
            let sum = ((sum & 0xffff) + (sum >> 16)) as u16;
            packet[header + 2..header + 4].copy_from_slice(&sum.to_be_bytes());
            Some((1, word(packet, header + 6)))
        }
        17 if word(packet, header + 2) == ECHO_PORT => {
            let near = word(packet, header);
            swap(packet);
            packet.swap(header, header + 2);
            packet.swap(header + 1, header + 3);
            Some((17, near))
        }
        _ => None,
    }
}

/// IPv4 packet from the far end that passes all checks: UDP without a checksum to `port`, or an
/// unsolicited echo reply with `port` as its identifier.
pub(super) fn packet(protocol: u8, to: std::net::Ipv4Addr, port: u16, number: u16) -> Vec<u8> {
    let mut p = vec![0u8; 20 + 8 + 32];
    let length = p.len() as u16;
    p[0] = 0x45;
    p[2..4].copy_from_slice(&length.to_be_bytes());
    p[8] = 64;
    p[9] = protocol;
    p[12..16].copy_from_slice(&FAR.octets());
    p[16..20].copy_from_slice(&to.octets());
    let header = checksum(&p[..20]).to_be_bytes();
    p[10..12].copy_from_slice(&header);
    p[28..30].copy_from_slice(&number.to_be_bytes());
    match protocol {
        17 => {
            p[20..22].copy_from_slice(&9u16.to_be_bytes());
            p[22..24].copy_from_slice(&port.to_be_bytes());
            p[24..26].copy_from_slice(&(length - 20).to_be_bytes());
        }
        _ => {
            p[24..26].copy_from_slice(&port.to_be_bytes());
            p[26..28].copy_from_slice(&number.to_be_bytes());
            let sum = checksum(&p[20..]).to_be_bytes();
            p[22..24].copy_from_slice(&sum);
        }
    }
    p
}

fn checksum(bytes: &[u8]) -> u16 {
    let mut sum: u32 = bytes
        .chunks(2)
        .map(|c| u32::from(c[0]) << 8 | u32::from(c.get(1).copied().unwrap_or(0)))
        .sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

/// Time after which every report is in its ring.
pub(super) const SETTLE: Duration = Duration::from_millis(20);
