//! The dataplane and Linux clients over veth. Its applications attach as from processes of their
//! own.

mod support;

use cofferdam_dataplane::applications::{Echo, Http, Memcached};
use cofferdam_dataplane::config::Config;
use cofferdam_dataplane::{Ending, EventLoop, Session, run};
use cofferdam_lab::fixtures::{Host, Namespace, Net, exclusive, fork, time_limit, wait_until};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use support::asker::ask;
use support::{ADDRESS, ECHO, Scene, bytes, connect, echo_and, report_ready, round_trip};

const LIMIT: Duration = Duration::from_secs(60);

fn echo_scene(device: &str) -> Scene {
    let mut scene = Scene::new(device, ECHO);
    scene.serve("echo", || Echo::new(SocketAddr::from(([0, 0, 0, 0], 7))));
    scene
}

/// Promise 50.
#[test]
fn linux_gets_its_bytes_over_tcp_and_udp() {
    let _alone = exclusive();
    time_limit(LIMIT, || {
        for device in ["mode = \"native\"", "mode = \"generic\""] {
            let scene = echo_scene(device);
            scene.client.ping(ADDRESS);
            scene.client.ping("10.98.2.1");
            scene.client(|| drop(connect(ADDRESS, 7)));
            assert_eq!(scene.client(|| support::datagram(1400, 1)), bytes(1400, 1));
            for (len, seed) in [(1, 2), (64, 3), (5000, 4), (1 << 20, 5)] {
                let back = scene.client(move || round_trip(connect(ADDRESS, 7), bytes(len, seed)));
                assert!(back == bytes(len, seed), "{len} bytes came back changed");
            }
            assert_eq!(scene.count("/counts/offences"), 0);
        }
    });
}

/// Promise 50.
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

/// Promise 50.
#[test]
fn a_tap_device_serves_as_well() {
    let _alone = exclusive();
    time_limit(LIMIT, || {
        // The dataplane creates the device, and Linux on the same host is the client.
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
            run(&config, &theirs, report_ready(ready)).expect("it runs");
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

/// Promise 66.
#[test]
fn a_killed_application_is_cleaned_up_without_harm() {
    let _alone = exclusive();
    time_limit(LIMIT, || {
        let mut scene = Scene::new("", &echo_and("victim"));
        scene.serve("echo", || Echo::new(SocketAddr::from(([0, 0, 0, 0], 7))));
        let socket = scene.socket();
        let mut victim = fork(&Host, None, |child| {
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
            let mut message = [1; 64];
            for _ in 0..2000 {
                stream.write_all(&message).expect("sent");
                stream.read_exact(&mut message).expect("an answer");
            }
        });
        let (stopped, hear) = std::sync::mpsc::channel();
        let doomed = scene.client.thread(move || {
            let mut stream = connect(ADDRESS, 8);
            stream.write_all(b"hello").expect("sent");
            let mut back = [0; 5];
            stream.read_exact(&mut back).expect("an answer");
            stopped.send(()).expect("the test waits");
            // The dataplane resets the connection after its application has ended.
            stream.read(&mut back).map_err(|e| e.kind())
        });
        hear.recv().expect("the victim serves");
        drop(victim);
        wait_until("the clean-up", Duration::from_secs(5), || {
            scene.count("/counts/applications_ended") == 1
        });
        let end = doomed.join().expect("the client ends");
        assert_eq!(end, Err(std::io::ErrorKind::ConnectionReset));
        steady.join().expect("the other's client ends");
        assert_eq!(scene.count("/counts/offences"), 0);
        // The place and the port of the application are free again.
        scene.serve("victim", || Echo::new(SocketAddr::from(([0, 0, 0, 0], 8))));
        let back = scene.client(|| round_trip(connect(ADDRESS, 8), bytes(3000, 8)));
        assert!(back == bytes(3000, 8));
    });
}

/// Promise 71.
#[test]
fn other_users_and_unknown_applications_are_refused() {
    let _alone = exclusive();
    time_limit(LIMIT, || {
        let other_user = "[[application]]\nname = \"web\"\nuser = \"65534\"\n";
        let scene = Scene::new("", other_user);
        for (name, reason) in [
            ("web", "belongs to user 65534"),
            ("other", "no application 'other'"),
        ] {
            let error = Session::attach(&scene.socket(), name)
                .err()
                .expect("refused");
            assert!(error.to_string().contains(reason), "{error}");
        }
        let error = Session::attach(&scene.folder().join("none"), "web").err();
        assert!(
            error
                .expect("no application there")
                .to_string()
                .contains("no dataplane answers")
        );
    });
}

/// Promise 50.
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
                    // Ended by an RST, with unread data and without lingering.
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
        // The application releases the last frames in its own time.
        wait_until("every frame to come back", Duration::from_secs(5), || {
            scene.count("/applications/0/held_frames") == 0
        });
        assert_eq!(scene.count("/counts/offences"), 0);
    });
}

fn set_linger_zero(stream: &TcpStream) {
    let linger = libc::linger {
        l_onoff: 1,
        l_linger: 0,
    };
    // SAFETY: the option is a linger of the length given.
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

/// Promise 70.
#[test]
fn a_peer_that_never_reads_takes_only_its_window() {
    let _alone = exclusive();
    time_limit(LIMIT, || {
        let scene = echo_scene("");
        let stuck = support::a_writer_that_never_reads(&scene);
        // Others are served meanwhile.
        let back = scene.client(|| round_trip(connect(ADDRESS, 7), bytes(100_000, 9)));
        assert!(back == bytes(100_000, 9));
        assert!(
            scene.count("/free_frames") > 4096,
            "the packet memory is not used up"
        );
        drop(stuck);
    });
}

/// Promise 50.
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

/// Promise 50.
#[test]
fn a_real_memcached_serves_our_client() {
    let _alone = exclusive();
    time_limit(LIMIT, || {
        let grant = "[[application]]\nname = \"asker\"\nuser = \"0\"\nconnect = true\n";
        let mut scene = Scene::new("", grant);
        let _server = scene
            .client
            .spawn("memcached -u nobody -l 10.98.2.2 -p 11211 -U 0 -m 16");
        scene.client(|| drop(connect("10.98.2.2", 11211)));
        let value: String = bytes(200_000, 10)
            .iter()
            .map(|b| char::from(b'a' + b % 26))
            .collect();
        let request = format!("set key 7 0 200000\r\n{value}\r\nget key none\r\nquit\r\n");
        let answer = format!("STORED\r\nVALUE key 7 200000\r\n{value}\r\nEND\r\n");
        for (port, answer, ending) in [
            (11211, answer, Ending::Closed),
            (11212, String::new(), Ending::Refused),
        ] {
            let remote = SocketAddr::from(([10, 98, 2, 2], port));
            let asked = vec![request.clone().into_bytes()];
            let answers = ask(&mut scene, "asker", remote, asked);
            assert_eq!(answers[0].ending, Some(ending));
            assert!(
                answers[0].bytes == answer.as_bytes(),
                "{} bytes came instead of {}",
                answers[0].bytes.len(),
                answer.len()
            );
        }
    });
}
