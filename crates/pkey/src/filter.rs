//! The system calls that the thread of host and guest may make.
//!
//! The filter lists what is allowed, not what is known to be harmful, because the kernel gets new
//! calls. The list is short: the loop has set everything up before, and the guest can neither start
//! threads or processes nor map files.

use crate::seccomp;
use std::io;

/// Addresses that a system call may change: the guest's ordinary memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// First address: behind the region and the program.
    pub first: u64,
    /// First address behind the range: the libraries, the first thread's stack.
    pub end: u64,
}

/// Outcome of a system call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// The kernel executes it.
    Allow,
    /// The call fails with EPERM.
    Refuse,
    /// The kernel raises SIGSYS, which ends the guest.
    Trap,
}

impl Action {
    fn value(self) -> u32 {
        match self {
            Action::Allow => libc::SECCOMP_RET_ALLOW,
            Action::Refuse => libc::SECCOMP_RET_ERRNO | libc::EPERM as u32,
            Action::Trap => libc::SECCOMP_RET_TRAP,
        }
    }
}

/// Calls that are allowed with any arguments, those of the loop first.
const ALLOWED: &[i64] = &[
    libc::SYS_sendto,
    libc::SYS_sendmsg,
    libc::SYS_ppoll,
    libc::SYS_epoll_wait,
    libc::SYS_epoll_pwait,
    libc::SYS_read,
    libc::SYS_write,
    libc::SYS_futex,
    libc::SYS_getsockopt,
    libc::SYS_recvmsg,
    libc::SYS_recvfrom,
    libc::SYS_sched_yield,
    libc::SYS_poll,
    libc::SYS_readv,
    libc::SYS_writev,
    libc::SYS_pread64,
    libc::SYS_pwrite64,
    libc::SYS_epoll_ctl,
    libc::SYS_epoll_create1,
    libc::SYS_eventfd2,
    libc::SYS_timerfd_create,
    libc::SYS_timerfd_settime,
    libc::SYS_fstat,
    libc::SYS_newfstatat,
    libc::SYS_statx,
    libc::SYS_lseek,
    libc::SYS_openat,
    libc::SYS_open,
    libc::SYS_getdents64,
    libc::SYS_fcntl,
    libc::SYS_pipe2,
    libc::SYS_socket,
    libc::SYS_socketpair,
    libc::SYS_connect,
    libc::SYS_bind,
    libc::SYS_listen,
    libc::SYS_accept4,
    libc::SYS_shutdown,
    libc::SYS_getsockname,
    libc::SYS_getpeername,
    libc::SYS_setsockopt,
    libc::SYS_brk,
    libc::SYS_clock_gettime,
    libc::SYS_clock_getres,
    libc::SYS_clock_nanosleep,
    libc::SYS_nanosleep,
    libc::SYS_gettimeofday,
    libc::SYS_getrandom,
    libc::SYS_getpid,
    libc::SYS_gettid,
    libc::SYS_getuid,
    libc::SYS_getgid,
    libc::SYS_geteuid,
    libc::SYS_getegid,
    libc::SYS_getcpu,
    libc::SYS_sched_getaffinity,
    libc::SYS_uname,
    libc::SYS_sysinfo,
    libc::SYS_restart_syscall,
];

/// Calls that end the process, or set registers as the guest likes, PKRU among them.
const TRAPPED: &[i64] = &[
    libc::SYS_exit,
    libc::SYS_exit_group,
    libc::SYS_kill,
    libc::SYS_tkill,
    libc::SYS_tgkill,
    libc::SYS_rt_sigreturn,
];

/// AUDIT_ARCH_X86_64 (linux/audit.h).
const X86_64: u32 = 0xc000_003e;

/// A program of classic BPF, built forwards. Jumps go to the next instruction or to the end of a
/// rule.
#[derive(Default)]
struct Program(Vec<libc::sock_filter>);

/// Offset of half an argument in the description of the call (struct seccomp_data).
fn argument(number: u32, is_high: bool) -> u32 {
    16 + 8 * number + 4 * u32::from(is_high)
}

impl Program {
    fn push(&mut self, code: u32, k: u32, jt: u8, jf: u8) {
        let code = code as u16;
        self.0.push(libc::sock_filter { code, jt, jf, k });
    }

    fn load(&mut self, offset: u32) {
        self.push(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, offset, 0, 0);
    }

    fn end(&mut self, action: Action) {
        self.push(libc::BPF_RET | libc::BPF_K, action.value(), 0, 0);
    }

    /// Adds `action` for a value equal to `k`.
    fn if_equal(&mut self, k: u32, action: Action) {
        self.push(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, k, 0, 1);
        self.end(action);
    }

    /// Adds `action` for a value other than `k`.
    fn unless_equal(&mut self, k: u32, action: Action) {
        self.push(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, k, 1, 0);
        self.end(action);
    }

    /// Adds `action` for a value with any of these bits.
    fn if_any(&mut self, bits: u32, action: Action) {
        self.push(libc::BPF_JMP | libc::BPF_JSET | libc::BPF_K, bits, 0, 1);
        self.end(action);
    }

    /// Adds `rule` for the call `number`, which is loaded. The rule ends in an action.
    fn rule(&mut self, number: i64, rule: impl FnOnce(&mut Program)) {
        let mut body = Program::default();
        rule(&mut body);
        let len = body.0.len() as u8;
        self.push(
            libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K,
            number as u32,
            0,
            len,
        );
        self.0.append(&mut body.0);
    }

    /// Refuses a range from argument 0, as long as argument 1, unless it lies within the bounds.
    fn within(&mut self, bounds: Bounds) {
        let jump = |test: u32| libc::BPF_JMP | test | libc::BPF_K;
        let halves = |value: u64| ((value >> 32) as u32, value as u32);
        let (first, end) = (halves(bounds.first), halves(bounds.end));
        // The first address is compared.
        self.load(argument(0, true));
        self.push(jump(libc::BPF_JGT), first.0, 4, 0);
        self.push(jump(libc::BPF_JEQ), first.0, 0, 2);
        self.load(argument(0, false));
        self.push(jump(libc::BPF_JGE), first.1, 1, 0);
        self.end(Action::Refuse);
        // The length has 32 bits.
        self.load(argument(1, true));
        self.unless_equal(0, Action::Refuse);
        // The sum must not wrap around.
        self.load(argument(0, true));
        self.push(jump(libc::BPF_JGT), end.0, 0, 1);
        self.end(Action::Refuse);
        // The end: its lower half goes to M[0], its upper half to A.
        self.load(argument(1, false));
        self.push(libc::BPF_MISC | libc::BPF_TAX, 0, 0, 0);
        self.load(argument(0, false));
        self.push(libc::BPF_ALU | libc::BPF_ADD | libc::BPF_X, 0, 0, 0);
        self.push(libc::BPF_ST, 0, 0, 0);
        // A sum that is less than one of its terms carries.
        self.push(libc::BPF_JMP | libc::BPF_JGE | libc::BPF_X, 0, 0, 2);
        self.load(argument(0, true));
        self.push(libc::BPF_JMP | libc::BPF_JA, 2, 0, 0);
        self.load(argument(0, true));
        self.push(libc::BPF_ALU | libc::BPF_ADD | libc::BPF_K, 1, 0, 0);
        self.push(jump(libc::BPF_JGT), end.0, 4, 0);
        self.push(jump(libc::BPF_JEQ), end.0, 0, 2);
        self.push(libc::BPF_LD | libc::BPF_MEM, 0, 0, 0);
        self.push(jump(libc::BPF_JGT), end.1, 1, 0);
        self.push(libc::BPF_JMP | libc::BPF_JA, 1, 0, 0);
        self.end(Action::Refuse);
    }
}

/// Filter for a process whose ordinary memory lies in `bounds`. The descriptors in `kept` must stay
/// open.
fn program(bounds: Bounds, kept: &[i32]) -> Vec<libc::sock_filter> {
    let mut filter = Program::default();
    filter.load(std::mem::offset_of!(libc::seccomp_data, arch) as u32);
    filter.unless_equal(X86_64, Action::Refuse);
    filter.load(std::mem::offset_of!(libc::seccomp_data, nr) as u32);
    for number in ALLOWED {
        filter.if_equal(*number as u32, Action::Allow);
    }
    for number in TRAPPED {
        filter.if_equal(*number as u32, Action::Trap);
    }
    // No file: another mapping of the dataplane's memory would have no key.
    filter.rule(libc::SYS_mmap, |rule| {
        rule.load(argument(2, false));
        rule.if_any(libc::PROT_EXEC as u32, Action::Refuse);
        rule.load(argument(3, false));
        rule.if_any(
            (libc::MAP_FIXED | libc::MAP_FIXED_NOREPLACE) as u32,
            Action::Refuse,
        );
        rule.if_any(libc::MAP_ANONYMOUS as u32, Action::Allow);
        rule.end(Action::Refuse);
    });
    filter.rule(libc::SYS_munmap, |rule| {
        rule.within(bounds);
        rule.end(Action::Allow);
    });
    filter.rule(libc::SYS_mprotect, |rule| {
        rule.load(argument(2, false));
        rule.if_any(!(libc::PROT_READ | libc::PROT_WRITE) as u32, Action::Refuse);
        rule.within(bounds);
        rule.end(Action::Allow);
    });
    filter.rule(libc::SYS_close, |rule| {
        rule.load(argument(0, false));
        for fd in kept {
            rule.if_equal(fd.cast_unsigned(), Action::Refuse);
        }
        rule.end(Action::Allow);
    });
    // Requests that the C library makes for descriptors.
    filter.rule(libc::SYS_ioctl, |rule| {
        rule.load(argument(1, false));
        for request in [libc::FIONBIO, libc::FIONREAD, libc::TCGETS] {
            rule.if_equal(request as u32, Action::Allow);
        }
        rule.end(Action::Refuse);
    });
    filter.end(Action::Refuse);
    filter.0
}

/// Installs the filter for this thread and all that it starts.
///
/// # Errors
/// The kernel has no filters.
pub(crate) fn install(bounds: Bounds, kept: &[i32]) -> io::Result<()> {
    seccomp::install(&program(bounds, kept))
}

/// Outcome of a call on x86-64, by interpreting the filter.
pub fn decide(bounds: Bounds, kept: &[i32], number: i64, arguments: [u64; 6]) -> Action {
    run(&program(bounds, kept), X86_64, number, arguments)
}

fn run(filter: &[libc::sock_filter], arch: u32, number: i64, arguments: [u64; 6]) -> Action {
    let word = |offset: u32| match offset {
        0 => number as u32,
        4 => arch,
        offset => {
            let place = (offset - 16) / 4;
            let value = arguments.get(place as usize / 2).copied().unwrap_or(0);
            (value >> (32 * (place % 2))) as u32
        }
    };
    let (mut a, mut x, mut m, mut at) = (0_u32, 0_u32, 0_u32, 0_usize);
    loop {
        let Some(one) = filter.get(at) else {
            return Action::Refuse;
        };
        at += 1;
        let code = u32::from(one.code);
        let operand = if code & libc::BPF_X != 0 { x } else { one.k };
        match code & 7 {
            libc::BPF_LD if code & 0xe0 == libc::BPF_MEM => a = m,
            libc::BPF_LD => a = word(one.k),
            libc::BPF_ST => m = a,
            libc::BPF_MISC => x = a,
            libc::BPF_ALU => a = a.wrapping_add(operand),
            libc::BPF_JMP => {
                let holds = match code & 0xf0 {
                    libc::BPF_JA => {
                        at += one.k as usize;
                        continue;
                    }
                    libc::BPF_JEQ => a == operand,
                    libc::BPF_JGT => a > operand,
                    libc::BPF_JGE => a >= operand,
                    _ => a & operand != 0,
                };
                at += usize::from(if holds { one.jt } else { one.jf });
            }
            _ => {
                return match one.k {
                    libc::SECCOMP_RET_ALLOW => Action::Allow,
                    libc::SECCOMP_RET_TRAP => Action::Trap,
                    _ => Action::Refuse,
                };
            }
        }
    }
}

#[cfg(test)]
mod tests;
