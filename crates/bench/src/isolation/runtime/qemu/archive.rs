//! Initial file system of a virtual machine: an archive in the "newc" format of the kernel's
//! `Documentation/driver-api/early-userspace/buffer-format.rst`.

/// `S_IFDIR` and `S_IFREG` of `<linux/stat.h>`, with the permissions of root's programs.
const DIRECTORY: u32 = 0o040_755;
const PROGRAM: u32 = 0o100_755;

/// Archive that is being written.
#[derive(Default)]
pub(super) struct Archive {
    bytes: Vec<u8>,
    entries: u32,
}

impl Archive {
    /// Adds a directory; those above it must be added first.
    pub fn directory(&mut self, path: &str) {
        self.entry(path, DIRECTORY, &[]);
    }

    /// Adds an executable file.
    pub fn program(&mut self, path: &str, content: &[u8]) {
        self.entry(path, PROGRAM, content);
    }

    /// Finishes the archive and returns its bytes.
    pub fn end(mut self) -> Vec<u8> {
        self.entry("TRAILER!!!", 0, &[]);
        self.bytes
    }

    /// Adds an entry. Times and owners are 0, so that the same content gives the same bytes.
    fn entry(&mut self, name: &str, mode: u32, content: &[u8]) {
        self.entries += 1;
        let size = content.len() as u32;
        let links = if mode == DIRECTORY { 2 } else { 1 };
        let mut header = "070701".to_owned();
        // ino, mode, uid, gid, nlink, mtime, filesize, the device's numbers and those of a device
        // file, namesize, check.
        let length = name.len() as u32 + 1;
        for field in [
            self.entries,
            mode,
            0,
            0,
            links,
            0,
            size,
            0,
            0,
            0,
            0,
            length,
            0,
        ] {
            header += &format!("{field:08x}");
        }
        self.bytes.extend(header.as_bytes());
        self.bytes.extend(name.as_bytes());
        self.bytes.push(0);
        self.pad();
        self.bytes.extend(content);
        self.pad();
    }

    /// Pads names and contents to multiples of 4 bytes.
    fn pad(&mut self) {
        let whole = self.bytes.len().next_multiple_of(4);
        self.bytes.resize(whole, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::process::{Command, Stdio};

    /// busybox reads the archive as the kernel does.
    /// Promise 43.
    #[test]
    fn an_archive_is_unpacked_as_it_was_packed() {
        let mut archive = Archive::default();
        archive.directory("bin");
        archive.program("bin/odd", b"12345");
        archive.program("init", b"#!/bin/sh\n");
        let bytes = archive.end();
        let dir = tempfile::tempdir().unwrap();
        let mut cpio = Command::new("busybox")
            .args(["cpio", "-i", "-d"])
            .current_dir(dir.path())
            .stdin(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        cpio.stdin.take().unwrap().write_all(&bytes).unwrap();
        assert!(cpio.wait().unwrap().success());
        let read = |name: &str| std::fs::read(dir.path().join(name)).unwrap();
        assert_eq!(read("bin/odd"), b"12345");
        assert_eq!(read("init"), b"#!/bin/sh\n");
        use std::os::unix::fs::PermissionsExt;
        let mode = dir.path().join("init").metadata().unwrap().permissions();
        assert_eq!(mode.mode() & 0o777, 0o755);
    }
}
