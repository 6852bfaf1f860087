//! Interception of calls that packetdrill makes to the C library past the table. On a script's
//! sockets these are `getsockopt` for the code in a script (TCP_INFO), `sendfile`, and `close` at
//! the end. It also intercepts `system`, whose commands configure and read Linux but mean the stack
//! under test.
//!
//! The entries of these functions in the program's table of imported functions are replaced by
//! functions of ours, which serve the shim's descriptors and pass all others on. Symbol
//! interposition was rejected: the program is already linked when it loads a shared object, and
//! `LD_PRELOAD` would be one more thing to set on the command line. A statically linked program has
//! no such table and keeps its own calls.

use crate::calls;
use crate::shim::Shim;
use libc::{c_char, c_int, c_void, dl_phdr_info, off_t, size_t, socklen_t, ssize_t};
use std::ffi::{CStr, CString};
use std::sync::atomic::{AtomicPtr, Ordering};

/// The host that is served; packetdrill has one at a time.
static SERVED: AtomicPtr<Shim> = AtomicPtr::new(std::ptr::null_mut());

/// Serves this host from now on.
pub fn serve(shim: *mut Shim) {
    SERVED.store(shim, Ordering::Release);
}

/// Stops serving the host.
pub fn forget(shim: *mut Shim) {
    let none = std::ptr::null_mut();
    let _ = SERVED.compare_exchange(shim, none, Ordering::AcqRel, Ordering::Acquire);
}

/// The host, if the descriptor is one of its files.
fn owner(file: c_int) -> Option<*mut c_void> {
    let shim = SERVED.load(Ordering::Acquire);
    // SAFETY: `serve` was given a live host, and `forget` is called before it is dropped.
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
    // Neither part contains a zero byte; if one did, the command would run unchanged.
    let whole = CString::new(whole).unwrap_or_else(|_| text.to_owned());
    // SAFETY: as in system(3).
    unsafe { libc::system(whole.as_ptr()) }
}

/// An entry of a relocation table (`Elf64_Rela` of ELF).
#[repr(C)]
#[derive(Clone, Copy)]
struct Relocation {
    offset: u64,
    info: u64,
    addend: i64,
}

/// An entry of the dynamic section (`Elf64_Dyn` of ELF).
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

/// Name of a function, and the address of its replacement.
type Replacement = (&'static CStr, usize);

/// Redirects the program's calls. Repeating it is harmless.
pub fn install() {
    let mut replacements: [Replacement; 5] = [
        (c"getsockopt", getsockopt as *const () as usize),
        (c"sendfile", sendfile as *const () as usize),
        (c"sendfile64", sendfile as *const () as usize),
        (c"close", close as *const () as usize),
        (c"system", system as *const () as usize),
    ];
    // SAFETY: the callback receives the pointer passed here.
    unsafe { libc::dl_iterate_phdr(Some(visit), (&raw mut replacements).cast()) };
}

/// Patches the first object, which is the program itself.
unsafe extern "C" fn visit(info: *mut dl_phdr_info, _size: size_t, data: *mut c_void) -> c_int {
    // SAFETY: called by dl_iterate_phdr(3), with the pointer that `install` passed.
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
/// `entries` is the dynamic section of a program loaded at `base`; it ends with an empty entry.
unsafe fn patch(base: u64, mut entries: *const Dynamic, replacements: &[Replacement]) {
    let mut found = [0_u64; 24];
    // SAFETY: the section ends with tag 0, and its tables lie at the addresses and sizes it gives.
    unsafe {
        while (*entries).tag != 0 {
            let entry = *entries;
            if let Some(slot) = usize::try_from(entry.tag)
                .ok()
                .and_then(|t| found.get_mut(t))
            {
                *slot = entry.value;
            }
            entries = entries.add(1);
        }
        // glibc relocates these addresses in place; musl leaves them as in the file.
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
                let ours = replacements.iter().find(|(replaced, _)| *replaced == name);
                if let Some((_, function)) = ours {
                    point((base + relocation.offset) as *mut usize, *function);
                }
            }
        }
    }
}

/// # Safety
/// `entry` is an import address slot of the program.
unsafe fn point(entry: *mut usize, function: usize) {
    const PAGE: usize = 4096;
    let page = (entry as usize & !(PAGE - 1)) as *mut c_void;
    // SAFETY: the page belongs to the program and becomes writable if RELRO made it read-only. The
    // entry is aligned, and nothing calls through it while packetdrill loads this object.
    unsafe {
        if libc::mprotect(page, PAGE, libc::PROT_READ | libc::PROT_WRITE) == 0 {
            entry.write(function);
        }
    }
}
