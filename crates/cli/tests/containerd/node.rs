//! Node for tests: containerd with its own mounts, processes and network, driven over CRI as by a
//! kubelet.

use cofferdam_lab::cgroup::{all_mounts, layout, remove, remove_below};
use cofferdam_lab::fixtures::{run, unique, wait_until};
use cofferdam_lab::{Process, UndoStack};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid as ProcessId;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::OnceLock;
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(30);
/// The only image: busybox, which sleeps.
const IMAGE: &str = "test.local/node:1";

/// Script of the namespaces' init. Everything in them ends with it.
const INIT: &str = r#"
mount --make-rprivate /
mount -t proc proc /proc
umount -l /run/netns 2>/dev/null
mount -t tmpfs tmpfs /run
ip link set lo up
mount --make-rshared /
ulimit -n 20000
trap : CHLD
echo $$ > up
while :; do sleep 3600 & wait; done
"#;

/// Running node; everything in it ends when it is dropped.
pub struct Node {
    folder: tempfile::TempDir,
    bin: PathBuf,
    cgroup: String,
    containerd: Option<Process>,
    init: Process,
    pods: u32,
    _undo: UndoStack,
}

/// Specification of a pod.
#[derive(Default)]
pub struct Pod<'a> {
    pub namespace: &'a str,
    pub name: &'a str,
    pub annotations: &'a [(&'a str, &'a str)],
    pub labels: &'a [(&'a str, &'a str)],
    /// CPU shares of its container, as the kubelet derives them from a request.
    pub cpu_shares: u64,
    /// CPUs that the kubelet's CPU manager has chosen.
    pub cpuset: &'a str,
}

/// Pod that was started.
pub struct RunningPod {
    pub pod: String,
    pub container: String,
    pub cgroup: String,
    log: PathBuf,
}

impl Node {
    pub fn start() -> Node {
        let bin = programs();
        let folder = tempfile::tempdir().unwrap();
        let at = folder.path();
        for part in ["image/bin", "logs", "nri", "cni"] {
            std::fs::create_dir_all(at.join(part)).unwrap();
        }
        std::fs::write(at.join("init.sh"), INIT).unwrap();
        std::fs::write(at.join("config.toml"), config(at)).unwrap();
        image(at);
        let cgroup = unique("node");
        let mut undo = UndoStack::default();
        let ours = cgroup.clone();
        undo.push(format!("cgroups {cgroup}"), move || remove_all(&ours));
        let words = [
            "--mount",
            "--net",
            "--pid",
            "--fork",
            "--kill-child",
            "sh",
            "init.sh",
        ];
        let mut command = Command::new("unshare");
        command.args(words).current_dir(at).stdin(Stdio::null());
        let init = Process::start(&mut command).unwrap();
        wait_until("namespaces", LIMIT, || at.join("up").exists());
        let mut node = Node {
            folder,
            bin,
            cgroup,
            containerd: None,
            init,
            pods: 0,
            _undo: undo,
        };
        node.start_containerd();
        let image = node.path("image.tar");
        node.ctr(&["-n", "k8s.io", "images", "import", "--local", &image]);
        node
    }

    pub fn path(&self, name: &str) -> String {
        self.folder.path().join(name).display().to_string()
    }

    /// Socket of the runtime for plugins.
    pub fn nri(&self) -> String {
        self.path("nri.sock")
    }

    pub fn start_containerd(&mut self) {
        let mut options = std::fs::File::options();
        let options = options.create(true).append(true);
        let log = options.open(self.path("containerd.log")).unwrap();
        let shell = format!(
            "ulimit -n 20000; exec {} --config {}",
            self.bin.join("containerd").display(),
            self.path("config.toml")
        );
        let mut command = self.inside(&["sh", "-c", &shell]);
        command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log);
        self.containerd = Some(Process::start(&mut command).unwrap());
        wait_until("containerd", LIMIT, || {
            let found = self.crictl(&["version"]);
            found.status.success() && Path::new(&self.nri()).exists()
        });
    }

    /// Ends containerd, as an upgrade does; pods keep running.
    pub fn end_containerd(&mut self) {
        let Some(entered) = self.containerd.take() else {
            return;
        };
        let containerd = child_of(entered.pid());
        kill(ProcessId::from_raw(containerd), Signal::SIGTERM).unwrap();
        let has_ended = || !Path::new(&format!("/proc/{containerd}/exe")).exists();
        wait_until("containerd's end", LIMIT, has_ended);
        std::fs::remove_file(self.nri()).unwrap_or_default();
    }

    /// Command in the namespaces of the node, entered by their init, which is a child of `unshare`.
    fn inside(&self, words: &[&str]) -> Command {
        let init = child_of(self.init.pid()).to_string();
        let mut command = Command::new("nsenter");
        command.args(["-t", &init, "-m", "-n", "-p", "--"]);
        command.args(words);
        let path = std::env::var("PATH").unwrap_or_default();
        let path = format!("{}:{path}:/usr/sbin:/sbin", self.bin.display());
        command.env("PATH", path);
        command
    }

    fn ctr(&self, args: &[&str]) {
        let (program, socket) = (self.bin.join("ctr"), self.path("containerd.sock"));
        let mut words = vec![program.to_str().unwrap(), "-a", &socket];
        words.extend(args);
        run(&words);
    }

    fn crictl(&self, args: &[&str]) -> Output {
        let socket = format!("unix://{}", self.path("containerd.sock"));
        Command::new(self.bin.join("crictl"))
            .args(["-t", "30s", "-r", &socket, "-i", &socket])
            .args(args)
            .stdin(Stdio::null())
            .output()
            .unwrap()
    }

    /// Last line that a call of the CRI prints.
    #[track_caller]
    pub fn cri(&self, args: &[&str]) -> String {
        let output = self.crictl(args);
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(
            output.status.success(),
            "{args:?}: {output:?}\n{}",
            std::fs::read_to_string(self.path("containerd.log")).unwrap()
        );
        text.lines().last().unwrap_or_default().to_owned()
    }

    /// Runs a pod with one container, `app`, whose first program prints the CPUs that it may run
    /// on.
    #[track_caller]
    pub fn run(&mut self, pod: &Pod<'_>) -> RunningPod {
        let sandbox = self.make(pod);
        self.cri(&["start", &sandbox.container]);
        sandbox
    }

    /// Creates a pod with a container that does not run yet.
    #[track_caller]
    pub fn make(&mut self, pod: &Pod<'_>) -> RunningPod {
        self.pods += 1;
        let uid = format!("{:08x}-0000-4000-8000-000000000000", self.pods);
        let parent = format!("/{}/kubepods/burstable/pod{uid}", self.cgroup);
        let map = |pairs: &[(&str, &str)]| -> BTreeMap<String, String> {
            let own = |(k, v): &(&str, &str)| ((*k).to_owned(), (*v).to_owned());
            pairs.iter().map(own).collect()
        };
        let sandbox = serde_json::json!({
            "metadata": { "name": pod.name, "namespace": pod.namespace, "uid": uid, "attempt": 1 },
            "annotations": map(pod.annotations),
            "labels": map(pod.labels),
            "log_directory": self.path("logs"),
            "linux": {
                "cgroup_parent": parent,
                "security_context": { "namespace_options": { "network": 2 } },
            },
        });
        let of_pod = self.path("pod.json");
        std::fs::write(&of_pod, sandbox.to_string()).unwrap();
        let pod_id = self.cri(&["runp", &of_pod]);
        self.container(&pod_id, &parent, ("app", pod.name), pod)
    }

    /// Runs one more container in the pod of `first`, as [`Node::run`] does.
    #[track_caller]
    pub fn run_in_pod(&self, first: &RunningPod, name: &str, pod: &Pod<'_>) -> RunningPod {
        let (parent, _) = first.cgroup.rsplit_once('/').unwrap();
        let sandbox = self.container(&first.pod, parent, (name, name), pod);
        self.cri(&["start", &sandbox.container]);
        sandbox
    }

    #[track_caller]
    fn container(
        &self,
        pod_id: &str,
        parent: &str,
        (name, log): (&str, &str),
        pod: &Pod<'_>,
    ) -> RunningPod {
        let script = "/bin/busybox grep Cpus_allowed_list /proc/self/status; \
                      exec /bin/busybox sleep 10000";
        let container = serde_json::json!({
            "metadata": { "name": name },
            "image": { "image": IMAGE },
            "command": ["/bin/busybox", "sh", "-c", script],
            "log_path": format!("{log}.log"),
            "linux": { "resources": {
                "cpu_shares": pod.cpu_shares,
                "cpuset_cpus": pod.cpuset,
            } },
        });
        let (of_pod, of_container) = (self.path("pod.json"), self.path("container.json"));
        std::fs::write(&of_container, container.to_string()).unwrap();
        let id = self.cri(&["create", "--no-pull", pod_id, &of_container, &of_pod]);
        RunningPod {
            cgroup: format!("{parent}/{id}"),
            log: self.folder.path().join(format!("logs/{log}.log")),
            pod: pod_id.to_owned(),
            container: id,
        }
    }

    /// Ends and removes a pod.
    pub fn remove(&self, started: &RunningPod) {
        self.cri(&["rmp", "-f", &started.pod]);
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        self.containerd = None;
    }
}

impl RunningPod {
    /// CPUs that the container's first program printed.
    pub fn first_cpus(&self) -> String {
        let mut found = None;
        wait_until("the first line of its log", LIMIT, || {
            let text = std::fs::read_to_string(&self.log).unwrap_or_default();
            let line = text.lines().find(|l| l.contains("Cpus_allowed_list"));
            found = line
                .and_then(|l| l.split_whitespace().last())
                .map(str::to_owned);
            found.is_some()
        });
        found.unwrap()
    }

    /// Present cpuset of the container.
    pub fn cpuset(&self) -> String {
        let v1 = PathBuf::from(format!("/sys/fs/cgroup/cpuset{}", self.cgroup));
        let v2 = PathBuf::from(format!("/sys/fs/cgroup{}", self.cgroup));
        let (folder, file) = match v1.is_dir() {
            true => (v1, "cpuset.cpus"),
            false => (v2, "cpuset.cpus.effective"),
        };
        let text = std::fs::read_to_string(folder.join(file)).unwrap();
        text.trim().to_owned()
    }
}

/// The only child of a process.
fn child_of(pid: u32) -> i32 {
    let children = format!("/proc/{pid}/task/{pid}/children");
    let text = std::fs::read_to_string(children).unwrap();
    text.trim().parse().unwrap()
}

/// Folder of containerd, its shim and crictl; the first call builds what is missing.
fn programs() -> PathBuf {
    static BIN: OnceLock<PathBuf> = OnceLock::new();
    let build = || {
        let script = concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/../../scripts/kubernetes/build"
        );
        let output = Command::new(script).args(["containerd", "crictl"]).output();
        let output = output.unwrap_or_else(|e| panic!("{script}: {e}"));
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{script}: {errors}");
        String::from_utf8(output.stdout).unwrap().trim().into()
    };
    BIN.get_or_init(build).clone()
}

/// Writes the image in docker's format, which needs no registry.
fn image(at: &Path) {
    let script = r#"
set -e
cp "$(command -v busybox)" image/bin/busybox
tar -C image -cf layer.tar bin
digest=$(sha256sum layer.tar | cut -d' ' -f1)
cat > image.json <<END
{"architecture": "amd64", "os": "linux",
 "config": {"Entrypoint": ["/bin/busybox", "sleep", "1000000"], "Env": ["PATH=/bin"]},
 "rootfs": {"type": "layers", "diff_ids": ["sha256:$digest"]}}
END
echo "[{\"Config\": \"image.json\", \"RepoTags\": [\"$1\"], \
    \"Layers\": [\"layer.tar\"]}]" > manifest.json
tar -cf image.tar manifest.json image.json layer.tar
"#;
    let output = Command::new("sh")
        .args(["-c", script, "sh", IMAGE])
        .current_dir(at)
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
}

fn config(at: &Path) -> String {
    let at = at.display();
    format!(
        r#"version = 3
root = "{at}/root"
state = "{at}/state"
[grpc]
  address = "{at}/containerd.sock"
[plugins."io.containerd.cri.v1.images"]
  snapshotter = "native"
  [plugins."io.containerd.cri.v1.images".pinned_images]
    sandbox = "{IMAGE}"
[plugins."io.containerd.cri.v1.runtime"]
  restrict_oom_score_adj = true
[plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc]
  runtime_type = "io.containerd.runc.v2"
[plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc.options]
  SystemdCgroup = false
[plugins."io.containerd.cri.v1.runtime".cni]
  bin_dirs = ["{at}/cni"]
  conf_dir = "{at}/cni"
[plugins."io.containerd.nri.v1.nri"]
  disable = false
  socket_path = "{at}/nri.sock"
  plugin_path = "{at}/nri"
  plugin_config_path = "{at}/nri"
"#
    )
}

fn remove_all(cgroup: &str) -> std::io::Result<()> {
    let layout = layout().map_err(std::io::Error::other)?;
    for mount in all_mounts(&layout) {
        let dir = mount.join(cgroup);
        if dir.is_dir() {
            remove_below(&dir)?;
            remove(&dir)?;
        }
    }
    Ok(())
}
