//! Many datagrams in one system call. nix's wrappers allocate headers for each call and need
//! addresses; a flood reuses one set of headers over connected sockets.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

/// Fixed set of equal buffers with their message headers.
pub(crate) struct Batch {
    headers: Vec<libc::mmsghdr>,
    // Owned here so that the pointers in `headers` stay valid; never resized after `new`.
    _iovecs: Vec<libc::iovec>,
    _buffer: Vec<u8>,
}

impl Batch {
    /// Makes `count` messages of `size` bytes each.
    pub fn new(count: usize, size: usize) -> Batch {
        let mut buffer = vec![0x5a_u8; count * size];
        let mut iovecs: Vec<libc::iovec> = (0..count)
            .map(|i| libc::iovec {
                iov_base: buffer[i * size..].as_mut_ptr().cast(),
                iov_len: size,
            })
            .collect();
        let headers = iovecs
            .iter_mut()
            .map(|iovec| {
                // SAFETY: an all-zero mmsghdr is valid: null pointers with zero lengths.
                let mut header: libc::mmsghdr = unsafe { std::mem::zeroed() };
                header.msg_hdr.msg_iov = iovec;
                header.msg_hdr.msg_iovlen = 1;
                header
            })
            .collect();
        Batch {
            headers,
            _iovecs: iovecs,
            _buffer: buffer,
        }
    }

    /// Sends up to `count` messages on a connected socket; returns the number sent.
    pub fn send(&mut self, socket: BorrowedFd<'_>, count: usize) -> io::Result<usize> {
        let count = count.min(self.headers.len());
        // SAFETY: the first `count` headers point into buffers that `self` owns and that live
        // as long as it does; the kernel writes only `msg_len`.
        let sent = unsafe {
            libc::sendmmsg(
                socket.as_raw_fd(),
                self.headers.as_mut_ptr(),
                count as u32,
                0,
            )
        };
        usize::try_from(sent).map_err(|_| io::Error::last_os_error())
    }

    /// Receives the waiting messages without blocking; returns (messages, payload bytes).
    pub fn receive(&mut self, socket: BorrowedFd<'_>) -> io::Result<(usize, u64)> {
        let flags = libc::MSG_DONTWAIT | libc::MSG_TRUNC;
        // SAFETY: every header points to its own buffer of `iov_len` bytes, owned by `self`;
        // no address or control buffer is given; the timeout may be null.
        let got = unsafe {
            libc::recvmmsg(
                socket.as_raw_fd(),
                self.headers.as_mut_ptr(),
                self.headers.len() as u32,
                flags,
                std::ptr::null_mut(),
            )
        };
        let got = usize::try_from(got).map_err(|_| io::Error::last_os_error())?;
        let bytes = self.headers[..got]
            .iter()
            .map(|h| u64::from(h.msg_len))
            .sum();
        Ok((got, bytes))
    }
}
