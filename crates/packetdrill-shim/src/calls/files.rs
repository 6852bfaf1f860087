//! Copying between sockets and the kernel's files: `pipe`, `splice` and `sendfile`.

use super::convert::{give, may_wait, shim};
use crate::host::{Flags, Result};
use crate::memory;
use crate::shim::Shim;
use libc::{c_int, c_uint, c_void, loff_t, off_t, size_t, ssize_t};
use nix::errno::Errno;

/// Maximum number of bytes per call.
const MOST_BYTES: usize = 16 << 20;

/// Creates a pipe of the kernel.
pub unsafe extern "C" fn pipe(_: *mut c_void, ends: *mut c_int) -> c_int {
    // SAFETY: the kernel checks the pointer.
    unsafe { libc::pipe2(ends, libc::O_CLOEXEC) }
}

/// Copies from a pipe to a socket, or from a socket to a pipe.
///
/// packetdrill passes a pointer for each offset of a script, where Linux requires a null pointer;
/// an offset of zero counts as null.
pub unsafe extern "C" fn splice(
    userdata: *mut c_void,
    from: c_int,
    from_offset: *mut loff_t,
    to: c_int,
    to_offset: *mut loff_t,
    len: size_t,
    flags: c_uint,
) -> ssize_t {
    // SAFETY: packetdrill passes the table's own `userdata`.
    let shim = unsafe { shim(userdata) };
    let (reads, writes) = shim.call(|host| (host.owns(from), host.owns(to)));
    let offset = |offset: *mut loff_t| -> Result<loff_t> {
        if offset.is_null() {
            return Ok(0);
        }
        memory::get(offset)
    };
    let no_wait = flags & libc::SPLICE_F_NONBLOCK != 0;
    give(offset(from_offset).and_then(|from_offset| {
        if from_offset != 0 || offset(to_offset)? != 0 {
            return Err(Errno::ESPIPE);
        }
        match (reads, writes) {
            (true, false) => into_pipe(shim, from, to, len.min(MOST_BYTES), no_wait),
            (false, true) => {
                let bytes = read_file(from, None, len.min(MOST_BYTES))?;
                send_all(shim, to, &bytes, no_wait)
            }
            // One end must be a pipe (splice(2)).
            (true, true) => Err(Errno::EINVAL),
            (false, false) => {
                let none = std::ptr::null_mut();
                // SAFETY: both descriptors are the kernel's.
                Errno::result(unsafe { libc::splice(from, none, to, none, len, flags) })
                    .map(|moved| moved as usize)
            }
        }
    }))
}

/// Takes no more from the socket than the pipe has room for.
fn into_pipe(shim: &Shim, from: c_int, to: c_int, len: usize, no_wait: bool) -> Result<usize> {
    // SAFETY: the call only queries a descriptor.
    let room = Errno::result(unsafe { libc::fcntl(to, libc::F_GETPIPE_SZ) })?;
    let most = len.min(usize::try_from(room).unwrap_or(0));
    let waits = !no_wait && !shim.call(|host| host.is_nonblocking(from));
    let bytes = may_wait(shim, waits, |host| host.splice_read(from, most))?;
    // SAFETY: the buffer and its length are valid.
    let written = unsafe { libc::write(to, bytes.as_ptr().cast(), bytes.len()) };
    Errno::result(written).map(|written| written as usize)
}

/// Copies from a file to a socket. If `offset` is given, reading starts there and the offset
/// advances; otherwise it starts at the file's own position.
pub unsafe fn sendfile(
    userdata: *mut c_void,
    to: c_int,
    from: c_int,
    offset: *mut off_t,
    len: size_t,
) -> ssize_t {
    // SAFETY: packetdrill passes the table's own `userdata`.
    let shim = unsafe { shim(userdata) };
    let moved = || -> Result<usize> {
        let at = match offset.is_null() {
            true => None,
            false => Some(memory::get(offset)?),
        };
        let bytes = read_file(from, at, len.min(MOST_BYTES))?;
        let sent = send_all(shim, to, &bytes, false)?;
        if let Some(at) = at {
            memory::put(offset, at + sent as off_t)?;
        }
        Ok(sent)
    };
    give(moved())
}

/// Reads from a file of the kernel.
fn read_file(file: c_int, at: Option<off_t>, len: usize) -> Result<Vec<u8>> {
    let mut bytes = vec![0_u8; len];
    let pointer = bytes.as_mut_ptr().cast();
    // SAFETY: the buffer and its length are valid.
    let read = unsafe {
        match at {
            Some(at) => libc::pread(file, pointer, len, at),
            None => libc::read(file, pointer, len),
        }
    };
    bytes.truncate(Errno::result(read)? as usize);
    Ok(bytes)
}

fn send_all(shim: &Shim, to: c_int, bytes: &[u8], no_wait: bool) -> Result<usize> {
    let flags = Flags {
        dont_wait: no_wait,
        ..Flags::default()
    };
    super::data::send_bytes(shim, to, bytes, flags)
}
