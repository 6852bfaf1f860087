//! Containers by podman and runc, of an image with busybox and nothing else.

use crate::{LabError, UndoStack, run};
use std::fs;
use std::io;
use std::path::Path;

/// Where Debian and Fedora have a static busybox.
const BUSYBOX: [&str; 3] = ["/bin/busybox", "/usr/bin/busybox", "/usr/sbin/busybox"];

/// Imports a root directory with `/bin/busybox` as the image `name`; 2 MB, a fraction of a second.
/// `file_name` is that of a temporary file.
pub fn import_busybox(name: &str, file_name: &str, undo: &mut UndoStack) -> Result<(), LabError> {
    let busybox = BUSYBOX.into_iter().find(|p| fs::exists(p).unwrap_or(false));
    let busybox = busybox.ok_or_else(|| {
        LabError::Unsupported(
            "podman's containers run busybox, which is missing: apt-get install busybox-static"
                .to_owned(),
        )
    })?;
    let folder = std::env::temp_dir().join(file_name);
    let imported = pack(busybox, &folder)
        .and_then(|()| import("podman", &folder.join("image.tar"), name, undo));
    let _gone = fs::remove_dir_all(&folder);
    imported.map(drop)
}

/// Imports the root directory packed as `archive` as the image `name` of `engine` (`podman`,
/// `docker`); `undo` removes it. Returns the image's id, as the engine prints it.
pub fn import(
    engine: &'static str,
    archive: &Path,
    name: &str,
    undo: &mut UndoStack,
) -> Result<String, LabError> {
    let id = run(&format!("{engine} import {} {name}", archive.display()))?;
    let gone = name.to_owned();
    undo.push(format!("image {name}"), move || {
        run(&format!("{engine} rmi --force {gone}"))
    });
    Ok(id.trim().to_owned())
}

/// Packs the root directory as `image.tar` in `folder`.
fn pack(busybox: &str, folder: &Path) -> Result<(), LabError> {
    let root = folder.join("root");
    let make = || -> io::Result<()> {
        // Fails where somebody was there before: the temporary directory is everybody's.
        fs::create_dir(folder)?;
        for place in ["bin", "proc", "sys", "dev", "etc", "tmp"] {
            fs::create_dir_all(root.join(place))?;
        }
        fs::copy(busybox, root.join("bin/busybox")).map(drop)
    };
    make().map_err(LabError::host("make", &root))?;
    run(&format!(
        "tar -C {} -cf {}/image.tar .",
        root.display(),
        folder.display()
    ))
    .map(drop)
}

/// A running container, as podman shows it.
#[derive(Clone, Debug)]
pub struct Started {
    /// The runtime's full id.
    pub id: String,
    /// Its first process.
    pub pid: u32,
}

/// Starts a container that sleeps; `network` is podman's `--network`, `options` are further ones.
pub fn start(
    image: &str,
    name: &str,
    network: &str,
    options: &str,
    undo: &mut UndoStack,
) -> Result<Started, LabError> {
    let gone = name.to_owned();
    undo.push(format!("container {name}"), move || {
        run(&format!("podman rm --force --ignore --time 0 {gone}"))
    });
    // podman's own limits ask for more than a root without CAP_SYS_RESOURCE has.
    run(&format!(
        "podman --runtime runc run --detach --name {name} --network {network} \
         --ulimit nofile=20000:20000 --ulimit nproc=10000:10000 {options} {image} \
         /bin/busybox sleep 1000000"
    ))?;
    let inspect = format!("podman inspect --format {{{{.Id}}}}={{{{.State.Pid}}}} {name}");
    let shown = run(&inspect)?;
    let parts = shown.trim().split_once('=');
    let started = parts.and_then(|(id, pid)| {
        Some(Started {
            id: id.to_owned(),
            pid: pid.parse().ok()?,
        })
    });
    started.ok_or_else(|| LabError::Command {
        command: inspect,
        reason: format!("it names no process, but '{}'", shown.trim()),
    })
}
