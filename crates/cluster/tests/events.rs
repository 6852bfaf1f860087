//! Tests of `cofferdam events` with a synthetic API server and synthetic gateways.
#![allow(clippy::unwrap_used)]

use cofferdam_cluster::events::{Options, run};
use cofferdam_cluster::{Peer, TOKEN_HEADER};
use cofferdam_records::conditions::{CONDITIONS, ConditionsReport, PodCondition};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::os::unix::net::UnixListener;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

const TOKEN: &str = "0123456789abcdef0123456789abcdef";
const PATIENCE: Duration = Duration::from_secs(30);

/// Objects of the API server, and the requests that it got.
#[derive(Default)]
struct State {
    /// Pods with their nodes.
    pods: BTreeMap<String, String>,
    events: BTreeMap<String, Value>,
    /// Method and path of every write.
    writes: Vec<String>,
    away: bool,
    /// Conditions that each node reports.
    reports: BTreeMap<String, Vec<PodCondition>>,
    ports: BTreeMap<String, u16>,
    rounds: usize,
}

struct Cluster {
    state: Arc<Mutex<State>>,
    folder: tempfile::TempDir,
}

/// Reads a request: method, path, headers and body.
fn request(stream: &mut (impl Read + Write)) -> Option<(String, String, String, Vec<u8>)> {
    let mut reader = BufReader::new(stream);
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        if reader.read_line(&mut head).ok()? == 0 {
            return None;
        }
    }
    let mut words = head.split(' ');
    let (method, path) = (words.next()?.to_owned(), words.next()?.to_owned());
    let length = head
        .lines()
        .find_map(|l| l.strip_prefix("Content-Length: "));
    let mut body = vec![0; length.map_or(0, |l| l.trim().parse().unwrap())];
    reader.read_exact(&mut body).ok()?;
    Some((method, path, head, body))
}

fn send(stream: &mut impl Write, status: u16, body: &Value) {
    let body = body.to_string();
    let head = format!(
        "HTTP/1.0 {status} X\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    let _ = stream.write_all((head + &body).as_bytes());
}

impl Cluster {
    fn new(nodes: &[&str], pods: &[(&str, &str)]) -> Cluster {
        let mut state = State::default();
        for (pod, node) in pods {
            state.pods.insert((*pod).to_owned(), (*node).to_owned());
        }
        let state = Arc::new(Mutex::new(state));
        for node in nodes {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let port = listener.local_addr().unwrap().port();
            state.lock().unwrap().ports.insert((*node).to_owned(), port);
            let (state, node) = (state.clone(), (*node).to_owned());
            thread::spawn(move || {
                for stream in listener.incoming() {
                    gateway(&mut stream.unwrap(), &state, &node);
                }
            });
        }
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("token"), format!("{TOKEN}\n")).unwrap();
        let listener = UnixListener::bind(folder.path().join("proxy")).unwrap();
        let own = state.clone();
        thread::spawn(move || {
            for stream in listener.incoming() {
                api(&mut stream.unwrap(), &mut own.lock().unwrap());
            }
        });
        Cluster { state, folder }
    }

    fn options(&self) -> Options {
        Options {
            proxy: Peer::Unix(self.folder.path().join("proxy")),
            namespace: "cofferdam".to_owned(),
            token_file: self.folder.path().join("token"),
            every: Duration::from_millis(50),
            parallel: 4,
        }
    }

    /// Runs the program while `body` runs.
    fn with_program(&self, body: impl FnOnce()) {
        let stop = AtomicBool::new(false);
        let options = self.options();
        thread::scope(|scope| {
            let program = scope.spawn(|| run(&options, &stop));
            let done = std::panic::catch_unwind(std::panic::AssertUnwindSafe(body));
            stop.store(true, Ordering::Relaxed);
            program.join().unwrap();
            if let Err(panic) = done {
                std::panic::resume_unwind(panic);
            }
        });
    }

    fn say(&self, node: &str, conditions: &[(&str, &str)]) {
        let one = |(pod, name): &(&str, &str)| PodCondition {
            name: (*name).to_owned(),
            pod: (*pod).to_owned(),
            text: "pays 0.31 CPUs for the packets of shop/web".to_owned(),
            ..PodCondition::default()
        };
        let all = conditions.iter().map(one).collect();
        self.state
            .lock()
            .unwrap()
            .reports
            .insert(node.to_owned(), all);
    }

    fn until(&self, what: &str, holds: impl Fn(&State) -> bool) {
        let deadline = Instant::now() + PATIENCE;
        while !holds(&self.state.lock().unwrap()) {
            let state = self.state.lock().unwrap();
            assert!(Instant::now() < deadline, "{what}: {:?}", state.events);
            drop(state);
            thread::sleep(Duration::from_millis(10));
        }
    }

    /// Waits for so many further rounds.
    fn rounds(&self, more: usize) {
        let from = self.state.lock().unwrap().rounds;
        self.until("rounds", |state| state.rounds >= from + more);
    }

    fn events(&self) -> Vec<(String, String, u64)> {
        let state = self.state.lock().unwrap();
        let text = |event: &Value, field: &str| event[field].as_str().unwrap().to_owned();
        let mut all: Vec<_> = (state.events.values())
            .map(|e| {
                (
                    text(e, "reason"),
                    text(e, "type"),
                    e["count"].as_u64().unwrap(),
                )
            })
            .collect();
        all.sort();
        all
    }
}

fn gateway(stream: &mut (impl Read + Write), state: &Mutex<State>, node: &str) {
    let Some((_, path, head, _)) = request(stream) else {
        return;
    };
    assert_eq!(path, "/v1/conditions");
    assert!(head.contains(&format!("{TOKEN_HEADER}: {TOKEN}")), "{head}");
    let mut state = state.lock().unwrap();
    state.rounds += 1;
    let report = ConditionsReport {
        schema: CONDITIONS.to_owned(),
        conditions: state.reports.get(node).cloned().unwrap_or_default(),
        ..ConditionsReport::default()
    };
    send(stream, 200, &serde_json::to_value(report).unwrap());
}

fn api(stream: &mut (impl Read + Write), state: &mut State) {
    let Some((method, path, head, body)) = request(stream) else {
        return;
    };
    if state.away {
        return;
    }
    let refuse = |reason: &str| json!({"kind": "Status", "message": reason});
    if method == "GET" && path.contains("/daemonsets?") {
        return send(stream, 200, &json!({"items": []}));
    }
    if method == "GET" && path.contains("/pods?") {
        let pod = |(node, port): (&String, &u16)| {
            json!({
                "metadata": {"name": format!("cofferdam-{node}")},
                "spec": {"nodeName": node, "containers": [
                    {"name": "gateway", "ports": [{"containerPort": port}]}]},
                "status": {"phase": "Running", "hostIP": "127.0.0.1",
                    "containerStatuses": [{"name": "gateway", "state": {"running": {}}}]},
            })
        };
        let items: Vec<Value> = state.ports.iter().map(pod).collect();
        return send(stream, 200, &json!({"items": items}));
    }
    let parts: Vec<&str> = path.split('/').collect();
    let ["", "api", "v1", "namespaces", namespace, kind, rest @ ..] = &parts[..] else {
        panic!("{method} {path}");
    };
    match (method.as_str(), *kind, rest) {
        ("GET", "pods", [name]) => match state.pods.get(&format!("{namespace}/{name}")) {
            Some(node) => {
                let pod = json!({
                    "metadata": {"name": name, "uid": format!("uid-{name}")},
                    "spec": {"nodeName": node},
                });
                send(stream, 200, &pod);
            }
            None => send(stream, 404, &refuse("not found")),
        },
        ("POST", "events", []) => {
            assert!(head.contains("Content-Type: application/json"), "{head}");
            let event: Value = serde_json::from_slice(&body).unwrap();
            assert_eq!(event["metadata"]["namespace"], **namespace);
            assert_eq!(event["involvedObject"]["namespace"], **namespace);
            let name = event["metadata"]["name"].as_str().unwrap().to_owned();
            state.writes.push(format!("POST {name}"));
            if state.events.contains_key(&name) {
                return send(stream, 409, &refuse("already exists"));
            }
            send(stream, 201, &event);
            state.events.insert(name, event);
        }
        ("PATCH", "events", [name]) => {
            assert!(head.contains("merge-patch+json"), "{head}");
            let changes: Value = serde_json::from_slice(&body).unwrap();
            state.writes.push(format!("PATCH {name} {changes}"));
            let Some(event) = state.events.get_mut(*name) else {
                return send(stream, 404, &refuse("not found"));
            };
            for (key, value) in changes.as_object().unwrap() {
                event[key] = value.clone();
            }
            send(stream, 200, event);
        }
        _ => panic!("{method} {path}"),
    }
}

/// Promise 25.
#[test]
fn a_condition_and_its_end_are_events_of_its_pod() {
    let cluster = Cluster::new(&["n1", "n2"], &[("bank/db", "n1")]);
    cluster.say("n1", &[("bank/db", "pays_for_others")]);
    cluster.with_program(|| {
        cluster.until("an event", |state| !state.events.is_empty());
        let state = cluster.state.lock().unwrap();
        let event = state.events.values().next().unwrap().clone();
        drop(state);
        assert_eq!(event["reason"], "PaysForOthers");
        assert_eq!(event["type"], "Warning");
        assert_eq!(event["involvedObject"]["name"], "db");
        assert_eq!(event["involvedObject"]["uid"], "uid-db");
        assert_eq!(
            event["message"],
            "pays 0.31 CPUs for the packets of shop/web"
        );
        assert_eq!(event["source"]["host"], "n1");
        // While it lasts nothing more is written.
        cluster.rounds(20);
        assert_eq!(cluster.state.lock().unwrap().writes.len(), 1);
        cluster.say("n1", &[]);
        cluster.until("its end", |state| state.events.len() == 2);
        cluster.say("n1", &[("bank/db", "pays_for_others")]);
        cluster.until("again", |state| {
            state.events.values().any(|e| e["count"] == 2)
        });
    });
    let event = |reason: &str, kind: &str, count| (reason.to_owned(), kind.to_owned(), count);
    assert_eq!(
        cluster.events(),
        [
            event("PaysForOthers", "Warning", 2),
            event("PaysForOthersOver", "Normal", 1)
        ]
    );
}

/// Promise 26.
#[test]
fn a_restart_repeats_nothing() {
    let cluster = Cluster::new(&["n1"], &[("bank/db", "n1"), ("shop/web", "n1")]);
    cluster.say(
        "n1",
        &[("bank/db", "pays_for_others"), ("shop/web", "harms_others")],
    );
    cluster.with_program(|| cluster.until("two events", |state| state.events.len() == 2));
    let before = cluster.state.lock().unwrap().events.clone();
    for _ in 0..3 {
        let from = cluster.state.lock().unwrap().writes.len();
        // The program checks that the events exist, and leaves them as they are.
        cluster.with_program(|| cluster.until("two looks", |state| state.writes.len() == from + 4));
        assert_eq!(cluster.state.lock().unwrap().events, before);
    }
}

/// Promise 26.
#[test]
fn a_node_can_only_report_its_own_pods() {
    let cluster = Cluster::new(&["good", "evil"], &[("bank/db", "good"), ("a/own", "evil")]);
    cluster.say(
        "evil",
        &[
            ("bank/db", "x"),
            ("no/such", "x"),
            ("a/../b", "x"),
            ("a/own", "x"),
        ],
    );
    cluster.with_program(|| {
        cluster.until("its own", |state| !state.events.is_empty());
        cluster.rounds(20);
    });
    let state = cluster.state.lock().unwrap();
    let pods: Vec<&Value> = state
        .events
        .values()
        .map(|e| &e["involvedObject"]["name"])
        .collect();
    assert_eq!(pods, ["own"]);
}

/// Promise 26.
#[test]
fn an_api_server_that_is_away_is_waited_for() {
    let cluster = Cluster::new(&["n1"], &[("bank/db", "n1")]);
    cluster.state.lock().unwrap().away = true;
    cluster.say("n1", &[("bank/db", "x")]);
    cluster.with_program(|| {
        thread::sleep(Duration::from_millis(300));
        cluster.state.lock().unwrap().away = false;
        cluster.until("an event", |state| state.events.len() == 1);
        // An event that the API server has forgotten is written as a new one.
        cluster.state.lock().unwrap().events.clear();
        cluster.say("n1", &[]);
        cluster.until("its end", |state| state.events.len() == 1);
        cluster.say("n1", &[("bank/db", "x")]);
        cluster.until("it again", |state| state.events.len() == 2);
    });
    let count = |(reason, _, count): (String, String, u64)| (reason, count);
    let all: Vec<_> = cluster.events().into_iter().map(count).collect();
    assert_eq!(all, [("X".to_owned(), 1), ("XOver".to_owned(), 1)]);
}
