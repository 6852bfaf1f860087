//! Programs that drop the packets of containers in debt: one set per network namespace.

use crate::link::{
    BPF_TCX_INGRESS, BPF_XDP, XDP_FLAGS_DRV_MODE, XDP_FLAGS_SKB_MODE, address_key,
    cgroup_link_create, link_create,
};
use crate::load::{LoadError, loading};
use crate::skeleton::enforce_types::{
    cf_bucket, cf_drop_limits, cf_limit, cf_tunnel, cf_tunnel_kind,
};
use crate::skeleton::{EnforceSkel, EnforceSkelBuilder};
use cofferdam_types::{CgroupId, IfIndex, Tunnel};
use libbpf_rs::skel::{OpenSkel, SkelBuilder};
use libbpf_rs::{MapCore, MapFlags, OpenObject};
use std::fs::File;
use std::io;
use std::mem::{MaybeUninit, offset_of, size_of};
use std::net::IpAddr;
use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Place at which packets are examined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entry {
    /// XDP in the driver.
    Native,
    /// tc ingress (tcx, since Linux 6.6).
    Tc,
    /// tc ingress of a device whose packets begin with IP.
    TcIp,
    /// XDP in the stack.
    Generic,
    /// tc ingress of the host's end of a container's interface, for packets that the container
    /// sends.
    Sent,
    /// The sockets of a cgroup, after the packet has found its socket.
    Sockets,
}

/// A token bucket in nanoseconds of network CPU; see `bpf/abi/enforce_abi.h`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bucket {
    /// Network CPU that may be caused in a second; 0 for no limit.
    pub rate_ns_per_s: u64,
    /// Cost of one received packet.
    pub rx_cost_ns: u64,
    /// Cost of one sent packet.
    pub tx_cost_ns: u64,
    /// Most that may be saved up.
    pub burst_ns: u64,
}

/// Packets of one container, cumulative.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DropCounts {
    /// Received packets that passed.
    pub rx_passed: u64,
    /// Received packets that were dropped.
    pub rx_dropped: u64,
    /// Sent packets that passed.
    pub tx_passed: u64,
    /// Sent packets that were dropped.
    pub tx_dropped: u64,
}

/// Descriptors of the loaded programs, for attaching them in another network namespace.
#[derive(Clone, Copy, Debug)]
pub struct DropDescriptors {
    xdp: RawFd,
    tc: RawFd,
    tc_ip: RawFd,
    sent: RawFd,
}

/// Attached program. It is detached when dropped, and by the kernel when the process ends.
#[derive(Debug)]
pub struct DropLink {
    _link: OwnedFd,
    /// Place of the attachment.
    pub entry: Entry,
}

/// The loaded programs and their maps.
pub struct DropPrograms {
    skeleton: Box<EnforceSkel<'static>>,
}

impl DropPrograms {
    /// Number of containers for which one set has room.
    pub const SLOTS: u32 = cf_drop_limits::CF_DROP_SLOTS.0;

    /// Loads the programs; nothing is attached yet.
    ///
    /// # Errors
    /// [`LoadError`] if this kernel or this caller cannot load them.
    pub fn load() -> Result<DropPrograms, LoadError> {
        // The skeleton borrows this small block for its life; each load leaks one.
        let storage = Box::leak(Box::new(MaybeUninit::<OpenObject>::uninit()));
        let skeleton = loading("load the dropping programs", || {
            EnforceSkelBuilder::default().open(storage)?.load()
        })?;
        Ok(DropPrograms {
            skeleton: Box::new(skeleton),
        })
    }

    /// Returns the descriptors for [`attach`].
    pub fn programs(&self) -> DropDescriptors {
        let progs = &self.skeleton.progs;
        DropDescriptors {
            xdp: progs.drop_xdp.as_fd().as_raw_fd(),
            tc: progs.drop_tc.as_fd().as_raw_fd(),
            tc_ip: progs.drop_tc_ip.as_fd().as_raw_fd(),
            sent: progs.drop_sent.as_fd().as_raw_fd(),
        }
    }

    /// Assigns packets that enter by the host's end `device` to the container in `slot`, their
    /// sender.
    pub fn set_device(&self, device: IfIndex, slot: u32) -> libbpf_rs::Result<()> {
        let map = &self.skeleton.maps.devices;
        map.update(&device.0.to_ne_bytes(), &slot.to_ne_bytes(), MapFlags::ANY)
    }

    /// Forgets `device`; an unknown one is no error.
    pub fn remove_device(&self, device: IfIndex) {
        let _ = self.skeleton.maps.devices.delete(&device.0.to_ne_bytes());
    }

    /// Assigns packets to `address` to the container in `slot`.
    pub fn set_address(&self, address: IpAddr, slot: u32) -> libbpf_rs::Result<()> {
        let map = &self.skeleton.maps.addresses;
        map.update(&address_key(address), &slot.to_ne_bytes(), MapFlags::ANY)
    }

    /// Limits the packets that the sockets of the cgroup `id` receive, and assigns them to the
    /// container in `slot`. `directory` is the cgroup's v2 directory. The kernel detaches the
    /// program when the cgroup is removed.
    ///
    /// # Errors
    /// The kernel's, if the cgroup was removed, or if the directory belongs to another one by now.
    pub fn attach_sockets(
        &self,
        directory: &Path,
        id: CgroupId,
        slot: u32,
    ) -> io::Result<DropLink> {
        let cgroup = File::open(directory)?;
        if cgroup.metadata()?.ino() != id.0 {
            return Err(io::ErrorKind::NotFound.into());
        }
        let program = self.skeleton.progs.drop_received.as_fd().as_raw_fd();
        let link = cgroup_link_create(program, cgroup.as_fd())?;
        let owner = (slot + 1).to_ne_bytes();
        let map = &self.skeleton.maps.sockets;
        map.update(&id.0.to_ne_bytes(), &owner, MapFlags::ANY)
            .map_err(io::Error::other)?;
        Ok(DropLink {
            _link: link,
            entry: Entry::Sockets,
        })
    }

    /// Forgets `address`; an unknown one is no error.
    pub fn remove_address(&self, address: IpAddr) {
        let _ = self.skeleton.maps.addresses.delete(&address_key(address));
    }

    /// Assigns packets inside `tunnel` by their inner address.
    pub fn set_tunnel(&self, tunnel: Tunnel) -> libbpf_rs::Result<()> {
        for (key, kind) in tunnel_keys(tunnel) {
            let map = &self.skeleton.maps.tunnels;
            map.update(&key, &kind.0.to_ne_bytes(), MapFlags::ANY)?;
        }
        Ok(())
    }

    /// Forgets `tunnel`; an unknown one is no error.
    pub fn remove_tunnel(&self, tunnel: Tunnel) {
        for (key, _) in tunnel_keys(tunnel) {
            let _ = self.skeleton.maps.tunnels.delete(&key);
        }
    }

    /// Sets the limit of the container in `slot`; its saved tokens stay.
    pub fn set_bucket(&self, slot: u32, bucket: Bucket) -> libbpf_rs::Result<()> {
        let mut value = [0; size_of::<cf_limit>()];
        for (offset, number) in [
            (offset_of!(cf_limit, rate_ns_per_s), bucket.rate_ns_per_s),
            (offset_of!(cf_limit, rx_cost_ns), bucket.rx_cost_ns),
            (offset_of!(cf_limit, tx_cost_ns), bucket.tx_cost_ns),
            (offset_of!(cf_limit, burst_ns), bucket.burst_ns),
        ] {
            if let Some(bytes) = value.get_mut(offset..offset + 8) {
                bytes.copy_from_slice(&number.to_ne_bytes());
            }
        }
        let map = &self.skeleton.maps.limits;
        map.update(&slot.to_ne_bytes(), &value, MapFlags::ANY)
    }

    /// Clears a slot for another container.
    pub fn clear(&self, slot: u32) {
        let (key, maps) = (slot.to_ne_bytes(), &self.skeleton.maps);
        let _ = maps
            .limits
            .update(&key, &[0; size_of::<cf_limit>()], MapFlags::ANY);
        let _ = maps
            .buckets
            .update(&key, &[0; size_of::<cf_bucket>()], MapFlags::ANY);
    }

    /// Reads the counts of the container in `slot`.
    pub fn counts(&self, slot: u32) -> DropCounts {
        let map = &self.skeleton.maps.buckets;
        let value = map.lookup(&slot.to_ne_bytes(), MapFlags::ANY);
        let value = value.ok().flatten().unwrap_or_default();
        let at = |offset: usize| {
            let bytes = value.get(offset..offset + 8);
            bytes
                .and_then(|b| b.try_into().ok())
                .map_or(0, u64::from_ne_bytes)
        };
        DropCounts {
            rx_passed: at(offset_of!(cf_bucket, rx_passed)),
            rx_dropped: at(offset_of!(cf_bucket, rx_dropped)),
            tx_passed: at(offset_of!(cf_bucket, tx_passed)),
            tx_dropped: at(offset_of!(cf_bucket, tx_dropped)),
        }
    }
}

/// Returns the keys by which the programs recognize a tunnel's packets, with the kind of the rest.
fn tunnel_keys(tunnel: Tunnel) -> Vec<([u8; size_of::<cf_tunnel>()], cf_tunnel_kind)> {
    let key = |protocol: libc::c_int, port: u16| {
        let protocol = u16::try_from(protocol).unwrap_or_default();
        let [a, b] = protocol.to_ne_bytes();
        let [c, d] = port.to_be_bytes();
        [a, b, c, d]
    };
    match tunnel {
        Tunnel::Vxlan(port) => vec![(
            key(libc::IPPROTO_UDP, port),
            cf_tunnel_kind::CF_TUNNEL_VXLAN,
        )],
        Tunnel::Geneve(port) => vec![(
            key(libc::IPPROTO_UDP, port),
            cf_tunnel_kind::CF_TUNNEL_GENEVE,
        )],
        Tunnel::Ip => [libc::IPPROTO_IPIP, libc::IPPROTO_IPV6]
            .map(|protocol| (key(protocol, 0), cf_tunnel_kind::CF_TUNNEL_IP))
            .to_vec(),
    }
}

/// Attaches a program (see [`DropPrograms::programs`]) to a device of the calling thread's network
/// namespace.
///
/// # Errors
/// The kernel's: busy with another XDP program, unsupported, or no such device.
pub fn attach(programs: DropDescriptors, device: IfIndex, entry: Entry) -> io::Result<DropLink> {
    let (program, kind, flags) = match entry {
        Entry::Native => (programs.xdp, BPF_XDP, XDP_FLAGS_DRV_MODE),
        Entry::Generic => (programs.xdp, BPF_XDP, XDP_FLAGS_SKB_MODE),
        Entry::Tc => (programs.tc, BPF_TCX_INGRESS, 0),
        Entry::TcIp => (programs.tc_ip, BPF_TCX_INGRESS, 0),
        Entry::Sent => (programs.sent, BPF_TCX_INGRESS, 0),
        // A cgroup needs DropPrograms::attach_sockets.
        Entry::Sockets => return Err(io::ErrorKind::InvalidInput.into()),
    };
    let link = link_create(program, device, kind, flags)?;
    Ok(DropLink { _link: link, entry })
}
