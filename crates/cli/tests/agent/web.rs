//! Tests of the live page of a real agent, and of `cofferdam web` next to it.

use crate::harness::*;
use cofferdam_lab::fixtures::{Namespace, Net, VethPair, wait_until};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Command, Stdio};
use std::time::Duration;

/// Requests `path` from the page at `url`, which includes the token.
fn ask(url: &str, path: &str) -> Option<TcpStream> {
    let (address, token) = url.trim_end().split_once("/?token=")?;
    let address = address.strip_prefix("http://")?;
    let (_, port) = address.split_once(':')?;
    let mut stream = TcpStream::connect(address).ok()?;
    let head = format!(
        "GET {path} HTTP/1.1\r\nHost: {address}\r\nCookie: cofferdam_{port}={token}\r\n\
         Connection: close\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).ok()?;
    Some(stream)
}

/// Document at `path` of the page at `url`; `None` unless the answer is 200.
fn document(url: &str, path: &str) -> Option<Value> {
    let mut stream = ask(url, path)?;
    let mut text = String::new();
    stream.read_to_string(&mut text).ok()?;
    let (head, body) = text.split_once("\r\n\r\n")?;
    head.starts_with("HTTP/1.1 200")
        .then(|| serde_json::from_str(body).unwrap())
}

/// Promise 14.
#[test]
fn the_page_names_victims_and_a_taken_port_is_reported() {
    alone(|| {
        let mut testbed = Testbed::new();
        let taken = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = taken.local_addr().unwrap();
        let mut agent = Agent::start(&format!("[web]\naddress = \"{address}\"\n"));
        let problem = || {
            let all = agent.status().degraded;
            all.into_iter().find(|d| d.name == "web_page")
        };
        let text = problem().expect("the agent runs and reports it").text;
        assert!(
            text.contains(&address.to_string()) && text.contains("reload"),
            "{text}"
        );
        drop(taken);
        let reloaded = agent.ask(&["agent", "--reload"]);
        assert_eq!(reloaded.status.code(), Some(0), "{reloaded:?}");
        assert_eq!(problem(), None);
        let file = agent.folder.path().join("web.url");
        let url = std::fs::read_to_string(&file).unwrap();

        let mut web = Command::new(BINARY)
            .args(["web", "--address", "127.0.0.1:0", "--socket"])
            .arg(agent.socket())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut own = String::new();
        BufReader::new(web.stdout.take().unwrap())
            .read_line(&mut own)
            .unwrap();
        assert!(own.starts_with("http://127.0.0.1:"), "{own}");

        testbed.load();
        let (offender, victim) = (testbed.flooded.name(), testbed.victim.name());
        for url in [&url, &own] {
            let mut paid = Value::Null;
            wait_until("the victim pays", Duration::from_secs(40), || {
                let Some(frame) = document(url, "/api/frame") else {
                    return false;
                };
                let rows = frame["containers"].as_array().unwrap();
                let row = rows.iter().find(|c| c["name"] == victim);
                paid = row.cloned().unwrap_or(Value::Null);
                paid["help"]["offender"] == offender
            });
            assert!(paid["owed"].as_f64().unwrap() < 0.0, "{paid}");
            let command = paid["help"]["command"].as_str().unwrap();
            assert_eq!(
                command,
                format!("sudo cofferdam rule set {offender} --network-cpu enforce")
            );
            let path = format!("/api/story?container={}", paid["id"].as_str().unwrap());
            let story = document(url, &path).unwrap();
            assert_eq!(story["suffers"][0]["name"], offender, "{story}");
            assert!(document(url, "/api/extent").unwrap()[1].as_u64().unwrap() > 0);
        }
        let wrong = url.replace("token=", "token=0");
        assert_eq!(document(&wrong, "/api/frame"), None);

        kill(Pid::from_raw(web.id().cast_signed()), Signal::SIGINT).unwrap();
        assert_eq!(web.wait().unwrap().code(), Some(130));
        testbed.traffic.clear();
        agent.signal(Signal::SIGTERM);
        assert_eq!(agent.child.wait().unwrap().code(), Some(0));
        assert!(!file.exists());
    });
}

/// Promise 14.
#[test]
fn the_page_shows_dataplanes_and_why_one_does_not_answer() {
    alone(|| {
        let (server, client) = (Namespace::new("server"), Namespace::new("client"));
        let _pair = VethPair::new((&server, "eth0"), (&client, "eth0"));
        let folder = tempfile::tempdir().unwrap();
        let (config, socket, absent) = (
            folder.path().join("dataplane.toml"),
            folder.path().join("dataplane.sock"),
            folder.path().join("gone.sock"),
        );
        let text = format!(
            "socket = \"{}\"\n[device]\nname = \"eth0\"\n\
             [network]\naddresses = [\"10.98.7.9/24\"]\n",
            socket.display()
        );
        std::fs::write(&config, text).unwrap();
        let command = format!("{BINARY} dataplane run --config {}", config.display());
        let dataplane = server.spawn(&command);
        let mut agent = Agent::start(&format!(
            "[web]\naddress = \"127.0.0.1:0\"\ndataplanes = [\"{}\", \"{}\"]\n",
            socket.display(),
            absent.display()
        ));
        let file = agent.folder.path().join("web.url");
        wait_until("the page", Duration::from_secs(40), || file.exists());
        let url = std::fs::read_to_string(&file).unwrap();
        // The page asks dataplanes while a client watches, which this thread does until the page
        // ends.
        let mut stream = ask(&url, "/api/live").unwrap();
        let looks = std::thread::spawn(move || std::io::copy(&mut stream, &mut std::io::sink()));
        let mut seen = Value::Null;
        wait_until("the core", Duration::from_secs(40), || {
            seen = document(&url, "/api/frame").unwrap_or(Value::Null);
            !seen["dataplanes"][0]["cores"][0].is_null()
        });
        let [serving, missing] = [&seen["dataplanes"][0], &seen["dataplanes"][1]];
        assert_eq!(serving["device"], "eth0");
        assert_eq!(serving["cores"][0]["groups"], 128, "{serving}");
        assert!(serving["cores"][0]["busy"].as_f64().unwrap() <= 1.0);
        let why = missing["error"].as_str().unwrap();
        assert!(
            why.contains("no dataplane answers on") && why.contains("gone.sock"),
            "{why}"
        );
        // A stopped dataplane delays neither the page nor the end of the agent.
        dataplane.signal(Signal::SIGSTOP);
        wait_until("its silence", Duration::from_secs(40), || {
            seen = document(&url, "/api/frame").unwrap_or(Value::Null);
            seen["dataplanes"][0]["error"].is_string()
        });
        agent.signal(Signal::SIGTERM);
        assert_eq!(agent.child.wait().unwrap().code(), Some(0));
        dataplane.signal(Signal::SIGCONT);
        dataplane.signal(Signal::SIGTERM);
        assert_eq!(dataplane.wait(), Some(0));
        assert!(looks.join().unwrap().is_ok_and(|bytes| bytes > 0));
    });
}
