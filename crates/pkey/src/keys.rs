//! The two protection keys, and the rights to them.

use crate::arch;
use std::io;
use std::sync::atomic::{AtomicU32, Ordering};

/// The reason why there are no protection keys.
#[derive(Debug, thiserror::Error)]
pub enum NoKeys {
    /// The CPU has no keys.
    #[error("this CPU has no protection keys (no `pku` in /proc/cpuinfo)")]
    Cpu,
    /// The kernel does not enable them.
    #[error(
        "this kernel leaves the CPU's protection keys off (no `ospke` in /proc/cpuinfo): boot it \
            without `nopku`, with CONFIG_X86_INTEL_MEMORY_PROTECTION_KEYS"
    )]
    Kernel,
    /// The processor has another architecture.
    #[error("protection keys are used on x86-64 only")]
    Architecture,
}

/// Whether CPU and kernel have protection keys.
///
/// # Errors
/// The part that is missing.
pub fn supported() -> Result<(), NoKeys> {
    if !arch::HAS_KEYS {
        return Err(NoKeys::Architecture);
    }
    match arch::cpuid_keys() {
        (true, true) => Ok(()),
        (true, false) => Err(NoKeys::Kernel),
        (false, _) => Err(NoKeys::Cpu),
    }
}

/// The keys of a region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Keys {
    /// Key of memory that the guest may not access.
    pub private: u32,
    /// Key of memory that the guest may only read.
    pub packets: u32,
}

/// Bits of a key in PKRU: access disabled, write disabled.
const fn bits(key: u32, rights: u32) -> u32 {
    rights << (2 * key)
}

/// PKRU of a new process: access by the first key only.
const NONE: u32 = 0x5555_5554;

impl Keys {
    /// Allocates two keys, with all rights for the calling thread.
    pub fn alloc() -> io::Result<Keys> {
        let alloc = || {
            // SAFETY: changes this thread's rights by a new key alone.
            let key = unsafe { libc::syscall(libc::SYS_pkey_alloc, 0_u64, 0_u64) };
            u32::try_from(key).map_err(|_| io::Error::last_os_error())
        };
        Ok(Keys {
            private: alloc()?,
            packets: alloc()?,
        })
    }

    /// PKRU of the guest.
    pub fn outside(self) -> u32 {
        (NONE & !bits(self.packets, 3)) | bits(self.packets, 2) | bits(self.private, 3)
    }
}

/// Facts that all may read and none may write once the keys exist. They have a page of their own.
#[repr(C, align(4096))]
pub(crate) struct Facts {
    /// PKRU bits of the private key; 0 without keys.
    mask: AtomicU32,
    /// PKRU of the guest.
    pub outside: AtomicU32,
    private: AtomicU32,
    packets: AtomicU32,
    _rest: [u8; 4096 - 16],
}

pub(crate) static FACTS: Facts = Facts {
    mask: AtomicU32::new(0),
    outside: AtomicU32::new(0),
    private: AtomicU32::new(0),
    packets: AtomicU32::new(0),
    _rest: [0; 4096 - 16],
};

/// Publishes the keys. They stay.
pub(crate) fn publish(keys: Keys) -> io::Result<()> {
    FACTS.outside.store(keys.outside(), Ordering::Relaxed);
    FACTS.private.store(keys.private, Ordering::Relaxed);
    FACTS.packets.store(keys.packets, Ordering::Relaxed);
    FACTS.mask.store(bits(keys.private, 3), Ordering::Release);
    // SAFETY: the page is this static's alone, and nothing writes it from now on.
    let code = unsafe {
        let page = (&raw const FACTS).cast_mut().cast();
        libc::mprotect(page, size_of::<Facts>(), libc::PROT_READ)
    };
    match code {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// The keys, if there are any.
pub(crate) fn keys() -> Option<Keys> {
    (FACTS.mask.load(Ordering::Acquire) != 0).then(|| Keys {
        private: FACTS.private.load(Ordering::Relaxed),
        packets: FACTS.packets.load(Ordering::Relaxed),
    })
}

/// Address of the page with the published keys, which is read-only.
pub fn facts_page() -> usize {
    (&raw const FACTS).addr()
}

/// Whether the calling thread may use the host's memory. Without a region this is one relaxed load.
#[inline]
pub fn is_inside() -> bool {
    let mask = FACTS.mask.load(Ordering::Relaxed);
    mask != 0 && arch::rdpkru() & mask == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_guest_reads_packets_and_nothing_else_of_the_host() {
        let keys = Keys {
            private: 1,
            packets: 2,
        };
        let outside = keys.outside();
        assert_eq!(outside >> 2 & 3, 3, "no access, no writes");
        assert_eq!(outside >> 4 & 3, 2, "only writes are disabled");
        assert_eq!(outside & 3, 0, "ordinary memory");
        assert_eq!(outside >> 6, NONE >> 6, "all others as in a new process");
    }

    #[test]
    fn without_keys_nobody_is_inside() {
        assert!(!is_inside());
        assert_eq!(keys(), None);
    }
}
