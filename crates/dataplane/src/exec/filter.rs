//! Refusal of io_uring, which makes socket calls without the C library.

use cofferdam_pkey::seccomp;
use std::io;

/// Number of io_uring_setup, before io_uring_enter and io_uring_register, on x86-64 and arm64.
const FIRST: u32 = 425;
const LAST: u32 = 427;

/// Installs the filter for this process and all that it starts. As the kernel requires, these gain
/// no rights by set-uid bits any more.
///
/// # Errors
/// The kernel has no filters.
pub fn refuse_io_uring() -> io::Result<()> {
    let statement = |code: u32, k: u32| libc::sock_filter {
        code: code as u16,
        jt: 0,
        jf: 0,
        k,
    };
    let jump = |code: u32, k: u32, jt: u8, jf: u8| libc::sock_filter {
        code: code as u16,
        jt,
        jf,
        k,
    };
    let compare = libc::BPF_JMP | libc::BPF_K;
    let number = std::mem::offset_of!(libc::seccomp_data, nr) as u32;
    let filter = [
        statement(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, number),
        jump(compare | libc::BPF_JGE, FIRST, 0, 2),
        jump(compare | libc::BPF_JGT, LAST, 1, 0),
        statement(
            libc::BPF_RET | libc::BPF_K,
            libc::SECCOMP_RET_ERRNO | libc::ENOSYS as u32,
        ),
        statement(libc::BPF_RET | libc::BPF_K, libc::SECCOMP_RET_ALLOW),
    ];
    seccomp::install(&filter)
}
