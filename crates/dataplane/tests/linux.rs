//! The dataplane against Linux clients over veth, its applications attached as they would be from
//! processes of their own.

use cofferdam_dataplane::applications::{Echo, Http, Memcached};
use cofferdam_dataplane::config::Config;
use cofferdam_dataplane::{Application, EventLoop, Session, run, status};
use cofferdam_testkit::{Namespace, Net, Place, VethPair, exclusive, time_limit, wait_until};
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

const LIMIT: Duration = Duration::from_secs(60);
const ADDRESS: &str = "10.98.2.9";

/// A client's namespace (10.98.2.2, fd98::2), a server's in which a dataplane has 10.98.2.9 and
/// fd98::9 beside Linux's 10.98.2.1.
struct Scene {
    client: Namespace,
    _server: Namespace,
    _pair: VethPair,
    folder: tempfile::TempDir,
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Scene {
    fn new(device: &str, applications: &str) -> Scene {
        let (server, client) = (Namespace::new("server"), Namespace::new("client"));
        let pair = VethPair::new((&server, "eth0"), (&client, "eth0"));
        server.address("eth0", "10.98.2.1/24");
        for address in ["10.98.2.2/24", "fd98::2/64"] {
            client.address("eth0", address);
        }
        client.offload("eth0", "tx", false);
        let folder = tempfile::tempdir().expect("a folder");
        let text = format!(
            "socket = \"{}\"\n[device]\nname = \"eth0\"\n{device}\n[network]\n\
             addresses = [\"{ADDRESS}/24\", \"fd98::9/64\"]\n{applications}",
            folder.path().join("dataplane.sock").display()
        );
        let config = Config::parse(&text).expect("a configuration");
        let stop = Arc::new(AtomicBool::new(false));
        let (ready, is_ready) = std::sync::mpsc::channel();
        let theirs = stop.clone();
        let thread = server.thread(move || {
            run(&config, &theirs, || ready.send(()).expect("the test waits"))
                .expect("the dataplane runs");
        });
        is_ready.recv().expect("the dataplane starts");
        Scene {
            client,
            _server: server,
            _pair: pair,
            folder,
            stop,
            threads: vec![thread],
        }
    }

    fn socket(&self) -> PathBuf {
        self.folder.path().join("dataplane.sock")
    }

    /// Attaches an application and runs it until the scene ends.
    fn serve<A: Application>(&mut self, name: &str, make: impl FnOnce() -> A + Send + 'static) {
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
    fn client<T: Send + 'static>(&self, body: impl FnOnce() -> T + Send + 'static) -> T {
        self.client.thread(body).join().expect("the client ends")
    }

    fn count(&self, pointer: &str) -> u64 {
        let value = status(&self.socket()).expect("a status");
        value
            .pointer(pointer)
            .and_then(serde_json::Value::as_u64)
            .unwrap_or_else(|| panic!("no {pointer} in {value}"))
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

fn connect(to: &str, port: u16) -> TcpStream {
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

/// Random bytes, the same for the same seed.
fn bytes(len: usize, seed: u64) -> Vec<u8> {
    let mut random = fastrand::Rng::with_seed(seed);
    (0..len).map(|_| random.u8(..)).collect()
}

/// Sends all and reads as much back, at the same time.
fn round_trip(mut stream: TcpStream, sent: Vec<u8>) -> Vec<u8> {
    let mut writer = stream.try_clone().expect("a second handle");
    let (len, copy) = (sent.len(), sent);
    let writing = std::thread::spawn(move || writer.write_all(&copy).expect("it takes all"));
    let mut back = vec![0; len];
    stream.read_exact(&mut back).expect("all comes back");
    writing.join().expect("the writer ends");
    back
}

const ECHO: &str =
    "[[application]]\nname = \"echo\"\nuser = \"0\"\nbind = [\"tcp/*:7\", \"udp/*:7\"]\n";

fn echo_scene(device: &str) -> Scene {
    let mut scene = Scene::new(device, ECHO);
    scene.serve("echo", || Echo::new(SocketAddr::from(([0, 0, 0, 0], 7))));
    scene
}

#[test]
fn linux_gets_its_bytes_back_over_tcp_and_udp_in_every_mode() {
    let _alone = exclusive();
    time_limit(LIMIT, || {
        for device in ["mode = \"native\"", "mode = \"generic\""] {
            let scene = echo_scene(device);
            scene.client.ping(ADDRESS);
            scene.client.ping("10.98.2.1");
            scene.client(|| drop(connect(ADDRESS, 7)));
            let datagram = scene.client(|| {
                let socket = UdpSocket::bind("10.98.2.2:0").expect("a socket");
                socket
                    .set_read_timeout(Some(Duration::from_secs(5)))
                    .expect("a limit");
                socket.send_to(&bytes(1400, 1), (ADDRESS, 7)).expect("sent");
                let mut back = [0; 2000];
                let (len, from) = socket.recv_from(&mut back).expect("an answer");
                (back[..len].to_vec(), from.to_string())
            });
            assert_eq!(datagram, (bytes(1400, 1), format!("{ADDRESS}:7")));
            for (len, seed) in [(1, 2), (64, 3), (5000, 4), (1 << 20, 5)] {
                let back = scene.client(move || round_trip(connect(ADDRESS, 7), bytes(len, seed)));
                assert!(back == bytes(len, seed), "{len} bytes came back changed");
            }
            assert_eq!(scene.count("/counts/offences"), 0);
        }
    });
}

#[test]
fn ipv6_works_as_ipv4_does() {
    let _alone = exclusive();
    time_limit(LIMIT, || {
        let grant = ECHO;
        let mut scene = Scene::new("", grant);
        scene.serve("echo", || Echo::new("[::]:7".parse().expect("an address")));
        let back = scene.client(|| round_trip(connect("fd98::9", 7), bytes(300_000, 6)));
        assert!(back == bytes(300_000, 6));
        scene
            .client
            .sh("busybox ping6 -q -c 2 -W 2 fd98::9 2>/dev/null || ping -6 -q -c 2 -W 2 fd98::9");
    });
}

#[test]
fn a_tap_device_serves_as_well() {
    let _alone = exclusive();
    time_limit(LIMIT, || {
        // The dataplane makes the device: Linux on the same host is the client.
        let host = Namespace::new("host");
        let folder = tempfile::tempdir().expect("a folder");
        let socket = folder.path().join("dataplane.sock");
        let text = format!(
            "socket = \"{}\"\n[device]\nname = \"tap0\"\nmode = \"tap\"\n[network]\n\
             addresses = [\"{ADDRESS}/24\"]\n{ECHO}",
            socket.display()
        );
        let config = Config::parse(&text).expect("a configuration");
        let stop = Arc::new(AtomicBool::new(false));
        let (ready, is_ready) = std::sync::mpsc::channel();
        let theirs = stop.clone();
        let dataplane = host.thread(move || {
            run(&config, &theirs, || ready.send(()).expect("the test waits")).expect("it runs");
        });
        is_ready.recv().expect("the dataplane starts");
        host.address("tap0", "10.98.2.2/24");
        host.up("tap0");
        let ended = stop.clone();
        let application = std::thread::spawn(move || {
            let session = Session::attach(&socket, "echo").expect("it attaches");
            let echo = Echo::new(SocketAddr::from(([0, 0, 0, 0], 7)));
            let mut event_loop = EventLoop::new(session, echo);
            let _ = event_loop.run(Duration::from_millis(20), |_| ended.load(Ordering::Relaxed));
        });
        host.ping(ADDRESS);
        let client = host.thread(|| round_trip(connect(ADDRESS, 7), bytes(200_000, 7)));
        let back = client.join().expect("the client ends");
        stop.store(true, Ordering::Relaxed);
        application.join().expect("the application ends");
        dataplane.join().expect("the dataplane ends");
        assert!(back == bytes(200_000, 7));
    });
}

#[test]
fn a_killed_application_is_cleaned_up_and_others_do_not_notice() {
    let _alone = exclusive();
    time_limit(LIMIT, || {
        let two = format!(
            "{ECHO}[[application]]\nname = \"victim\"\nuser = \"0\"\nbind = [\"tcp/*:8\"]\n"
        );
        let mut scene = Scene::new("", &two);
        scene.serve("echo", || Echo::new(SocketAddr::from(([0, 0, 0, 0], 7))));
        let socket = scene.socket();
        let mut victim = cofferdam_testkit::Host.spot().fork(None, |child| {
            let session = Session::attach(&socket, "victim").map_err(std::io::Error::other)?;
            let echo = Echo::new(SocketAddr::from(([0, 0, 0, 0], 8)));
            let mut event_loop = EventLoop::new(session, echo);
            child.ready(0)?;
            event_loop.run(Duration::from_secs(1), |_| false)?;
            Ok(vec![])
        });
        victim.wait_ready();
        let steady = scene.client.thread(|| {
            let mut stream = connect(ADDRESS, 7);
            let mut longest = Duration::ZERO;
            let mut message = [1; 64];
            for _ in 0..2000 {
                let start = Instant::now();
                stream.write_all(&message).expect("sent");
                stream.read_exact(&mut message).expect("an answer");
                longest = longest.max(start.elapsed());
            }
            longest
        });
        let (told, hear) = std::sync::mpsc::channel();
        let doomed = scene.client.thread(move || {
            let mut stream = connect(ADDRESS, 8);
            stream.write_all(b"hello").expect("sent");
            let mut back = [0; 5];
            stream.read_exact(&mut back).expect("an answer");
            told.send(()).expect("the test waits");
            // The dataplane resets the connection when its application has gone.
            let start = Instant::now();
            let end = stream.read(&mut back);
            (start.elapsed(), end.map_err(|e| e.kind()))
        });
        hear.recv().expect("the victim serves");
        let killed = Instant::now();
        drop(victim);
        wait_until("the clean-up", Duration::from_secs(5), || {
            scene.count("/counts/applications_ended") == 1
        });
        let took = killed.elapsed();
        let (_, end) = doomed.join().expect("the client ends");
        assert_eq!(end, Err(std::io::ErrorKind::ConnectionReset));
        steady.join().expect("the other's client ends");
        println!("cleaned up after {took:?}");
        assert_eq!(scene.count("/counts/offences"), 0);
        // Its place and its port are free again.
        scene.serve("victim", || Echo::new(SocketAddr::from(([0, 0, 0, 0], 8))));
        let back = scene.client(|| round_trip(connect(ADDRESS, 8), bytes(3000, 8)));
        assert!(back == bytes(3000, 8));
    });
}

#[test]
fn strangers_and_wrong_names_are_refused() {
    let _alone = exclusive();
    time_limit(LIMIT, || {
        let nobody = "[[application]]\nname = \"web\"\nuser = \"65534\"\n";
        let scene = Scene::new("", nobody);
        for (name, reason) in [
            ("web", "is of user 65534"),
            ("other", "no application 'other'"),
        ] {
            let error = Session::attach(&scene.socket(), name)
                .err()
                .expect("refused");
            assert!(error.to_string().contains(reason), "{error}");
        }
        let error = Session::attach(&scene.folder.path().join("none"), "web").err();
        assert!(
            error
                .expect("nobody there")
                .to_string()
                .contains("no dataplane answers")
        );
    });
}

#[test]
fn thousands_of_connections_come_and_go() {
    let _alone = exclusive();
    time_limit(LIMIT, || {
        let scene = echo_scene("");
        let answered = scene.client(|| {
            let mut answered = 0;
            for round in 0..2000_u32 {
                let mut stream = connect(ADDRESS, 7);
                if round % 3 == 0 {
                    // Ended by RST: with unread data and no linger.
                    set_linger_zero(&stream);
                    stream.write_all(&[1; 100]).expect("sent");
                    continue;
                }
                stream.write_all(&round.to_ne_bytes()).expect("sent");
                let mut back = [0; 4];
                stream.read_exact(&mut back).expect("an answer");
                answered += u32::from(back == round.to_ne_bytes());
            }
            answered
        });
        assert_eq!(answered, 1333);
        wait_until("the last to end", Duration::from_secs(5), || {
            scene.count("/applications/0/connections") == 0
        });
        assert_eq!(scene.count("/applications/0/held_frames"), 0);
        assert_eq!(scene.count("/counts/offences"), 0);
    });
}

fn set_linger_zero(stream: &TcpStream) {
    let linger = libc::linger {
        l_onoff: 1,
        l_linger: 0,
    };
    // SAFETY: the option is a linger of the length told.
    let code = unsafe {
        libc::setsockopt(
            std::os::fd::AsRawFd::as_raw_fd(stream),
            libc::SOL_SOCKET,
            libc::SO_LINGER,
            (&raw const linger).cast(),
            size_of_val(&linger) as u32,
        )
    };
    assert_eq!(code, 0);
}

#[test]
fn a_peer_that_never_reads_takes_no_more_than_its_window() {
    let _alone = exclusive();
    time_limit(LIMIT, || {
        let scene = echo_scene("");
        let (done, wait) = std::sync::mpsc::channel::<()>();
        let stuck = scene.client.thread(move || {
            let mut stream = connect(ADDRESS, 7);
            stream
                .set_write_timeout(Some(Duration::from_millis(500)))
                .expect("a limit");
            let mut sent = 0;
            while let Ok(len) = stream.write(&[7; 65536]) {
                sent += len;
                assert!(sent < 64 << 20, "the window never closed");
            }
            wait.recv().expect("the test tells");
            sent
        });
        // Others are served meanwhile.
        let back = scene.client(|| round_trip(connect(ADDRESS, 7), bytes(100_000, 9)));
        assert!(back == bytes(100_000, 9));
        done.send(()).expect("the client waits");
        assert!(stuck.join().expect("the client ends") > 0);
        assert!(
            scene.count("/free_frames") > 4096,
            "the packet memory is not used up"
        );
    });
}

#[test]
fn curl_gets_pages_and_a_memcached_client_its_values() {
    let _alone = exclusive();
    time_limit(LIMIT, || {
        let both = "[[application]]\nname = \"web\"\nuser = \"0\"\nbind = [\"tcp/*:80\"]\n\
                    [[application]]\nname = \"cache\"\nuser = \"0\"\nbind = [\"tcp/*:11211\"]\n";
        let mut scene = Scene::new("", both);
        scene.serve("web", || Http::new(SocketAddr::from(([0, 0, 0, 0], 80))));
        scene.serve("cache", || {
            Memcached::new(SocketAddr::from(([0, 0, 0, 0], 11211)), 1 << 20)
        });
        scene.client(|| drop((connect(ADDRESS, 80), connect(ADDRESS, 11211))));
        let url = format!("http://{ADDRESS}");
        assert_eq!(
            scene.client.run(&format!("curl -sS {url}/")),
            "Served by the dataplane.\n"
        );
        let many =
            format!("curl -sS {url}/ {url}/ {url}/ {url}/nothing -o /dev/null -w %{{http_code}},");
        assert!(scene.client.run(&many).ends_with("404,"));
        let large = format!("curl -sS {url}/bytes/3000000 -o /dev/null -w %{{size_download}}");
        assert_eq!(scene.client.run(&large), "3000000");
        let answer = scene.client(|| {
            let mut stream = connect(ADDRESS, 11211);
            let value = "v".repeat(3000);
            let ask =
                format!("set key 5 0 3000\r\n{value}\r\nget key missing\r\ndelete key\r\nquit\r\n");
            stream.write_all(ask.as_bytes()).expect("sent");
            let mut answer = String::new();
            stream.read_to_string(&mut answer).expect("an answer");
            answer
        });
        let value = "v".repeat(3000);
        assert_eq!(
            answer,
            format!("STORED\r\nVALUE key 5 3000\r\n{value}\r\nEND\r\nDELETED\r\n")
        );
    });
}
