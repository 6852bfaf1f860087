//! A dataplane between two namespaces, and clients of it.
#![allow(dead_code, reason = "each test program uses its part")]

pub mod asker;
pub mod cores;

use cofferdam_dataplane::config::Config;
use cofferdam_dataplane::{Application, EventLoop, Notice, Session, run, status};
use cofferdam_lab::fixtures::{Namespace, Net, VethPair};
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Sender;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

pub const ADDRESS: &str = "10.98.2.9";
/// Address of the dataplane on its second device.
pub const SECOND_ADDRESS: &str = "10.99.2.9";

/// The namespace of a client (10.98.2.2, fd98::2), and that of a server, in which a dataplane has
/// 10.98.2.9 and fd98::9 and Linux has 10.98.2.1.
pub struct Scene {
    pub client: Namespace,
    pub server: Namespace,
    second: Option<Namespace>,
    _pairs: Vec<VethPair>,
    folder: tempfile::TempDir,
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Scene {
    pub fn new(device: &str, applications: &str) -> Scene {
        Scene::with_link(device, applications, 1, 1500)
    }

    /// A scene as [`Scene::new`], on a device with `queues` queues.
    pub fn with_queues(device: &str, applications: &str, queues: u32) -> Scene {
        Scene::with_link(device, applications, queues, 1500)
    }

    /// A scene as [`Scene::new`], over a link with this MTU.
    pub fn with_mtu(device: &str, applications: &str, mtu_bytes: u32) -> Scene {
        Scene::with_link(device, applications, 1, mtu_bytes)
    }

    fn with_link(device: &str, applications: &str, queues: u32, mtu_bytes: u32) -> Scene {
        Scene::start(device, "", applications, queues, mtu_bytes)
    }

    /// A scene as [`Scene::with_queues`], with a second device, eth1. A client of its own is behind
    /// it, with 10.99.2.2 and fd99::2; the dataplane has 10.99.2.9 and fd99::9 on it. `link` goes
    /// into its entry. An entry that names a queue has that queue only.
    pub fn with_two_devices(applications: &str, queues: u32, link: &str) -> Scene {
        let link = format!(
            "[[link]]\ndevice = \"eth1\"\n\
             addresses = [\"{SECOND_ADDRESS}/24\", \"fd99::9/64\"]\n{link}\n"
        );
        Scene::start("", &link, applications, queues, 1500)
    }

    /// The client behind the second device.
    pub fn second(&self) -> &Namespace {
        self.second.as_ref().expect("a scene with two devices")
    }

    fn start(device: &str, link: &str, applications: &str, queues: u32, mtu_bytes: u32) -> Scene {
        let (server, client) = (Namespace::new("server"), Namespace::new("client"));
        let pair = VethPair::with_queues((&server, "eth0"), (&client, "eth0"), queues);
        for net in [&server, &client] {
            net.run(&format!("ip link set eth0 mtu {mtu_bytes}"));
        }
        server.address("eth0", "10.98.2.1/24");
        for address in ["10.98.2.2/24", "fd98::2/64"] {
            client.address("eth0", address);
        }
        client.offload("eth0", "tx", false);
        let mut pairs = vec![pair];
        let second = (!link.is_empty()).then(|| {
            let second = Namespace::new("second");
            let ends = ((&server as &dyn Net, "eth1"), (&second as &dyn Net, "eth0"));
            let queues = if link.contains("queue") { 1 } else { queues };
            pairs.push(VethPair::with_queues(ends.0, ends.1, queues));
            server.address("eth1", "10.99.2.1/24");
            for address in ["10.99.2.2/24", "fd99::2/64"] {
                second.address("eth0", address);
            }
            second.offload("eth0", "tx", false);
            second
        });
        let folder = tempfile::tempdir().expect("a folder");
        let text = format!(
            "socket = \"{}\"\n[device]\nname = \"eth0\"\n{device}\n[network]\n\
             addresses = [\"{ADDRESS}/24\", \"fd98::9/64\"]\n{link}{applications}",
            folder.path().join("dataplane.sock").display()
        );
        let config = Config::parse(&text).expect("a configuration");
        let stop = Arc::new(AtomicBool::new(false));
        let (ready, is_ready) = std::sync::mpsc::channel();
        let theirs = stop.clone();
        let thread = server.thread(move || {
            run(&config, &theirs, report_ready(ready)).expect("the dataplane runs");
        });
        is_ready.recv().expect("the dataplane starts");
        Scene {
            client,
            server,
            second,
            _pairs: pairs,
            folder,
            stop,
            threads: vec![thread],
        }
    }

    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    pub fn socket(&self) -> PathBuf {
        self.folder.path().join("dataplane.sock")
    }

    /// Attaches an application and runs it until the scene ends.
    pub fn serve<A: Application>(&mut self, name: &str, make: impl FnOnce() -> A + Send + 'static) {
        let (socket, name, stop) = (self.socket(), name.to_owned(), self.stop.clone());
        let (ready, is_ready) = std::sync::mpsc::channel();
        self.threads.push(std::thread::spawn(move || {
            let session = Session::attach(&socket, &name).expect("it attaches");
            let mut event_loop = EventLoop::new(session, make());
            ready.send(()).expect("the test waits");
            let stopped = |_: &mut A| stop.load(Ordering::Relaxed);
            // The dataplane may end first.
            let _ = event_loop.run(Duration::from_millis(20), stopped);
        }));
        is_ready.recv().expect("the application starts");
    }

    /// Runs `body` in the client's namespace.
    pub fn client<T: Send + 'static>(&self, body: impl FnOnce() -> T + Send + 'static) -> T {
        self.client.thread(body).join().expect("the client ends")
    }

    /// A counter of the status, with everything up to the call: a polling loop publishes its
    /// counters every 10 ms.
    pub fn count(&self, pointer: &str) -> u64 {
        std::thread::sleep(Duration::from_millis(25));
        let value = status(&self.socket()).expect("a status");
        value
            .pointer(pointer)
            .and_then(serde_json::Value::as_u64)
            .unwrap_or_else(|| panic!("no {pointer} in {value}"))
    }
}

/// Signals the test when the dataplane serves.
pub fn report_ready(ready: Sender<()>) -> impl Fn(Notice) + Send + Sync {
    move |notice| {
        if notice == Notice::Ready {
            ready.send(()).expect("the test waits");
        }
    }
}

impl Drop for Scene {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

pub fn connect(to: &str, port: u16) -> TcpStream {
    let to: SocketAddr = match to.contains(':') {
        true => format!("[{to}]:{port}"),
        false => format!("{to}:{port}"),
    }
    .parse()
    .expect("an address");
    // Right after the start the application may not have its address yet.
    let until = Instant::now() + Duration::from_secs(5);
    let stream = loop {
        match TcpStream::connect_timeout(&to, Duration::from_secs(5)) {
            Err(e) if e.kind() == ErrorKind::ConnectionRefused && Instant::now() < until => {
                std::thread::sleep(Duration::from_millis(5));
            }
            other => break other.expect("it connects"),
        }
    };
    stream.set_nodelay(true).expect("no delay");
    stream
        .set_read_timeout(Some(Duration::from_secs(5)))
        .expect("a time limit");
    stream
}

/// Random bytes, equal for equal seeds.
pub fn bytes(len: usize, seed: u64) -> Vec<u8> {
    let mut random = fastrand::Rng::with_seed(seed);
    (0..len).map(|_| random.u8(..)).collect()
}

/// Sends all bytes and reads the same number back, at the same time.
pub fn round_trip(mut stream: TcpStream, sent: Vec<u8>) -> Vec<u8> {
    let mut writer = stream.try_clone().expect("a second handle");
    let (len, copy) = (sent.len(), sent);
    let writing = std::thread::spawn(move || writer.write_all(&copy).expect("it takes all"));
    let mut back = vec![0; len];
    stream.read_exact(&mut back).expect("all comes back");
    writing.join().expect("the writer ends");
    back
}

pub const ECHO: &str =
    "[[application]]\nname = \"echo\"\nuser = \"0\"\nbind = [\"tcp/*:7\", \"udp/*:7\"]\n";

/// Adds to [`ECHO`] an application of this name that may listen at port 8.
pub fn echo_and(other: &str) -> String {
    format!("{ECHO}[[application]]\nname = \"{other}\"\nuser = \"0\"\nbind = [\"tcp/*:8\"]\n")
}

/// Sends a datagram of random bytes to port 7. Returns the answer.
pub fn datagram(len: usize, seed: u64) -> Vec<u8> {
    let socket = UdpSocket::bind("10.98.2.2:0").expect("a socket");
    socket
        .set_read_timeout(Some(Duration::from_secs(5)))
        .expect("a limit");
    socket
        .send_to(&bytes(len, seed), (ADDRESS, 7))
        .expect("sent");
    let mut back = [0; 2000];
    let (len, from) = socket.recv_from(&mut back).expect("an answer");
    assert_eq!(from.to_string(), format!("{ADDRESS}:7"));
    back[..len].to_vec()
}

/// A connection to port 7 that is full, because nobody reads the answers.
pub fn a_writer_that_never_reads(scene: &Scene) -> TcpStream {
    scene.client(|| {
        let mut stream = connect(ADDRESS, 7);
        stream
            .set_write_timeout(Some(Duration::from_millis(500)))
            .expect("a limit");
        let mut sent = 0;
        while let Ok(len) = stream.write(&[7; 65536]) {
            sent += len;
            assert!(sent < 64 << 20, "the window never closed");
        }
        assert!(sent > 0);
        stream
    })
}
