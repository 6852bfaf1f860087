//! Foreign programs and the dataplane over veth. It serves Debian's wrk, ncat and ping, and
//! Debian's nginx and redis serve clients on the dataplane.

mod support;

use cofferdam_dataplane::Ending;
use cofferdam_dataplane::applications::{Echo, Http};
use cofferdam_lab::fixtures::{Net, exclusive, time_limit};
use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;
use support::asker::ask;
use support::{ADDRESS, ECHO, Scene, bytes, connect};

const LIMIT: Duration = Duration::from_secs(60);
const ASKER: &str = "[[application]]\nname = \"asker\"\nuser = \"0\"\nconnect = true\n";

/// Any IPv4 address and any IPv6 address, for a listener each.
fn any(port: u16) -> [SocketAddr; 2] {
    [([0; 4], port).into(), ([0; 8], port).into()]
}

/// Grants for two applications that may listen at `port`, one for each family.
fn grants(port: u16) -> String {
    let grant = |name| {
        format!(
            "[[application]]\nname = \"{name}\"\nuser = \"0\"\n\
             bind = [\"tcp/*:{port}\", \"udp/*:{port}\"]\n"
        )
    };
    grant("v4") + &grant("v6")
}

/// Waits until both listeners serve.
fn await_both(scene: &Scene, port: u16) {
    for address in [ADDRESS, "fd98::9"] {
        scene.client(move || drop(connect(address, port)));
    }
}

/// Number before `what` in a program's output.
#[track_caller]
fn number_before(out: &str, what: &str) -> u64 {
    let found = out.split(what).next().filter(|head| head.len() < out.len());
    let number = found.and_then(|head| head.split_whitespace().last());
    match number.and_then(|n| n.parse().ok()) {
        Some(number) => number,
        None => panic!("no number before `{what}` in:\n{out}"),
    }
}

/// Promise 50.
#[test]
fn wrk_is_answered_on_every_connection_also_when_it_pipelines() {
    let _alone = exclusive();
    time_limit(LIMIT, || {
        let mut scene = Scene::new("", &grants(80));
        for (name, address) in ["v4", "v6"].into_iter().zip(any(80)) {
            scene.serve(name, move || Http::new(address));
        }
        await_both(&scene, 80);
        let script = scene.folder().join("pipeline.lua");
        fs::write(
            &script,
            "init = function(args)\n local one = wrk.format()\n all = one:rep(16)\nend\n\
             request = function() return all end\n",
        )
        .expect("a script");
        let script = format!("-s {}", script.display());
        for (host, more) in [
            (ADDRESS, ""),
            ("[fd98::9]", ""),
            (ADDRESS, script.as_str()),
            (ADDRESS, "-H Connection:close"),
        ] {
            // wrk counts an answer beyond its limit as an error, and the machine may be slow.
            let out = scene.client.run(&format!(
                "wrk --threads 1 --connections 50 --duration 1s --timeout 30s {more} http://{host}/"
            ));
            assert!(number_before(&out, " requests in") >= 50, "{out}");
            for trouble in ["Socket errors", "Non-2xx"] {
                assert!(!out.contains(trouble), "{out}");
            }
        }
        assert_eq!(scene.count("/counts/offences"), 0);
        assert_eq!(scene.count("/counts/overruns"), 0);
    });
}

/// Promise 50.
#[test]
fn ncat_gets_its_bytes_and_a_close_for_its_close() {
    let _alone = exclusive();
    time_limit(LIMIT, || {
        let mut scene = Scene::new("", &grants(7));
        for (name, address) in ["v4", "v6"].into_iter().zip(any(7)) {
            scene.serve(name, move || Echo::new(address));
        }
        await_both(&scene, 7);
        let folder = scene.folder().display().to_string();
        for (round, address) in [ADDRESS, "fd98::9"].into_iter().enumerate() {
            let sent = bytes(2_000_000, round as u64);
            fs::write(format!("{folder}/sent"), &sent).expect("a file");
            // ncat closes its side at the end of its input, and ends when the server does.
            scene
                .client
                .sh(&format!("ncat {address} 7 <{folder}/sent >{folder}/back"));
            let back = fs::read(format!("{folder}/back")).expect("a file");
            assert!(
                back == sent,
                "{address}: {} of {} bytes",
                back.len(),
                sent.len()
            );
        }
        // UDP has no end, so that ncat ends with the answer.
        let output = scene.client.sh(&format!(
            "mkfifo {folder}/in\nncat --udp {ADDRESS} 7 <{folder}/in >{folder}/out & \
             exec 3>{folder}/in\necho datagram >&3\n\
             while ! grep -q datagram {folder}/out; do sleep 0.02; done\n\
             kill $!\ncat {folder}/out"
        ));
        assert_eq!(output, "datagram\n");
    });
}

/// Promise 50.
#[test]
fn ping_finds_its_pattern_in_answers_of_every_size() {
    let _alone = exclusive();
    time_limit(LIMIT, || {
        let scene = Scene::new("", ECHO);
        for address in [ADDRESS, "fd98::9"] {
            for size in [0, 56, 1452] {
                // With a deadline (-w) ping continues until that many answers have arrived. Without
                // one it waits two round trips for the last answer, which may take longer on a busy
                // CPU. With late answers it asks once more, and may get one more.
                let out = scene.client.run(&format!(
                    "ping -c 20 -i 0.002 -w 60 -p c0ffee -s {size} {address}"
                ));
                // ping reports an answer with other bytes.
                assert!(!out.contains("wrong data byte"), "{out}");
                assert!(number_before(&out, " received") >= 20, "{out}");
            }
        }
    });
}

/// Waits until a server in the client's namespace accepts connections at `port`.
fn await_server(scene: &Scene, port: u16) {
    scene.client(move || drop(connect("10.98.2.2", port)));
}

/// Body of an HTTP answer, whose head must report success.
#[track_caller]
fn body(answer: &[u8]) -> &[u8] {
    let end = answer.windows(4).position(|w| w == b"\r\n\r\n");
    let (head, body) = answer.split_at(end.expect("the head's end") + 4);
    assert!(
        head.starts_with(b"HTTP/1.1 200 OK\r\n"),
        "{}",
        String::from_utf8_lossy(head)
    );
    body
}

fn nginx_configuration(folder: &Path) -> String {
    format!(
        "daemon off;\nmaster_process off;\nuser root;\nerror_log stderr crit;\npid {0}/nginx.pid;\n\
         events {{}}\nhttp {{ access_log off; client_body_temp_path {0}; proxy_temp_path {0};\n\
         fastcgi_temp_path {0}; uwsgi_temp_path {0}; scgi_temp_path {0};\n\
         server {{ listen 10.98.2.2:8080 reuseport; root {0}/www; }} }}\n",
        folder.display()
    )
}

/// Promise 50.
#[test]
fn our_client_gets_a_real_nginxs_files_over_many_connections() {
    let _alone = exclusive();
    time_limit(LIMIT, || {
        let mut scene = Scene::new("", ASKER);
        let folder = scene.folder().to_owned();
        fs::create_dir(folder.join("www")).expect("a folder");
        let (small, large) = (bytes(1000, 1), bytes(3_000_000, 2));
        fs::write(folder.join("www/small"), &small).expect("a file");
        fs::write(folder.join("www/large"), &large).expect("a file");
        fs::write(folder.join("nginx.conf"), nginx_configuration(&folder)).expect("a file");
        let _server = scene.client.spawn(&format!(
            "nginx -p {0} -e {0}/error.log -c {0}/nginx.conf",
            folder.display()
        ));
        await_server(&scene, 8080);
        let head = |path: &str, last: bool| {
            let connection = if last { "close" } else { "keep-alive" };
            format!("GET /{path} HTTP/1.1\r\nHost: nginx\r\nConnection: {connection}\r\n\r\n")
        };
        // A hundred small requests in a row on one connection, sent at once; the large one on its
        // own; a small one on each of sixty more connections.
        let mut requests: Vec<Vec<u8>> = vec![
            (1..=100)
                .map(|i| head("small", i == 100))
                .collect::<String>()
                .into_bytes(),
            head("large", true).into_bytes(),
        ];
        requests.extend((0..60).map(|_| head("small", true).into_bytes()));
        let remote = SocketAddr::from(([10, 98, 2, 2], 8080));
        let answers = ask(&mut scene, "asker", remote, requests);
        assert!(answers.iter().all(|a| a.ending == Some(Ending::Closed)));
        let mut rest = &answers[0].bytes[..];
        for left in (0..100).rev() {
            let from = body(rest);
            assert!(from.starts_with(&small), "{left} were left");
            rest = &from[small.len()..];
        }
        assert!(rest.is_empty());
        assert!(body(&answers[1].bytes) == large);
        for answer in &answers[2..] {
            assert!(body(&answer.bytes) == small);
        }
        assert_eq!(scene.count("/counts/overruns"), 0);
    });
}

/// A command in redis' protocol (RESP2).
fn redis_command(words: &[&[u8]]) -> Vec<u8> {
    let mut out = format!("*{}\r\n", words.len()).into_bytes();
    for word in words {
        out.extend(format!("${}\r\n", word.len()).as_bytes());
        out.extend(*word);
        out.extend(b"\r\n");
    }
    out
}

/// Promise 50.
#[test]
fn a_real_redis_serves_our_pipelines_and_large_values() {
    let _alone = exclusive();
    time_limit(LIMIT, || {
        let mut scene = Scene::new("", ASKER);
        let _server = scene.client.spawn(&format!(
            "redis-server --bind 10.98.2.2 --port 6379 --protected-mode no --save  \
             --appendonly no --dir {} --logfile /dev/null",
            scene.folder().display()
        ));
        await_server(&scene, 6379);
        let value = bytes(500_000, 3);
        let mut store = redis_command(&[b"SET", b"large", &value]);
        store.extend(redis_command(&[b"GET", b"large"]));
        store.extend(redis_command(&[b"QUIT"]));
        let mut count: Vec<u8> = redis_command(&[b"INCR", b"n"]).repeat(5000);
        count.extend(redis_command(&[b"QUIT"]));
        let remote = SocketAddr::from(([10, 98, 2, 2], 6379));
        let answers = ask(
            &mut scene,
            "asker",
            remote,
            vec![store, count.clone(), count],
        );
        assert!(answers.iter().all(|a| a.ending == Some(Ending::Closed)));
        let mut expected = b"+OK\r\n$500000\r\n".to_vec();
        expected.extend(&value);
        expected.extend(b"\r\n+OK\r\n");
        assert!(answers[0].bytes == expected);
        // Two connections counted; together they got each number once.
        let mut numbers: Vec<u32> = answers[1..]
            .iter()
            .flat_map(|a| a.bytes.split(|b| *b == b'\n'))
            .filter_map(|line| line.strip_prefix(b":")?.strip_suffix(b"\r"))
            .filter_map(|n| std::str::from_utf8(n).ok()?.parse().ok())
            .collect();
        numbers.sort_unstable();
        assert!(numbers.iter().copied().eq(1..=10_000));
    });
}
