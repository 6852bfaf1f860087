//! Attaching programs to devices and cgroups by links: detached when the descriptor closes.

use cofferdam_types::IfIndex;
use std::io;
use std::net::IpAddr;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

const BPF_LINK_CREATE: libc::c_int = 28;
pub(crate) const BPF_CGROUP_INET_INGRESS: u32 = 0;
pub(crate) const BPF_XDP: u32 = 37;
pub(crate) const BPF_TCX_INGRESS: u32 = 46;
pub(crate) const XDP_FLAGS_SKB_MODE: u32 = 1 << 1;
pub(crate) const XDP_FLAGS_DRV_MODE: u32 = 1 << 2;

/// Attaches `program` to a device of the network namespace that the calling thread is in.
///
/// # Errors
/// The kernel's: busy when another XDP program is there, unsupported, the device gone.
pub(crate) fn link_create(
    program: RawFd,
    device: IfIndex,
    kind: u32,
    flags: u32,
) -> io::Result<OwnedFd> {
    create(program, device.0, kind, flags)
}

/// Attaches `program` to what the sockets of a cgroup and of those below it receive.
///
/// # Errors
/// The kernel's: the cgroup is gone, unsupported.
pub(crate) fn cgroup_link_create(program: RawFd, cgroup: BorrowedFd<'_>) -> io::Result<OwnedFd> {
    let target = cgroup.as_raw_fd().cast_unsigned();
    create(program, target, BPF_CGROUP_INET_INGRESS, 0)
}

fn create(program: RawFd, target: u32, kind: u32, flags: u32) -> io::Result<OwnedFd> {
    // union bpf_attr, link_create: prog_fd, target_ifindex or target_fd, attach_type, flags; the
    // rest zero.
    let mut attr = [0_u32; 16];
    attr[0] = program.cast_unsigned();
    attr[1] = target;
    attr[2] = kind;
    attr[3] = flags;
    // SAFETY: `attr` is valid for the size that is passed, and outlives the call.
    let fd = unsafe {
        libc::syscall(
            libc::SYS_bpf,
            BPF_LINK_CREATE,
            attr.as_ptr(),
            size_of_val(&attr),
        )
    };
    let fd = RawFd::try_from(fd).unwrap_or(-1);
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel has just made this descriptor for us.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// An address as the programs' maps know it: 16 bytes, IPv4 as `::ffff:a.b.c.d`.
pub(crate) fn address_key(address: IpAddr) -> [u8; 16] {
    match address {
        IpAddr::V4(v4) => v4.to_ipv6_mapped().octets(),
        IpAddr::V6(v6) => v6.octets(),
    }
}
