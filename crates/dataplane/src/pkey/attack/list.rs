//! List of attacks.

use super::guest as code;
use super::guest::{AttemptOutcome, Targets};

/// An attack.
#[derive(Clone, Copy, Debug)]
pub struct Attack {
    /// Name of the attack.
    pub name: &'static str,
    /// Description of the attempt.
    pub what: &'static str,
    pub(super) body: fn(&Targets) -> AttemptOutcome,
    /// Whether code that writes PKRU is mapped before the application is admitted.
    pub(super) brings_code: bool,
}

const fn attack(
    name: &'static str,
    what: &'static str,
    body: fn(&Targets) -> AttemptOutcome,
) -> Attack {
    Attack {
        name,
        what,
        body,
        brings_code: false,
    }
}

impl Attack {
    /// Expected defence, as a part of its message.
    pub(super) fn stopped_by(&self) -> &'static str {
        match self.name {
            "write-packets" => "wrote to packet memory",
            "write-first-stack" => "the stack of the dataplane's first thread",
            "write-facts" | "return-address" => "SIGSEGV",
            "read-by-kernel" => "Bad address",
            "code-wrpkru" => "has the instruction WRPKRU",
            "library-wrpkru" => "SIGILL",
            "gate-back" | "gate-out" | "gate-fault" => "entered the call gate with a wrong value",
            "accident" => "bytes",
            "proc-mem" => "Permission denied",
            "sigreturn" | "exit" | "kill" => "system call that ends processes",
            name if name.starts_with("read-") => "read the dataplane's memory",
            name if name.starts_with("write-") => "wrote to the dataplane's memory",
            _ => "Operation not permitted",
        }
    }
}

/// All attacks, in the order of display.
pub fn all() -> &'static [Attack] {
    ATTACKS
}

static ATTACKS: &[Attack] = &[
    attack("read-heap", "reads the loop's heap", |t| code::read(t.heap)),
    attack("write-heap", "writes to the loop's heap", |t| {
        code::write(t.heap)
    }),
    attack("read-stack", "reads the loop's stack", |t| {
        code::read(t.stack)
    }),
    attack("write-stack", "writes to the loop's stack", |t| {
        code::write(t.stack)
    }),
    attack("read-rings", "reads the device's rings", |t| {
        code::read(t.rings)
    }),
    attack("write-rings", "writes to the device's rings", |t| {
        code::write(t.rings)
    }),
    attack(
        "read-packets",
        "reads packet memory, which is allowed",
        |t| code::read_allowed(t.packets),
    ),
    attack("write-packets", "writes to packet memory", |t| {
        code::write(t.packets)
    }),
    attack(
        "write-first-stack",
        "writes to the stack of the first thread",
        |t| code::write(t.first_stack),
    ),
    attack(
        "write-facts",
        "writes to what says that there are keys",
        |t| code::write(t.facts),
    ),
    attack(
        "read-by-kernel",
        "has the kernel read the heap (write(2))",
        code::read_by_kernel,
    ),
    Attack {
        name: "code-wrpkru",
        what: "brings the instruction WRPKRU in its code",
        body: |_| AttemptOutcome::Succeeded("it was let in".to_owned()),
        brings_code: true,
    },
    attack(
        "library-wrpkru",
        "calls the C library's pkey_set",
        code::pkey_set,
    ),
    attack(
        "gate-back",
        "jumps to the WRPKRU that gives rights back, with other rights",
        |t| code::jump(t.back, 0x5555_5550, t),
    ),
    attack(
        "gate-out",
        "jumps to the WRPKRU that takes rights away, with all rights",
        |t| code::jump(t.out, 0, t),
    ),
    attack(
        "gate-fault",
        "jumps to the WRPKRU of the fault handler, with other rights",
        |t| code::jump(t.fault, 0x5555_5550, t),
    ),
    attack(
        "accident",
        "jumps to bytes of the program that happen to be XRSTOR",
        code::accident,
    ),
    attack(
        "return-address",
        "returns to the loop's memory from a smashed stack",
        code::smashed_stack,
    ),
    attack(
        "mprotect",
        "mprotect(2) of the loop's memory",
        code::mprotect,
    ),
    attack(
        "pkey-mprotect",
        "pkey_mprotect(2) of the loop's memory to its own key",
        code::pkey_mprotect,
    ),
    attack(
        "mmap-over",
        "mmap(2) over the loop's memory",
        code::mmap_over,
    ),
    attack("munmap", "munmap(2) of the loop's memory", code::munmap),
    attack("mremap", "mremap(2) of the loop's memory", code::mremap),
    attack(
        "madvise",
        "madvise(2) that empties the loop's memory",
        code::madvise,
    ),
    attack("pkey-alloc", "pkey_alloc(2)", code::pkey_alloc),
    attack(
        "pkey-free",
        "pkey_free(2) of the loop's key",
        code::pkey_free,
    ),
    attack(
        "map-descriptor",
        "maps the device's rings by their descriptor",
        code::map_descriptor,
    ),
    attack("exec-mmap", "maps memory as code", code::exec_mmap),
    attack("exec-mprotect", "makes memory code", code::exec_mprotect),
    attack(
        "library-code",
        "restores the C library's code (madvise)",
        code::restore_code,
    ),
    attack("proc-mem", "opens /proc/thread-self/mem", code::proc_mem),
    attack(
        "process-vm",
        "process_vm_readv(2) of its own process",
        code::process_vm,
    ),
    attack("ptrace", "ptrace(2)", code::ptrace),
    attack("io-uring", "io_uring_setup(2)", code::io_uring),
    attack(
        "dumpable",
        "makes the process dumpable again",
        code::dumpable,
    ),
    attack(
        "sigaction",
        "replaces the handler of SIGSEGV",
        code::sigaction,
    ),
    attack("sigaltstack", "moves the signal stack", code::sigaltstack),
    attack(
        "sigprocmask",
        "blocks the signals of faults",
        code::sigprocmask,
    ),
    attack(
        "sigreturn",
        "returns from a forged signal (rt_sigreturn)",
        code::sigreturn,
    ),
    attack("rseq", "registers restartable sequences", code::rseq),
    attack("fork", "starts a process", code::fork),
    attack("exit", "ends the process (exit_group)", code::exit),
    attack("kill", "kills the process", code::kill),
];
