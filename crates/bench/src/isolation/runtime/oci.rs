//! Root directory and configuration of an OCI bundle, for runc, runsc and ctr.

use super::{Limit, TenantSpec};
use crate::error::BenchError;
use crate::isolation::load;
use crate::isolation::testbed::IsolationTestbed;
use cofferdam_lab::UndoStack;
use cofferdam_lab::run;
use serde_json::{Value, json};
use std::fs;
use std::path::{Path, PathBuf};

/// Period of the quotas, microseconds.
const PERIOD_US: u64 = 100_000;
/// Path of the tenant's directory in the tenant.
pub(super) const DATA: &str = "/data";

/// Makes a root directory with only the load generator and the mount points.
pub(super) fn root(testbed: &IsolationTestbed, dir: &Path) -> Result<PathBuf, BenchError> {
    let root = dir.join("rootfs");
    for place in ["dev", "proc", "sys", "data", "tmp", "etc", "usr", "run"] {
        make(&root.join(place))?;
    }
    let program = root.join(load::NAME);
    fs::copy(&testbed.load, &program).map_err(BenchError::host("write", program))?;
    Ok(root)
}

/// Packs the root directory as the only layer of an image. Owners and times are fixed, so the same
/// generator has the same digest on every host.
pub(super) fn archive(testbed: &IsolationTestbed, name: &str) -> Result<PathBuf, BenchError> {
    let dir = testbed.tenant_dir(name)?;
    let root = root(testbed, &dir)?;
    let archive = dir.join("image.tar");
    run(&format!(
        "tar --numeric-owner --owner=0 --group=0 --mtime=@0 --sort=name -C {} -cf {} .",
        root.display(),
        archive.display()
    ))?;
    Ok(archive)
}

/// Makes a directory and those above it.
pub(super) fn make(path: &Path) -> Result<(), BenchError> {
    fs::create_dir_all(path).map_err(BenchError::host("make", path))
}

/// Bundle of a tenant on the disk.
pub(super) struct Bundle {
    /// Id of the container.
    pub id: String,
    /// Directory with the configuration and the root directory.
    pub dir: PathBuf,
    /// Path of its `config.json`.
    pub config: PathBuf,
}

/// Makes a tenant's network, its directory and its bundle.
pub(super) fn bundle(
    testbed: &IsolationTestbed,
    spec: &TenantSpec,
    undo: &mut UndoStack,
) -> Result<Bundle, BenchError> {
    let net = testbed.tenant(&spec.name, spec.index, undo)?;
    let data = testbed.tenant_dir(&spec.name)?;
    let dir = testbed.tenant_dir(&format!("{}-bundle", spec.name))?;
    let root = root(testbed, &dir)?;
    let id = testbed.container(&spec.name);
    let path = dir.join("config.json");
    let text = config(spec, &root, &data, &net.path, &format!("/{id}")).to_string();
    fs::write(&path, text).map_err(BenchError::host("write", &path))?;
    Ok(Bundle {
        id,
        dir,
        config: path,
    })
}

/// `config.json` after the OCI runtime specification 1.0. The path of the root is absolute, because
/// containerd's shim uses a bundle of its own.
fn config(spec: &TenantSpec, root: &Path, data: &Path, netns: &Path, cgroup: &str) -> Value {
    let mounts = json!([
        { "destination": "/proc", "type": "proc", "source": "proc" },
        { "destination": "/dev", "type": "tmpfs", "source": "tmpfs",
          "options": ["nosuid", "strictatime", "mode=755", "size=65536k"] },
        { "destination": "/sys", "type": "sysfs", "source": "sysfs",
          "options": ["nosuid", "noexec", "nodev", "ro"] },
        { "destination": DATA, "type": "bind", "source": data, "options": ["bind", "rw"] },
    ]);
    json!({
        "ociVersion": "1.0.2",
        "process": {
            "terminal": false,
            "user": { "uid": 0, "gid": 0 },
            "args": [format!("/{}", load::NAME), "serve"],
            "env": ["PATH=/"],
            "cwd": "/",
            "noNewPrivileges": true,
        },
        "root": { "path": root, "readonly": true },
        "hostname": spec.name,
        "mounts": mounts,
        "linux": {
            "cgroupsPath": cgroup,
            "resources": resources(spec.limit.as_ref()),
            "namespaces": [
                { "type": "pid" }, { "type": "ipc" }, { "type": "uts" }, { "type": "mount" },
                { "type": "network", "path": netns },
            ],
        },
    })
}

/// The limit in the specification's form.
fn resources(limit: Option<&Limit>) -> Value {
    match limit {
        Some(Limit::Cpus(cpus)) => json!({
            "cpu": { "quota": (cpus * PERIOD_US as f64).round() as i64, "period": PERIOD_US }
        }),
        Some(Limit::Memory(bytes)) => json!({ "memory": { "limit": bytes, "swap": bytes } }),
        Some(Limit::Disk {
            device,
            reads,
            writes,
        }) => {
            let rate =
                |rate: u32| json!([{ "major": device.major, "minor": device.minor, "rate": rate }]);
            json!({ "blockIO": {
                "throttleReadIOPSDevice": rate(*reads),
                "throttleWriteIOPSDevice": rate(*writes),
            } })
        }
        Some(Limit::Network(_)) | None => json!({}),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::isolation::device::BlockDevice;

    #[test]
    fn limits_are_written_as_the_specification_has_them() {
        assert_eq!(resources(None), json!({}));
        let cpus = resources(Some(&Limit::Cpus(0.5)));
        assert_eq!(cpus["cpu"], json!({ "quota": 50_000, "period": 100_000 }));
        let device = BlockDevice {
            major: 254,
            minor: 0,
            node: "/dev/vda".into(),
        };
        let disk = resources(Some(&Limit::Disk {
            device,
            reads: 350,
            writes: 150,
        }));
        assert_eq!(disk["blockIO"]["throttleReadIOPSDevice"][0]["rate"], 350);
        assert_eq!(disk["blockIO"]["throttleWriteIOPSDevice"][0]["major"], 254);
    }
}
