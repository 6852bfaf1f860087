//! Conditions that must hold before the guest's first instruction.

use crate::fault::SIGNALS;
use crate::gate::{handler, sites};
use crate::keys::keys;
use crate::maps::{MapEntry, mapping_at, mappings};
use crate::region::{END, Region, protect};
use crate::scan::clean;
use crate::watch::{MOST, watch};
use nix::errno::Errno;
use nix::sys::signal::{SigSet, SigmaskHow, Signal, pthread_sigmask};
use std::io;
use std::ops::Range;
use std::os::fd::IntoRawFd;
use std::os::unix::process::CommandExt;
use std::process::Command;

/// Variable that makes the dynamic linker bind everything at the start (ld.so(8)).
const BIND_NOW: &str = "LD_BIND_NOW";
/// Bytes of the alternate signal stack. A frame has all registers, those of AVX-512 and AMX
/// included.
const SIGNAL_STACK_BYTES: usize = 64 << 10;

/// The reason why a guest is refused.
#[derive(Debug, thiserror::Error)]
pub enum SealError {
    /// Root may open /proc/self/mem, which no key stops.
    #[error(
        "its user is root, who may read and write all memory by /proc/self/mem: give it another \
            user"
    )]
    Root,
    /// The dynamic linker still binds functions when they are first called.
    #[error("the program was not started with {BIND_NOW}=1")]
    Lazy,
    /// An instruction that writes PKRU, of unknown origin.
    #[error(
        "{file} has the instruction {what} at offset {offset:#x}, by which memory could be \
            unprotected: start the dataplane without that library"
    )]
    Instruction {
        /// Name of the instruction.
        what: &'static str,
        /// File that contains it.
        file: String,
        /// Offset in the file.
        offset: usize,
    },
    /// There are more places than the CPU can watch.
    #[error(
        "this build of the program has {count} places in its code that could unprotect memory, \
            more than the {MOST} that the CPU can watch: use another build"
    )]
    Accidents {
        /// Number of the places.
        count: usize,
    },
    /// Code is writable.
    #[error("{what} is writable and executable")]
    Writable {
        /// Name of the mapping.
        what: String,
    },
    /// Code cannot be searched.
    #[error("{what} is executable and cannot be read")]
    Unreadable {
        /// Name of the mapping.
        what: String,
    },
    /// A system call failed.
    #[error("cannot {what}: {source}")]
    Os {
        /// The operation that failed.
        what: &'static str,
        /// Error of the kernel.
        source: io::Error,
    },
}

impl SealError {
    pub(crate) fn os(what: &'static str) -> SealError {
        let source = io::Error::last_os_error();
        SealError::Os { what, source }
    }
}

fn checked(what: &'static str, code: i64) -> Result<(), SealError> {
    match code {
        -1 => Err(SealError::os(what)),
        _ => Ok(()),
    }
}

/// The user that makes the guest's system calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct User {
    /// User number.
    pub uid: u32,
    /// Number of its only group.
    pub gid: u32,
}

/// Whether this program was bound when it started.
pub fn is_bound_now() -> bool {
    std::env::var_os(BIND_NOW).is_some_and(|value| !value.is_empty())
}

/// Starts this program again, in this process, with everything bound at the start. Returns only on
/// failure.
pub fn bind_now() -> io::Error {
    let mut arguments = std::env::args_os();
    let name = arguments.next().unwrap_or_default();
    let mut command = Command::new("/proc/self/exe");
    command.arg0(name).args(arguments).env(BIND_NOW, "1").exec()
}

/// Gives the calling thread the rights of `user`, permanently, and no capabilities.
///
/// # Errors
/// An error of the kernel.
pub fn relinquish(user: User) -> io::Result<()> {
    let (uid, gid) = (user.uid, user.gid);
    // linux/capability.h, version 3: 64 bits of each set.
    let header: [u32; 2] = [0x2008_0522, 0];
    let none = [[0_u32; 3]; 2];
    // SAFETY: the bare system calls change this thread alone, unlike the C library's functions. The
    // pointers have the sizes that the kernel expects.
    unsafe {
        // Without rights to change groups there are none to drop.
        let groups = Errno::result(libc::syscall(libc::SYS_setgroups, 1_usize, &raw const gid));
        if let Err(e) = groups
            && (e != Errno::EPERM || libc::geteuid() == 0)
        {
            return Err(e.into());
        }
        Errno::result(libc::syscall(libc::SYS_setresgid, gid, gid, gid))?;
        Errno::result(libc::syscall(libc::SYS_setresuid, uid, uid, uid))?;
        Errno::result(libc::syscall(
            libc::SYS_capset,
            header.as_ptr(),
            none.as_ptr(),
        ))?;
    }
    Ok(())
}

/// A process that is ready for its guest.
#[derive(Debug)]
pub struct SealedProcess {
    ordinary: Range<u64>,
    watched: Vec<usize>,
}

impl Region {
    /// Prepares the process. Call it when everything is loaded, and before the start of the thread
    /// that calls [`SealedProcess::enter`], which inherits the signal mask.
    ///
    /// Afterwards the calling thread takes no signals but faults. If it is the first of the
    /// process, its stack is read-only for threads without rights to the keys.
    ///
    /// # Errors
    /// The reason against a guest.
    pub fn seal(&self) -> Result<SealedProcess, SealError> {
        if !is_bound_now() {
            return Err(SealError::Lazy);
        }
        undumpable()?;
        let mut mask = SigSet::all();
        for signal in SIGNALS {
            if let Ok(signal) = Signal::try_from(signal) {
                mask.remove(signal);
            }
        }
        pthread_sigmask(SigmaskHow::SIG_SETMASK, Some(&mask), None).map_err(|e| SealError::Os {
            what: "block signals",
            source: e.into(),
        })?;
        handle_faults()?;
        let read = |source| SealError::Os {
            what: "read /proc/self/maps",
            source,
        };
        let mappings = mappings().map_err(read)?;
        let watched = clean(&mappings)?;
        protect_first_stack(&mappings)?;
        Ok(SealedProcess {
            watched,
            ordinary: ordinary(&mappings, sites().code.start),
        })
    }
}

/// Makes /proc/self/mem, which no key stops, accessible to root only.
fn undumpable() -> Result<(), SealError> {
    // SAFETY: a setting of this process.
    let code = unsafe { libc::prctl(libc::PR_SET_DUMPABLE, 0, 0, 0, 0) };
    checked("make the process undumpable", code.into())
}

fn handle_faults() -> Result<(), SealError> {
    // SAFETY: all-zero is a valid action without flags and with an empty mask.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    action.sa_sigaction = handler();
    // Not deferred: the handler does not return to the kernel, which would end the deferral.
    action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK | libc::SA_NODEFER;
    for signal in SIGNALS {
        // SAFETY: the handler is the gate's, which ends the guest or the process.
        let code = unsafe { libc::sigaction(signal, &raw const action, std::ptr::null_mut()) };
        checked("handle faults", code.into())?;
    }
    Ok(())
}

fn protect_first_stack(mappings: &[MapEntry]) -> Result<(), SealError> {
    // SAFETY: asks for two ids.
    let is_first = unsafe { libc::gettid() == libc::getpid() };
    if !is_first {
        // Any other first thread has no rights.
        return Ok(());
    }
    let stack = mappings.iter().find(|m| m.name == "[stack]");
    let (Some(stack), Some(keys)) = (stack, keys()) else {
        return Ok(());
    };
    let rights = libc::PROT_READ | libc::PROT_WRITE;
    let (start, len) = (stack.addresses.start, stack.addresses.len());
    // SAFETY: the threads that use it have the key's rights; see `Region::seal`.
    let outcome = unsafe { protect(start, len, rights, keys.packets) };
    outcome.map_err(|source| SealError::Os {
        what: "protect the first thread's stack",
        source,
    })
}

/// Ordinary memory: from behind the region and the program, whose code is at `code`, to the lowest
/// library.
fn ordinary(mappings: &[MapEntry], code: usize) -> Range<u64> {
    let program = mapping_at(mappings, code).map_or("", |m| m.name.as_str());
    let of_program = mappings.iter().filter(|m| m.name == program);
    let first = of_program
        .map(|m| m.addresses.end)
        .max()
        .unwrap_or(END)
        .max(END);
    let has_code = |name: &str| mappings.iter().any(|m| m.is_executable && m.name == name);
    let others = mappings.iter().filter(|m| {
        m.addresses.start >= first
            && (m.name == "[stack]" || !m.name.is_empty() && has_code(&m.name))
    });
    let end = others.map(|m| m.addresses.start).min().unwrap_or(first);
    first as u64..end as u64
}

impl SealedProcess {
    /// Prepares the calling thread to run a guest. It keeps only the rights of `user` and the
    /// listed system calls. Returns its alternate signal stack.
    ///
    /// # Errors
    /// The reason against the guest. The thread may have lost rights in that case.
    pub fn enter(&self, user: User) -> Result<Range<usize>, SealError> {
        if user.uid == 0 {
            return Err(SealError::Root);
        }
        leave_rseq()?;
        let signal_stack = signal_stack()?;
        let mut open = Vec::new();
        for address in &self.watched {
            let fd = watch(*address).map_err(|source| SealError::Os {
                what: "watch its code (perf_event_open, Linux 5.13)",
                source,
            })?;
            // The descriptor stays open as long as the thread runs.
            open.push(fd.into_raw_fd());
        }
        relinquish(user).map_err(|source| SealError::Os {
            what: "switch to its user",
            source,
        })?;
        // A change of user may have made the process dumpable again.
        undumpable()?;
        self.filter(&open)?;
        Ok(signal_stack)
    }

    #[cfg(target_arch = "x86_64")]
    fn filter(&self, open: &[i32]) -> Result<(), SealError> {
        let bounds = crate::filter::Bounds {
            first: self.ordinary.start,
            end: self.ordinary.end,
        };
        crate::filter::install(bounds, open).map_err(|source| SealError::Os {
            what: "filter its system calls (a kernel with CONFIG_SECCOMP_FILTER is needed)",
            source,
        })
    }

    #[cfg(not(target_arch = "x86_64"))]
    fn filter(&self, _kept: &[i32]) -> Result<(), SealError> {
        Ok(())
    }
}

/// Unregisters the thread's restartable sequence. Its area lies in memory of the guest, which could
/// choose where an interrupted host continues.
fn leave_rseq() -> Result<(), SealError> {
    /// Signature before each abort handler (glibc, sysdeps/unix/sysv/linux/x86/bits/rseq.h).
    const SIGNATURE: u32 = 0x5305_3053;
    const UNREGISTER: u32 = 1;
    // SAFETY: looks symbols up by names that end with a zero; what is found are integers.
    let (offset, size) = unsafe {
        let offset = libc::dlsym(libc::RTLD_DEFAULT, c"__rseq_offset".as_ptr());
        let size = libc::dlsym(libc::RTLD_DEFAULT, c"__rseq_size".as_ptr());
        if offset.is_null() || size.is_null() {
            return Ok(());
        }
        (*offset.cast::<isize>(), *size.cast::<u32>())
    };
    if size == 0 {
        return Ok(());
    }
    // SAFETY: where the C library says that this thread's area lies.
    let area = unsafe { thread_pointer().wrapping_add_signed(offset) };
    // The registered length is 32 bytes, or the length that newer kernels request.
    // SAFETY: reads the auxiliary vector (AT_RSEQ_FEATURE_SIZE, AT_RSEQ_ALIGN).
    let wanted = unsafe { libc::getauxval(27) } as u32;
    for len in [32, size, wanted.next_multiple_of(32)] {
        // SAFETY: takes a registration away.
        let code = unsafe { libc::syscall(libc::SYS_rseq, area, len, UNREGISTER, SIGNATURE) };
        if code == 0 {
            return Ok(());
        }
    }
    Err(SealError::os("leave restartable sequences"))
}

/// # Safety
/// Reads the first word of the thread's control block, which is its own address (x86-64 psABI).
#[cfg(target_arch = "x86_64")]
unsafe fn thread_pointer() -> usize {
    let pointer;
    // SAFETY: see above.
    unsafe {
        std::arch::asm!(
            "mov {}, fs:[0]",
            out(reg) pointer,
            options(nostack, readonly, preserves_flags)
        )
    };
    pointer
}

#[cfg(not(target_arch = "x86_64"))]
unsafe fn thread_pointer() -> usize {
    0
}

/// Allocates the signal stack in ordinary memory. Before 6.12 (commit 70044df250d0) the kernel
/// writes the frame with the thread's current rights, here the guest's.
fn signal_stack() -> Result<Range<usize>, SealError> {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
    let rights = libc::PROT_READ | libc::PROT_WRITE;
    // SAFETY: a new mapping at an address of the kernel's choice.
    let base = unsafe {
        libc::mmap(
            std::ptr::null_mut(),
            SIGNAL_STACK_BYTES,
            rights,
            flags,
            -1,
            0,
        )
    };
    if base == libc::MAP_FAILED {
        return Err(SealError::os("allocate a signal stack"));
    }
    let stack = libc::stack_t {
        ss_sp: base,
        ss_flags: 0,
        ss_size: SIGNAL_STACK_BYTES,
    };
    // SAFETY: the memory is this thread's, for good.
    let code = unsafe { libc::sigaltstack(&raw const stack, std::ptr::null_mut()) };
    checked("set the signal stack", code.into())?;
    Ok(base as usize..base as usize + SIGNAL_STACK_BYTES)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mapped(addresses: Range<usize>, is_executable: bool, name: &str) -> MapEntry {
        MapEntry {
            addresses,
            is_readable: true,
            is_writable: !is_executable,
            is_executable,
            offset: 0,
            name: name.to_owned(),
        }
    }

    #[test]
    fn ordinary_memory_lies_between_the_program_and_the_lowest_library() {
        let mappings = [
            mapped(0x5555_0000_0000..0x5555_0010_0000, true, "/bin/program"),
            mapped(0x5555_0010_0000..0x5555_0020_0000, false, "/bin/program"),
            mapped(0x5555_0020_0000..0x5555_0030_0000, false, ""),
            mapped(0x5555_1000_0000..0x5555_1100_0000, false, "[heap]"),
            mapped(
                0x7f00_0000_0000..0x7f00_0100_0000,
                false,
                "/memfd:cofferdam-area (deleted)",
            ),
            mapped(0x7f00_1000_0000..0x7f00_1000_1000, false, "/lib/libc.so.6"),
            mapped(0x7f00_1000_1000..0x7f00_1100_0000, true, "/lib/libc.so.6"),
            mapped(0x7ffc_0000_0000..0x7ffc_0100_0000, false, "[stack]"),
        ];
        assert_eq!(
            ordinary(&mappings, 0x5555_0000_1000),
            0x5555_0020_0000..0x7f00_1000_0000
        );
    }

    #[test]
    fn the_thread_that_relinquishes_is_the_only_one() {
        // SAFETY: asks for the user.
        if unsafe { libc::geteuid() } != 0 {
            return;
        }
        let theirs = std::thread::spawn(|| {
            relinquish(User {
                uid: 65534,
                gid: 65534,
            })
            .expect("relinquished");
            let status = std::fs::read_to_string("/proc/thread-self/status").expect("readable");
            let line = |name: &str| {
                let found = status.lines().find(|line| line.starts_with(name));
                found
                    .expect("a line")
                    .split_whitespace()
                    .skip(1)
                    .map(str::to_owned)
                    .collect::<Vec<_>>()
            };
            (
                line("Uid:"),
                line("Groups:"),
                line("CapEff:"),
                line("CapPrm:"),
            )
        });
        let (uid, groups, effective, permitted) = theirs.join().expect("joined");
        assert_eq!(uid, ["65534"; 4]);
        assert_eq!(groups, ["65534"]);
        assert_eq!(
            (effective, permitted),
            (vec!["0".repeat(16)], vec!["0".repeat(16)])
        );
        // SAFETY: asks for the user.
        assert_eq!(unsafe { libc::geteuid() }, 0);
    }
}
