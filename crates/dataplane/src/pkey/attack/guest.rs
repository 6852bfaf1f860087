//! Attempts of an application, which all run behind the gate.

use crate::session::{Application, Event, Session};
use nix::errno::Errno;
use std::ffi::c_void;
use std::hint::black_box;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicBool, Ordering};

const PAGE: usize = 4096;

/// Addresses that an application could only guess.
#[derive(Clone, Copy, Debug, Default)]
pub struct Targets {
    pub heap: usize,
    pub stack: usize,
    pub rings: usize,
    pub rings_descriptor: i32,
    pub packets: usize,
    pub first_stack: usize,
    pub facts: usize,
    pub back: usize,
    pub out: usize,
    pub fault: usize,
    /// Address of an accidental instruction; 0 without one.
    pub accident: usize,
}

impl Targets {
    fn heap_page(&self) -> *mut c_void {
        (self.heap & !(PAGE - 1)) as *mut c_void
    }
}

/// Outcome of an attack that did not end its application.
pub enum AttemptOutcome {
    Refused(String),
    Allowed(String),
    Succeeded(String),
}

/// The application, which attacks when it is started.
pub(super) struct Attacker {
    pub targets: Targets,
    pub body: fn(&Targets) -> AttemptOutcome,
    pub verdict: Option<String>,
}

impl Application for Attacker {
    fn start(&mut self, _session: &mut Session) {
        let verdict = match (self.body)(&self.targets) {
            AttemptOutcome::Refused(how) => super::Verdict::Stopped(how),
            AttemptOutcome::Allowed(how) => super::Verdict::Allowed(how),
            AttemptOutcome::Succeeded(how) => super::Verdict::Succeeded(how),
        };
        self.verdict = Some(verdict.to_string());
    }

    fn event(&mut self, _session: &mut Session, _event: Event) {}

    fn failure(&self) -> Option<&str> {
        self.verdict.as_deref()
    }
}

pub(super) fn read(at: usize) -> AttemptOutcome {
    // SAFETY: none: this is the attack. The page is there.
    let found = unsafe { black_box((at as *const u64).read_volatile()) };
    AttemptOutcome::Succeeded(format!("read {found:#x}"))
}

pub(super) fn read_allowed(at: usize) -> AttemptOutcome {
    // SAFETY: packet memory, which the application may read.
    black_box(unsafe { (at as *const u64).read_volatile() });
    AttemptOutcome::Allowed("the key forbids writing alone".to_owned())
}

pub(super) fn write(at: usize) -> AttemptOutcome {
    // SAFETY: none: this is the attack. The page is there.
    unsafe { (at as *mut u64).write_volatile(0x6174_7461_636b) };
    AttemptOutcome::Succeeded("written".to_owned())
}

/// Outcome of a system call that would succeed without the filter.
fn outcome(call: &str, code: i64) -> AttemptOutcome {
    if code != -1 {
        return AttemptOutcome::Succeeded(format!("{call} returned {code:#x}"));
    }
    match Errno::last() {
        e @ (Errno::EPERM | Errno::EACCES) => {
            AttemptOutcome::Refused(format!("{call}: {}", e.desc()))
        }
        Errno::EFAULT => AttemptOutcome::Refused(format!(
            "{call}: {} (the kernel goes by the keys too)",
            Errno::EFAULT.desc()
        )),
        e => AttemptOutcome::Succeeded(format!("{call} came as far as {}", e.desc())),
    }
}

macro_rules! call {
    ($name:literal, $number:expr $(, $argument:expr)*) => {
        // SAFETY: none: this is the attack.
        outcome($name, unsafe { libc::syscall($number $(, $argument)*) })
    };
}

const RW: i32 = libc::PROT_READ | libc::PROT_WRITE;
const ANONYMOUS: i32 = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;

pub(super) fn read_by_kernel(t: &Targets) -> AttemptOutcome {
    let mut ends = [0; 2];
    // SAFETY: two descriptors fit.
    if unsafe { libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC) } != 0 {
        return AttemptOutcome::Succeeded("it has no pipe".to_owned());
    }
    call!("write", libc::SYS_write, ends[1], t.heap, 8)
}

pub(super) fn pkey_set(t: &Targets) -> AttemptOutcome {
    // SAFETY: the function has this type where it exists.
    unsafe {
        let found = libc::dlsym(libc::RTLD_DEFAULT, c"pkey_set".as_ptr());
        if found.is_null() {
            return AttemptOutcome::Refused("the C library has no pkey_set".to_owned());
        }
        let set = std::mem::transmute::<*mut c_void, extern "C" fn(i32, u32) -> i32>(found);
        for key in 1..16 {
            set(key, 0);
        }
    }
    read(t.heap)
}

/// Whether code of the application ran with the host's rights.
pub(super) static HAD_RIGHTS: AtomicBool = AtomicBool::new(false);

/// Runs behind the gate's call, if it gets there.
#[cfg(target_arch = "x86_64")]
unsafe extern "C" fn with_rights() {
    // SAFETY: the address that `jump` has put into r13.
    unsafe {
        std::arch::asm!("mov rax, [r13]", out("rax") _, options(nostack));
    }
    HAD_RIGHTS.store(true, Ordering::Relaxed);
    // SAFETY: ends the guest.
    unsafe { std::arch::asm!("ud2", options(noreturn)) }
}

/// Jumps to an instruction of the gate with a value for PKRU.
#[cfg(target_arch = "x86_64")]
pub(super) fn jump(site: usize, rights: u32, t: &Targets) -> AttemptOutcome {
    // SAFETY: none: this is the attack. It does not come back.
    unsafe {
        std::arch::asm!(
            "jmp r11",
            in("r11") site,
            in("r12") with_rights as *const (),
            in("r13") t.heap,
            in("eax") rights,
            in("ecx") 0,
            in("edx") 0,
            options(noreturn)
        )
    }
}

#[cfg(not(target_arch = "x86_64"))]
pub(super) fn jump(_site: usize, _rights: u32, _t: &Targets) -> AttemptOutcome {
    AttemptOutcome::Refused("there is no gate".to_owned())
}

pub(super) fn accident(t: &Targets) -> AttemptOutcome {
    match t.accident {
        0 => AttemptOutcome::Refused("this build has no such bytes".to_owned()),
        // Bit of PKRU among the components of XSAVE, for XRSTOR.
        at => jump(at, 1 << 9, t),
    }
}

#[cfg(target_arch = "x86_64")]
pub(super) fn smashed_stack(t: &Targets) -> AttemptOutcome {
    // SAFETY: none: this is the attack. It does not come back.
    unsafe { std::arch::asm!("push {}", "ret", in(reg) t.heap, options(noreturn)) }
}

#[cfg(not(target_arch = "x86_64"))]
pub(super) fn smashed_stack(_t: &Targets) -> AttemptOutcome {
    AttemptOutcome::Refused("there is no gate".to_owned())
}

pub(super) fn mprotect(t: &Targets) -> AttemptOutcome {
    call!(
        "mprotect",
        libc::SYS_mprotect,
        t.heap_page(),
        PAGE,
        libc::PROT_READ
    )
}

pub(super) fn pkey_mprotect(t: &Targets) -> AttemptOutcome {
    call!(
        "pkey_mprotect",
        libc::SYS_pkey_mprotect,
        t.heap_page(),
        PAGE,
        RW,
        0
    )
}

pub(super) fn mmap_over(t: &Targets) -> AttemptOutcome {
    let flags = ANONYMOUS | libc::MAP_FIXED;
    call!(
        "mmap",
        libc::SYS_mmap,
        t.heap_page(),
        PAGE,
        RW,
        flags,
        -1,
        0
    )
}

pub(super) fn munmap(t: &Targets) -> AttemptOutcome {
    call!("munmap", libc::SYS_munmap, t.heap_page(), PAGE)
}

pub(super) fn mremap(t: &Targets) -> AttemptOutcome {
    let flags = libc::MREMAP_MAYMOVE;
    call!(
        "mremap",
        libc::SYS_mremap,
        t.heap_page(),
        PAGE,
        2 * PAGE,
        flags
    )
}

pub(super) fn madvise(t: &Targets) -> AttemptOutcome {
    call!(
        "madvise",
        libc::SYS_madvise,
        t.heap_page(),
        PAGE,
        libc::MADV_DONTNEED
    )
}

pub(super) fn pkey_alloc(_t: &Targets) -> AttemptOutcome {
    call!("pkey_alloc", libc::SYS_pkey_alloc, 0, 0)
}

pub(super) fn pkey_free(_t: &Targets) -> AttemptOutcome {
    call!("pkey_free", libc::SYS_pkey_free, 1)
}

pub(super) fn map_descriptor(t: &Targets) -> AttemptOutcome {
    let (fd, flags) = (t.rings_descriptor, libc::MAP_SHARED);
    call!("mmap", libc::SYS_mmap, 0, PAGE, RW, flags, fd, 0)
}

pub(super) fn exec_mmap(_t: &Targets) -> AttemptOutcome {
    let rights = RW | libc::PROT_EXEC;
    call!("mmap", libc::SYS_mmap, 0, PAGE, rights, ANONYMOUS, -1, 0)
}

pub(super) fn exec_mprotect(_t: &Targets) -> AttemptOutcome {
    // SAFETY: a mapping of its own.
    let own = unsafe { libc::mmap(null_mut(), PAGE, RW, ANONYMOUS, -1, 0) };
    let rights = libc::PROT_READ | libc::PROT_EXEC;
    call!("mprotect", libc::SYS_mprotect, own, PAGE, rights)
}

pub(super) fn restore_code(_t: &Targets) -> AttemptOutcome {
    // SAFETY: looks a symbol up.
    let code = unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"pkey_set".as_ptr()) } as usize;
    let page = code & !(PAGE - 1);
    call!(
        "madvise",
        libc::SYS_madvise,
        page,
        PAGE,
        libc::MADV_DONTNEED
    )
}

pub(super) fn proc_mem(_t: &Targets) -> AttemptOutcome {
    let path = c"/proc/thread-self/mem".as_ptr();
    call!("open", libc::SYS_openat, libc::AT_FDCWD, path, libc::O_RDWR)
}

pub(super) fn process_vm(t: &Targets) -> AttemptOutcome {
    let mut into = 0_u64;
    let part = |base: *mut c_void| libc::iovec {
        iov_base: base,
        iov_len: 8,
    };
    let (local, remote) = (part((&raw mut into).cast()), part(t.heap as *mut c_void));
    // SAFETY: asks for the process's id.
    let own = unsafe { libc::getpid() };
    let (local, remote) = (&raw const local, &raw const remote);
    call!(
        "process_vm_readv",
        libc::SYS_process_vm_readv,
        own,
        local,
        1,
        remote,
        1,
        0
    )
}

pub(super) fn ptrace(_t: &Targets) -> AttemptOutcome {
    call!("ptrace", libc::SYS_ptrace, libc::PTRACE_TRACEME, 0, 0, 0)
}

pub(super) fn io_uring(_t: &Targets) -> AttemptOutcome {
    let mut parameters = [0_u64; 16];
    call!(
        "io_uring_setup",
        libc::SYS_io_uring_setup,
        1,
        parameters.as_mut_ptr()
    )
}

pub(super) fn dumpable(_t: &Targets) -> AttemptOutcome {
    call!("prctl", libc::SYS_prctl, libc::PR_SET_DUMPABLE, 1, 0, 0, 0)
}

pub(super) fn sigaction(_t: &Targets) -> AttemptOutcome {
    // SAFETY: all-zero is the default action.
    let action: libc::sigaction = unsafe { std::mem::zeroed() };
    // SAFETY: none: this is the attack.
    let code = unsafe { libc::sigaction(libc::SIGSEGV, &raw const action, null_mut()) };
    outcome("sigaction", code.into())
}

pub(super) fn sigaltstack(_t: &Targets) -> AttemptOutcome {
    let stack = libc::stack_t {
        ss_sp: null_mut(),
        ss_flags: libc::SS_DISABLE,
        ss_size: 0,
    };
    call!("sigaltstack", libc::SYS_sigaltstack, &raw const stack, 0)
}

pub(super) fn sigprocmask(_t: &Targets) -> AttemptOutcome {
    let all = u64::MAX;
    call!(
        "rt_sigprocmask",
        libc::SYS_rt_sigprocmask,
        libc::SIG_BLOCK,
        &raw const all,
        0,
        8
    )
}

pub(super) fn sigreturn(_t: &Targets) -> AttemptOutcome {
    call!("rt_sigreturn", libc::SYS_rt_sigreturn)
}

pub(super) fn rseq(_t: &Targets) -> AttemptOutcome {
    #[repr(align(32))]
    struct Area([u32; 8]);
    let mut area = Area([0; 8]);
    call!(
        "rseq",
        libc::SYS_rseq,
        area.0.as_mut_ptr(),
        32,
        0,
        0x5305_3053
    )
}

pub(super) fn fork(_t: &Targets) -> AttemptOutcome {
    // SAFETY: the child ends at once.
    let code = unsafe { libc::fork() };
    if code == 0 {
        // SAFETY: ends it.
        unsafe { libc::_exit(0) };
    }
    outcome("fork", code.into())
}

pub(super) fn exit(_t: &Targets) -> AttemptOutcome {
    call!("exit_group", libc::SYS_exit_group, 9)
}

pub(super) fn kill(_t: &Targets) -> AttemptOutcome {
    // SAFETY: asks for the process's id.
    let own = unsafe { libc::getpid() };
    call!("kill", libc::SYS_kill, own, libc::SIGKILL)
}
