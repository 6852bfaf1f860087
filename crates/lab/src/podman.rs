//! Containers by podman and runc, from an image that contains only busybox.

use crate::cgroup::{all_mounts, layout, remove, remove_below};
use crate::command::run_argv;
use crate::{LabError, UndoStack, run};
use std::fs;
use std::io;
use std::path::Path;

/// Paths of the static busybox in Debian and Fedora.
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

/// Imports the packed root directory `archive` as the image `name` of `engine` (`podman`,
/// `docker`); `undo` removes it. Returns the image's id, as the engine prints it.
pub fn import(
    engine: &'static str,
    archive: &Path,
    name: &str,
    undo: &mut UndoStack,
) -> Result<String, LabError> {
    let id = run(&format!("{engine} import {} {name}", archive.display()))?;
    let image = name.to_owned();
    undo.push(format!("image {name}"), move || {
        run(&format!("{engine} rmi --force {image}"))
    });
    Ok(id.trim().to_owned())
}

/// Packs the root directory as `image.tar` in `folder`.
fn pack(busybox: &str, folder: &Path) -> Result<(), LabError> {
    let root = folder.join("root");
    let make = || -> io::Result<()> {
        // Fails if the folder exists: every user may write to the temporary directory.
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

/// Running container, as podman shows it.
#[derive(Clone, Debug)]
pub struct StartedContainer {
    /// Full id of the container.
    pub id: String,
    /// First process of the container.
    pub pid: u32,
}

/// Starts a container that sleeps; `network` is podman's `--network`, `options` are further ones.
pub fn start(
    image: &str,
    name: &str,
    network: &str,
    options: &str,
    undo: &mut UndoStack,
) -> Result<StartedContainer, LabError> {
    let container = name.to_owned();
    undo.push(format!("container {name}"), move || {
        run(&format!("podman rm --force --ignore --time 0 {container}"))
    });
    // podman's default limits need CAP_SYS_RESOURCE.
    run(&format!(
        "podman --runtime runc run --detach --name {name} --network {network} \
         --ulimit nofile=20000:20000 --ulimit nproc=10000:10000 {options} {image} \
         /bin/busybox sleep 1000000"
    ))?;
    shown(name)
}

/// Inspects a running container.
pub fn shown(name: &str) -> Result<StartedContainer, LabError> {
    let inspect = format!("podman inspect --format {{{{.Id}}}}={{{{.State.Pid}}}} {name}");
    let shown = run(&inspect)?;
    let parts = shown.trim().split_once('=');
    let started = parts.and_then(|(id, pid)| {
        Some(StartedContainer {
            id: id.to_owned(),
            pid: pid.parse().ok()?,
        })
    });
    started.ok_or_else(|| LabError::Command {
        command: inspect,
        reason: format!("it names no process, but '{}'", shown.trim()),
    })
}

/// podman pod: a sandbox, which has the network namespace, and containers that share it.
#[derive(Clone, Debug)]
pub struct StartedPod {
    /// podman's container for the sandbox.
    pub sandbox: StartedContainer,
    /// Containers in the order of their names.
    pub containers: Vec<StartedContainer>,
}

/// Starts a pod with loopback only, and one container for each name in it; all of them sleep.
/// `settings` is the path of a temporary file for podman.
pub fn start_pod(
    image: &str,
    name: &str,
    containers: &[String],
    settings: &Path,
    undo: &mut UndoStack,
) -> Result<StartedPod, LabError> {
    // A pod's sandbox reads its limits only from this file.
    let text = "[containers]\ndefault_ulimits = [\"nofile=20000:20000\", \"nproc=10000:10000\"]\n\
                [engine]\nruntime = \"runc\"\n";
    fs::write(settings, text).map_err(LabError::host("write", settings))?;
    let podman = format!("env CONTAINERS_CONF={} podman", settings.display());
    let pod = name.to_owned();
    undo.push(format!("pod {name}"), move || remove_pod(&pod));
    let start = || {
        let create = format!(
            "{podman} pod create --name {name} --infra-name {name}-infra --infra-image {image} \
             --network none --infra-command"
        );
        let mut create: Vec<&str> = create.split_whitespace().collect();
        create.push("/bin/busybox sleep 1000000");
        run_argv(&create)?;
        let mut started = Vec::new();
        for container in containers {
            run(&format!(
                "{podman} run --detach --pod {name} --name {container} {image} \
                 /bin/busybox sleep 1000000"
            ))?;
            started.push(shown(container)?);
        }
        Ok(StartedPod {
            sandbox: shown(&format!("{name}-infra"))?,
            containers: started,
        })
    };
    let started = start();
    let _gone = fs::remove_file(settings);
    started
}

/// Removes a pod, and its cgroup, which podman leaves.
fn remove_pod(name: &str) -> Result<(), LabError> {
    let id = run(&format!("podman pod inspect --format {{{{.ID}}}} {name}"));
    run(&format!("podman pod rm --force --ignore --time 0 {name}"))?;
    let Ok(id) = id else {
        return Ok(());
    };
    for root in all_mounts(&layout()?) {
        let parent = root.join("libpod_parent");
        let pod = parent.join(id.trim());
        remove_below(&pod)
            .and_then(|()| remove(&pod))
            .map_err(LabError::host("remove", &pod))?;
        // Cgroups of podman's monitors; another pod may still use them.
        let _kept = remove(&parent.join("conmon"));
        let _kept = fs::remove_dir(&parent);
    }
    Ok(())
}

/// Restarts a container of a pod, or its sandbox.
pub fn restart(name: &str) -> Result<StartedContainer, LabError> {
    run(&format!("podman restart --time 0 {name}"))?;
    shown(name)
}
