//! A dataplane between two namespaces, and programs on it.

use crate::wire::Wire;
use cofferdam_lab::fixtures::{
    Namespace, Net, Process, VethPair, exclusive, time_limit, try_run, wait_until,
};
use nix::sys::signal::Signal;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::Once;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

pub const BINARY: &str = env!("CARGO_BIN_EXE_cofferdam");
/// How long anything may take on a busy machine.
pub const PATIENCE: Duration = Duration::from_secs(20);
/// The dataplane's address, which only the dataplane has.
pub const ADDRESS: &str = "10.98.5.9";
pub const ADDRESS_V6: &str = "fd98:5::9";
/// The clients'.
pub const CLIENT: &str = "10.98.5.2";
pub const CLIENT_V6: &str = "fd98:5::2";

/// Alone on the machine, in time, and nothing is left.
pub fn alone(body: impl FnOnce() + Send + 'static) {
    alone_for(Duration::from_secs(120), body);
}

/// As [`alone`], with another limit.
pub fn alone_for(limit: Duration, body: impl FnOnce() + Send + 'static) {
    place_library();
    let _alone = exclusive();
    time_limit(limit, body);
    cofferdam_lab::fixtures::assert_nothing_left();
}

/// Puts the library beside the command, where that looks for it. The tests of the workspace build it; a
/// test of this package alone does not, and may build nothing beside the others.
fn place_library() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let test = std::env::current_exe().unwrap();
        let built = test.with_file_name("libcofferdam_preload.so");
        assert!(
            built.is_file(),
            "{} is missing: `cargo test -p cofferdam-preload --no-run` builds it",
            built.display()
        );
        let placed = Path::new(BINARY).with_file_name("libcofferdam_preload.so");
        let new = placed.with_extension("so.new");
        std::fs::copy(&built, &new).unwrap();
        std::fs::rename(&new, &placed).unwrap();
    });
}

/// A dataplane, and a client's namespace.
pub struct Scene {
    _pair: Option<VethPair>,
    wire: Option<Wire>,
    pub server: Namespace,
    pub client: Namespace,
    folder: tempfile::TempDir,
    pub dataplane: Option<Program>,
}

/// A program that runs, with what it says in a file.
pub struct Program {
    pub process: Process,
    out: PathBuf,
}

impl Program {
    pub fn said(&self) -> String {
        std::fs::read_to_string(&self.out).unwrap_or_default()
    }

    /// Waits for its end: its exit code.
    pub fn end(&self) -> Option<i32> {
        self.process.wait()
    }

    pub fn signal(&self, signal: Signal) {
        self.process.signal(signal);
    }
}

impl Scene {
    /// Everything is allowed to application `web`.
    pub fn new() -> Scene {
        Scene::with_link(false)
    }

    /// As [`Scene::new`], over a link that loses 2 % of the frames, and repeats and reorders 1 %.
    pub fn with_bad_link() -> Scene {
        Scene::with_link(true)
    }

    /// As [`Scene::new`], with an application of another user beside, by the user's name.
    pub fn with_user(user: &str) -> Scene {
        let other = format!(
            "[[application]]\nname = \"{user}\"\nuser = \"{user}\"\nbind = [\"tcp/*:*\"]\n"
        );
        Scene::with(false, &other)
    }

    fn with_link(is_bad: bool) -> Scene {
        Scene::with(is_bad, "")
    }

    fn with(is_bad: bool, extra: &str) -> Scene {
        let (server, client) = (Namespace::new("server"), Namespace::new("client"));
        let wire = is_bad.then(|| Wire::new(&server, &client));
        let pair = (!is_bad).then(|| VethPair::new((&server, "eth0"), (&client, "eth0")));
        server.address("eth0", "10.98.5.1/24");
        client.address("eth0", &format!("{CLIENT}/24"));
        client.address("eth0", &format!("{CLIENT_V6}/64"));
        client.offload("eth0", "tx", false);
        if is_bad {
            // What is on a wire is no larger than its MTU, and has a checksum.
            server.offload("eth0", "tx", false);
        }
        let mut scene = Scene {
            _pair: pair,
            wire,
            server,
            client,
            folder: tempfile::tempdir().unwrap(),
            dataplane: None,
        };
        let text = format!(
            "socket = \"{}\"\n[device]\nname = \"eth0\"\n[network]\n\
             addresses = [\"{ADDRESS}/24\", \"{ADDRESS_V6}/64\"]\n\
             [[application]]\nname = \"web\"\nuser = \"root\"\nbind = [\"tcp/*:*\", \"udp/*:*\"]\nconnect = true\n{extra}",
            scene.socket()
        );
        std::fs::write(scene.path("dataplane.toml"), text).unwrap();
        scene.start_dataplane();
        scene
    }

    /// How many frames the bad link has lost, repeated and reordered.
    pub fn link_did(&self) -> (u64, u64, u64) {
        let did = &self.wire.as_ref().unwrap().did;
        let count = |count: &AtomicU64| count.load(Ordering::Relaxed);
        (
            count(&did.lost),
            count(&did.repeated),
            count(&did.reordered),
        )
    }

    pub fn start_dataplane(&mut self) {
        let config = self.path("dataplane.toml");
        let line = format!("{BINARY} dataplane run --config {}", config.display());
        let dataplane = self.start(&self.server, "dataplane", &line);
        wait_until("the dataplane", PATIENCE, || {
            dataplane.said().contains("serving")
        });
        self.dataplane = Some(dataplane);
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub fn folder(&self) -> String {
        self.folder.path().display().to_string()
    }

    pub fn socket(&self) -> String {
        self.path("dataplane.sock").display().to_string()
    }

    fn start(&self, net: &Namespace, label: &str, line: &str) -> Program {
        let (script, out) = (
            self.path(&format!("{label}.sh")),
            self.path(&format!("{label}.out")),
        );
        let folder = self.folder.path().display();
        let text = format!("cd {folder}\nexec {line} >{} 2>&1\n", out.display());
        std::fs::write(&script, text).unwrap();
        let _ = std::fs::remove_file(&out);
        Program {
            process: net.spawn(&format!("sh {}", script.display())),
            out,
        }
    }

    /// The command line of a program on the dataplane.
    pub fn exec(&self, line: &str) -> String {
        let socket = self.socket();
        format!("{BINARY} dataplane exec --name web --socket {socket} -- {line}")
    }

    /// Starts a program on the dataplane.
    pub fn serve(&self, label: &str, line: &str) -> Program {
        self.start(&self.server, label, &self.exec(line))
    }

    /// As [`Scene::serve`], as another user, who is the application's.
    pub fn serve_as(&self, user: &str, label: &str, line: &str) -> Program {
        let socket = self.socket();
        let line = format!(
            "{BINARY} dataplane exec --name {user} --user {user} --socket {socket} -- {line}"
        );
        self.start(&self.server, label, &line)
    }

    /// Starts a program of the kernel's at the client.
    pub fn at_client(&self, label: &str, line: &str) -> Program {
        self.start(&self.client, label, line)
    }

    /// Runs a program on the dataplane to its end.
    pub fn run_on_dataplane(&self, line: &str) -> Output {
        self.run_on_dataplane_for(line, MINUTE)
    }

    /// As [`Scene::run_on_dataplane`], so long at most.
    pub fn run_on_dataplane_for(&self, line: &str, limit: Duration) -> Output {
        shell(&self.server, &self.exec(line), limit)
    }

    /// What a command says in the client's namespace; panics when it fails.
    #[track_caller]
    pub fn client(&self, line: &str) -> String {
        self.long_client(line, MINUTE)
    }

    /// As [`Scene::client`], so long at most.
    #[track_caller]
    pub fn long_client(&self, line: &str, limit: Duration) -> String {
        let out = shell(&self.client, line, limit);
        let said = String::from_utf8_lossy(&out.stdout).into_owned();
        let errors = String::from_utf8_lossy(&out.stderr);
        assert!(
            out.status.success(),
            "{line}: {}\n{said}{errors}",
            out.status
        );
        said
    }

    /// As [`Scene::client`]; none when it fails.
    pub fn try_client(&self, line: &str) -> Option<String> {
        let name = self.client.name().to_owned();
        try_run(&[
            "ip", "netns", "exec", &name, "timeout", "10", "sh", "-c", line,
        ])
        .ok()
    }

    /// Waits until somebody listens at a port.
    pub fn wait_for_port(&self, port: u16) {
        let probe = format!("ncat -z {ADDRESS} {port}");
        wait_until("the program to listen", PATIENCE, || {
            self.try_client(&probe).is_some()
        });
    }

    /// A script; its path.
    pub fn script(&self, name: &str, text: &str) -> String {
        let path = self.path(name);
        std::fs::write(&path, text).unwrap();
        path.display().to_string()
    }

    /// A file of random bytes.
    pub fn file(&self, name: &str, len: usize) -> PathBuf {
        let mut random = fastrand::Rng::with_seed(len as u64);
        let bytes: Vec<u8> = (0..len).map(|_| random.u8(..)).collect();
        let path = self.path(name);
        std::fs::write(&path, bytes).unwrap();
        path
    }
}

/// How long a command runs at most.
pub const MINUTE: Duration = Duration::from_secs(60);

/// Runs a line of the shell in a namespace, so long at most.
pub fn shell(net: &Namespace, line: &str, limit: Duration) -> Output {
    let limit_s = limit.as_secs().to_string();
    Command::new("ip")
        .args(["netns", "exec", net.name()])
        .args(["timeout", "--kill-after=5", &limit_s, "sh", "-c", line])
        .stdin(Stdio::null())
        .output()
        .unwrap()
}

/// Standard output and standard error.
pub fn said(out: &Output) -> String {
    let both = [&out.stdout[..], &out.stderr[..]].concat();
    String::from_utf8_lossy(&both).into_owned()
}
