//! "From nothing to a server" (docs/src/dataplane/first-server.md): its file configures a
//! dataplane, its code compiles, and its server answers a Linux client.

mod support;

#[allow(dead_code, reason = "a program: its `main` is not called")]
#[path = "../examples/shout.rs"]
mod program;

use cofferdam_dataplane::config::Config;
use cofferdam_dataplane::{EventLoop, Session, run};
use cofferdam_lab::fixtures::{
    Host, Namespace, Net, VethPair, assert_nothing_left, exclusive, run as run_words, time_limit,
    wait_until,
};
use nix::sys::signal::Signal;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use support::report_ready;

const PAGE: &str = include_str!("../../../docs/src/dataplane/first-server.md");
const LIMIT: Duration = Duration::from_secs(10);

/// The page's only block in this language.
fn block(language: &str) -> &'static str {
    let fence = format!("```{language}\n");
    let mut blocks = PAGE.split(&fence).skip(1);
    let block = blocks.next().expect("a block");
    assert!(blocks.next().is_none(), "one block of {language}");
    block.split("```").next().expect("its text")
}

/// Answer to a client.
fn ask(client: &Namespace, question: &'static str) -> String {
    let asked = client.thread(move || {
        let mut connection = TcpStream::connect("10.0.0.9:7").expect("a connection");
        connection.set_read_timeout(Some(LIMIT)).expect("a limit");
        connection.write_all(question.as_bytes()).expect("sent");
        connection.shutdown(Shutdown::Write).expect("ended");
        let mut answer = String::new();
        connection.read_to_string(&mut answer).expect("an answer");
        answer
    });
    asked.join().expect("the client ends")
}

/// The page's C program.
fn compile(folder: &Path) -> PathBuf {
    let (source, program) = (folder.join("shout.c"), folder.join("shout"));
    std::fs::write(&source, block("c")).expect("written");
    let own = std::env::current_exe().expect("a test has a program");
    let libraries = own.parent().expect("it lies in a folder").display();
    let include = Path::new(env!("CARGO_MANIFEST_DIR")).join("include");
    let words = format!(
        "cc -std=c11 -Wall -Wextra -Werror -I {} -o {} {} -L {libraries} -lcofferdam_dataplane \
         -Wl,-rpath,{libraries}",
        include.display(),
        program.display(),
        source.display()
    );
    run_words(&words.split(' ').collect::<Vec<_>>());
    program
}

/// Promise 55.
#[test]
fn the_pages_rust_is_the_example_that_is_served_here() {
    assert_eq!(block("rust"), include_str!("../examples/shout.rs"));
}

/// Promise 55.
#[test]
fn from_nothing_to_a_server_in_rust_and_in_c() {
    let _alone = exclusive();
    time_limit(Duration::from_secs(60), || {
        let (server, client) = (Namespace::new("server"), Namespace::new("client"));
        let _pair = VethPair::new((&server, "dp0"), (&client, "eth0"));
        client.address("eth0", "10.0.0.2/24");
        client.offload("eth0", "tx", false);
        let folder = tempfile::tempdir().expect("a folder");
        let socket = folder.path().join("dataplane.sock");
        let text = format!("socket = \"{}\"\n{}", socket.display(), block("toml"));
        let config = Config::parse(&text).expect("a configuration");
        let stop = Arc::new(AtomicBool::new(false));
        let (ready, is_ready) = std::sync::mpsc::channel();
        let stops = stop.clone();
        let dataplane = server.thread(move || {
            run(&config, &stops, report_ready(ready)).expect("the dataplane runs");
        });
        is_ready.recv().expect("the dataplane starts");

        let session = Session::attach(&socket, "shout").expect("it attaches");
        let mut in_rust = EventLoop::new(session, program::Shout::default());
        let is_asked = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                assert_eq!(ask(&client, "hello, Rust\n"), "HELLO, RUST\n");
                is_asked.store(true, Ordering::Relaxed);
            });
            let interval = Duration::from_millis(20);
            let run = in_rust.run(interval, |_| is_asked.load(Ordering::Relaxed));
            run.expect("it serves");
        });
        drop(in_rust);

        let program = compile(folder.path());
        let in_c = Host.spawn(&format!("{} {}", program.display(), socket.display()));
        wait_until("the program to listen", LIMIT, || {
            let probe = client.thread(|| TcpStream::connect("10.0.0.9:7").is_ok());
            probe.join().expect("it ends")
        });
        assert_eq!(ask(&client, "hello, C\n"), "HELLO, C\n");
        in_c.signal(Signal::SIGTERM);
        in_c.wait();
        stop.store(true, Ordering::Relaxed);
        dataplane.join().expect("the dataplane ends");
    });
    assert_nothing_left();
}
