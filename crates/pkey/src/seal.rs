//! Everything that must hold before the guest's first instruction.

use crate::fault::SIGNALS;
use crate::gate::{handler, sites};
use crate::keys::keys;
use crate::maps::{Mapped, mapping_at, mappings};
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

/// Makes the dynamic linker bind everything at the start (ld.so(8)).
const BIND_NOW: &str = "LD_BIND_NOW";
/// Bytes of the alternate signal stack: the frame has all registers, AVX-512's and AMX's among them.
const SIGNAL_STACK_BYTES: usize = 64 << 10;

/// Why a guest is not let in.
#[derive(Debug, thiserror::Error)]
pub enum SealError {
    /// Root may open /proc/self/mem, past all keys.
    #[error(
        "its user is root, who may read and write all memory by /proc/self/mem: give it another user"
    )]
    Root,
    /// The dynamic linker still binds when functions are first called.
    #[error("the program was not started with {BIND_NOW}=1")]
    Lazy,
    /// An instruction that writes PKRU, of unknown origin.
    #[error(
        "{file} has the instruction {what} at offset {offset:#x}, by which memory could be unprotected: start the dataplane without that library"
    )]
    Instruction {
        /// Which.
        what: &'static str,
        /// In which file.
        file: String,
        /// Where in it.
        offset: usize,
    },
    /// More places than the CPU can watch.
    #[error(
        "this build of the program has {count} places in its code that could unprotect memory, more than the {MOST} that the CPU can watch: use another build"
    )]
    Accidents {
        /// How many.
        count: usize,
    },
    /// Code could be written.
    #[error("{what} is writable and executable")]
    Writable {
        /// The mapping.
        what: String,
    },
    /// Code cannot be searched.
    #[error("{what} is executable and cannot be read")]
    Unreadable {
        /// The mapping.
        what: String,
    },
    /// The kernel.
    #[error("cannot {what}: {source}")]
    Os {
        /// What failed.
        what: &'static str,
        /// Why.
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

/// Whom the guest's system calls are made as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct User {
    /// User.
    pub uid: u32,
    /// Its only group.
    pub gid: u32,
}

/// Whether this program was bound at its start.
pub fn is_bound_now() -> bool {
    std::env::var_os(BIND_NOW).is_some_and(|value| !value.is_empty())
}

/// Starts this program again, in this process, so that it is bound at its start. Returns only when that
/// fails.
pub fn bind_now() -> io::Error {
    let mut arguments = std::env::args_os();
    let name = arguments.next().unwrap_or_default();
    let mut command = Command::new("/proc/self/exe");
    command.arg0(name).args(arguments).env(BIND_NOW, "1").exec()
}

/// Takes the rights of `user` for those of the calling thread alone, for good, and no capabilities.
///
/// # Errors
/// The kernel's.
pub fn relinquish(user: User) -> io::Result<()> {
    let (uid, gid) = (user.uid, user.gid);
    // linux/capability.h, version 3: 64 bits of each set.
    let header: [u32; 2] = [0x2008_0522, 0];
    let none = [[0_u32; 3]; 2];
    // SAFETY: the C library's functions would change all threads; these change this one. The pointers
    // are of the sizes that the kernel expects.
    unsafe {
        // Without rights to change groups there are none to give up.
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
pub struct Sealed {
    ordinary: Range<u64>,
    watched: Vec<usize>,
}

impl Region {
    /// Prepares the process; to be called when all that is to be loaded is loaded,
    /// and before the thread that [`Sealed::enter`]s is started: it inherits the signal mask.
    ///
    /// Afterwards the calling thread takes no signals but faults. If it is the first of the process, its stack
    /// is read-only for threads without the keys' rights.
    ///
    /// # Errors
    /// What stands against a guest.
    pub fn seal(&self) -> Result<Sealed, SealError> {
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
        Ok(Sealed {
            watched,
            ordinary: ordinary(&mappings, sites().code.start),
        })
    }
}

/// So that /proc/self/mem, which no key stops, is root's.
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

fn protect_first_stack(mappings: &[Mapped]) -> Result<(), SealError> {
    // SAFETY: asks for two ids.
    let is_first = unsafe { libc::gettid() == libc::getpid() };
    if !is_first {
        // Another first thread has no rights.
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

/// From behind the region and the program, which has code at `code`, to the lowest library.
fn ordinary(mappings: &[Mapped], code: usize) -> Range<u64> {
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

impl Sealed {
    /// Makes the calling thread one that can run a guest: no rights but those of `user`, no system
    /// calls but those of the list. Returns its alternate signal stack.
    ///
    /// # Errors
    /// What stands against the guest; then the thread may have lost rights.
    pub fn enter(&self, user: User) -> Result<Range<usize>, SealError> {
        if user.uid == 0 {
            return Err(SealError::Root);
        }
        leave_rseq()?;
        let signal_stack = signal_stack()?;
        let mut kept = Vec::new();
        for address in &self.watched {
            let fd = watch(*address).map_err(|source| SealError::Os {
                what: "watch its code (perf_event_open, Linux 5.13)",
                source,
            })?;
            // Open as long as the thread.
            kept.push(fd.into_raw_fd());
        }
        relinquish(user).map_err(|source| SealError::Os {
            what: "switch to its user",
            source,
        })?;
        // A change of user may have made the process dumpable again.
        undumpable()?;
        self.filter(&kept)?;
        Ok(signal_stack)
    }

    #[cfg(target_arch = "x86_64")]
    fn filter(&self, kept: &[i32]) -> Result<(), SealError> {
        let bounds = crate::filter::Bounds {
            first: self.ordinary.start,
            end: self.ordinary.end,
        };
        crate::filter::install(bounds, kept).map_err(|source| SealError::Os {
            what: "filter its system calls (a kernel with CONFIG_SECCOMP_FILTER is needed)",
            source,
        })
    }

    #[cfg(not(target_arch = "x86_64"))]
    fn filter(&self, _kept: &[i32]) -> Result<(), SealError> {
        Ok(())
    }
}

/// A restartable sequence, registered in memory that the guest may write, would let it choose where an
/// interrupted host continues. This thread has none from now on.
fn leave_rseq() -> Result<(), SealError> {
    /// The signature before each abort handler (glibc, sysdeps/unix/sysv/linux/x86/bits/rseq.h).
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
    // What was registered is 32 bytes, or all that newer kernels want.
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
        std::arch::asm!("mov {}, fs:[0]", out(reg) pointer, options(nostack, readonly, preserves_flags))
    };
    pointer
}

#[cfg(not(target_arch = "x86_64"))]
unsafe fn thread_pointer() -> usize {
    0
}

/// In ordinary memory: before 6.12 (commit 70044df250d0) the kernel writes the frame with the rights of the
/// moment, and these are the guest's.
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

    fn mapped(addresses: Range<usize>, is_executable: bool, name: &str) -> Mapped {
        Mapped {
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
