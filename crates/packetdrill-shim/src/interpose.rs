//! Calls that packetdrill makes to the C library past the table: `getsockopt` for the code in a
//! script (TCP_INFO), `sendfile`, and `close` at the end, on a script's sockets; and `system` for a
//! script's commands, which configure and read Linux where they mean the stack under test.
//!
//! Their entries in the program's table of imported functions are pointed at functions of ours,
//! which serve the shim's descriptors and pass all others on. An interposed symbol was rejected:
//! the program has been linked when it loads a shared object, and `LD_PRELOAD` would be one more
//! thing to say on the command line. A program without such a table (static) keeps its own calls.

use crate::calls;
use crate::shim::Shim;
use libc::{c_char, c_int, c_void, dl_phdr_info, off_t, size_t, socklen_t, ssize_t};
use std::ffi::{CStr, CString};
use std::sync::atomic::{AtomicPtr, Ordering};

/// The host that is served: packetdrill has one at a time.
static SERVED: AtomicPtr<Shim> = AtomicPtr::new(std::ptr::null_mut());

/// Serves this host from now on.
pub fn serve(shim: *mut Shim) {
    SERVED.store(shim, Ordering::Release);
}

/// The host is gone.
pub fn forget(shim: *mut Shim) {
    let none = std::ptr::null_mut();
    let _ = SERVED.compare_exchange(shim, none, Ordering::AcqRel, Ordering::Acquire);
}

/// The host, if the descriptor is one of its files.
fn owner(file: c_int) -> Option<*mut c_void> {
    let shim = SERVED.load(Ordering::Acquire);
    // SAFETY: `serve` was given a live host, and `forget` is called before it goes.
    let owns = unsafe { shim.as_ref() }.is_some_and(|shim| shim.call(|host| host.owns(file)));
    owns.then_some(shim.cast())
}

unsafe extern "C" fn getsockopt(
    file: c_int,
    level: c_int,
    name: c_int,
    value: *mut c_void,
    len: *mut socklen_t,
) -> c_int {
    // SAFETY: as in getsockopt(2); the owner is live.
    unsafe {
        match owner(file) {
            Some(shim) => calls::getsockopt(shim, file, level, name, value, len),
            None => libc::getsockopt(file, level, name, value, len),
        }
    }
}

unsafe extern "C" fn sendfile(to: c_int, from: c_int, offset: *mut off_t, len: size_t) -> ssize_t {
    // SAFETY: as in sendfile(2); the owner is live.
    unsafe {
        match owner(to) {
            Some(shim) => calls::sendfile(shim, to, from, offset, len),
            None => libc::sendfile(to, from, offset, len),
        }
    }
}

unsafe extern "C" fn close(file: c_int) -> c_int {
    // SAFETY: as in close(2); the owner is live.
    unsafe {
        match owner(file) {
            Some(shim) => calls::close(shim, file),
            None => libc::close(file),
        }
    }
}

unsafe extern "C" fn system(command: *const c_char) -> c_int {
    let shim = SERVED.load(Ordering::Acquire);
    // SAFETY: as in system(3): null, or ends with a zero byte. `serve` was given a live host.
    let (shim, text) = unsafe {
        if command.is_null() {
            return libc::system(command);
        }
        (shim.as_ref(), CStr::from_ptr(command))
    };
    let before = shim.and_then(|shim| shim.call(|host| host.command(&text.to_string_lossy())));
    let Some(before) = before else {
        // SAFETY: as in system(3).
        return unsafe { libc::system(command) };
    };
    let whole = [before.as_bytes(), text.to_bytes()].concat();
    // No zero byte is in either part; without one the command is run as it is.
    let whole = CString::new(whole).unwrap_or_else(|_| text.to_owned());
    // SAFETY: as in system(3).
    unsafe { libc::system(whole.as_ptr()) }
}

/// Entry of a relocation table (ELF's `Elf64_Rela`).
#[repr(C)]
#[derive(Clone, Copy)]
struct Relocation {
    offset: u64,
    info: u64,
    addend: i64,
}

/// Entry of the dynamic section (ELF's `Elf64_Dyn`).
#[repr(C)]
#[derive(Clone, Copy)]
struct Dynamic {
    tag: i64,
    value: u64,
}

const DT_PLTRELSZ: i64 = 2;
const DT_STRTAB: i64 = 5;
const DT_SYMTAB: i64 = 6;
const DT_RELA: i64 = 7;
const DT_RELASZ: i64 = 8;
const DT_JMPREL: i64 = 23;

/// A function's name, and the address of ours.
type Replacement = (&'static CStr, usize);

/// Points the program's calls here. Harmless when repeated.
pub fn install() {
    let mut replacements: [Replacement; 5] = [
        (c"getsockopt", getsockopt as *const () as usize),
        (c"sendfile", sendfile as *const () as usize),
        (c"sendfile64", sendfile as *const () as usize),
        (c"close", close as *const () as usize),
        (c"system", system as *const () as usize),
    ];
    // SAFETY: the callback takes what is passed with it.
    unsafe { libc::dl_iterate_phdr(Some(visit), (&raw mut replacements).cast()) };
}

/// The first object is the program; it alone is changed.
unsafe extern "C" fn visit(info: *mut dl_phdr_info, _size: size_t, data: *mut c_void) -> c_int {
    // SAFETY: as dl_iterate_phdr(3) calls it, and with what `install` passed.
    unsafe {
        let info = &*info;
        let replacements = &*data.cast::<[Replacement; 5]>();
        let headers = std::slice::from_raw_parts(info.dlpi_phdr, info.dlpi_phnum.into());
        let base = info.dlpi_addr;
        let dynamic = headers.iter().find(|h| h.p_type == libc::PT_DYNAMIC);
        if let Some(dynamic) = dynamic {
            patch(
                base,
                (base + dynamic.p_vaddr) as *const Dynamic,
                replacements,
            );
        }
    }
    1
}

/// # Safety
/// `entries` is the dynamic section of a program loaded at `base`, which ends with an empty entry.
unsafe fn patch(base: u64, mut entries: *const Dynamic, replacements: &[Replacement]) {
    let mut found = [0_u64; 24];
    // SAFETY: the section ends with tag 0; tables lie where it says, with the sizes it says.
    unsafe {
        while (*entries).tag != 0 {
            let entry = *entries;
            if let Some(place) = usize::try_from(entry.tag)
                .ok()
                .and_then(|t| found.get_mut(t))
            {
                *place = entry.value;
            }
            entries = entries.add(1);
        }
        // glibc has made addresses absolute, musl leaves them as they are in the file.
        let at = |tag: i64| match found[tag as usize] {
            0 => 0,
            relative if relative < base => base + relative,
            absolute => absolute,
        };
        let symbols = at(DT_SYMTAB) as *const libc::Elf64_Sym;
        let names = at(DT_STRTAB) as *const libc::c_char;
        for (table, size) in [(DT_JMPREL, DT_PLTRELSZ), (DT_RELA, DT_RELASZ)] {
            if at(table) == 0 || symbols.is_null() || names.is_null() {
                continue;
            }
            let count = found[size as usize] as usize / size_of::<Relocation>();
            for relocation in std::slice::from_raw_parts(at(table) as *const Relocation, count) {
                let symbol = (relocation.info >> 32) as usize;
                if symbol == 0 || relocation.addend != 0 {
                    continue;
                }
                let name = CStr::from_ptr(names.add((*symbols.add(symbol)).st_name as usize));
                let ours = replacements.iter().find(|(known, _)| *known == name);
                if let Some((_, function)) = ours {
                    point((base + relocation.offset) as *mut usize, *function);
                }
            }
        }
    }
}

/// # Safety
/// `entry` is one of the program's imported addresses.
unsafe fn point(entry: *mut usize, function: usize) {
    const PAGE: usize = 4096;
    let page = (entry as usize & !(PAGE - 1)) as *mut c_void;
    // SAFETY: the page is the program's; where it was made read-only (RELRO) it becomes writable.
    // The entry is aligned, and nobody calls through it while packetdrill loads us.
    unsafe {
        if libc::mprotect(page, PAGE, libc::PROT_READ | libc::PROT_WRITE) == 0 {
            entry.write(function);
        }
    }
}
