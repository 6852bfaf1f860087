use super::*;
use crate::region::{BASE, END};

const BOUNDS: Bounds = Bounds {
    first: 0x5555_5678_9000,
    end: 0x7fff_1234_5000,
};
const RW: u64 = (libc::PROT_READ | libc::PROT_WRITE) as u64;
const ANONYMOUS: u64 = (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS) as u64;

fn of(number: i64, arguments: &[u64]) -> Action {
    let mut all = [0; 6];
    all[..arguments.len()].copy_from_slice(arguments);
    decide(BOUNDS, &[77], number, all)
}

#[test]
fn what_the_loop_needs_is_allowed() {
    for number in [
        libc::SYS_sendto,
        libc::SYS_sendmsg,
        libc::SYS_ppoll,
        libc::SYS_epoll_wait,
        libc::SYS_read,
        libc::SYS_write,
        libc::SYS_futex,
        libc::SYS_getsockopt,
        libc::SYS_sched_yield,
        libc::SYS_clock_gettime,
    ] {
        assert_eq!(of(number, &[]), Action::Allow, "{number}");
    }
}

#[test]
fn what_ends_the_process_or_forges_registers_is_trapped() {
    for number in TRAPPED {
        assert_eq!(of(*number, &[]), Action::Trap, "{number}");
    }
}

/// Promise 69.
#[test]
fn what_would_undo_the_protection_is_refused() {
    for number in [
        libc::SYS_pkey_alloc,
        libc::SYS_pkey_free,
        libc::SYS_pkey_mprotect,
        libc::SYS_mremap,
        libc::SYS_madvise,
        libc::SYS_process_madvise,
        libc::SYS_remap_file_pages,
        libc::SYS_shmat,
        libc::SYS_process_vm_readv,
        libc::SYS_process_vm_writev,
        libc::SYS_ptrace,
        libc::SYS_io_uring_setup,
        libc::SYS_userfaultfd,
        libc::SYS_personality,
        libc::SYS_modify_ldt,
        libc::SYS_arch_prctl,
        libc::SYS_prctl,
        libc::SYS_seccomp,
        libc::SYS_rseq,
        libc::SYS_set_robust_list,
        libc::SYS_set_tid_address,
        libc::SYS_rt_sigaction,
        libc::SYS_rt_sigprocmask,
        libc::SYS_sigaltstack,
        libc::SYS_clone,
        libc::SYS_clone3,
        libc::SYS_fork,
        libc::SYS_vfork,
        libc::SYS_execve,
        libc::SYS_execveat,
        libc::SYS_bpf,
        libc::SYS_perf_event_open,
        // A call that does not exist yet, and getpid of the x32 interface.
        1000,
        0x4000_0000 | libc::SYS_getpid,
    ] {
        assert_eq!(of(number, &[]), Action::Refuse, "{number}");
    }
    let filter = program(BOUNDS, &[]);
    let i386 = 0x4000_0003;
    assert_eq!(run(&filter, i386, libc::SYS_getpid, [0; 6]), Action::Refuse);
}

/// Promise 69.
#[test]
fn a_guest_maps_only_anonymous_memory_without_code() {
    let mmap = |rights: u64, flags: u64| of(libc::SYS_mmap, &[0, 4096, rights, flags, u64::MAX, 0]);
    assert_eq!(mmap(RW, ANONYMOUS), Action::Allow);
    assert_eq!(
        mmap(RW, ANONYMOUS | libc::MAP_NORESERVE as u64),
        Action::Allow
    );
    assert_eq!(mmap(RW | libc::PROT_EXEC as u64, ANONYMOUS), Action::Refuse);
    assert_eq!(mmap(RW, ANONYMOUS | libc::MAP_FIXED as u64), Action::Refuse);
    assert_eq!(
        mmap(RW, ANONYMOUS | libc::MAP_FIXED_NOREPLACE as u64),
        Action::Refuse
    );
    assert_eq!(
        mmap(RW, libc::MAP_SHARED as u64),
        Action::Refuse,
        "a descriptor's memory"
    );
}

/// Promise 69.
#[test]
fn no_range_that_leaves_ordinary_memory_is_changed() {
    let random = &mut fastrand::Rng::with_seed(5);
    let interesting = [
        0,
        BASE as u64,
        END as u64 - 4096,
        BOUNDS.first - 4096,
        BOUNDS.first,
        BOUNDS.first | 0xffff_f000,
        BOUNDS.end - 4096,
        BOUNDS.end,
        BOUNDS.end | 0xffff_f000,
        u64::MAX - 4095,
    ];
    for _ in 0..100_000 {
        let near = interesting[random.usize(0..interesting.len())];
        let start = near
            .wrapping_add(random.u64(0..16) * 4096)
            .wrapping_sub(8 * 4096);
        let len = match random.u8(0..4) {
            0 => random.u64(0..16) * 4096,
            1 => random.u64(..),
            2 => u64::from(random.u32(..)),
            _ => BOUNDS
                .end
                .wrapping_sub(start)
                .wrapping_add(random.u64(0..3))
                .wrapping_sub(1),
        };
        let end = u128::from(start) + u128::from(len);
        let is_inside = start >= BOUNDS.first && end <= u128::from(BOUNDS.end) && len >> 32 == 0;
        let expected = if is_inside {
            Action::Allow
        } else {
            Action::Refuse
        };
        assert_eq!(
            of(libc::SYS_munmap, &[start, len]),
            expected,
            "{start:#x} {len:#x}"
        );
        assert_eq!(
            of(libc::SYS_mprotect, &[start, len, RW]),
            expected,
            "{start:#x} {len:#x}"
        );
        let code = RW | libc::PROT_EXEC as u64;
        assert_eq!(of(libc::SYS_mprotect, &[start, len, code]), Action::Refuse);
    }
}

/// Promise 69.
#[test]
fn descriptors_that_are_kept_cannot_be_closed() {
    assert_eq!(of(libc::SYS_close, &[77]), Action::Refuse);
    // The kernel looks at 32 bits.
    assert_eq!(of(libc::SYS_close, &[0x1_0000_004d]), Action::Refuse);
    assert_eq!(of(libc::SYS_close, &[76]), Action::Allow);
    assert_eq!(of(libc::SYS_dup2, &[1, 77]), Action::Refuse);
    assert_eq!(of(libc::SYS_dup3, &[1, 77, 0]), Action::Refuse);
    assert_eq!(of(libc::SYS_close_range, &[0, 100]), Action::Refuse);
}
