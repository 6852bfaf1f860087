//! Kernel of the virtual machines, and the modules that they need.

use crate::error::BenchError;
use cofferdam_lab::{LabError, run};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Variable that names another kernel: `…/boot/vmlinuz-VERSION`, with `…/lib/modules/VERSION` in
/// the same root.
const KERNEL_VARIABLE: &str = "COFFERDAM_VM_KERNEL";
/// Directory in which distributions install kernels.
const BOOT: &str = "/boot";
/// Modules for a machine's devices and its file system; a kernel may have them built in.
const MODULES: [&str; 5] = [
    "virtio_pci",
    "virtio_blk",
    "virtio_net",
    "virtio_balloon",
    "ext4",
];

/// Kernel on this host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Kernel {
    /// Path of its image.
    pub image: PathBuf,
    /// Version as `uname -r` prints it.
    pub version: String,
    /// Directory that contains `lib/modules`.
    root: PathBuf,
}

impl Kernel {
    /// Finds the kernel that the environment names, by default the newest in `/boot`.
    pub fn find() -> Result<Kernel, BenchError> {
        let lacks = |what: String| {
            BenchError::Unsupported(format!(
                "{what}: install a kernel (apt-get install linux-image-cloud-amd64), or name one \
                 that was unpacked, .../boot/vmlinuz-VERSION, in {KERNEL_VARIABLE}"
            ))
        };
        match std::env::var_os(KERNEL_VARIABLE) {
            Some(path) => Kernel::from_image(Path::new(&path))
                .ok_or_else(|| lacks(format!("{} is no kernel", Path::new(&path).display()))),
            None => newest(Path::new(BOOT))
                .ok_or_else(|| lacks("there is no kernel for a virtual machine in /boot".into())),
        }
    }

    /// Kernel in the file `image`; `None` if its name or the file is not one of a kernel.
    fn from_image(image: &Path) -> Option<Kernel> {
        let version = image.file_name()?.to_str()?.strip_prefix("vmlinuz-")?;
        image.metadata().ok().filter(|m| m.is_file())?;
        Some(Kernel {
            image: image.to_owned(),
            version: version.to_owned(),
            root: image.parent()?.parent()?.to_owned(),
        })
    }

    /// Digest of its image.
    pub fn digest(&self) -> Result<String, BenchError> {
        let sum = run(&format!("sha256sum {}", self.image.display()))?;
        let digest = sum.split_whitespace().next().unwrap_or_default();
        Ok(format!("sha256:{digest}"))
    }

    /// Contents of the modules, uncompressed, in the order in which they must be loaded.
    pub fn modules(&self) -> Result<Vec<Vec<u8>>, BenchError> {
        let mut paths: Vec<PathBuf> = Vec::new();
        for module in MODULES {
            let needs = run(&format!(
                "modprobe -d {} -S {} --show-depends {module}",
                self.root.display(),
                self.version
            ))?;
            for path in needs.lines().filter_map(|l| l.strip_prefix("insmod ")) {
                let path = PathBuf::from(path.trim());
                if !paths.contains(&path) {
                    paths.push(path);
                }
            }
        }
        paths.iter().map(|path| read_uncompressed(path)).collect()
    }
}

/// Kernel of the highest version in `dir`.
fn newest(dir: &Path) -> Option<Kernel> {
    let entries = fs::read_dir(dir).ok()?.flatten();
    let kernels = entries.filter_map(|entry| Kernel::from_image(&entry.path()));
    kernels.max_by_key(|kernel| numbers(&kernel.version))
}

/// Numbers of a version, so that 6.12 is above 6.1.
fn numbers(version: &str) -> Vec<u64> {
    let parts = version.split(|c: char| !c.is_ascii_digit());
    parts.filter_map(|part| part.parse().ok()).collect()
}

/// Reads and decompresses a module: busybox cannot unpack the compressed modules of distributions.
fn read_uncompressed(path: &Path) -> Result<Vec<u8>, BenchError> {
    let host = BenchError::host("read", path);
    let tool = match path.extension().and_then(|e| e.to_str()) {
        Some("xz") => "xz",
        Some("zst") => "zstd",
        Some("gz") => "gzip",
        _ => return fs::read(path).map_err(host),
    };
    let unpacked = Command::new(tool)
        .args(["--decompress", "--stdout"])
        .arg(path)
        .output()
        .map_err(host)?;
    match unpacked.status.success() {
        true => Ok(unpacked.stdout),
        false => Err(BenchError::Lab(LabError::Command {
            command: format!("{tool} --decompress --stdout {}", path.display()),
            reason: String::from_utf8_lossy(&unpacked.stderr).trim().to_owned(),
        })),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise 43.
    #[test]
    fn the_newest_kernel_is_found_by_its_numbers() {
        let root = tempfile::tempdir().unwrap();
        let boot = root.path().join("boot");
        fs::create_dir(&boot).unwrap();
        assert_eq!(newest(&boot), None);
        for name in [
            "vmlinuz-6.1.0-50-cloud-amd64",
            "vmlinuz-6.12.9-cloud-amd64",
            "vmlinuz-6.9.12-amd64",
            "config-6.18.0",
        ] {
            fs::write(boot.join(name), "").unwrap();
        }
        let kernel = newest(&boot).unwrap();
        assert_eq!(kernel.version, "6.12.9-cloud-amd64");
        assert_eq!(kernel.root, root.path());
        assert_eq!(Kernel::from_image(&boot.join("config-6.18.0")), None);
        assert_eq!(Kernel::from_image(&boot), None);
        assert_eq!(newest(&root.path().join("none")), None);
    }

    /// Promise 43.
    #[test]
    fn modules_are_unpacked_and_broken_ones_are_reported() {
        let dir = tempfile::tempdir().unwrap();
        let module = dir.path().join("a.ko");
        fs::write(&module, b"content").unwrap();
        assert_eq!(read_uncompressed(&module).unwrap(), b"content");
        let packed = Command::new("gzip").arg(&module).status().unwrap();
        assert!(packed.success());
        let packed = dir.path().join("a.ko.gz");
        assert_eq!(read_uncompressed(&packed).unwrap(), b"content");
        fs::write(&packed, b"no gzip").unwrap();
        let reason = read_uncompressed(&packed).unwrap_err().to_string();
        assert!(reason.contains("a.ko.gz"), "{reason}");
    }
}
