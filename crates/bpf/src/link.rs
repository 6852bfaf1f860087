//! Attaches programs to devices and cgroups by links: closing the descriptor detaches them.

use cofferdam_types::IfIndex;
use std::ffi::CStr;
use std::io::{self, Write};
use std::net::IpAddr;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

const BPF_RAW_TRACEPOINT_OPEN: libc::c_int = 17;
const BPF_LINK_CREATE: libc::c_int = 28;
pub(crate) const BPF_CGROUP_INET_INGRESS: u32 = 0;
pub(crate) const BPF_XDP: u32 = 37;
pub(crate) const BPF_TCX_INGRESS: u32 = 46;
pub(crate) const BPF_TCX_EGRESS: u32 = 47;
pub(crate) const XDP_FLAGS_SKB_MODE: u32 = 1 << 1;
pub(crate) const XDP_FLAGS_DRV_MODE: u32 = 1 << 2;

/// Attaches `program` to a device of the calling thread's network namespace.
///
/// # Errors
/// The kernel's: busy with another XDP program, unsupported, or no such device.
pub(crate) fn link_create(
    program: RawFd,
    device: IfIndex,
    kind: u32,
    flags: u32,
) -> io::Result<OwnedFd> {
    create(program, device.0, kind, flags)
}

/// Attaches `program` to the packets that the sockets of a cgroup and of its descendants receive.
///
/// # Errors
/// The kernel's: unsupported, or the cgroup was removed.
pub(crate) fn cgroup_link_create(program: RawFd, cgroup: BorrowedFd<'_>) -> io::Result<OwnedFd> {
    let target = cgroup.as_raw_fd().cast_unsigned();
    create(program, target, BPF_CGROUP_INET_INGRESS, 0)
}

/// Attaches `program` to a tracepoint: to `tracepoint`, or if that is `None` to the one for which
/// the program was loaded.
///
/// # Errors
/// The kernel's: no such tracepoint.
pub(crate) fn tracepoint_open(
    program: BorrowedFd<'_>,
    tracepoint: Option<&CStr>,
) -> io::Result<OwnedFd> {
    // union bpf_attr, raw_tracepoint: name, prog_fd.
    let name = tracepoint.map_or(0, |name| name.as_ptr() as u64);
    let program = program.as_raw_fd();
    bpf(
        BPF_RAW_TRACEPOINT_OPEN,
        &[&name.to_ne_bytes(), &program.to_ne_bytes()],
    )
}

fn create(program: RawFd, target: u32, kind: u32, flags: u32) -> io::Result<OwnedFd> {
    // union bpf_attr, link_create: prog_fd, target_ifindex or target_fd, attach_type, flags.
    let fields = [program.cast_unsigned(), target, kind, flags];
    let fields = fields.map(u32::to_ne_bytes);
    bpf(BPF_LINK_CREATE, &fields.each_ref().map(<[u8; 4]>::as_slice))
}

/// Makes the system call, for a command that returns a descriptor. `fields` are the first ones of
/// its part of union bpf_attr; the rest is zero.
fn bpf(command: libc::c_int, fields: &[&[u8]]) -> io::Result<OwnedFd> {
    let mut attr = [0_u8; 64];
    let mut rest = &mut attr[..];
    for field in fields {
        rest.write_all(field)?;
    }
    // SAFETY: `attr` is valid for the size that is passed, and outlives the call. So does the
    // memory to which it points, which the caller owns.
    let fd = unsafe { libc::syscall(libc::SYS_bpf, command, attr.as_ptr(), attr.len()) };
    let fd = RawFd::try_from(fd).unwrap_or(-1);
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel has just made this descriptor for us.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Returns an address in the form of the programs' maps: 16 bytes, IPv4 as `::ffff:a.b.c.d`.
pub(crate) fn address_key(address: IpAddr) -> [u8; 16] {
    match address {
        IpAddr::V4(v4) => v4.to_ipv6_mapped().octets(),
        IpAddr::V6(v6) => v6.octets(),
    }
}
