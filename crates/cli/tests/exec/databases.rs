//! Tests of PostgreSQL, which forks a process for each connection, and of Node.js.

use crate::support::{ADDRESS, CLIENT, PATIENCE, Scene, alone, text_of};
use cofferdam_lab::fixtures::wait_until;
use nix::sys::signal::Signal;

/// Simultaneous clients of pgbench, and transactions of each.
const CLIENTS: u32 = 8;
const TRANSACTIONS: u32 = 50;

/// Promise 52.
#[test]
fn postgresql_serves_pgbench_with_a_process_for_each_connection() {
    alone(|| {
        let scene = Scene::with_user("postgres");
        let folder = scene.folder();
        // PostgreSQL refuses to run as root.
        let bin = scene
            .client("ls -d /usr/lib/postgresql/*/bin")
            .trim()
            .to_owned();
        let data = format!("{folder}/data");
        scene.client(&format!(
            "chmod 755 {folder} && install -d -o postgres -m 700 {data} && cd / && \
             setpriv --reuid postgres --regid postgres --clear-groups \
             {bin}/initdb -D {data} -A trust -N"
        ));
        let rights = "host all all 0.0.0.0/0 trust\n";
        let hba = format!("{data}/pg_hba.conf");
        let before = std::fs::read_to_string(&hba).unwrap();
        std::fs::write(&hba, before + rights).unwrap();
        let line = format!(
            "{bin}/postgres -D {data} -h {ADDRESS} -k {data} -c tcp_keepalives_idle=60 -c fsync=off"
        );
        let server = scene.serve_as("postgres", "postgres", &line);
        scene.wait_for_port(5432);
        let to = format!("-h {ADDRESS} -U postgres postgres");
        scene.client(&format!("cd / && pgbench --initialize --quiet {to}"));
        let load = format!("pgbench -c {CLIENTS} -j 2 -t {TRANSACTIONS} {to}");
        let printed = scene.client(&format!("cd / && {load}"));
        let all = CLIENTS * TRANSACTIONS;
        assert!(
            printed.contains(&format!("actually processed: {all}/{all}")),
            "{printed}"
        );
        // A new process for each transaction.
        let printed = scene.client(&format!(
            "cd / && {load} --connect --select-only --no-vacuum"
        ));
        assert!(
            printed.contains(&format!("actually processed: {all}/{all}")),
            "{printed}"
        );
        let ask = |text: &str| {
            let line = format!("cd / && psql -h {ADDRESS} -U postgres -Atc \"{text}\" postgres");
            scene.client(&line).trim().to_owned()
        };
        assert_eq!(ask("select count(*) from pgbench_history"), all.to_string());
        let seen = ask(
            "select host(client_addr), inet_server_port() from pg_stat_activity \
                        where pid = pg_backend_pid()",
        );
        assert_eq!(seen, format!("{CLIENT}|5432"));
        // Rows of many segments, byte for byte, and a query that is cancelled.
        assert_eq!(
            ask("select md5(repeat('x', 10000000))"),
            scene.client("head -c 10000000 /dev/zero | tr '\\0' x | md5sum")[..32]
        );
        let large = format!(
            "cd / && psql -h {ADDRESS} -U postgres \
                 -Atc \"select repeat('x', 10000000)\" postgres | wc -c"
        );
        assert_eq!(scene.client(&large).trim(), "10000001");
        let slow = scene.at_client(
            "slow",
            &format!(
                "timeout --signal=INT 1 \
                 psql -h {ADDRESS} -U postgres -c 'select pg_sleep(60)' postgres"
            ),
        );
        slow.end();
        assert!(
            slow.output().contains("canceling statement"),
            "{}",
            slow.output()
        );
        server.signal(Signal::SIGINT);
        assert_eq!(server.end(), Some(0), "{}", server.output());
    });
}

/// Promise 52.
#[test]
fn node_serves_and_asks_over_http() {
    alone(|| {
        let scene = Scene::new();
        let file = scene.file("file", 20 << 20).display().to_string();
        let folder = scene.folder();
        let script = scene.script("server.js", include_str!("server.js"));
        let server = scene.serve("node", &format!("node {script} {ADDRESS} 8000 {file}"));
        scene.wait_for_port(8000);
        let url = format!("http://{ADDRESS}:8000");
        scene.client(&format!(
            "cd {folder} && curl -sS -o got {url}/file && cmp got {file}"
        ));
        scene.client(&format!(
            "cd {folder} && curl -sS --data-binary @{file} -o got {url}/echo && cmp got {file}"
        ));
        let seen = scene.client(&format!("curl -sS {url}/peer"));
        assert!(seen.starts_with(CLIENT), "{seen}");
        let load = scene.client(&format!("wrk -t 2 -c 40 -d 2s {url}/small"));
        assert!(
            !load.contains("Socket errors") && !load.contains("Non-2xx"),
            "{load}"
        );

        // Node.js as a client of a server on the kernel's stack.
        let peer = scene.at_client(
            "python",
            "/usr/bin/python3 -m http.server 8000 --bind 0.0.0.0",
        );
        wait_until("the server", PATIENCE, || {
            scene.try_client("ncat -z 127.0.0.1 8000").is_some()
        });
        let script = scene.script("client.js", include_str!("client.js"));
        let out = scene.run_on_dataplane(&format!("node {script} {CLIENT} 8000 {file} {ADDRESS}"));
        assert!(out.status.success(), "{}", text_of(&out));
        peer.signal(Signal::SIGINT);
        peer.end();
        server.signal(Signal::SIGTERM);
        server.end();
    });
}
