//! Check whether a program can be served: it must load the library, and its calls must go through
//! the C library.

use super::ProgramError;
use std::ffi::{CString, OsStr, OsString};
use std::fs::File;
use std::io::{BufRead, BufReader, Read, Seek, SeekFrom};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// Scripts whose interpreters are scripts, at most; Linux follows so many.
const MOST_SCRIPTS: usize = 5;
/// Bytes of the largest table of headers or section names that is read.
const LARGEST_TABLE_BYTES: u64 = 1 << 20;
const SETUID: u32 = 0o4000;
const SETGID: u32 = 0o2000;
const PT_INTERP: u32 = 3;

/// Finds a program in PATH, as a shell does.
///
/// # Errors
/// The program does not exist.
pub fn find(name: &OsStr) -> Result<PathBuf, ProgramError> {
    if name.as_bytes().contains(&b'/') {
        return Ok(name.into());
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    let is_program = |path: &PathBuf| {
        let facts = path.metadata();
        facts.is_ok_and(|f| f.is_file() && f.permissions().mode() & 0o111 != 0)
    };
    std::env::split_paths(&path)
        .map(|folder| folder.join(name))
        .find(is_program)
        .ok_or_else(|| ProgramError::NotFound(name.display().to_string()))
}

/// Refuses a program that would bypass the dataplane.
///
/// # Errors
/// The reason why it cannot be served.
pub fn check(program: &Path) -> Result<(), ProgramError> {
    let mut path = program.to_owned();
    for _ in 0..MOST_SCRIPTS {
        match look(&path) {
            Ok(Look::Fits) => return Ok(()),
            Ok(Look::Script(interpreter)) => path = interpreter,
            Ok(Look::Refused(why)) => return Err(ProgramError::Refused { path, why }),
            Err(source) => return Err(ProgramError::Read { path, source }),
        }
    }
    Err(ProgramError::Refused {
        path: program.to_owned(),
        why: format!("its interpreters are scripts, more than {MOST_SCRIPTS} deep"),
    })
}

#[derive(Debug, PartialEq, Eq)]
enum Look {
    Fits,
    Script(PathBuf),
    Refused(String),
}

fn look(path: &Path) -> std::io::Result<Look> {
    let mut file = File::open(path)?;
    let facts = file.metadata()?;
    if !facts.is_file() {
        return Ok(refused("is not a program"));
    }
    if facts.mode() & (SETUID | SETGID) != 0 {
        return Ok(refused(
            "runs with another user's rights (set-uid or set-gid), and such programs take no \
             library from their environment: start it as that user, by a copy without the bit",
        ));
    }
    if has_capabilities(path) {
        return Ok(refused(
            "has file capabilities, and such programs take no library from their environment: \
             start a copy without them (`setcap -r`), as a user that has the rights",
        ));
    }
    let mut start = [0; 64];
    let len = read_some(&mut file, &mut start)?;
    if start.starts_with(b"#!") {
        return Ok(script(&mut file)?.map_or_else(|| refused("names no interpreter"), Look::Script));
    }
    if len < start.len() || !start.starts_with(b"\x7fELF") {
        return Ok(refused(
            "is neither an ELF program nor a script with an interpreter",
        ));
    }
    elf(&mut file, &start)
}

fn refused(why: &str) -> Look {
    Look::Refused(why.to_owned())
}

fn read_some(file: &mut File, bytes: &mut [u8]) -> std::io::Result<usize> {
    let mut len = 0;
    while len < bytes.len() {
        match file.read(&mut bytes[len..])? {
            0 => break,
            more => len += more,
        }
    }
    Ok(len)
}

/// Interpreter in the first line. For `#!/usr/bin/env python3` it is python3.
fn script(file: &mut File) -> std::io::Result<Option<PathBuf>> {
    file.seek(SeekFrom::Start(2))?;
    let mut line = Vec::new();
    BufReader::new(file.take(4096)).read_until(b'\n', &mut line)?;
    let mut words = line
        .split(u8::is_ascii_whitespace)
        .filter(|word| !word.is_empty());
    let Some(first) = words.next() else {
        return Ok(None);
    };
    let first = PathBuf::from(OsStr::from_bytes(first));
    if first.file_name() != Some(OsStr::new("env")) {
        return Ok(Some(first));
    }
    let named = words.find(|word| !word.starts_with(b"-") && !word.contains(&b'='));
    let named = named.map(|word| OsString::from(OsStr::from_bytes(word)));
    Ok(named.and_then(|name| find(&name).ok()).or(Some(first)))
}

fn has_capabilities(path: &Path) -> bool {
    let Ok(path) = CString::new(path.as_os_str().as_bytes()) else {
        return false;
    };
    let name = c"security.capability";
    // SAFETY: two strings of C; no value is wanted.
    unsafe { libc::getxattr(path.as_ptr(), name.as_ptr(), std::ptr::null_mut(), 0) > 0 }
}

fn number(bytes: &[u8], at: usize, len: usize) -> u64 {
    let all = bytes.get(at..at + len).unwrap_or_default();
    all.iter()
        .rev()
        .fold(0, |value, byte| value << 8 | u64::from(*byte))
}

/// Reads a whole table of the file.
fn table(file: &mut File, at: u64, entry: u64, count: u64) -> std::io::Result<Vec<u8>> {
    let len = entry.saturating_mul(count).min(LARGEST_TABLE_BYTES);
    file.seek(SeekFrom::Start(at))?;
    let mut bytes = vec![0; len as usize];
    let read = read_some(file, &mut bytes)?;
    bytes.truncate(read);
    Ok(bytes)
}

fn elf(file: &mut File, header: &[u8; 64]) -> std::io::Result<Look> {
    const CLASS_64: u8 = 2;
    const LITTLE: u8 = 1;
    let machine = match std::env::consts::ARCH {
        "x86_64" => 62,
        "aarch64" => 183,
        _ => 0,
    };
    if header[4] != CLASS_64 || header[5] != LITTLE || number(header, 18, 2) != machine {
        return Ok(refused("is a program for another processor"));
    }
    if is_go(file, header)? {
        return Ok(refused(
            "is a Go program: it makes its system calls itself, past the C library, so that its \
             sockets would be the kernel's; write it against the dataplane's own interface, or put \
             a proxy on the dataplane before it",
        ));
    }
    let (at, entry, count) = (
        number(header, 32, 8),
        number(header, 54, 2),
        number(header, 56, 2),
    );
    let headers = table(file, at, entry, count)?;
    let entries = headers.chunks_exact((entry as usize).max(1));
    let mut interpreters = entries.filter(|h| number(h, 0, 4) == u64::from(PT_INTERP));
    let Some(place) = interpreters.next() else {
        return Ok(refused(
            "is statically linked: no library can be put between it and the kernel; use a \
             dynamically linked build",
        ));
    };
    let (at, len) = (number(place, 8, 8), number(place, 32, 8));
    let name = table(file, at, 1, len.min(4096))?;
    let name = String::from_utf8_lossy(&name);
    let name = name.trim_end_matches('\0');
    let is_gnu = Path::new(name)
        .file_name()
        .is_some_and(|file| file.as_bytes().starts_with(b"ld-linux"));
    if !is_gnu {
        return Ok(Look::Refused(format!(
            "is linked against another C library than GNU's ({name}), which cannot load this \
             library: use a build for Debian or another system with glibc"
        )));
    }
    Ok(Look::Fits)
}

/// Whether Go's linker made the file: it writes its own sections, also with C in the program.
fn is_go(file: &mut File, header: &[u8; 64]) -> std::io::Result<bool> {
    let (at, entry, count) = (
        number(header, 40, 8),
        number(header, 58, 2),
        number(header, 60, 2),
    );
    let sections = table(file, at, entry, count)?;
    let names = number(header, 62, 2) as usize * entry as usize;
    let Some(section) = sections.get(names..names + entry as usize) else {
        return Ok(false);
    };
    let names = table(file, number(section, 24, 8), 1, number(section, 32, 8))?;
    let mut names = names.split(|byte| *byte == 0);
    Ok(names.any(|name| [&b".go.buildinfo"[..], b".note.go.buildid"].contains(&name)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn why(path: &Path) -> String {
        match look(path).expect("it is read") {
            Look::Refused(why) => why,
            other => panic!("{other:?}"),
        }
    }

    /// Promise 52.
    #[test]
    fn dynamic_programs_fit_and_others_are_refused_in_words() {
        assert_eq!(look(Path::new("/bin/ls")).expect("read"), Look::Fits);
        let folder = tempfile::tempdir().expect("a folder");
        let at = |name: &str| folder.path().join(name);
        let ls = std::fs::read("/bin/ls").expect("read");

        std::fs::write(at("suid"), &ls).expect("written");
        let bits = std::fs::Permissions::from_mode(0o4755);
        std::fs::set_permissions(at("suid"), bits).expect("set");
        assert!(why(&at("suid")).contains("set-uid"));

        // Without a valid header of an interpreter, the program counts as static.
        let mut still = ls.clone();
        let headers = number(&ls, 32, 8) as usize;
        for n in 0..number(&ls, 56, 2) as usize {
            let place = headers + n * number(&ls, 54, 2) as usize;
            if number(&still, place, 4) == u64::from(PT_INTERP) {
                still[place] = 0;
            }
        }
        std::fs::write(at("static"), &still).expect("written");
        assert!(why(&at("static")).contains("statically linked"));

        let mut other = ls.clone();
        other[18] = 8;
        std::fs::write(at("other"), &other).expect("written");
        assert!(why(&at("other")).contains("another processor"));

        std::fs::write(at("text"), "hello").expect("written");
        assert!(why(&at("text")).contains("neither"));
        std::fs::write(at("empty"), "").expect("written");
        assert!(why(&at("empty")).contains("neither"));
        // Tables beyond the end of the file must not panic.
        for at_byte in 32..64 {
            let mut torn = ls.clone();
            torn[at_byte] = 0xff;
            std::fs::write(at("torn"), &torn).expect("written");
            let _ = look(&at("torn"));
        }
    }

    /// Promise 52.
    #[test]
    fn a_scripts_interpreter_is_looked_at() {
        let folder = tempfile::tempdir().expect("a folder");
        let script = folder.path().join("script");
        for (line, expected) in [("#!/bin/sh -e\n", "/bin/sh"), ("#! /opt/x y\n", "/opt/x")] {
            std::fs::write(&script, line).expect("written");
            assert_eq!(look(&script).expect("read"), Look::Script(expected.into()));
        }
        std::fs::write(&script, "#!/usr/bin/env -S A=b sh\n").expect("written");
        let Look::Script(shell) = look(&script).expect("read") else {
            panic!("no script");
        };
        assert_eq!(shell.file_name(), Some(OsStr::new("sh")));
        std::fs::write(&script, format!("#!{}\n", script.display())).expect("written");
        assert!(check(&script).is_err(), "it never ends");
    }
}
