//! Dataplane between two namespaces, and programs on it.

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
/// Time limit of any step on a busy machine.
pub const PATIENCE: Duration = Duration::from_secs(20);
/// Address that only the dataplane has.
pub const ADDRESS: &str = "10.98.5.9";
pub const ADDRESS_V6: &str = "fd98:5::9";
/// Address of the clients.
pub const CLIENT: &str = "10.98.5.2";
pub const CLIENT_V6: &str = "fd98:5::2";

/// Runs `body` as the only test of the machine, with a time limit; asserts that nothing is left
/// behind.
pub fn alone(body: impl FnOnce() + Send + 'static) {
    alone_for(Duration::from_secs(120), body);
}

/// Runs `body` as [`alone`] does, with another limit.
pub fn alone_for(limit: Duration, body: impl FnOnce() + Send + 'static) {
    place_library();
    let _alone = exclusive();
    time_limit(limit, body);
    cofferdam_lab::fixtures::assert_nothing_left();
}

/// Puts the library next to the command, which looks for it there. The tests of the workspace build
/// it. A test of this package alone does not, and must not build while other tests run.
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

/// Dataplane, and the namespace of a client.
pub struct Scene {
    _pair: Option<VethPair>,
    wire: Option<Wire>,
    pub server: Namespace,
    pub client: Namespace,
    folder: tempfile::TempDir,
    pub dataplane: Option<Program>,
}

/// Running program, whose output goes to a file.
pub struct Program {
    pub process: Process,
    out: PathBuf,
}

impl Program {
    pub fn output(&self) -> String {
        std::fs::read_to_string(&self.out).unwrap_or_default()
    }

    /// Waits for the end, and returns the exit code.
    pub fn end(&self) -> Option<i32> {
        self.process.wait()
    }

    pub fn signal(&self, signal: Signal) {
        self.process.signal(signal);
    }
}

impl Scene {
    /// Creates a scene in which application `web` may do everything.
    pub fn new() -> Scene {
        Scene::with_link(false)
    }

    /// Creates a scene whose link loses 2 % of the frames, and repeats and reorders 1 %.
    pub fn with_bad_link() -> Scene {
        Scene::with_link(true)
    }

    /// Creates a scene with another application, which has the name of its user.
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
            // Frames on a wire are no larger than its MTU, and have a checksum.
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
            [[application]]\nname = \"web\"\nuser = \"root\"\n\
             bind = [\"tcp/*:*\", \"udp/*:*\"]\nconnect = true\n{extra}",
            scene.socket()
        );
        std::fs::write(scene.path("dataplane.toml"), text).unwrap();
        scene.start_dataplane();
        scene
    }

    /// Number of frames that the bad link has lost, repeated and reordered.
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
            dataplane.output().contains("serving")
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

    /// Command line of a program on the dataplane.
    pub fn exec(&self, line: &str) -> String {
        let socket = self.socket();
        format!("{BINARY} dataplane exec --name web --socket {socket} -- {line}")
    }

    /// Starts a program on the dataplane.
    pub fn serve(&self, label: &str, line: &str) -> Program {
        self.start(&self.server, label, &self.exec(line))
    }

    /// Starts a program on the dataplane as the user of another application.
    pub fn serve_as(&self, user: &str, label: &str, line: &str) -> Program {
        let socket = self.socket();
        let line = format!(
            "{BINARY} dataplane exec --name {user} --user {user} --socket {socket} -- {line}"
        );
        self.start(&self.server, label, &line)
    }

    /// Starts a program on the kernel's stack at the client.
    pub fn at_client(&self, label: &str, line: &str) -> Program {
        self.start(&self.client, label, line)
    }

    /// Runs a program on the dataplane to its end.
    pub fn run_on_dataplane(&self, line: &str) -> Output {
        self.run_on_dataplane_for(line, MINUTE)
    }

    /// Runs a program on the dataplane to its end, within `limit`.
    pub fn run_on_dataplane_for(&self, line: &str, limit: Duration) -> Output {
        shell(&self.server, &self.exec(line), limit)
    }

    /// Output of a command in the client's namespace; panics when it fails.
    #[track_caller]
    pub fn client(&self, line: &str) -> String {
        self.long_client(line, MINUTE)
    }

    /// Output of a command in the client's namespace, within `limit`.
    #[track_caller]
    pub fn long_client(&self, line: &str, limit: Duration) -> String {
        let out = shell(&self.client, line, limit);
        let printed = String::from_utf8_lossy(&out.stdout).into_owned();
        let errors = String::from_utf8_lossy(&out.stderr);
        assert!(
            out.status.success(),
            "{line}: {}\n{printed}{errors}",
            out.status
        );
        printed
    }

    /// Output of a command in the client's namespace; `None` when it fails.
    pub fn try_client(&self, line: &str) -> Option<String> {
        let name = self.client.name().to_owned();
        try_run(&[
            "ip", "netns", "exec", &name, "timeout", "10", "sh", "-c", line,
        ])
        .ok()
    }

    /// Waits until a program listens on `port`.
    pub fn wait_for_port(&self, port: u16) {
        let probe = format!("ncat -z {ADDRESS} {port}");
        wait_until("the program to listen", PATIENCE, || {
            self.try_client(&probe).is_some()
        });
    }

    /// Writes a script, and returns its path.
    pub fn script(&self, name: &str, text: &str) -> String {
        let path = self.path(name);
        std::fs::write(&path, text).unwrap();
        path.display().to_string()
    }

    /// Writes a file of random bytes.
    pub fn file(&self, name: &str, len: usize) -> PathBuf {
        let mut random = fastrand::Rng::with_seed(len as u64);
        let bytes: Vec<u8> = (0..len).map(|_| random.u8(..)).collect();
        let path = self.path(name);
        std::fs::write(&path, bytes).unwrap();
        path
    }
}

/// Usual time limit of a command.
pub const MINUTE: Duration = Duration::from_secs(60);

/// Runs a line of the shell in a namespace, within `limit`.
pub fn shell(net: &Namespace, line: &str, limit: Duration) -> Output {
    let limit_s = limit.as_secs().to_string();
    Command::new("ip")
        .args(["netns", "exec", net.name()])
        .args(["timeout", "--kill-after=5", &limit_s, "sh", "-c", line])
        .stdin(Stdio::null())
        .output()
        .unwrap()
}

/// Standard output and standard error as text.
pub fn text_of(out: &Output) -> String {
    let both = [&out.stdout[..], &out.stderr[..]].concat();
    String::from_utf8_lossy(&both).into_owned()
}
