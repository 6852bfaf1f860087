//! Program that hands the dataplane's packets to its AF_XDP sockets.

use crate::link::{BPF_XDP, XDP_FLAGS_DRV_MODE, XDP_FLAGS_SKB_MODE, address_key, link_create};
use crate::load::{LoadError, loading};
use crate::skeleton::redirect_types::{rd_claim, rd_counts, rd_port};
use crate::skeleton::{RedirectSkel, RedirectSkelBuilder};
use cofferdam_types::IfIndex;
use libbpf_rs::skel::{OpenSkel, SkelBuilder};
use libbpf_rs::{MapCore, MapFlags, OpenObject};
use std::io;
use std::mem::{MaybeUninit, offset_of, size_of};
use std::net::IpAddr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

/// Place of the program at a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RedirectMode {
    /// In the driver.
    Native,
    /// In the stack; every device supports it.
    Generic,
}

/// Attached program. It is detached when dropped, and by the kernel when the process ends.
#[derive(Debug)]
pub struct RedirectLink {
    _link: OwnedFd,
    /// Place of the attachment.
    pub mode: RedirectMode,
}

/// Packets that the program has seen since it was loaded, on all CPUs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RedirectCounts {
    /// Handed to a socket.
    pub redirected_packets: u64,
    /// Left to Linux.
    pub passed_packets: u64,
    /// For the dataplane, but left to Linux because no socket serves their queue.
    pub unserved_packets: u64,
}

/// Loaded program and its maps: one set per device.
pub struct RedirectPrograms {
    skeleton: Box<RedirectSkel<'static>>,
}

impl RedirectPrograms {
    /// Loads the program; nothing is attached yet.
    ///
    /// [`LoadError`] if this kernel or this caller cannot load it.
    /// [`LoadError`] when this kernel or this caller cannot.
    pub fn load() -> Result<RedirectPrograms, LoadError> {
        // The skeleton borrows this small block for its life; each load leaks one.
        let storage = Box::leak(Box::new(MaybeUninit::<OpenObject>::uninit()));
        let skeleton = loading("load the redirecting program", || {
            RedirectSkelBuilder::default().open(storage)?.load()
        })?;
        Ok(RedirectPrograms {
            skeleton: Box::new(skeleton),
        })
    }

    /// Attaches the program to a device of the calling thread's network namespace.
    ///
    /// # Errors
    /// The kernel's: busy with another XDP program, unsupported, or no such device.
    pub fn attach(&self, device: IfIndex, mode: RedirectMode) -> io::Result<RedirectLink> {
        let progs = &self.skeleton.progs;
        let program = progs.redirect.as_fd();
        let flags = match mode {
            RedirectMode::Native => XDP_FLAGS_DRV_MODE,
            RedirectMode::Generic => XDP_FLAGS_SKB_MODE,
        };
        let link = link_create(program.as_raw_fd(), device, BPF_XDP, flags)?;
        Ok(RedirectLink { _link: link, mode })
    }

    /// Sends packets of `queue` to `socket` from now on.
    pub fn set_socket(&self, queue: u32, socket: BorrowedFd<'_>) -> libbpf_rs::Result<()> {
        let value = socket.as_raw_fd().cast_unsigned().to_ne_bytes();
        let map = &self.skeleton.maps.sockets;
        map.update(&queue.to_ne_bytes(), &value, MapFlags::ANY)
    }

    /// Claims everything for `address` for the dataplane, with ARP and neighbour solicitations.
    pub fn claim(&self, address: IpAddr) -> libbpf_rs::Result<()> {
        self.set_claim(address, 1, 0, 0)
    }

    /// Claims ports of `address` for the dataplane: those from `first_port` to `last_port` (0 and 0
    /// for no range), and single ones by [`RedirectPrograms::claim_port`].
    pub fn claim_range(
        &self,
        address: IpAddr,
        first_port: u16,
        last_port: u16,
    ) -> libbpf_rs::Result<()> {
        self.set_claim(address, 0, first_port, last_port)
    }

    fn set_claim(
        &self,
        address: IpAddr,
        whole: u32,
        first: u16,
        last: u16,
    ) -> libbpf_rs::Result<()> {
        let mut value = [0; size_of::<rd_claim>()];
        put(
            &mut value,
            offset_of!(rd_claim, whole),
            &whole.to_ne_bytes(),
        );
        put(
            &mut value,
            offset_of!(rd_claim, first_port),
            &first.to_ne_bytes(),
        );
        put(
            &mut value,
            offset_of!(rd_claim, last_port),
            &last.to_ne_bytes(),
        );
        let map = &self.skeleton.maps.claims;
        map.update(&address_key(address), &value, MapFlags::ANY)
    }

    /// Returns `address` to Linux; an unknown one is no error.
    pub fn disclaim(&self, address: IpAddr) {
        let _ = self.skeleton.maps.claims.delete(&address_key(address));
    }

    /// Claims a port of a shared address for the dataplane. `protocol` is 6 (TCP) or 17 (UDP).
    pub fn claim_port(&self, address: IpAddr, protocol: u8, port: u16) -> libbpf_rs::Result<()> {
        let map = &self.skeleton.maps.ports;
        map.update(
            &port_key(address, protocol, port),
            &1_u32.to_ne_bytes(),
            MapFlags::ANY,
        )
    }

    /// Returns a port to Linux; an unknown one is no error.
    pub fn disclaim_port(&self, address: IpAddr, protocol: u8, port: u16) {
        let _ = self
            .skeleton
            .maps
            .ports
            .delete(&port_key(address, protocol, port));
    }

    /// Reads the counters, summed over the CPUs.
    pub fn counts(&self) -> RedirectCounts {
        let map = &self.skeleton.maps.counts;
        let per_cpu = map.lookup_percpu(&0_u32.to_ne_bytes(), MapFlags::ANY);
        let per_cpu = per_cpu.ok().flatten().unwrap_or_default();
        let sum = |offset: usize| {
            let numbers = per_cpu
                .iter()
                .filter_map(|value| value.get(offset..offset + 8));
            let numbers = numbers.filter_map(|bytes| bytes.try_into().ok());
            numbers.map(u64::from_ne_bytes).sum()
        };
        RedirectCounts {
            redirected_packets: sum(offset_of!(rd_counts, redirected_packets)),
            passed_packets: sum(offset_of!(rd_counts, passed_packets)),
            unserved_packets: sum(offset_of!(rd_counts, unserved_packets)),
        }
    }
}

fn port_key(address: IpAddr, protocol: u8, port: u16) -> [u8; size_of::<rd_port>()] {
    let mut key = [0; size_of::<rd_port>()];
    put(
        &mut key,
        offset_of!(rd_port, address),
        &address_key(address),
    );
    put(&mut key, offset_of!(rd_port, protocol), &[protocol]);
    put(&mut key, offset_of!(rd_port, port), &port.to_ne_bytes());
    key
}

fn put(bytes: &mut [u8], offset: usize, value: &[u8]) {
    if let Some(place) = bytes.get_mut(offset..offset + value.len()) {
        place.copy_from_slice(value);
    }
}
