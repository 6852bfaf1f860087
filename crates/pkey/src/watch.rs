//! Watching of accidental instructions: bytes of the program's code that happen to write PKRU when
//! a jump goes into the middle of an instruction. They cannot be overwritten, so the CPU watches
//! them.
//!
//! A CPU has four breakpoint registers, each for one address. Only the program's own code is
//! watched: some megabytes have one such place, or none.

use nix::errno::Errno;
use std::io;
use std::os::fd::{FromRawFd, OwnedFd};

/// Breakpoint registers of a CPU.
pub(crate) const MOST: usize = 4;

/// `si_code` of SIGTRAP by a breakpoint that was requested from the kernel (TRAP_PERF).
pub(crate) const TRAP_PERF: i32 = 6;

/// Whether a byte may precede an instruction without changing it.
fn is_prefix(byte: u8) -> bool {
    matches!(byte, 0x26 | 0x2e | 0x36 | 0x3e | 0x40..=0x4f | 0x64..=0x67 | 0xf0 | 0xf2 | 0xf3)
}

/// Addresses from which an instruction at `at` can be run: its first byte, and prefixes before it.
pub(crate) fn starts(code: &[u8], at: usize) -> impl Iterator<Item = usize> {
    let before = code[..at].iter().rev().take_while(|byte| is_prefix(**byte));
    let prefixes = before.count().min(14);
    at - prefixes..=at
}

/// Makes the kernel send SIGTRAP to the calling thread before it runs the instruction at an
/// address, as long as the descriptor is open.
pub(crate) fn watch(address: usize) -> io::Result<OwnedFd> {
    /// struct perf_event_attr (linux/perf_event.h), version 7, since 5.13 (commit 97ba62b27867).
    #[repr(C)]
    struct Attributes {
        kind: u32,
        size: u32,
        config: u64,
        sample_period: u64,
        sample_type: u64,
        read_format: u64,
        flags: u64,
        wakeup_events: u32,
        breakpoint: u32,
        address: u64,
        len: u64,
        rest: [u64; 7],
    }
    const _: () = assert!(size_of::<Attributes>() == 128);
    const BREAKPOINT: u32 = 5;
    const EXECUTION: u32 = 4;
    const EXCLUDE_KERNEL: u64 = 1 << 5;
    const EXCLUDE_HYPERVISOR: u64 = 1 << 6;
    const REMOVE_ON_EXEC: u64 = 1 << 36;
    const SIGTRAP: u64 = 1 << 37;
    const CLOSE_ON_EXEC: u64 = 8;
    let attributes = Attributes {
        kind: BREAKPOINT,
        size: size_of::<Attributes>() as u32,
        config: 0,
        sample_period: 1,
        sample_type: 0,
        read_format: 0,
        flags: EXCLUDE_KERNEL | EXCLUDE_HYPERVISOR | REMOVE_ON_EXEC | SIGTRAP,
        wakeup_events: 0,
        breakpoint: EXECUTION,
        address: address as u64,
        len: size_of::<libc::c_long>() as u64,
        rest: [0; 7],
    };
    // SAFETY: a structure of the size that it says; the call makes a descriptor.
    let fd = unsafe {
        libc::syscall(
            libc::SYS_perf_event_open,
            &raw const attributes,
            0,
            -1,
            -1,
            CLOSE_ON_EXEC,
        )
    };
    let fd = Errno::result(fd)?;
    // SAFETY: the kernel has just made it for us.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as i32) })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise 69.
    #[test]
    fn prefixes_before_an_instruction_are_watched_with_it() {
        let all = |code: &[u8], at| starts(code, at).collect::<Vec<_>>();
        assert_eq!(all(&[0x90, 0x0f, 0xae, 0x28], 1), [1]);
        assert_eq!(all(&[0x90, 0x48, 0x0f, 0xae, 0x28], 2), [1, 2]);
        assert_eq!(all(&[0x2e, 0x48, 0x0f, 0xae, 0x28], 2), [0, 1, 2]);
        assert_eq!(all(&[0x0f, 0xae, 0x28], 0), [0]);
    }
}
