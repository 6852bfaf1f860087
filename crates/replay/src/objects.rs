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
    /// A network namespace.
    Net,
    /// A network device.
    Device,
    /// A cgroup of the unified hierarchy.
    Cgroup,
    /// A socket.
    Socket,
    /// A packet, or the first one of a list.
    Packet,
    /// A task.
    Task
);

/// What a packet is, apart from its device.
#[derive(Clone, Copy, Debug, Default)]
pub struct Packets<'m> {
    /// Length without the link-layer header.
    pub bytes: u32,
    /// Segments that GRO has merged into it; 0: one packet.
    pub segments: u16,
    /// The interface that it came in by; 0: none.
    pub iif: i32,
    /// Its socket on the way out.
    pub socket: Option<Socket<'m>>,
    /// What follows it in a list of packets that are sent together.
    pub next: Option<Packet<'m>>,
    /// Whether more follow in the list of received packets that it was just taken from; `None`: it came alone.
    pub more_follow: Option<bool>,
}

impl Machine {
    /// A network namespace with this inode.
    pub fn net(&self, inum: u32) -> Net<'_> {
        // SAFETY: a plain allocation.
        Net(self.keep(unsafe { world_net(inum) }), PhantomData)
    }

    /// A device in `net`.
    pub fn device<'m>(&'m self, net: Net<'m>, ifindex: i32) -> Device<'m> {
        // SAFETY: `net` lives as long as this machine does.
        let device = unsafe { world_device(net.0, ifindex) };
        Device(self.keep(device), PhantomData)
    }

    /// A cgroup with this id.
    pub fn cgroup(&self, id: u64) -> Cgroup<'_> {
        // SAFETY: a plain allocation.
        Cgroup(self.keep(unsafe { world_cgroup(id) }), PhantomData)
    }

    /// An established socket of a process in `cgroup`.
    pub fn socket<'m>(&'m self, net: Net<'m>, cgroup: Cgroup<'m>) -> Socket<'m> {
        // SAFETY: both live as long as this machine does.
        let socket = unsafe { world_socket(net.0, cgroup.0, 1) };
        Socket(self.keep(socket), PhantomData)
    }

    /// A packet on `device`.
    pub fn packet<'m>(&'m self, device: Device<'m>, what: Packets<'m>) -> Packet<'m> {
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

    /// An ordinary task, or a NAPI thread.
    pub fn task(&self, napi: bool) -> Task<'_> {
        // SAFETY: a plain allocation.
        Task(self.keep(unsafe { world_task(napi) }), PhantomData)
    }
}
