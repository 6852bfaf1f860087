//! Checks of container runtimes on this host.

use super::{Check, Status};
use cofferdam_host::HostFs;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;

struct Runtime {
    id: &'static str,
    name: &'static str,
    program: &'static str,
    sockets: &'static [&'static str],
    /// Whether it works without a daemon.
    daemonless: bool,
}

const RUNTIMES: [Runtime; 4] = [
    Runtime {
        id: "podman",
        name: "podman",
        program: "podman",
        sockets: &["/run/podman/podman.sock"],
        daemonless: true,
    },
    Runtime {
        id: "docker",
        name: "docker",
        program: "dockerd",
        sockets: &["/run/docker.sock", "/var/run/docker.sock"],
        daemonless: false,
    },
    Runtime {
        id: "containerd",
        name: "containerd",
        program: "containerd",
        sockets: &[
            "/run/containerd/containerd.sock",
            "/run/k3s/containerd/containerd.sock",
            "/run/k0s/containerd.sock",
        ],
        daemonless: false,
    },
    Runtime {
        id: "crio",
        name: "CRI-O",
        program: "crio",
        sockets: &["/run/crio/crio.sock", "/var/run/crio/crio.sock"],
        daemonless: false,
    },
];

/// One check for each runtime.
pub(super) fn all(fs: &HostFs) -> Vec<Check> {
    RUNTIMES.iter().map(|runtime| one(fs, runtime)).collect()
}

fn one(fs: &HostFs, runtime: &Runtime) -> Check {
    let check = Check::new(runtime.id, runtime.name, "its containers by name");
    let program = program(fs, runtime.program);
    let socket = runtime.sockets.iter().find(|path| fs.exists(path));
    let answers = socket.is_some_and(|path| UnixStream::connect(fs.path(path)).is_ok());
    let program_text = match &program {
        Some(path) => path.display().to_string(),
        None => format!("no {} program", runtime.program),
    };
    let socket_text = match socket {
        Some(path) if answers => format!("{path} answers"),
        Some(path) => format!("{path} does not answer"),
        None => "no socket".to_owned(),
    };
    let status = match (program.is_some(), answers) {
        (_, true) => Status::Yes,
        (true, false) if runtime.daemonless => Status::Yes,
        (true, false) => Status::Partly,
        (false, false) => Status::No,
    };
    check.is(status, format!("{program_text}; {socket_text}"))
}

fn program(fs: &HostFs, name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let usual = [
        "/usr/bin",
        "/usr/sbin",
        "/usr/local/bin",
        "/usr/local/sbin",
        "/snap/bin",
    ];
    let directories = std::env::split_paths(&path).chain(usual.iter().map(PathBuf::from));
    directories
        .map(|d| d.join(name))
        .find(|file| file.is_absolute() && fs.exists(file))
}
