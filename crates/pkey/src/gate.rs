//! The call gate: the only way from the host to its guest and back.
//!
//! A program with a region has three `WRPKRU`, all here. A jump to one of them with another value
//! in EAX meets the check behind it, and `ud2`. Behind the two that set the host's rights follows
//! only the return to the host, on its stack. Behind the one that removes them follows the guest.
//!
//! The guest gets no register of the host's. The gate saves the registers that a function preserves
//! on the host's stack, and clears all. The guest returns nothing but the fact that it returned.

use crate::fault::Fault;
use crate::region::{host_stack, state};
use std::cell::UnsafeCell;
use std::ffi::c_void;
use std::marker::PhantomData;
use std::ops::Range;

/// State of the gate in the region. The assembly uses its offsets.
#[derive(Default)]
#[repr(C)]
pub(crate) struct Ends {
    /// Stack pointer of the host while the guest runs.
    inside_stack: UnsafeCell<u64>,
    /// Stack pointer that the guest starts with.
    outside_stack: UnsafeCell<u64>,
    /// 1 while the guest runs.
    is_outside: UnsafeCell<u64>,
    /// Alternate signal stack of the thread.
    signal_stack: UnsafeCell<[u64; 2]>,
    /// Last fault.
    fault: UnsafeCell<Fault>,
}

// SAFETY: only the thread that the gate belongs to uses them, from `Gate::enter` on.
unsafe impl Sync for Ends {}

/// A thread that runs the host and calls the guest.
#[derive(Debug)]
pub struct Gate {
    /// A gate belongs to one thread.
    _thread: PhantomData<*const ()>,
}

/// Addresses in the gate, as targets of attacks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sites {
    /// The `WRPKRU` behind the guest's return.
    pub back: usize,
    /// The `WRPKRU` that removes the host's rights.
    pub out: usize,
    /// The `WRPKRU` of the fault handler.
    pub fault: usize,
    /// All code of the gate.
    pub code: Range<usize>,
}

impl Sites {
    /// Addresses of the three instructions.
    pub fn instructions(&self) -> [usize; 3] {
        [self.back, self.out, self.fault]
    }
}

#[cfg(target_arch = "x86_64")]
mod assembly {
    use super::{Ends, c_void};
    use crate::keys::{FACTS, Facts};
    use crate::region::BASE;
    use std::mem::offset_of;

    std::arch::global_asm!(
        // Resumes the host on its stack, with its rights. r11 is the state's address, eax the
        // result.
        ".macro cofferdam_resume",
        "mov rsp, [r11 + {inside_stack}]",
        "mov qword ptr [r11 + {is_outside}], 0",
        // The guest may have set any flag: direction, alignment checks, single steps.
        "push 0x202",
        "popfq",
        "fldcw [rsp + 4]",
        "ldmxcsr [rsp]",
        "add rsp, 8",
        "pop r15",
        "pop r14",
        "pop r13",
        "pop r12",
        "pop rbx",
        "pop rbp",
        "ret",
        ".endm",
        ".text",
        ".balign 64",
        ".hidden cofferdam_gate_code",
        ".globl cofferdam_gate_code",
        "cofferdam_gate_code:",
        // u64 cofferdam_gate_call(function: rdi, argument: rsi)
        ".hidden cofferdam_gate_call",
        ".globl cofferdam_gate_call",
        "cofferdam_gate_call:",
        "push rbp",
        "push rbx",
        "push r12",
        "push r13",
        "push r14",
        "push r15",
        "sub rsp, 8",
        "stmxcsr [rsp]",
        "fnstcw [rsp + 4]",
        "movabs r11, {state}",
        "mov [r11 + {inside_stack}], rsp",
        "mov qword ptr [r11 + {is_outside}], 1",
        "mov r12, rdi",
        "mov rdi, rsi",
        "mov rsp, [r11 + {outside_stack}]",
        "xor esi, esi",
        "xor ebx, ebx",
        "xor ebp, ebp",
        "xor r8d, r8d",
        "xor r9d, r9d",
        "xor r10d, r10d",
        "xor r11d, r11d",
        "xor r13d, r13d",
        "xor r14d, r14d",
        "xor r15d, r15d",
        "xorps xmm0, xmm0",
        "xorps xmm1, xmm1",
        "xorps xmm2, xmm2",
        "xorps xmm3, xmm3",
        "xorps xmm4, xmm4",
        "xorps xmm5, xmm5",
        "xorps xmm6, xmm6",
        "xorps xmm7, xmm7",
        "xorps xmm8, xmm8",
        "xorps xmm9, xmm9",
        "xorps xmm10, xmm10",
        "xorps xmm11, xmm11",
        "xorps xmm12, xmm12",
        "xorps xmm13, xmm13",
        "xorps xmm14, xmm14",
        "xorps xmm15, xmm15",
        "mov eax, [rip + {facts} + {outside}]",
        "xor ecx, ecx",
        "xor edx, edx",
        ".hidden cofferdam_gate_out",
        ".globl cofferdam_gate_out",
        "cofferdam_gate_out:",
        "wrpkru",
        "cmp eax, [rip + {facts} + {outside}]",
        "jne 9f",
        "xor eax, eax",
        "call r12",
        "xor eax, eax",
        "xor ecx, ecx",
        "xor edx, edx",
        ".hidden cofferdam_gate_back",
        ".globl cofferdam_gate_back",
        "cofferdam_gate_back:",
        "wrpkru",
        "test eax, eax",
        "jne 9f",
        "movabs r11, {state}",
        "cofferdam_resume",
        "9: ud2",
        // Handler of faults: (signal: edi, siginfo: rsi, ucontext: rdx), on the signal stack, with
        // the rights of a new process. It reads the guest's memory before it has the host's rights.
        ".hidden cofferdam_gate_handler",
        ".globl cofferdam_gate_handler",
        "cofferdam_gate_handler:",
        "mov ebx, edi",
        "mov r8d, [rsi + 8]",    // si_code
        "mov r9, [rsi + 16]",    // si_addr
        "mov r10d, [rsi + 24]",  // si_syscall
        "mov r12d, [rsi + 32]",  // si_pkey
        "mov r13, [rdx + 168]",  // RIP
        "mov r14, [rdx + 192]",  // the page fault's error code
        "xor eax, eax",
        "xor ecx, ecx",
        "xor edx, edx",
        ".hidden cofferdam_gate_fault",
        ".globl cofferdam_gate_fault",
        "cofferdam_gate_fault:",
        "wrpkru",
        "test eax, eax",
        "jne 9f",
        "movabs r11, {state}",
        "cmp qword ptr [r11 + {is_outside}], 1",
        "jne 8f",
        // A fault of another thread is not the guest's.
        "cmp rsp, [r11 + {signal_stack}]",
        "jb 8f",
        "cmp rsp, [r11 + {signal_stack} + 8]",
        "ja 8f",
        "mov [r11 + {fault}], ebx",
        "mov [r11 + {fault} + 4], r8d",
        "mov [r11 + {fault} + 8], r9",
        "mov [r11 + {fault} + 16], r10d",
        "mov [r11 + {fault} + 20], r12d",
        "mov [r11 + {fault} + 24], r13",
        "mov [r11 + {fault} + 32], r14",
        "mov eax, 1",
        "cofferdam_resume",
        "9: ud2",
        "8:",
        "mov edi, ebx",
        "mov rsi, r9",
        "mov rdx, r13",
        "mov rcx, [r11 + {signal_stack}]",
        "and rsp, -16",
        "call {died}",
        "ud2",
        // Switches to the stack `rdi` and does not return: (stack, function: rsi, argument: rdx).
        ".hidden cofferdam_gate_enter",
        ".globl cofferdam_gate_enter",
        "cofferdam_gate_enter:",
        "movabs r11, {state}",
        // Below the thread's own frames and its red zone.
        "lea rax, [rsp - 256]",
        "and rax, -16",
        "mov [r11 + {outside_stack}], rax",
        "mov rsp, rdi",
        "mov rdi, rdx",
        "xor ebp, ebp",
        "call rsi",
        "ud2",
        // Ends the process by SIGSEGV although its handler is set: no frame fits the signal stack
        // (rdi).
        ".hidden cofferdam_gate_end",
        ".globl cofferdam_gate_end",
        "cofferdam_gate_end:",
        "lea rsp, [rdi + 64]",
        "ud2",
        ".hidden cofferdam_gate_code_end",
        ".globl cofferdam_gate_code_end",
        "cofferdam_gate_code_end:",
        ".purgem cofferdam_resume",
        state = const BASE,
        inside_stack = const offset_of!(Ends, inside_stack),
        outside_stack = const offset_of!(Ends, outside_stack),
        is_outside = const offset_of!(Ends, is_outside),
        signal_stack = const offset_of!(Ends, signal_stack),
        fault = const offset_of!(Ends, fault),
        facts = sym FACTS,
        outside = const offset_of!(Facts, outside),
        died = sym crate::fault::died,
    );

    unsafe extern "C" {
        pub fn cofferdam_gate_call(
            function: extern "C" fn(*mut c_void),
            argument: *mut c_void,
        ) -> u64;
        pub fn cofferdam_gate_enter(
            stack: usize,
            function: extern "C" fn(*mut c_void) -> !,
            argument: *mut c_void,
        ) -> !;
        pub fn cofferdam_gate_handler();
        pub fn cofferdam_gate_end(signal_stack: u64) -> !;
        pub fn cofferdam_gate_code();
        pub fn cofferdam_gate_code_end();
        pub fn cofferdam_gate_out();
        pub fn cofferdam_gate_back();
        pub fn cofferdam_gate_fault();
    }
}

/// Addresses of the gate's code.
#[cfg(target_arch = "x86_64")]
pub fn sites() -> Sites {
    use assembly as a;
    Sites {
        back: a::cofferdam_gate_back as *const () as usize,
        out: a::cofferdam_gate_out as *const () as usize,
        fault: a::cofferdam_gate_fault as *const () as usize,
        code: a::cofferdam_gate_code as *const () as usize
            ..a::cofferdam_gate_code_end as *const () as usize,
    }
}

/// This architecture has no gate.
#[cfg(not(target_arch = "x86_64"))]
pub fn sites() -> Sites {
    Sites {
        back: 0,
        out: 0,
        fault: 0,
        code: 0..0,
    }
}

/// Address of the fault handler, for sigaction(2).
pub(crate) fn handler() -> usize {
    #[cfg(target_arch = "x86_64")]
    let handler = assembly::cofferdam_gate_handler as *const () as usize;
    #[cfg(not(target_arch = "x86_64"))]
    let handler = libc::SIG_DFL;
    handler
}

/// Ends the process by a signal whose handler cannot run.
pub(crate) fn end(signal_stack: u64) -> ! {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: does not return.
    unsafe {
        assembly::cofferdam_gate_end(signal_stack)
    }
    #[cfg(not(target_arch = "x86_64"))]
    {
        let _ = signal_stack;
        std::process::abort()
    }
}

impl Gate {
    /// Runs `body` as the host on the region's stack, in this thread, and does not return. The
    /// guest gets the rest of the thread's ordinary stack. `body` must not end the thread, which
    /// would return to that stack.
    ///
    /// One thread of the process may call this, once, with the signal stack of
    /// [`crate::SealedProcess::enter`].
    pub fn enter(signal_stack: Range<usize>, body: impl FnOnce(&mut Gate)) -> ! {
        struct Begin<F>(F);
        extern "C" fn begin<F: FnOnce(&mut Gate)>(at: *mut c_void) -> ! {
            let mut gate = Gate {
                _thread: PhantomData,
            };
            // SAFETY: the box that `enter` gave away.
            let body = unsafe { Box::from_raw(at.cast::<Begin<F>>()) };
            // Unwinding would continue into the guest's stack.
            let outcome =
                std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| (body.0)(&mut gate)));
            if outcome.is_err() {
                end(0);
            }
            loop {
                std::thread::park();
            }
        }
        fn with<F: FnOnce(&mut Gate)>(body: F) -> (extern "C" fn(*mut c_void) -> !, *mut c_void) {
            (begin::<F>, Box::into_raw(Box::new(Begin(body))).cast())
        }
        let ends = &state().ends;
        // SAFETY: this thread's alone; see `Ends`.
        unsafe {
            *ends.signal_stack.get() = [signal_stack.start as u64, signal_stack.end as u64];
        }
        let (function, argument) = with(body);
        #[cfg(target_arch = "x86_64")]
        // SAFETY: the stack is mapped, writable and nobody else's; `begin` takes the argument.
        unsafe {
            assembly::cofferdam_gate_enter(host_stack().end, function, argument)
        }
        #[cfg(not(target_arch = "x86_64"))]
        {
            function(argument)
        }
    }

    /// Calls the guest: `function` with `argument`, which lies in ordinary memory.
    ///
    /// # Errors
    /// The guest has faulted. Its stack is discarded, with all that lies there.
    ///
    /// # Safety
    /// `function` accepts this argument.
    pub unsafe fn call(
        &mut self,
        function: extern "C" fn(*mut c_void),
        argument: *mut c_void,
    ) -> Result<(), Fault> {
        #[cfg(target_arch = "x86_64")]
        {
            // SAFETY: `Gate::enter` has set the ends on this thread, and the guest cannot write to
            // this stack.
            let ended = unsafe { assembly::cofferdam_gate_call(function, argument) };
            if ended != 0 {
                // SAFETY: written by the handler, on this thread, before it came here.
                return Err(unsafe { *state().ends.fault.get() });
            }
        }
        #[cfg(not(target_arch = "x86_64"))]
        function(argument);
        Ok(())
    }
}
