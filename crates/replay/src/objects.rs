//! Kernel objects. They live as long as their machine.

use crate::Machine;
use crate::programs::{
    Object, world_cgroup, world_device, world_net, world_packet, world_socket, world_task,
};
use std::marker::PhantomData;

macro_rules! object {
    ($($(#[$doc:meta])* $name:ident),*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug)]
        pub struct $name<'m>(pub(crate) Object, PhantomData<&'m Machine>);
    )*};
}

object!(
    /// Network namespace.
    Net,
    /// Network device.
    Device,
    /// Cgroup of the unified hierarchy.
    Cgroup,
    /// Socket.
    Socket,
    /// Packet, or the first one of a list.
    Packet,
    /// Task.
    Task
);

/// Properties of a packet, apart from its device.
#[derive(Clone, Copy, Debug, Default)]
pub struct PacketSpec<'m> {
    /// Length without the link-layer header.
    pub bytes: u32,
    /// Number of segments that GRO has merged into it; 0 for one packet.
    pub segments: u16,
    /// Interface on which it arrived; 0 for none.
    pub iif: i32,
    /// Socket that sent it.
    pub socket: Option<Socket<'m>>,
    /// Next packet in a list of packets that are sent together.
    pub next: Option<Packet<'m>>,
    /// Whether more packets follow in the list of received packets from which it was just taken.
    /// `None` if it came alone.
    pub more_follow: Option<bool>,
}

impl Machine {
    /// Creates a network namespace with this inode.
    pub fn net(&self, inum: u32) -> Net<'_> {
        // SAFETY: a plain allocation.
        Net(self.keep(unsafe { world_net(inum) }), PhantomData)
    }

    /// Creates a device in `net`.
    pub fn device<'m>(&'m self, net: Net<'m>, ifindex: i32) -> Device<'m> {
        // SAFETY: `net` lives as long as this machine does.
        let device = unsafe { world_device(net.0, ifindex) };
        Device(self.keep(device), PhantomData)
    }

    /// Creates a cgroup with this id.
    pub fn cgroup(&self, id: u64) -> Cgroup<'_> {
        // SAFETY: a plain allocation.
        Cgroup(self.keep(unsafe { world_cgroup(id) }), PhantomData)
    }

    /// Creates an established socket of a process in `cgroup`.
    pub fn socket<'m>(&'m self, net: Net<'m>, cgroup: Cgroup<'m>) -> Socket<'m> {
        // SAFETY: both live as long as this machine does.
        let socket = unsafe { world_socket(net.0, cgroup.0, 1) };
        Socket(self.keep(socket), PhantomData)
    }

    /// Creates a packet on `device`.
    pub fn packet<'m>(&'m self, device: Device<'m>, what: PacketSpec<'m>) -> Packet<'m> {
        let null = std::ptr::null_mut();
        let (sk, next) = (
            what.socket.map_or(null, |s| s.0),
            what.next.map_or(null, |p| p.0),
        );
        let list = what.more_follow.map_or(0, |more| 1 + i32::from(more));
        let (bytes, segments, iif) = (what.bytes, what.segments, what.iif);
        // SAFETY: all of them live as long as this machine does.
        let packet = unsafe { world_packet(device.0, sk, next, bytes, segments, iif, list) };
        Packet(self.keep(packet), PhantomData)
    }

    /// Creates an ordinary task, or a NAPI thread.
    pub fn task(&self, napi: bool) -> Task<'_> {
        // SAFETY: a plain allocation.
        Task(self.keep(unsafe { world_task(napi) }), PhantomData)
    }
}
