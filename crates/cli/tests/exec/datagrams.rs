//! Tests of UDP: its sockets, and programs that use them.

use crate::support::{
    ADDRESS, ADDRESS_V6, CLIENT, CLIENT_V6, MINUTE, PATIENCE, Program, Scene, alone, shell, text_of,
};
use crate::transfers::last;
use cofferdam_lab::fixtures::wait_until;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

/// First of the two ports of udp_peer.py.
const PORT: u16 = 7001;

/// Starts udp_peer.py at the client.
fn peer(scene: &Scene) -> Program {
    let script = scene.script("udp_peer.py", include_str!("udp_peer.py"));
    let peer = scene.at_client("peer", &format!("/usr/bin/python3 {script} {PORT}"));
    wait_until("the peer", PATIENCE, || peer.output().contains("ready"));
    peer
}

fn end(program: &Program) {
    program.signal(Signal::SIGKILL);
    program.end();
}

/// Promise 53.
#[test]
fn udp_sockets_do_what_the_kernels_do() {
    alone(|| {
        let scene = Scene::new();
        let peer = peer(&scene);
        let script = scene.script("udp.py", include_str!("udp.py"));
        let line = |own: &str, own_v6: &str, peer: &str, peer_v6: &str| {
            format!("/usr/bin/python3 {script} {own} {own_v6} {peer} {peer_v6} {PORT}")
        };
        let loopback = ("127.0.0.1", "::1");
        let kernels = line(loopback.0, loopback.1, loopback.0, loopback.1);
        let kernels = text_of(&shell(&scene.client, &kernels, MINUTE));
        assert!(kernels.ends_with("done\n"), "{kernels}");
        let ours = line(ADDRESS, ADDRESS_V6, CLIENT, CLIENT_V6);
        let ours = text_of(&scene.run_on_dataplane(&ours));
        for (ours, kernels) in ours.lines().zip(kernels.lines()) {
            assert_eq!(ours, kernels);
        }
        assert_eq!(ours, kernels);
        end(&peer);
    });
}

/// Settings with an answer of 800 bytes, which only EDNS permits over UDP, and one that needs TCP.
fn dnsmasqs_settings(scene: &Scene) -> String {
    let part = |letter: char, len: usize| letter.to_string().repeat(len);
    let large = ['a', 'b', 'c', 'd']
        .map(|letter| part(letter, 195))
        .join(",");
    let huge = ('a'..='h').map(|letter| format!("txt-record=huge.test,{}\n", part(letter, 230)));
    let huge: String = huge.collect();
    let text = format!(
        "no-resolv\nno-hosts\nlisten-address={ADDRESS},{ADDRESS_V6}\nbind-interfaces\n\
         host-record=small.test,192.0.2.7,2001:db8::7\n\
         txt-record=large.test,{large}\n{huge}"
    );
    scene.script("dnsmasq.conf", &text)
}

/// Promise 53.
#[test]
fn dnsmasq_answers_by_udp_and_long_answers_by_tcp() {
    alone(|| {
        let scene = Scene::new();
        let settings = dnsmasqs_settings(&scene);
        let all_addresses = scene.script(
            "wide.conf",
            &std::fs::read_to_string(&settings)
                .unwrap()
                .replace("bind-interfaces\n", "")
                .replace(&format!("listen-address={ADDRESS},{ADDRESS_V6}\n"), ""),
        );
        let dig = |at: &str, question: &str| {
            scene.client(&format!("dig +time=2 +tries=5 @{at} {question}"))
        };
        let both = [ADDRESS, ADDRESS_V6];
        let ways: [(&str, &[&str], bool); 2] = [
            // At all addresses: the dataplane's, and the host's own by the kernel. By TCP dnsmasq
            // then answers only at addresses of an interface.
            (&all_addresses, &[ADDRESS, ADDRESS_V6, "10.98.5.1"], false),
            (&settings, &both, true),
        ];
        for (settings, addresses, has_tcp) in ways {
            let line = format!("dnsmasq -k -C {settings} --user=root --log-facility=-");
            let server = scene.serve("dnsmasq", &line);
            scene.wait_for_port(53);
            for at in addresses {
                let small = dig(at, "small.test A");
                assert!(
                    small.contains("192.0.2.7") && small.contains("(UDP)"),
                    "{small}"
                );
                let v6 = dig(at, "small.test AAAA");
                assert!(v6.contains("2001:db8::7"), "{v6}");
                let large = dig(at, "large.test TXT +bufsize=1232");
                assert!(large.contains("(UDP)") && size(&large) > 780, "{large}");
                let cut = dig(at, "large.test TXT +noedns +ignore");
                assert!(cut.contains("(UDP)") && cut.contains("qr aa tc"), "{cut}");
                let long = ["large.test TXT +noedns", "huge.test TXT"];
                for question in long.iter().filter(|_| has_tcp) {
                    let long = dig(at, question);
                    assert!(long.contains("Truncated, retrying in TCP mode"), "{long}");
                    assert!(long.contains("(TCP)") && size(&long) > 780, "{long}");
                }
            }
            server.signal(Signal::SIGTERM);
            assert_eq!(server.end(), Some(0), "{}", server.output());
        }
    });
}

/// Promise 53.
#[test]
fn a_daemon_serves_after_the_end_of_its_parent() {
    alone(|| {
        let scene = Scene::new();
        let (settings, pid) = (dnsmasqs_settings(&scene), scene.path("pid"));
        let log = scene.path("log");
        let line = format!(
            "dnsmasq -C {settings} --user=root --pid-file={} --log-facility={}",
            pid.display(),
            log.display()
        );
        let starts = scene.serve("dnsmasq", &line);
        assert_eq!(starts.end(), Some(0), "{}", starts.output());
        let pid = std::fs::read_to_string(&pid).unwrap();
        let daemon = Daemon(Pid::from_raw(pid.trim().parse().unwrap()));
        // Nobody has the addresses between the end of the parent and the daemon's next check.
        for at in [ADDRESS, ADDRESS_V6] {
            wait_until("the daemon", PATIENCE, || {
                scene
                    .try_client(&format!("dig +time=1 +tries=1 @{at} small.test A"))
                    .is_some()
            });
        }
        for at in [ADDRESS, ADDRESS_V6] {
            for question in [
                "small.test A",
                "large.test TXT +bufsize=1232",
                "huge.test TXT",
            ] {
                let answer = scene.client(&format!("dig +time=2 +tries=5 @{at} {question}"));
                assert!(answer.contains("status: NOERROR"), "{answer}");
            }
        }
        drop(daemon);
        wait_until("its end", PATIENCE, || {
            std::fs::read_to_string(&log).is_ok_and(|log| log.contains("exiting"))
        });
    });
}

/// Promise 53.
#[test]
fn udp_sockets_regain_their_addresses_from_the_next_dataplane() {
    alone(|| {
        let mut scene = Scene::new();
        let script = scene.script("udp_peer.py", include_str!("udp_peer.py"));
        let ask = scene.script("udp_ask.py", include_str!("udp_ask.py"));
        // At all addresses, of both families.
        let server = scene.serve("server", &format!("/usr/bin/python3 {script} {PORT}"));
        wait_until("the server", PATIENCE, || server.output().contains("ready"));
        for _ in 0..2 {
            for at in [ADDRESS, ADDRESS_V6, "10.98.5.1"] {
                scene.client(&format!("/usr/bin/python3 {ask} {at} {PORT}"));
            }
            let dataplane = scene.dataplane.take().unwrap();
            end(&dataplane);
            scene.client(&format!("/usr/bin/python3 {ask} 10.98.5.1 {PORT}"));
            scene.start_dataplane();
        }
        end(&server);
    });
}

/// Promise 53.
#[test]
fn a_last_datagram_to_an_unresolved_neighbour_is_sent() {
    alone(|| {
        let scene = Scene::new();
        let hears = scene.script("hears.py", HEARS);
        let hears = scene.at_client("hears", &format!("/usr/bin/python3 {hears} {PORT}"));
        wait_until("it to listen", PATIENCE, || {
            hears.output().contains("ready")
        });
        let says = scene.script("says.py", SAYS);
        let out = scene.run_on_dataplane(&format!("/usr/bin/python3 {says} {CLIENT} {PORT}"));
        assert!(out.status.success(), "{}", text_of(&out));
        wait_until("the datagram", PATIENCE, || {
            hears.output().contains("last words")
        });
        assert_eq!(hears.end(), Some(0));
    });
}

const HEARS: &str = "import socket, sys\n\
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\n\
    s.bind(('0.0.0.0', int(sys.argv[1])))\n\
    print('ready', flush=True)\n\
    print(s.recv(100).decode(), flush=True)\n";

const SAYS: &str = "import socket, sys\n\
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\n\
    s.sendto(b'last words', (sys.argv[1], int(sys.argv[2])))\n\
    s.close()\n";

/// Process that is not a child of the test; killed however the test ends.
struct Daemon(Pid);

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = kill(self.0, Signal::SIGTERM);
    }
}

/// Size of the answer, bytes.
fn size(answer: &str) -> usize {
    let size = answer
        .lines()
        .find_map(|line| line.strip_prefix(";; MSG SIZE  rcvd: "));
    size.and_then(|size| size.parse().ok()).unwrap_or(0)
}

/// Promise 53.
#[test]
fn iperf3_sends_and_receives_datagrams_in_both_roles() {
    alone(|| {
        let scene = Scene::new();
        let json = |text: &str| -> serde_json::Value {
            serde_json::from_str(text).unwrap_or_else(|e| panic!("{e}: {text}"))
        };
        let check = |report: &serde_json::Value| {
            assert!(report.get("error").is_none(), "{report}");
            let (sent, lost) = (
                last(report, "sum", "packets"),
                last(report, "sum", "lost_packets"),
            );
            assert!(sent > 100 && lost < sent, "{lost} of {sent}: {report}");
        };
        let server = scene.serve("server", "iperf3 -s -p 5201 --forceflush");
        let peer = scene.at_client("iperf3", "iperf3 -s -p 5202 --forceflush");
        for server in [&server, &peer] {
            wait_until("iperf3", PATIENCE, || server.output().contains("listening"));
        }
        for (at, way) in [(ADDRESS, ""), (ADDRESS, "-R"), (ADDRESS_V6, "")] {
            let line = format!("iperf3 -u -c {at} -p 5201 -t 1 -b 20M -l 1400 -J {way}");
            check(&json(&scene.client(&line)));
        }
        for (at, way) in [(CLIENT, ""), (CLIENT, "-R"), (CLIENT_V6, "")] {
            let line = format!("iperf3 -u -c {at} -p 5202 -t 1 -b 20M -l 1400 -J {way}");
            let out = scene.run_on_dataplane(&line);
            check(&json(&String::from_utf8_lossy(&out.stdout)));
        }
        end(&server);
        end(&peer);
    });
}
