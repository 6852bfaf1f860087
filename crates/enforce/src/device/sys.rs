//! System calls that the standard library does not wrap.

use std::ffi::{CStr, CString};
use std::fs::File;
use std::io;
use std::mem::{size_of, zeroed};
use std::net::UdpSocket;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

const FSCONFIG_CMD_CREATE: libc::c_uint = 6;
const FSCONFIG_SET_FLAG: libc::c_uint = 0;
const FSCONFIG_CMD_RECONFIGURE: libc::c_uint = 7;
const FSPICK_CLOEXEC: libc::c_uint = 1;
const FSPICK_EMPTY_PATH: libc::c_uint = 8;
const FSOPEN_CLOEXEC: libc::c_uint = 1;
const FSMOUNT_CLOEXEC: libc::c_uint = 1;
/// Socket option since Linux 5.14.
const SO_NETNS_COOKIE: libc::c_int = 71;

fn descriptor(result: libc::c_long) -> io::Result<OwnedFd> {
    let fd = libc::c_int::try_from(result).unwrap_or(-1);
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the system call just returned this descriptor, and only we own it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Mounts the sysfs of the calling thread's network namespace at no path: it ends with the
/// descriptor. `ip netns exec` needs a mount namespace and a mount over /sys for that. Requires
/// Linux 5.2.
pub(super) fn mount_sysfs() -> io::Result<OwnedFd> {
    // SAFETY: the strings are NUL-terminated literals; the other arguments are integers.
    let context =
        descriptor(unsafe { libc::syscall(libc::SYS_fsopen, c"sysfs".as_ptr(), FSOPEN_CLOEXEC) })?;
    fsconfig(&context, FSCONFIG_CMD_CREATE, None)?;
    // SAFETY: integers only.
    descriptor(unsafe {
        libc::syscall(
            libc::SYS_fsmount,
            context.as_raw_fd(),
            FSMOUNT_CLOEXEC,
            libc::MS_NOSUID,
        )
    })
}

/// Sets a flag of the mounted file system's superblock, `ro` or `rw`. The mounts keep their own
/// flags.
pub(super) fn reconfigure(mount: &OwnedFd, flag: &CStr) -> io::Result<()> {
    // SAFETY: an empty, NUL-terminated path names the descriptor itself; integers otherwise.
    let context = descriptor(unsafe {
        libc::syscall(
            libc::SYS_fspick,
            mount.as_raw_fd(),
            c"".as_ptr(),
            FSPICK_CLOEXEC | FSPICK_EMPTY_PATH,
        )
    })?;
    fsconfig(&context, FSCONFIG_SET_FLAG, Some(flag))?;
    fsconfig(&context, FSCONFIG_CMD_RECONFIGURE, None)
}

fn fsconfig(context: &OwnedFd, command: libc::c_uint, key: Option<&CStr>) -> io::Result<()> {
    // SAFETY: the key is NUL-terminated and outlives the call; commands without one take null
    // pointers, as does the value in all of them.
    let result = unsafe {
        libc::syscall(
            libc::SYS_fsconfig,
            context.as_raw_fd(),
            command,
            key.map_or(std::ptr::null(), CStr::as_ptr),
            std::ptr::null::<libc::c_void>(),
            0,
        )
    };
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

/// Opens a file below a directory descriptor.
pub(super) fn open_below(directory: &OwnedFd, path: &Path, write: bool) -> io::Result<File> {
    let path = CString::new(path.as_os_str().as_bytes())?;
    let access = if write {
        libc::O_WRONLY
    } else {
        libc::O_RDONLY
    };
    // SAFETY: `path` is NUL-terminated and outlives the call.
    let fd = unsafe {
        libc::openat(
            directory.as_raw_fd(),
            path.as_ptr(),
            access | libc::O_CLOEXEC,
        )
    };
    descriptor(fd.into()).map(File::from)
}

/// Cookie of the socket's network namespace; never reused.
pub(super) fn netns_cookie(socket: &UdpSocket) -> io::Result<u64> {
    let mut cookie = 0_u64;
    let mut length = size_of::<u64>() as libc::socklen_t;
    // SAFETY: both pointers are to live variables of the sizes that are passed.
    let result = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            SO_NETNS_COOKIE,
            (&raw mut cookie).cast(),
            &raw mut length,
        )
    };
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(cookie)
}

/// Name of the device with this index in the socket's namespace.
pub(super) fn interface_name(socket: &UdpSocket, ifindex: u32) -> io::Result<String> {
    // SAFETY: ifreq is plain data for which all zeroes is a valid value.
    let mut request: libc::ifreq = unsafe { zeroed() };
    request.ifr_ifru.ifru_ifindex = ifindex.cast_signed();
    // SAFETY: `request` is a whole ifreq that outlives the call.
    let result = unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCGIFNAME, &raw mut request) };
    if result < 0 {
        let e = io::Error::last_os_error();
        return Err(match e.raw_os_error() {
            Some(libc::ENODEV | libc::ENXIO) => super::not_found("the network device is gone"),
            _ => e,
        });
    }
    let name = request.ifr_name.iter().take_while(|c| **c != 0);
    let bytes: Vec<u8> = name.map(|c| c.cast_unsigned()).collect();
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// Sends a `SIOCETHTOOL` request of 32-bit words; the kernel answers in place.
pub(super) fn ethtool(socket: &UdpSocket, name: &str, words: &mut [u32]) -> io::Result<i32> {
    // SAFETY: each command's size is stated inside `words` by the caller (ethtool.rs), who made
    // it as long as that.
    unsafe { cofferdam_host::device_request(socket, name, libc::SIOCETHTOOL, words) }
}
