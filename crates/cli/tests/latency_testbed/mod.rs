//! Two containers to be measured, and clients inside them.
#![allow(dead_code, reason = "each test file uses its part")]

use cofferdam_lab::fixtures::{
    FakeContainer, Namespace, Net, Router, exclusive, time_limit, wait_until,
};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::Duration;

pub const COFFERDAM: &str = env!("CARGO_BIN_EXE_cofferdam");

pub fn alone(body: impl FnOnce() + Send + 'static) {
    let _alone = exclusive();
    time_limit(Duration::from_secs(60), body);
}

pub struct Testbed {
    pub web: FakeContainer,
    pub other: FakeContainer,
    pub peer: Namespace,
    pub router: Router,
}

/// Creates two containers and a peer (10.98.3.2) behind a router, with all routes.
pub fn testbed() -> Testbed {
    let testbed = Testbed {
        web: FakeContainer::new("web"),
        other: FakeContainer::new("other"),
        peer: Namespace::new("peer"),
        router: Router::new("router"),
    };
    for net in [
        testbed.web.namespace(),
        testbed.other.namespace(),
        &testbed.peer,
    ] {
        testbed.router.attach(net);
    }
    // The peer is 10.98.3.2.
    testbed.web.ping("10.98.3.2");
    testbed.other.ping("10.98.3.2");
    testbed
}

/// Sends one request from inside a namespace, with nothing but a socket.
pub fn ask(net: &Namespace, socket: &Path, request: &str) -> Vec<String> {
    // The socket recognizes its peer by the process: each namespace needs a process of its own.
    let mut command = Command::new("ip");
    command
        .args(["netns", "exec", net.name(), COFFERDAM, "latency"])
        .args(request.split(' '))
        .arg("--socket")
        .arg(socket);
    let out = command.output().expect("ip runs");
    let error = String::from_utf8_lossy(&out.stderr).into_owned();
    assert!(out.status.success(), "{request}: {error}");
    let text = String::from_utf8_lossy(&out.stdout).into_owned();
    text.lines().map(str::to_owned).collect()
}

/// Running server; ended as by Ctrl-C when dropped.
pub struct Serve {
    pub child: Child,
    pub socket: PathBuf,
}

impl Serve {
    pub fn start(dir: &Path) -> Serve {
        let socket = dir.join("latency.sock");
        let child = Command::new(COFFERDAM)
            .args(["latency", "serve", "--socket"])
            .arg(&socket)
            .spawn()
            .expect("the binary runs");
        let serve = Serve { child, socket };
        wait_until("the socket", Duration::from_secs(20), || {
            UnixStream::connect(&serve.socket).is_ok()
        });
        serve
    }

    pub fn stop(&mut self) -> Option<i32> {
        let pid = nix::unistd::Pid::from_raw(self.child.id() as i32);
        let _ = nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGINT);
        self.child.wait().ok()?.code()
    }
}

impl Drop for Serve {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
