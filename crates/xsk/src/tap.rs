//! A tap device, for tests and for hosts without AF_XDP.

use crate::error::PortError;
use crate::memory::Memory;
use crate::packet::Packet;
use crate::port::{Facts, Port, PortCounters, facts};
use nix::errno::Errno;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::fs::OpenOptionsExt;

/// The far side of a tap device: packets that Linux sends are received here. Dropping it removes
/// the device.
pub struct Tap {
    file: File,
    facts: Facts,
    counters: PortCounters,
}

impl Tap {
    /// Creates the tap device `name` in the calling thread's network namespace. `mac` is the
    /// address of this side; Linux has another for the device.
    pub fn open(name: &str, mac: [u8; 6]) -> Result<Tap, PortError> {
        let os = |what| move |e: io::Error| PortError::os(what, name, e);
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .custom_flags(libc::O_NONBLOCK | libc::O_CLOEXEC)
            .open("/dev/net/tun")
            .map_err(os("cannot open /dev/net/tun (modprobe tun)"))?;
        // SAFETY: an all-zero ifreq is valid: it is made of integers and arrays of them.
        let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
        for (to, from) in request
            .ifr_name
            .iter_mut()
            .zip(name.bytes().take(libc::IFNAMSIZ - 1))
        {
            *to = from.cast_signed();
        }
        request.ifr_ifru.ifru_flags = (libc::IFF_TAP | libc::IFF_NO_PI) as i16;
        // SAFETY: TUNSETIFF reads and writes one ifreq.
        let code = unsafe { libc::ioctl(file.as_raw_fd(), libc::TUNSETIFF, &raw mut request) };
        if code < 0 {
            return Err(os("cannot create a tap device")(io::Error::last_os_error()));
        }
        let facts = facts(name)?;
        Ok(Tap {
            file,
            facts: Facts { mac, ..facts },
            counters: PortCounters::default(),
        })
    }
}

impl Port for Tap {
    fn facts(&self) -> &Facts {
        &self.facts
    }

    fn reclaim(&mut self, _memory: &mut Memory) -> usize {
        0
    }

    fn receive(&mut self, memory: &mut Memory, packets: &mut [Packet]) -> usize {
        let mut got = 0;
        for slot in packets {
            let Some(frame) = memory.take() else { break };
            let bytes = memory.bytes_mut(frame);
            self.counters.system_calls += 1;
            match nix::unistd::read(&self.file, bytes) {
                Ok(len) if len > 0 => {
                    *slot = Packet {
                        frame,
                        start: 0,
                        len: len as u32,
                    };
                    got += 1;
                }
                // No packet is left, or the device is down.
                _ => {
                    memory.give(frame);
                    break;
                }
            }
        }
        self.counters.received_packets += got as u64;
        got
    }

    fn pending(&self) -> u32 {
        // Only a read can tell.
        0
    }

    fn transmit(&mut self, memory: &mut Memory, packet: Packet) -> bool {
        self.counters.system_calls += 1;
        match nix::unistd::write(&self.file, memory.packet(packet)) {
            Err(Errno::EAGAIN | Errno::ENOBUFS) => {
                self.counters.refused_packets += 1;
                false
            }
            // A device that is down loses packets, as a pulled cable does.
            _ => {
                self.counters.sent_packets += 1;
                memory.give(packet.frame);
                true
            }
        }
    }

    fn flush(&mut self, _memory: &mut Memory) -> io::Result<()> {
        Ok(())
    }

    fn descriptor(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }

    fn counters(&self) -> PortCounters {
        self.counters
    }
}
