//! Tests with many agents behind a synthetic API server: requests, their number at a time, and
//! missing answers.
#![allow(clippy::unwrap_used)]

use cofferdam_cluster::agents;
use cofferdam_cluster::ask::{self, Question, Way};
use cofferdam_cluster::kubectl::Api;
use cofferdam_cluster::merge::{ClusterReport, merge, part};
use cofferdam_cluster::{Peer, TOKEN_HEADER};
use cofferdam_records::node::{NODE, NodeReport, PodRecord};
use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

const TOKEN: &str = "0123456789abcdef0123456789abcdef";

/// Behaviour of the agents of a synthetic cluster.
#[derive(Clone, Copy)]
enum Behaviour {
    Answers,
    /// Accepts and does not answer.
    Hangs,
    Garbage,
    /// Sends more than the bound.
    Floods,
    Refuses,
}

/// API server in this process, with `nodes` agents.
struct Server {
    peer: Peer,
    most_at_once: Arc<AtomicUsize>,
    asked: Arc<Mutex<BTreeSet<String>>>,
    _folder: tempfile::TempDir,
}

fn node_document() -> Vec<u8> {
    let pod = |i: usize| PodRecord {
        name: format!("ns{}/pod-{i}", i % 7),
        pod: true,
        harm_cpus: if i == 0 { 0.3 } else { 0.0 },
        paid_cpus: if i == 1 { 0.3 } else { 0.0 },
        ..PodRecord::default()
    };
    serde_json::to_vec(&NodeReport {
        schema: NODE.to_owned(),
        pods: (0..110).map(pod).collect(),
        ..NodeReport::default()
    })
    .unwrap()
}

fn pods(from: usize, to: usize, total: usize) -> String {
    let one = |i: usize| {
        format!(
            r#"{{"metadata":{{"name":"cofferdam-{i}"}},"spec":{{"nodeName":"node{i:04}","containers":[{{"name":"gateway",
            "ports":[{{"containerPort":9479}}]}}]}},"status":{{"phase":"Running","containerStatuses":[{{"name":"gateway",
            "state":{{"running":{{}}}}}}]}}}}"#
        )
    };
    let items: Vec<String> = (from..to).map(one).collect();
    let more = if to < total {
        format!("from={to}")
    } else {
        String::new()
    };
    format!(
        r#"{{"metadata":{{"continue":"{more}"}},"items":[{}]}}"#,
        items.join(",")
    )
}

fn server(nodes: usize, behaviour: impl Fn(usize) -> Behaviour + Send + Sync + 'static) -> Server {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("proxy");
    let listener = UnixListener::bind(&path).unwrap();
    let (most_at_once, now) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let asked = Arc::new(Mutex::new(BTreeSet::new()));
    let (document, behaviour) = (Arc::new(node_document()), Arc::new(behaviour));
    let (most, log) = (most_at_once.clone(), asked.clone());
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let (document, behaviour) = (document.clone(), behaviour.clone());
            let (most, now, log) = (most.clone(), now.clone(), log.clone());
            std::thread::spawn(move || {
                most.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                answer(stream.unwrap(), nodes, &document, &*behaviour, &log);
                now.fetch_sub(1, Ordering::SeqCst);
            });
        }
    });
    Server {
        peer: Peer::Unix(path),
        most_at_once,
        asked,
        _folder: folder,
    }
}

fn answer(
    stream: UnixStream,
    nodes: usize,
    document: &[u8],
    behaviour: &dyn Fn(usize) -> Behaviour,
    log: &Mutex<BTreeSet<String>>,
) {
    let mut lines = BufReader::new(&stream).lines();
    let first = lines.next().unwrap().unwrap();
    let headers: Vec<String> = lines
        .map_while(Result::ok)
        .take_while(|l| !l.is_empty())
        .collect();
    let path = first.split(' ').nth(1).unwrap();
    let send = |status: &str, body: &[u8]| {
        let head = format!(
            "HTTP/1.0 {status}\r\nContent-Length: {}\r\n\r\n",
            body.len()
        );
        let _ = (&stream)
            .write_all(head.as_bytes())
            .and_then(|()| (&stream).write_all(body));
    };
    if path.contains("/daemonsets") {
        let set = format!(r#"{{"items":[{{"status":{{"desiredNumberScheduled":{nodes}}}}}]}}"#);
        return send("200 OK", set.as_bytes());
    }
    if path.contains("/secrets/") {
        return send(
            "200 OK",
            br#"{"data":{"token":"MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY="}}"#,
        );
    }
    if path.contains("labelSelector") {
        let from = path
            .split("continue=from%3D")
            .nth(1)
            .map_or(0, |n| n.parse().unwrap());
        return send(
            "200 OK",
            pods(from, (from + 200).min(nodes), nodes).as_bytes(),
        );
    }
    log.lock().unwrap().insert(path.to_owned());
    assert!(
        headers.contains(&format!("{TOKEN_HEADER}: {TOKEN}")),
        "{headers:?}"
    );
    let number = path
        .split("cofferdam-")
        .nth(1)
        .unwrap()
        .split(':')
        .next()
        .unwrap();
    match behaviour(number.parse().unwrap()) {
        Behaviour::Answers => send("200 OK", document),
        Behaviour::Hangs => std::thread::sleep(Duration::from_secs(30)),
        Behaviour::Garbage => send("200 OK", b"\x00{<html>"),
        Behaviour::Floods => {
            let _ = (&stream).write_all(b"HTTP/1.0 200 OK\r\n\r\n");
            let chunk = vec![b' '; 1 << 20];
            while (&stream).write_all(&chunk).is_ok() {}
        }
        Behaviour::Refuses => send("403 Forbidden", b"{\"message\":\"that is not the token\"}"),
    }
}

fn ask(server: &Server, parallel: usize, within: Duration) -> ClusterReport {
    let api = Api::through(server.peer.clone());
    let begun = Instant::now();
    let deadline = begun + within;
    let found = agents::list(&api, "cofferdam", deadline).unwrap();
    let token = ask::token(&api, "cofferdam", "cofferdam-gateway", deadline).unwrap();
    assert_eq!(token, TOKEN);
    let question = Question {
        namespace: "cofferdam",
        token: &token,
        path: "/v1/node",
        parallel,
        deadline,
    };
    let results = ask::all(
        Way::Api(&api),
        &found.agents,
        &question,
        &AtomicBool::new(false),
        part,
    );
    let took_s = begun.elapsed().as_secs_f64();
    merge(
        &found.agents,
        results,
        found.wanted,
        ("now".to_owned(), took_s),
    )
}

/// Promise 25.
#[test]
fn each_of_500_agents_is_asked_once_within_the_limit() {
    let server = server(500, |_| Behaviour::Answers);
    let report = ask(&server, 16, Duration::from_secs(60));
    assert_eq!((report.nodes.len(), report.nodes_wanted), (500, 500));
    assert_eq!(report.unanswered, []);
    assert_eq!(
        report.namespaces.iter().map(|n| n.pods).sum::<u64>(),
        500 * 110
    );
    // Offenders and victims; the other pods are in the sums.
    assert_eq!(report.pods_total, 1000);
    assert_eq!(server.asked.lock().unwrap().len(), 500);
    let most = server.most_at_once.load(Ordering::SeqCst);
    assert!((2..=16).contains(&most), "{most}");
}

/// Promise 25.
/// Promise 73.
#[test]
fn silent_agents_are_named_with_the_reason() {
    let server = server(40, |i| match i {
        3 => Behaviour::Hangs,
        5 => Behaviour::Garbage,
        7 => Behaviour::Floods,
        9 => Behaviour::Refuses,
        _ => Behaviour::Answers,
    });
    let report = ask(&server, 8, Duration::from_secs(20));
    assert_eq!(report.nodes.len(), 36);
    let why: Vec<(&str, &str)> = (report.unanswered.iter())
        .map(|u| (u.node.as_str(), u.why.as_str()))
        .collect();
    for ((node, why), (expected, words)) in why.iter().zip([
        ("node0003", "no complete answer in time"),
        ("node0005", "cannot be read"),
        ("node0007", "larger than"),
        ("node0009", "that is not the token"),
    ]) {
        assert_eq!(*node, expected);
        assert!(why.contains(words), "{why}");
    }
    assert_eq!(why.len(), 4);
}

/// Promise 25.
#[test]
fn a_cluster_that_hangs_ends_at_its_deadline() {
    let server = server(200, |_| Behaviour::Hangs);
    let report = ask(&server, 4, Duration::from_secs(2));
    assert_eq!(report.unanswered.len(), 200);
    let not_asked = report
        .unanswered
        .iter()
        .filter(|u| u.why.starts_with("not asked"));
    assert_eq!(not_asked.count(), 196);
    assert!(server.asked.lock().unwrap().len() <= 4);
}
