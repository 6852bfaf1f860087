//! Two calls that the standard library lacks: a thread's own CPU time, and a socket's receive
//! buffer.

use std::net::UdpSocket;
use std::os::fd::AsRawFd;

/// `struct timespec` of every 64-bit Linux.
#[repr(C)]
struct Timespec {
    sec: i64,
    nsec: i64,
}

unsafe extern "C" {
    fn clock_gettime(clock: i32, time: *mut Timespec) -> i32;
    fn setsockopt(fd: i32, level: i32, name: i32, value: *const i32, len: u32) -> i32;
}

/// `CLOCK_THREAD_CPUTIME_ID` of `<linux/time.h>`.
const THREAD_CPUTIME: i32 = 3;
/// `SOL_SOCKET` and `SO_RCVBUFFORCE` of `<asm-generic/socket.h>`.
const SOL_SOCKET: i32 = 1;
const SO_RCVBUFFORCE: i32 = 33;

/// CPU time of the calling thread, nanoseconds.
pub fn thread_cpu_ns() -> u64 {
    let mut time = Timespec { sec: 0, nsec: 0 };
    // SAFETY: the pointer is to a live, writable timespec of the C library's layout, which the
    // call only writes to.
    let failed = unsafe { clock_gettime(THREAD_CPUTIME, &raw mut time) } != 0;
    if failed {
        return 0;
    }
    (time.sec as u64) * 1_000_000_000 + time.nsec as u64
}

/// Asks for a receive buffer of `bytes`. Without the right to it, the kernel's default stays and
/// the socket may lose datagrams.
pub fn receive_buffer(socket: &UdpSocket, bytes: i32) {
    // SAFETY: the descriptor is the live socket's; the value is an int as the option wants, read
    // during the call only, and its length is its size.
    let _refused = unsafe {
        setsockopt(
            socket.as_raw_fd(),
            SOL_SOCKET,
            SO_RCVBUFFORCE,
            &raw const bytes,
            size_of::<i32>() as u32,
        )
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_busy_thread_uses_cpu_time() {
        let before = thread_cpu_ns();
        let mut x = 1_u64;
        for i in 0..3_000_000_u64 {
            x = std::hint::black_box(x.wrapping_mul(31) ^ i);
        }
        assert!(thread_cpu_ns() > before, "{x}");
    }
}
