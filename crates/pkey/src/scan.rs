//! Search of the process for instructions that write PKRU. It looks at every offset, not only at
//! the compiler's instructions, because a jump may go anywhere.

use crate::gate::sites;
use crate::maps::{MapEntry, mapping_at};
use crate::seal::SealError;
use crate::spans::PAGE;
use crate::watch::{MOST, starts};
use std::io;
use std::ops::Range;

/// An instruction that can write PKRU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Finding {
    /// `WRPKRU`.
    Wrpkru,
    /// `XRSTOR` with any memory operand.
    Xrstor,
}

impl Finding {
    fn name(self) -> &'static str {
        match self {
            Finding::Wrpkru => "WRPKRU",
            Finding::Xrstor => "XRSTOR",
        }
    }
}

/// Offsets in `code` at which such an instruction begins, in order.
pub fn find(code: &[u8]) -> impl Iterator<Item = (usize, Finding)> {
    (0..code.len().saturating_sub(2)).filter_map(|at| {
        let found = match code[at..at + 3] {
            [0x0f, 0x01, 0xef] => Finding::Wrpkru,
            // 0F AE /5 with a memory operand; with a register operand it is LFENCE. Only the kernel
            // may execute XRSTORS, the counterpart of XSAVES.
            [0x0f, 0xae, form] if form >> 6 != 3 && form >> 3 & 7 == 5 => Finding::Xrstor,
            _ => return None,
        };
        Some((at, found))
    })
}

/// Treatment of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    /// The gate's own instruction.
    Ours,
    /// A known instruction that is no longer needed.
    Overwritten,
    /// Bytes of this program that happen to form the instruction.
    Watched,
    Refused,
}

/// Foreign code that is known to write PKRU.
struct ForeignCode {
    /// The C library's `pkey_set`.
    pkey_set: Range<usize>,
    /// An address in the dynamic linker, whose lazy binding executes XRSTOR.
    linker: usize,
}

impl ForeignCode {
    fn new() -> ForeignCode {
        // SAFETY: looks a symbol up by a name that ends with a zero.
        let pkey_set = unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"pkey_set".as_ptr()) } as usize;
        // SAFETY: reads the auxiliary vector.
        let linker = unsafe { libc::getauxval(libc::AT_BASE) } as usize;
        ForeignCode {
            // The function is smaller: glibc's has 60 bytes.
            pkey_set: pkey_set..pkey_set.saturating_add(96),
            linker,
        }
    }

    fn fate(
        &self,
        (program, linker): (&str, &str),
        mapped: &MapEntry,
        at: usize,
        found: Finding,
    ) -> Fate {
        match found {
            Finding::Wrpkru if sites().instructions().contains(&at) => Fate::Ours,
            Finding::Wrpkru if self.pkey_set.contains(&at) => Fate::Overwritten,
            Finding::Xrstor if !linker.is_empty() && mapped.name == linker => Fate::Overwritten,
            _ if !program.is_empty() && mapped.name == program => Fate::Watched,
            _ => Fate::Refused,
        }
    }
}

/// Address of an accidental instruction in this program's code, for attacks; `None` without one.
///
/// # Errors
/// /proc/self/maps cannot be read.
pub fn accidental() -> io::Result<Option<usize>> {
    let mappings = crate::maps::mappings()?;
    let Some(code) = mapping_at(&mappings, sites().code.start) else {
        return Ok(None);
    };
    // SAFETY: as in `clean`.
    let bytes = unsafe { bytes(code) };
    let all = find(bytes).map(|(offset, _)| code.addresses.start + offset);
    Ok(all
        .into_iter()
        .find(|at| !sites().instructions().contains(at)))
}

/// # Safety
/// The mapping is readable and does not change meanwhile.
unsafe fn bytes(mapped: &MapEntry) -> &'static [u8] {
    let start = mapped.addresses.start as *const u8;
    // SAFETY: the caller's promise.
    unsafe { std::slice::from_raw_parts(start, mapped.addresses.len()) }
}

/// Removes every instruction that writes PKRU except the gate's. Lazy binding stops working, so
/// that the program must be bound. Returns the addresses to watch.
pub(crate) fn clean(mappings: &[MapEntry]) -> Result<Vec<usize>, SealError> {
    let mut watched = Vec::new();
    let foreign = ForeignCode::new();
    let name = |address| mapping_at(mappings, address).map_or("", |m| m.name.as_str());
    let names = (name(sites().code.start), name(foreign.linker));
    for mapped in mappings.iter().filter(|m| m.is_executable) {
        if mapped.is_writable {
            return Err(SealError::Writable {
                what: described(mapped),
            });
        }
        if !mapped.is_readable {
            // The kernel's [vsyscall] at a fixed address: executable only, three system calls.
            if mapped.name == "[vsyscall]" {
                continue;
            }
            return Err(SealError::Unreadable {
                what: described(mapped),
            });
        }
        // SAFETY: mapped and readable; code does not change while it is read.
        let code = unsafe { bytes(mapped) };
        let found: Vec<(usize, Finding)> = find(code).collect();
        for (offset, found) in found {
            let at = mapped.addresses.start + offset;
            match foreign.fate(names, mapped, at, found) {
                Fate::Ours => {}
                Fate::Overwritten => overwrite(at)?,
                Fate::Watched => {
                    let starts = starts(code, offset);
                    watched.extend(starts.map(|start| mapped.addresses.start + start));
                }
                Fate::Refused => {
                    return Err(SealError::Instruction {
                        what: found.name(),
                        file: described(mapped),
                        offset: mapped.offset + offset,
                    });
                }
            }
        }
    }
    match watched.len() {
        ..=MOST => Ok(watched),
        count => Err(SealError::Accidents { count }),
    }
}

fn described(mapped: &MapEntry) -> String {
    match mapped.name.as_str() {
        "" => format!("anonymous memory at {:#x}", mapped.addresses.start),
        name => name.to_owned(),
    }
}

/// Replaces the instruction at an address by `ud2`.
fn overwrite(at: usize) -> Result<(), SealError> {
    let page = at & !(PAGE - 1);
    // Both bytes, which may lie on two pages.
    let len = (at + 2).next_multiple_of(PAGE) - page;
    let rights = |rights| {
        // SAFETY: the pages of this code, which no other thread runs now: the program is bound, and
        // nothing calls `pkey_set`.
        match unsafe { libc::mprotect(page as *mut _, len, rights) } {
            0 => Ok(()),
            _ => Err(SealError::os("make code writable")),
        }
    };
    rights(libc::PROT_READ | libc::PROT_WRITE)?;
    // SAFETY: writable now; a private copy of the file's page.
    unsafe { (at as *mut [u8; 2]).write_unaligned([0x0f, 0x0b]) };
    rights(libc::PROT_READ | libc::PROT_EXEC)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(code: &[u8]) -> Vec<(usize, Finding)> {
        find(code).collect()
    }

    /// Promise 69.
    #[test]
    fn instructions_are_found_at_every_offset_and_inside_others() {
        assert_eq!(
            found(&[0x90, 0x0f, 0x01, 0xef, 0xc3]),
            [(1, Finding::Wrpkru)]
        );
        // mov eax, 0x00ef010f
        assert_eq!(
            found(&[0xb8, 0x0f, 0x01, 0xef, 0x00]),
            [(1, Finding::Wrpkru)]
        );
        // xrstor [rsp], xrstor64 [rsp + 0x40], xrstor [rip + …]
        assert_eq!(found(&[0x0f, 0xae, 0x2c, 0x24]), [(0, Finding::Xrstor)]);
        assert_eq!(
            found(&[0x48, 0x0f, 0xae, 0x6c, 0x24, 0x40]),
            [(1, Finding::Xrstor)]
        );
        assert_eq!(
            found(&[0x0f, 0xae, 0x2d, 0, 0, 0, 0]),
            [(0, Finding::Xrstor)]
        );
    }

    #[test]
    fn neighbours_of_these_instructions_are_none_of_them() {
        for code in [
            &[0x0f, 0x01, 0xee][..],         // rdpkru
            &[0x0f, 0xae, 0xe8],             // lfence
            &[0x0f, 0xae, 0x64, 0x24, 0x40], // xsave
            &[0x0f, 0xae, 0x1c, 0x24],       // stmxcsr
            &[0x0f, 0x01],
            &[],
        ] {
            assert_eq!(found(code), [], "{code:x?}");
        }
    }

    #[test]
    fn random_code_with_one_instruction_put_in_shows_it() {
        let mut random = fastrand::Rng::with_seed(3);
        for _ in 0..2000 {
            let mut code: Vec<u8> = (0..64).map(|_| random.u8(..)).collect();
            let at = random.usize(0..61);
            code[at..at + 3].copy_from_slice(&[0x0f, 0x01, 0xef]);
            assert!(found(&code).contains(&(at, Finding::Wrpkru)));
        }
    }

    /// Promise 69.
    #[test]
    fn code_of_unknown_origin_is_refused_with_its_place() {
        static CODE: [u8; 4] = [0x90, 0x0f, 0x01, 0xef];
        let start = CODE.as_ptr() as usize;
        let mapped = MapEntry {
            addresses: start..start + CODE.len(),
            is_readable: true,
            is_writable: false,
            is_executable: true,
            offset: 0x1000,
            name: "/opt/other.so".to_owned(),
        };
        let error = clean(std::slice::from_ref(&mapped))
            .expect_err("refused")
            .to_string();
        assert!(
            error.starts_with("/opt/other.so has the instruction WRPKRU at offset 0x1001"),
            "{error}"
        );
        let writable = MapEntry {
            is_writable: true,
            ..mapped
        };
        let error = clean(&[writable]).expect_err("refused").to_string();
        assert!(
            error.contains("/opt/other.so is writable and executable"),
            "{error}"
        );
    }
}
