//! Faults that end a guest's run, and faults that end the host.

use crate::gate::{end, sites};
use crate::keys::{Keys, keys};
use crate::region::has;
use crate::watch::TRAP_PERF;
use std::fmt;
use std::io::Write;

/// A fault of the guest, as the kernel reported it. The assembly writes it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Fault {
    /// Number of the signal.
    pub signal: i32,
    /// `si_code` of the signal.
    pub code: i32,
    /// Address of the access, or of the instruction that made a system call.
    pub address: u64,
    /// Number of the system call.
    pub system_call: i32,
    /// Protection key of the page.
    pub key: u32,
    /// Address of the guest's instruction.
    pub instruction: u64,
    /// Error code of the page fault. Bit 1: a write.
    pub error: u64,
}

/// `si_code` of a fault by a protection key.
const SEGV_PKUERR: i32 = 4;

/// Signals whose handler is the gate's.
pub(crate) const SIGNALS: [i32; 6] = [
    libc::SIGSEGV,
    libc::SIGBUS,
    libc::SIGILL,
    libc::SIGFPE,
    libc::SIGTRAP,
    libc::SIGSYS,
];

impl Fault {
    /// Whether a protection key stopped the access.
    pub fn is_by_key(&self) -> bool {
        (self.signal, self.code) == (libc::SIGSEGV, SEGV_PKUERR)
    }

    fn is_write(&self) -> bool {
        self.error & 2 != 0
    }

    fn text(&self, keys: Option<Keys>) -> String {
        let (address, at) = (self.address, self.instruction);
        if self.is_by_key() {
            let done = if self.is_write() { "wrote to" } else { "read" };
            let is_packets = keys.is_some_and(|keys| keys.packets == self.key);
            let what = match (is_packets, has(address as *const u8)) {
                (true, true) => "packet memory",
                (true, false) => "the stack of the dataplane's first thread",
                (false, _) => "the dataplane's memory",
            };
            return format!(
                "it {done} {what} at {address:#x} (protection key {})",
                self.key
            );
        }
        match self.signal {
            libc::SIGSYS => format!(
                "it made a system call that ends processes or forges signals ({})",
                system_call(self.system_call)
            ),
            libc::SIGILL if sites().code.contains(&(at as usize)) => {
                format!("it entered the call gate with a wrong value at {at:#x} (SIGILL)")
            }
            libc::SIGSEGV => {
                format!("it used memory at {address:#x} that it does not have (SIGSEGV)")
            }
            libc::SIGBUS => format!("it used memory at {address:#x} that is not there (SIGBUS)"),
            libc::SIGILL => {
                format!("it ran an instruction that does not exist at {at:#x} (SIGILL)")
            }
            libc::SIGTRAP if self.code == TRAP_PERF => {
                format!("it jumped to bytes that would unprotect memory at {at:#x} (SIGTRAP)")
            }
            libc::SIGFPE => format!("it divided by zero or overflowed at {at:#x} (SIGFPE)"),
            other => format!("it got signal {other} at {at:#x}"),
        }
    }
}

/// Description of the fault, to follow an application's name.
impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text(keys()))
    }
}

fn system_call(number: i32) -> String {
    let name = match i64::from(number) {
        libc::SYS_exit => "exit",
        libc::SYS_exit_group => "exit_group",
        libc::SYS_kill => "kill",
        libc::SYS_tkill => "tkill",
        libc::SYS_tgkill => "tgkill",
        libc::SYS_rt_sigreturn => "rt_sigreturn",
        _ => return format!("number {number}"),
    };
    format!("{name}, number {number}")
}

/// Reports a fault of the host and ends the process, as without a handler.
pub(crate) extern "C" fn died(signal: i32, address: u64, instruction: u64, signal_stack: u64) -> ! {
    let mut text = [0_u8; 160];
    let mut rest = &mut text[..];
    let _ = writeln!(
        rest,
        "cofferdam: the dataplane itself faulted: signal {signal}, address {address:#x}, \
            instruction {instruction:#x}"
    );
    let left = rest.len();
    let len = text.len() - left;
    // SAFETY: a message of ours; then this thread's signals, as the kernel has them by default.
    unsafe {
        libc::write(2, text.as_ptr().cast(), len);
        libc::signal(signal, libc::SIG_DFL);
        libc::raise(signal);
    }
    // The thread of the gate may call neither; `end` then does it.
    end(signal_stack)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::region::BASE;

    const KEYS: Option<Keys> = Some(Keys {
        private: 1,
        packets: 2,
    });

    #[test]
    fn a_fault_by_key_says_what_was_done_to_what() {
        let by_key = |key, address, error| Fault {
            signal: libc::SIGSEGV,
            code: SEGV_PKUERR,
            address,
            key,
            error,
            ..Fault::default()
        };
        let inside = BASE as u64 + 0x1000;
        for (fault, text) in [
            (
                by_key(1, inside, 0x25),
                "it read the dataplane's memory at 0x1000001000",
            ),
            (
                by_key(1, inside, 0x27),
                "it wrote to the dataplane's memory",
            ),
            (by_key(2, inside, 0x27), "it wrote to packet memory"),
            (
                by_key(2, 1 << 46, 0x27),
                "it wrote to the stack of the dataplane's first thread",
            ),
        ] {
            let found = fault.text(KEYS);
            assert!(found.starts_with(text), "{found}");
        }
    }

    #[test]
    fn other_faults_have_their_signal_and_system_calls_their_name() {
        let of = |signal, system_call| Fault {
            signal,
            address: 0xdead,
            system_call,
            instruction: 0xbeef,
            ..Fault::default()
        };
        let text = of(libc::SIGSEGV, 0).text(KEYS);
        assert_eq!(
            text,
            "it used memory at 0xdead that it does not have (SIGSEGV)"
        );
        let text = of(libc::SIGSYS, 231).text(KEYS);
        assert!(text.ends_with("(exit_group, number 231)"), "{text}");
        let text = of(libc::SIGFPE, 0).text(KEYS);
        assert_eq!(text, "it divided by zero or overflowed at 0xbeef (SIGFPE)");
    }
}
