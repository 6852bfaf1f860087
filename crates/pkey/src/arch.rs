//! Instructions for protection keys, and the assembly that uses them.

/// Whether protection keys can exist where this program runs.
pub(crate) const HAS_KEYS: bool = cfg!(all(target_arch = "x86_64", target_os = "linux"));

/// Reads PKRU of the calling thread: two bits a key, access disabled and write disabled.
#[cfg(target_arch = "x86_64")]
#[inline]
pub(crate) fn rdpkru() -> u32 {
    let rights: u32;
    // SAFETY: reads a register of this thread; callers have checked that CPU and kernel have it.
    unsafe {
        std::arch::asm!("rdpkru", in("ecx") 0, out("eax") rights, out("edx") _,
            options(nomem, nostack, preserves_flags));
    }
    rights
}

/// Never called: without keys no thread is inside.
#[cfg(not(target_arch = "x86_64"))]
#[inline]
pub(crate) fn rdpkru() -> u32 {
    u32::MAX
}

/// Whether the CPU has protection keys, and whether the kernel has turned them on (CPUID leaf 7,
/// ECX bits 3 and 4).
#[cfg(target_arch = "x86_64")]
pub(crate) fn cpuid_keys() -> (bool, bool) {
    use std::arch::x86_64::{__cpuid, __cpuid_count};
    if __cpuid(0).eax < 7 {
        return (false, false);
    }
    let ecx = __cpuid_count(7, 0).ecx;
    (ecx & 1 << 3 != 0, ecx & 1 << 4 != 0)
}

/// This architecture has no such keys.
#[cfg(not(target_arch = "x86_64"))]
pub(crate) fn cpuid_keys() -> (bool, bool) {
    (false, false)
}
