//! Setup of a socket: packet memory, rings and queue (linux/if_xdp.h).

use crate::memory::Memory;
use crate::ring::Ring;
use nix::errno::Errno;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

/// Options of an AF_XDP socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SocketOptions {
    /// Receive queue of the device; default 0.
    pub queue: u32,
    /// Entries of each ring, a power of two; default 2048.
    pub ring_entries: u32,
    /// Whether to use copy mode where the driver supports zero-copy; default no.
    pub copy: bool,
    /// Whether large packets are sent through a packet socket, for the device or the kernel to cut;
    /// default yes.
    pub segmentation: bool,
}

impl Default for SocketOptions {
    fn default() -> SocketOptions {
        SocketOptions {
            queue: 0,
            ring_entries: 2048,
            copy: false,
            segmentation: true,
        }
    }
}

/// Mapped rings of a socket.
pub(super) struct Rings {
    pub receive: Ring<libc::xdp_desc>,
    pub transmit: Ring<libc::xdp_desc>,
    /// Fill ring and completion ring.
    pub frames: Option<(Ring<u64>, Ring<u64>)>,
}

/// Packet memory of a socket.
pub(super) enum Frames<'a> {
    /// A packet memory that this socket registers.
    Registered(&'a Memory),
    /// The memory of another socket, with or without own rings for frames.
    Shared {
        with: BorrowedFd<'a>,
        has_rings: bool,
    },
}

impl Frames<'_> {
    pub fn has_rings(&self) -> bool {
        match self {
            Frames::Registered(_) => true,
            Frames::Shared { has_rings, .. } => *has_rings,
        }
    }
}

/// Creates a socket with rings of `entries`, and registers its packet memory if it has its own.
pub(super) fn unbound(frames: &Frames<'_>, entries: u32) -> io::Result<OwnedFd> {
    // SAFETY: makes a descriptor, touches no memory.
    let fd = unsafe { libc::socket(libc::AF_XDP, libc::SOCK_RAW | libc::SOCK_CLOEXEC, 0) };
    Errno::result(fd)?;
    // SAFETY: the kernel has just made this descriptor for us.
    let fd = unsafe { OwnedFd::from_raw_fd(fd) };
    if let Frames::Registered(memory) = frames {
        let map = memory.mapping();
        // SAFETY: all-zero integers are a valid registration; the fields that matter follow.
        let mut registration: libc::xdp_umem_reg = unsafe { std::mem::zeroed() };
        registration.addr = map.base().as_ptr() as u64;
        registration.len = memory.frames_len_bytes();
        registration.chunk_size = memory.frame_bytes();
        set_option(&fd, libc::SOL_XDP, libc::XDP_UMEM_REG, &registration)?;
    }
    if frames.has_rings() {
        set_option(&fd, libc::SOL_XDP, libc::XDP_UMEM_FILL_RING, &entries)?;
        set_option(&fd, libc::SOL_XDP, libc::XDP_UMEM_COMPLETION_RING, &entries)?;
    }
    set_option(&fd, libc::SOL_XDP, libc::XDP_RX_RING, &entries)?;
    set_option(&fd, libc::SOL_XDP, libc::XDP_TX_RING, &entries)?;
    Ok(fd)
}

pub(super) fn map_rings(fd: &OwnedFd, has_frames: bool, entries: u32) -> io::Result<Rings> {
    // SAFETY: all-zero integers are valid offsets.
    let mut offsets: libc::xdp_mmap_offsets = unsafe { std::mem::zeroed() };
    get_option(fd, libc::XDP_MMAP_OFFSETS, &mut offsets)?;
    let fd = fd.as_fd();
    let frames = |page: u64, offset| Ring::map(fd, page.cast_signed(), offset, entries);
    Ok(Rings {
        receive: Ring::map(fd, libc::XDP_PGOFF_RX_RING, offsets.rx, entries)?,
        transmit: Ring::map(fd, libc::XDP_PGOFF_TX_RING, offsets.tx, entries)?,
        frames: match has_frames {
            false => None,
            true => Some((
                frames(libc::XDP_UMEM_PGOFF_FILL_RING, offsets.fr)?,
                frames(libc::XDP_UMEM_PGOFF_COMPLETION_RING, offsets.cr)?,
            )),
        },
    })
}

/// Binds the socket, with zero-copy if the driver supports it and `options` allow it. `in_parts`:
/// packets may span several frames.
pub(super) fn bind(
    fd: &OwnedFd,
    index: u32,
    frames: &Frames<'_>,
    options: SocketOptions,
    in_parts: bool,
) -> Result<(), Errno> {
    let flag = |set: bool, flag: u16| if set { flag } else { 0 };
    // Packets in several frames exist since 6.6 (commit 81470b5c3c66).
    let modes = flag(options.copy, libc::XDP_COPY) | flag(in_parts, libc::XDP_USE_SG);
    // A socket that shares memory has the mode and the wake-ups of the socket that registered it.
    let (flags, shared) = match frames {
        Frames::Registered(_) => (libc::XDP_USE_NEED_WAKEUP | modes, 0),
        Frames::Shared { with, .. } => (libc::XDP_SHARED_UMEM, with.as_raw_fd().cast_unsigned()),
    };
    let address = libc::sockaddr_xdp {
        sxdp_family: libc::AF_XDP as u16,
        sxdp_flags: flags,
        sxdp_ifindex: index,
        sxdp_queue_id: options.queue,
        sxdp_shared_umem_fd: shared,
    };
    // SAFETY: the address is a sockaddr_xdp of the given length.
    let code = unsafe {
        libc::bind(
            fd.as_raw_fd(),
            (&raw const address).cast(),
            size_of_val(&address) as u32,
        )
    };
    Errno::result(code).map(drop)
}

pub(crate) fn set_option<T>(
    fd: &OwnedFd,
    level: libc::c_int,
    option: libc::c_int,
    value: &T,
) -> io::Result<()> {
    // SAFETY: `value` is a plain struct or integer of the given length.
    let code = unsafe {
        libc::setsockopt(
            fd.as_raw_fd(),
            level,
            option,
            std::ptr::from_ref(value).cast(),
            size_of::<T>() as u32,
        )
    };
    Ok(Errno::result(code).map(drop)?)
}

pub(super) fn get_option<T>(fd: &OwnedFd, option: libc::c_int, value: &mut T) -> io::Result<()> {
    let mut len = size_of::<T>() as u32;
    // SAFETY: the kernel writes at most `len` bytes of integers to `value`.
    let code = unsafe {
        libc::getsockopt(
            fd.as_raw_fd(),
            libc::SOL_XDP,
            option,
            std::ptr::from_mut(value).cast(),
            &raw mut len,
        )
    };
    Errno::result(code)?;
    if len as usize != size_of::<T>() {
        return Err(io::Error::other("this kernel's AF_XDP is older than 5.4"));
    }
    Ok(())
}
