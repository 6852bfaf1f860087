//! Tests of servers.

use crate::support::{ADDRESS, ADDRESS_V6, BINARY, CLIENT, PATIENCE, Scene, alone};
use cofferdam_lab::fixtures::wait_until;
use nix::sys::signal::Signal;

const FILE_BYTES: usize = 100 << 20;

/// Promise 52.
#[test]
fn pythons_http_server_serves_files_on_both_stacks() {
    alone(|| {
        let scene = Scene::new();
        let file = scene.file("file", 20 << 20);
        // An old release, in whose folder no tool of the test machine is found.
        let python = "/usr/bin/python3 -m http.server 8000 --bind";
        let server = scene.serve("python", &format!("{python} {ADDRESS}"));
        scene.wait_for_port(8000);
        let (folder, file) = (scene.folder(), file.display().to_string());
        for _ in 0..3 {
            scene.client(&format!(
                "cd {folder} && curl -sS -o got http://{ADDRESS}:8000/file && cmp got {file}"
            ));
        }
        let log = server.output();
        assert!(log.contains(CLIENT), "the peer's address: {log}");
        server.signal(Signal::SIGINT);
        server.end();

        // All addresses: the dataplane's, both families, and the host's.
        let wide = scene.serve("wide", &format!("{python} ::"));
        scene.wait_for_port(8000);
        for url in [
            format!("http://{ADDRESS}:8000/file"),
            format!("http://[{ADDRESS_V6}]:8000/file"),
            "http://10.98.5.1:8000/file".to_owned(),
        ] {
            scene.client(&format!(
                "cd {folder} && curl -sS -o got '{url}' && cmp got {file}"
            ));
        }
        wide.signal(Signal::SIGINT);
        wide.end();
    });
}

/// Promise 52.
#[test]
fn redis_serves_and_stores_values() {
    alone(|| {
        let scene = Scene::new();
        let folder = scene.folder();
        let line = format!("redis-server --port 6379 --protected-mode no --dir {folder} --save ''");
        let server = scene.serve("redis", &line);
        scene.wait_for_port(6379);
        let cli = format!("redis-cli -h {ADDRESS}");
        let ask = |command: &str| scene.client(&format!("{cli} {command}"));
        assert_eq!(ask("set key value").trim(), "OK");
        assert_eq!(ask("get key").trim(), "value");
        let transaction = "printf 'MULTI\\nINCR n\\nINCR n\\nEXEC\\n' | ";
        let printed = scene.client(&format!("{transaction}{cli}"));
        assert_eq!(
            printed.split_whitespace().collect::<Vec<_>>(),
            ["OK", "QUEUED", "QUEUED", "1", "2"]
        );

        // A client waits, and another one's push wakes it.
        let waits = scene.at_client("blpop", &format!("{cli} blpop list 30"));
        let clients = || ask("client list").contains("cmd=blpop");
        wait_until("it to wait", PATIENCE, clients);
        ask("rpush list thing");
        assert_eq!(waits.end(), Some(0));
        assert!(waits.output().contains("thing"));

        let hears = scene.at_client("subscribe", &format!("{cli} subscribe news"));
        wait_until("it to listen", PATIENCE, || {
            ask("pubsub numsub news").ends_with("1\n")
        });
        ask("publish news here");
        wait_until("it to hear", PATIENCE, || hears.output().contains("here"));
        hears.signal(Signal::SIGKILL);
        hears.end();

        scene.client(&format!("head -c 3000000 /dev/urandom > {folder}/large"));
        scene.client(&format!("{cli} -x set large < {folder}/large"));
        scene.client(&format!(
            "{cli} --raw get large | head -c 3000000 | cmp - {folder}/large"
        ));
        let bench =
            format!("redis-benchmark -h {ADDRESS} -c 50 -n 20000 -t set,get,lpush -q -d 100");
        let printed = scene.client(&bench);
        assert_eq!(
            printed.matches("requests per second").count(),
            3,
            "{printed}"
        );
        let printed = scene.client(&format!("{bench} -P 16"));
        assert_eq!(
            printed.matches("requests per second").count(),
            3,
            "{printed}"
        );

        // A child saves while its parent serves; the connections stay with the parent.
        assert!(ask("bgsave").contains("started"));
        wait_until("it to be saved", PATIENCE, || {
            ask("info persistence").contains("rdb_bgsave_in_progress:0")
        });
        assert!(ask("info persistence").contains("rdb_last_bgsave_status:ok"));
        ask("shutdown save");
        assert_eq!(server.end(), Some(0));
        let again = scene.serve("redis", &line);
        scene.wait_for_port(6379);
        assert_eq!(ask("get key").trim(), "value");
        again.signal(Signal::SIGTERM);
        assert_eq!(again.end(), Some(0));
    });
}

/// Promise 52.
#[test]
fn memcached_serves_from_four_threads() {
    alone(|| {
        let scene = Scene::new();
        let server = scene.serve("memcached", "memcached -u root -p 11211 -t 4 -U 0");
        scene.wait_for_port(11211);
        let sets: String = (0..200)
            .map(|n| format!("set k{n} 0 0 5\\r\\n{n:05}\\r\\n"))
            .collect();
        let printed = scene.client(&format!("printf '{sets}quit\\r\\n' | ncat {ADDRESS} 11211"));
        assert_eq!(printed.matches("STORED").count(), 200);
        let gets: Vec<_> = (0..8)
            .map(|client| {
                let all: String = (0..200).map(|n| format!("get k{n}\\r\\n")).collect();
                let line = format!("sh -c \"printf '{all}quit\\r\\n' | ncat {ADDRESS} 11211\"");
                scene.at_client(&format!("get{client}"), &line)
            })
            .collect();
        for client in &gets {
            assert_eq!(client.end(), Some(0));
            let printed = client.output();
            assert!(
                (0..200).all(|n| printed.contains(&format!("{n:05}\r\n"))),
                "{printed}"
            );
        }
        server.signal(Signal::SIGTERM);
        server.end();
    });
}

/// Promise 52.
#[test]
fn nginx_serves_from_two_workers() {
    alone(|| {
        let scene = Scene::new();
        let file = scene.file("file", FILE_BYTES);
        std::fs::write(scene.path("small"), "small\n").unwrap();
        let folder = scene.folder();
        let text = format!(
            "daemon off; user root; worker_processes 2; pid {folder}/pid; \
         error_log {folder}/error.log;\n\
             events {{ worker_connections 512; }}\n\
             http {{ access_log off; sendfile on; tcp_nopush on; keepalive_requests 100000;\n\
             server {{ listen 80 backlog=511; listen [::]:80; root {folder};\n\
             location /pid {{ return 200 \"$pid\\n\"; }} }} }}\n"
        );
        std::fs::write(scene.path("nginx.conf"), text).unwrap();
        let server = scene.serve(
            "nginx",
            &format!("nginx -p {folder} -c {folder}/nginx.conf"),
        );
        scene.wait_for_port(80);
        let file = file.display();
        for address in [ADDRESS.to_owned(), format!("[{ADDRESS_V6}]")] {
            scene.client(&format!(
                "cd {folder} && curl -sS -o got http://{address}/file && cmp got {file}"
            ));
        }
        // Many requests over one connection, in sequence and at once.
        let url = format!("http://{ADDRESS}/small");
        let keep_alive = format!(
            "curl -sS -w '%{{num_connects}}\\n' {}",
            format!("{url} ").repeat(20)
        );
        let printed = scene.client(&keep_alive);
        assert_eq!(printed.matches("small").count(), 20);
        assert_eq!(
            printed.lines().filter(|line| *line == "1").count(),
            1,
            "{printed}"
        );
        let request = "GET /small HTTP/1.1\\r\\nHost: x\\r\\n\\r\\n";
        let last = "GET /small HTTP/1.1\\r\\nHost: x\\r\\nConnection: close\\r\\n\\r\\n";
        let piped = format!("printf '{}{last}' | ncat {ADDRESS} 80", request.repeat(99));
        assert_eq!(scene.client(&piped).matches("small\n").count(), 100);
        let load = scene.client(&format!("wrk -t 2 -c 40 -d 2s {url}"));
        assert!(
            !load.contains("Socket errors") && !load.contains("Non-2xx"),
            "{load}"
        );
        // Both workers serve.
        let pids: std::collections::BTreeSet<String> = (0..60)
            .flat_map(|_| {
                let ask =
                    format!("for n in 1 2 3 4; do curl -sS http://{ADDRESS}/pid & done; wait");
                let printed = scene.client(&ask);
                printed.lines().map(str::to_owned).collect::<Vec<_>>()
            })
            .collect();
        assert_eq!(pids.len(), 2, "{pids:?}");
        server.signal(Signal::SIGQUIT);
        assert_eq!(server.end(), Some(0), "{}", server.output());
    });
}

/// Number of connections of each session, in ascending order.
fn sessions(scene: &Scene) -> Vec<u64> {
    let line = format!("{BINARY} dataplane top --json --socket {}", scene.socket());
    let printed = scene.client(&line);
    let status: serde_json::Value = serde_json::from_str(&printed).unwrap();
    let all = status["applications"].as_array().unwrap();
    let connections = all.iter().map(|one| one["connections"].as_u64().unwrap());
    let mut connections: Vec<u64> = connections.collect();
    connections.sort_unstable();
    connections
}

/// Promise 52.
#[test]
fn each_worker_of_nginx_has_a_session_of_its_own() {
    alone(|| {
        let scene = Scene::new();
        std::fs::write(scene.path("small"), "small\n").unwrap();
        let folder = scene.folder();
        scene.client(&format!("chmod 755 {folder}"));
        let text = format!(
            "daemon off; user nobody nogroup; worker_processes 2; pid {folder}/pid; \
         error_log {folder}/error.log;\n\
             events {{ worker_connections 512; }}\n\
             http {{ access_log off; keepalive_timeout 60s;\n\
             server {{ listen 80; root {folder};\n\
             location /pid {{ return 200 \"$pid\\n\"; }}\n\
             location /rtt {{ return 200 \"$tcpinfo_snd_cwnd\\n\"; }} }} }}\n"
        );
        std::fs::write(scene.path("nginx.conf"), text).unwrap();
        let line = format!("nginx -p {folder} -c {folder}/nginx.conf");
        let server = scene.serve("nginx", &line);
        scene.wait_for_port(80);
        wait_until(
            "a session of the master's and of each worker's",
            PATIENCE,
            || sessions(&scene).len() == 3,
        );
        // Persistent connections: the workers get them in turn, and the master has none.
        let script = scene.script("keep_alive.py", include_str!("keep_alive.py"));
        let keep = format!("/usr/bin/python3 {script} {ADDRESS} 80 /small");
        let clients: Vec<_> = (0..8)
            .map(|n| scene.at_client(&format!("client{n}"), &keep))
            .collect();
        wait_until("all to be answered", PATIENCE, || {
            clients
                .iter()
                .all(|client| client.output().contains("small"))
        });
        assert_eq!(sessions(&scene), [0, 4, 4]);
        let window = scene.client(&format!("curl -sS http://{ADDRESS}/rtt"));
        assert!(window.trim().parse::<u32>().unwrap() > 0, "{window}");

        // A worker is killed: its connections end, those of the other do not, and a new worker
        // serves.
        let pid = scene.client(&format!("curl -sS http://{ADDRESS}/pid"));
        scene.client(&format!("kill -KILL {}", pid.trim()));
        wait_until("its session to be gone, and a new one", PATIENCE, || {
            sessions(&scene) == [0, 0, 4]
        });
        let pids = (0..4).map(|_| scene.client(&format!("curl -sS http://{ADDRESS}/pid")));
        let pids: std::collections::BTreeSet<String> = pids.collect();
        assert!(pids.len() == 2 && !pids.contains(&pid), "{pid}: {pids:?}");
        for client in &clients {
            client.signal(Signal::SIGKILL);
            client.end();
        }

        // New workers take over, and the old ones end.
        scene.client(&format!("kill -HUP $(cat {folder}/pid)"));
        wait_until("the new workers alone", PATIENCE, || {
            let now = (0..4).map(|_| scene.client(&format!("curl -sS http://{ADDRESS}/pid")));
            let now: std::collections::BTreeSet<String> = now.collect();
            sessions(&scene).len() == 3 && now.is_disjoint(&pids)
        });
        // The master is killed: its workers continue to serve, and nothing keeps them busy.
        let workers: std::collections::BTreeSet<String> = (0..8)
            .map(|_| scene.client(&format!("curl -sS http://{ADDRESS}/pid")))
            .collect();
        assert_eq!(workers.len(), 2, "{workers:?}");
        server.signal(Signal::SIGKILL);
        server.end();
        wait_until("the master's session to be gone", PATIENCE, || {
            sessions(&scene).len() == 2
        });
        let now: std::collections::BTreeSet<String> = (0..8)
            .map(|_| scene.client(&format!("curl -sS http://{ADDRESS}/pid")))
            .collect();
        assert_eq!(now, workers);
        let errors = std::fs::read_to_string(scene.path("error.log")).unwrap();
        assert!(!errors.contains("accept"), "{errors}");
        for pid in workers {
            scene.client(&format!("kill -TERM {}", pid.trim()));
        }
        wait_until("no session", PATIENCE, || sessions(&scene).is_empty());
    });
}
