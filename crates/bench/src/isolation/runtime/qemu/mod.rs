//! Small virtual machine: a kernel of the host's distribution, busybox and the load generator. By
//! KVM if a machine starts with it, otherwise emulated.
//!
//! The memory limit is the machine's (`-m`), and a disk limit is the drive's throttle. QEMU cannot
//! limit CPU time, so the cgroup in which it runs does. Its network card is a tap on a bridge with
//! the tenant's interface.

mod archive;
mod kernel;

use super::process::command_in;
use super::{Limit, Runtime, Tenant, TenantSpec, first_line, oci};
use crate::error::BenchError;
use crate::host_facts;
use crate::isolation::guest::Guest;
use crate::isolation::testbed::{IsolationTestbed, TenantNet};
use crate::isolation::{groups, load};
use archive::Archive;
use cofferdam_lab::UndoStack;
use cofferdam_lab::run;
use kernel::Kernel;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::time::Duration;

const PROGRAM: &str = "qemu-system-x86_64";
/// Memory for the guest's kernel and programs, bytes. It is added to the load's memory if there is
/// no memory limit; the trial machine has only this.
const OWN_BYTES: u64 = 256 << 20;
/// Least memory of a machine, bytes: with less its kernel does not start.
const LEAST_BYTES: u64 = 192 << 20;
/// Disk space for the file system in addition to the load's file, bytes.
const DISK_EXTRA_BYTES: u64 = 64 << 20;
/// Time limit for the start of a machine: it may be emulated on a busy host.
const BOOT: Duration = Duration::from_secs(120);
/// Time limit for a machine to start with KVM.
const KVM_START: Duration = Duration::from_secs(15);
/// First QEMU version that can emulate with one thread per CPU. Earlier ones may run stale code
/// after the guest's kernel has patched its own code (fixed by QEMU commit deba78709a).
const THREADS_SINCE: (u32, u32) = (8, 1);

/// QEMU with the files that its machines start from.
#[derive(Default)]
pub(super) struct Qemu {
    machine: Option<Machine>,
}

struct Machine {
    kernel: PathBuf,
    initrd: PathBuf,
    /// Value of `-accel`.
    accelerator: &'static str,
}

impl Runtime for Qemu {
    fn version(&self) -> Result<String, BenchError> {
        let version = first_line(&format!("{PROGRAM} --version"))?;
        let kernel = Kernel::find()?;
        busybox()?;
        Ok(format!("{version}, Linux {}", kernel.version))
    }

    fn prepare(
        &mut self,
        testbed: &IsolationTestbed,
    ) -> Result<Option<(String, String)>, BenchError> {
        let kernel = Kernel::find()?;
        let initrd = testbed.tenant_dir("qemu")?.join("initrd");
        write(&initrd, &root(testbed, &kernel)?)?;
        let mut machine = Machine {
            kernel: kernel.image.clone(),
            initrd,
            accelerator: "kvm",
        };
        if !machine.starts() {
            machine.accelerator = emulated(&first_line(&format!("{PROGRAM} --version"))?);
        }
        let name = format!("qemu ({}), kernel", machine.accelerator);
        self.machine = Some(machine);
        Ok(Some((name, kernel.digest()?)))
    }

    fn start(&self, testbed: &IsolationTestbed, spec: &TenantSpec) -> Result<Tenant, BenchError> {
        let machine = self
            .machine
            .as_ref()
            .ok_or_else(|| BenchError::Unsupported("qemu was not prepared".to_owned()))?;
        if memory(spec) < LEAST_BYTES {
            return Err(BenchError::Unsupported(format!(
                "a virtual machine does not start with less than {} MiB: set a larger \
                 'limits.memory'",
                LEAST_BYTES >> 20
            )));
        }
        let mut undo = UndoStack::default();
        let limit = spec.limit.clone();
        let by_cgroup = TenantSpec {
            limit: limit.filter(|limit| matches!(limit, Limit::Cpus(_))),
            ..spec.clone()
        };
        let cgroups = groups::make_limited(&testbed.tag, &by_cgroup, &mut undo)?;
        let net = testbed.tenant(&spec.name, spec.index, &mut undo)?;
        let mut command = command_in(PROGRAM, &cgroups, Some(&net))?;
        let mut kernel_line = String::new();
        command.args(machine.arguments(memory(spec)));
        if spec.network {
            tap(&net)?;
            command.args(["-netdev", "tap,id=net,ifname=tap0,script=no,downscript=no"]);
            command.args(["-device", "virtio-net-pci,netdev=net"]);
            kernel_line = format!(
                " cofferdam.address={}/24 cofferdam.gateway={}",
                net.address,
                IsolationTestbed::gateway()
            );
        }
        if spec.disk_bytes > 0 {
            let image = testbed.tenant_dir(&spec.name)?.join("disk");
            disk(&image, spec.disk_bytes + DISK_EXTRA_BYTES)?;
            command.args(["-device", "virtio-blk-pci,drive=disk", "-drive"]);
            command.arg(drive(&image, spec.limit.as_ref()));
        }
        command.arg("-append").arg(format!("{LINE}{kernel_line}"));
        let guest = Guest::start(&spec.name, command, BOOT)?;
        Ok(Tenant {
            pid: guest.pid(),
            address: Some(net.address),
            guest,
            dir: oci::DATA.to_owned(),
            cgroups: None,
            // The machine's clock is its own.
            host_clock: false,
            _undo: undo,
        })
    }
}

/// Kernel command line: the console is the driver's, and a panic ends the machine.
const LINE: &str = "console=ttyS0 quiet panic=-1";

impl Machine {
    /// Arguments of a machine without the devices of a tenant.
    fn arguments(&self, memory_bytes: u64) -> Vec<String> {
        let cpus = host_facts::online_cpus().len();
        let cpu = match self.accelerator {
            "kvm" => "host",
            _ => "max",
        };
        let words = format!(
            "-nodefaults -no-user-config -no-reboot -display none -monitor none -serial stdio \
             -machine q35 -accel {} -cpu {cpu} -smp {cpus} -m {}M \
             -device virtio-balloon-pci,free-page-reporting=on",
            self.accelerator,
            memory_bytes >> 20
        );
        let words = words.split_whitespace().map(str::to_owned);
        let files = [("-kernel", &self.kernel), ("-initrd", &self.initrd)];
        let files = files.map(|(option, path)| [option.to_owned(), path.display().to_string()]);
        words.chain(files.into_iter().flatten()).collect()
    }

    /// Whether a machine without devices starts its generator with KVM. Tried once.
    fn starts(&self) -> bool {
        static STARTS: OnceLock<bool> = OnceLock::new();
        *STARTS.get_or_init(|| {
            if !Path::new("/dev/kvm").exists() {
                return false;
            }
            let mut command = Command::new(PROGRAM);
            command.args(self.arguments(OWN_BYTES));
            command.args(["-append", LINE]);
            Guest::start("kvm", command, KVM_START).is_ok()
        })
    }
}

/// Value of `-accel` for emulation by this version: one thread per CPU if that is safe.
fn emulated(version: &str) -> &'static str {
    let number = version.split("version ").nth(1).unwrap_or_default();
    let mut parts = number.split(|c: char| !c.is_ascii_digit());
    let mut next = || parts.next().and_then(|p| p.parse().ok()).unwrap_or(0);
    match (next(), next()) >= THREADS_SINCE {
        true => "tcg,thread=multi",
        false => "tcg,thread=single",
    }
}

/// Memory of a tenant's machine, bytes.
fn memory(spec: &TenantSpec) -> u64 {
    match spec.limit {
        Some(Limit::Memory(bytes)) => bytes,
        _ => spec.memory_bytes + OWN_BYTES,
    }
}

/// Value of `-drive`, with the limit.
fn drive(image: &Path, limit: Option<&Limit>) -> String {
    let mut option = format!(
        "file={},id=disk,if=none,format=raw,cache=none",
        image.display()
    );
    if let Some(Limit::Disk { reads, writes, .. }) = limit {
        option += &format!(",throttling.iops-read={reads},throttling.iops-write={writes}");
    }
    option
}

/// Makes a drive's file with an empty file system. Blocks are allocated as they are written.
fn disk(image: &Path, bytes: u64) -> Result<(), BenchError> {
    let outcome = File::create(image).and_then(|file| file.set_len(bytes));
    outcome.map_err(BenchError::host("make", image))?;
    run(&format!("mkfs.ext4 -q -F {}", image.display()))?;
    Ok(())
}

/// Makes a tap on a bridge with the tenant's interface, whose address the machine gets.
fn tap(net: &TenantNet) -> Result<(), BenchError> {
    let inside = format!("nsenter --net={}", net.path.display());
    for step in [
        "ip address flush dev eth0",
        "ip link add br0 type bridge",
        "ip link set eth0 master br0",
        "ip tuntap add dev tap0 mode tap",
        "ip link set tap0 master br0 up",
        "ip link set br0 up",
    ] {
        run(&format!("{inside} {step}"))?;
    }
    Ok(())
}

/// Initial file system of the machines: packed once, the same for every tenant.
fn root(testbed: &IsolationTestbed, kernel: &Kernel) -> Result<Vec<u8>, BenchError> {
    let mut archive = Archive::default();
    archive.directory("bin");
    archive.program("bin/busybox", &read(&busybox()?)?);
    archive.program("init", include_bytes!("init"));
    archive.program(load::NAME, &read(&testbed.load)?);
    archive.directory("modules");
    for (i, module) in kernel.modules()?.iter().enumerate() {
        // Numbered, so that the shell lists the modules in this order.
        archive.program(&format!("modules/{i:03}.ko"), module);
    }
    Ok(archive.end())
}

/// Path of the host's busybox, which must be static.
fn busybox() -> Result<PathBuf, BenchError> {
    let paths = ["/bin/busybox", "/usr/bin/busybox"].map(PathBuf::from);
    let found = paths.into_iter().find(|path| path.exists());
    found.ok_or_else(|| {
        BenchError::Unsupported(
            "a virtual machine starts from busybox, which this host lacks: install the package \
             'busybox-static' (apt-get install busybox-static)"
                .to_owned(),
        )
    })
}

fn read(path: &Path) -> Result<Vec<u8>, BenchError> {
    fs::read(path).map_err(BenchError::host("read", path))
}

fn write(path: &Path, content: &[u8]) -> Result<(), BenchError> {
    fs::write(path, content).map_err(BenchError::host("write", path))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::isolation::device::BlockDevice;

    fn spec(limit: Option<Limit>) -> TenantSpec {
        TenantSpec {
            name: "a".to_owned(),
            index: 0,
            limit,
            network: false,
            memory_bytes: 3 << 30,
            disk_bytes: 0,
        }
    }

    /// Promise 43.
    #[test]
    fn limits_are_the_machines_own() {
        assert_eq!(memory(&spec(Some(Limit::Memory(1 << 30)))), 1 << 30);
        assert_eq!(memory(&spec(None)), (3 << 30) + OWN_BYTES);
        let device = BlockDevice {
            major: 254,
            minor: 0,
            node: "/dev/vda".into(),
        };
        let limit = Limit::Disk {
            device,
            reads: 70,
            writes: 30,
        };
        let option = drive(Path::new("/x/disk"), Some(&limit));
        assert!(
            option.contains("file=/x/disk,") && option.contains("iops-read=70"),
            "{option}"
        );
        assert!(option.ends_with("throttling.iops-write=30"), "{option}");
        assert!(!drive(Path::new("/x/disk"), None).contains("throttling"));
    }

    /// Promise 43.
    #[test]
    fn an_old_qemu_gets_one_thread() {
        let version = "QEMU emulator version 7.2.22 (Debian 1:7.2+dfsg-7+deb12u18)";
        assert_eq!(emulated(version), "tcg,thread=single");
        assert_eq!(emulated("QEMU emulator version 8.1.0"), "tcg,thread=multi");
        assert_eq!(emulated("QEMU emulator version 10.0.2"), "tcg,thread=multi");
        assert_eq!(emulated("something else"), "tcg,thread=single");
    }
}
