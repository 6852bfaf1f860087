//! Static load generator that this program contains.

use crate::error::BenchError;
use std::fs::{self, File, Permissions};
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// Binary that `build.rs` builds from `src/bin/cofferdam-load`.
static PROGRAM: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/cofferdam-load"));

/// Name of the program in images and directories.
pub(super) const NAME: &str = "cofferdam-load";

/// Writes the program into `dir` and returns its path.
pub(super) fn write(dir: &Path) -> Result<PathBuf, BenchError> {
    let path = dir.join(NAME);
    // Removes the file first: a running program cannot be overwritten, but its name can be removed.
    let _absent = fs::remove_file(&path);
    let written = File::create(&path).and_then(|mut file| {
        file.write_all(PROGRAM)?;
        file.set_permissions(Permissions::from_mode(0o755))
    });
    written.map_err(BenchError::host("write", &path))?;
    Ok(path)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{BufRead, BufReader};
    use std::process::{Command, Stdio};

    /// Promise 46.
    #[test]
    fn it_is_static_and_answers() {
        let dir = tempfile::tempdir().unwrap();
        let path = write(dir.path()).unwrap();
        // No interpreter in its program headers: it needs no file of its root directory.
        let elf = fs::read(&path).unwrap();
        assert_eq!(&elf[..4], b"\x7fELF");
        let table = u64::from_le_bytes(elf[32..40].try_into().unwrap()) as usize;
        let size = u16::from_le_bytes([elf[54], elf[55]]) as usize;
        let count = u16::from_le_bytes([elf[56], elf[57]]) as usize;
        let kinds = (0..count).map(|i| elf[table + i * size]);
        const INTERPRETER: u8 = 3;
        assert!(kinds.into_iter().all(|kind| kind != INTERPRETER));
        let output = Command::new(&path)
            .arg("serve")
            .stdin(Stdio::null())
            .output()
            .unwrap();
        assert_eq!(output.stdout, b"@ready\n");
    }

    /// A virtual machine's console has no end of input, so a command ends the program and its load.
    /// Promise 46.
    #[test]
    fn it_ends_on_request_in_the_middle_of_a_load() {
        cofferdam_lab::fixtures::time_limit(std::time::Duration::from_secs(60), || {
            let dir = tempfile::tempdir().unwrap();
            let mut child = Command::new(write(dir.path()).unwrap())
                .arg("serve")
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .spawn()
                .unwrap();
            // The input stays open: only the command ends the program.
            let mut input = child.stdin.take().unwrap();
            let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
            let mut until = |start: &str| {
                let found = lines.find(|l| l.as_ref().unwrap().starts_with(start));
                found.unwrap().unwrap()
            };
            writeln!(
                input,
                "prepare cpu cpus=0.1\ngo warmup_ms=0 measure_ms=600000"
            )
            .unwrap();
            until("@tick");
            writeln!(input, "quit").unwrap();
            assert!(until("@done").contains("window_us="));
            assert!(child.wait().unwrap().success());
        });
    }
}
