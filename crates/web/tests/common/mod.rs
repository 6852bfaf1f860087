//! Synthetic host, served as a real page, and a client that sends given bytes.
#![allow(clippy::unwrap_used, reason = "only tests use it")]
#![allow(dead_code, reason = "each test uses a part of it")]

pub mod records;

pub use records::{container, diagnosis, ledger, loss, status};

use cofferdam_records::accounting::AccountingRecord;
use cofferdam_records::cores::CoreRecord;
use cofferdam_records::status::{ConditionRecord, PAYS};
use cofferdam_web::{
    Address, Dataplane, Feed, FeedError, Latency, Options, Page, Past, PastError, Point, Points,
    Reading,
};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime};

/// Name of a container that would be HTML if it were not text.
pub const EVIL: &str = "<img src=x onerror=\"document.title='owned'\"><b>bold</b>";

/// Host on which `ingest` makes others pay, with a container whose name is HTML, and `more` others.
pub fn flooded(more: u64) -> Reading {
    let mut ingest = container(1, "ingest", [140, 640, 60]);
    ingest.pod = Some("tenant-a/ingest-7d9f".to_owned());
    ingest.received_from.insert(9, 1_060_000);
    let mut orders = container(2, "orders-db", [910, 4, 350]);
    orders.pod = Some("tenant-b/orders-db-0".to_owned());
    let mut all = vec![
        ingest,
        orders,
        container(3, "checkout", [300, 30, 190]),
        container(4, "batch", [880, 0, 12]),
        container(5, EVIL, [20, 60, 2]),
        container(
            6,
            "gateway.with-a-name.that-is-rather-long.and-in-full",
            [90, 80, 70],
        ),
        container(9, "loadgen\u{1b}[2J\u{202e}\n", [500, 10, 8]),
    ];
    all.extend((0..more).map(|n| {
        let mut one = container(100 + n, &format!("worker-{n:03}"), [n % 37, n % 5, n % 5]);
        one.runtime = "containerd".to_owned();
        one
    }));
    all.sort_by_key(|c| (-c.owed_ns, c.cgroup_id));
    let mut status = status();
    status.diagnosis = Some(diagnosis(vec![
        loss(4, "batch", [1000, 880, 20], "orders-db"),
        loss(2, "orders-db", [1000, 910, 90], "batch"),
    ]));
    status.conditions = [(2, "orders-db", 0.346), (3, "checkout", 0.16)]
        .map(|(cgroup_id, name, cpus)| ConditionRecord {
            name: PAYS.to_owned(),
            container: name.to_owned(),
            cgroup_id,
            cpus,
            since: cofferdam_records::time(SystemTime::now() - Duration::from_secs(760)),
            for_s: 760.0,
        })
        .to_vec();
    Reading {
        ledger: ledger(all),
        status,
        latency: vec![Latency {
            cgroup_id: 2,
            direction: "ingress",
            protocol: "tcp",
            packets: 120_000,
            total_ns: 41_300,
            added_ns: Some(12_800),
            stages_ns: vec![("host", 9_100), ("backlog", 20_000), ("socket", 12_200)],
        }],
        dataplanes: Vec::new(),
    }
}

/// Adds to a host a CPU reserved for `batch`, and two dataplanes, one of which does not answer.
pub fn promised(mut reading: Reading) -> Reading {
    reading.status.containers = vec![records::reserved(4, "batch", 1.25)];
    let core = |core, cpu, busy| CoreRecord {
        core,
        cpu,
        groups: 64,
        received_per_s: 812_345.0,
        steered_in_per_s: 12.0,
        sent_per_s: 801_002.0,
        busy,
        queue_delay_ns: 41_000,
    };
    let dataplane = |socket: &str| Dataplane {
        socket: socket.to_owned(),
        device: "eth0".to_owned(),
        error: None,
        cores: Vec::new(),
    };
    reading.dataplanes = vec![
        Dataplane {
            cores: vec![core(0, Some(1), 0.73), core(1, None, 0.04)],
            ..dataplane("/run/cofferdam/web.sock")
        },
        Dataplane {
            error: Some(format!("no dataplane answers on {EVIL}")),
            ..dataplane(EVIL)
        },
    ];
    reading
}

/// Feed that repeats one reading with a new time and some change.
pub struct Repeats {
    pub reading: Arc<Mutex<Reading>>,
    pub fails: Arc<AtomicBool>,
    count: u64,
}

impl Repeats {
    pub fn new(reading: Reading) -> Repeats {
        Repeats {
            reading: Arc::new(Mutex::new(reading)),
            fails: Arc::default(),
            count: 0,
        }
    }
}

impl Feed for Repeats {
    fn read(&mut self, _looks: bool) -> Result<Option<Reading>, FeedError> {
        if self.fails.load(Ordering::Relaxed) {
            return Err(FeedError("no agent is running".to_owned()));
        }
        self.count += 1;
        let mut reading = self.reading.lock().unwrap().clone();
        reading.ledger.time = cofferdam_records::time(SystemTime::now());
        Ok(Some(reading))
    }

    fn idle_interval(&self) -> Duration {
        Duration::from_secs(1)
    }
}

pub fn options(address: Address) -> Options {
    Options {
        address,
        hosts: Vec::new(),
        remote: false,
        group: None,
        url_file: None,
    }
}

/// Serves a page of `feed` on a port of its own.
pub fn serve(feed: Repeats) -> Page {
    let address = "127.0.0.1:0".parse().unwrap();
    first_reading(Page::start(&options(address), Box::new(feed), None).unwrap())
}

/// Serves a page of `feed` with a store that knows the last day.
pub fn serve_with_past(feed: Repeats) -> Page {
    let address = "127.0.0.1:0".parse().unwrap();
    first_reading(Page::start(&options(address), Box::new(feed), Some(Box::new(Day))).unwrap())
}

/// Waits for the first reading, which another thread takes.
fn first_reading(page: Page) -> Page {
    let begin = Instant::now();
    while !get(&page, "/api/frame", "").starts_with("HTTP/1.1 200 ") {
        assert!(begin.elapsed() < Duration::from_secs(20), "no reading");
        std::thread::sleep(Duration::from_millis(10));
    }
    page
}

/// Store with a flood that began 13 minutes ago, and one six hours ago.
pub struct Day;

const LENGTH: Duration = Duration::from_secs(86_400);

impl Past for Day {
    fn extent(&mut self) -> Result<Option<(SystemTime, SystemTime)>, PastError> {
        let now = SystemTime::now();
        Ok(Some((now - LENGTH, now)))
    }

    fn at(&mut self, at: SystemTime) -> Result<Option<AccountingRecord>, PastError> {
        let is_known = SystemTime::now()
            .duration_since(at)
            .is_ok_and(|age| age < LENGTH);
        let mut ledger = flooded(3).ledger;
        ledger.time = cofferdam_records::time(at);
        Ok(is_known.then_some(ledger))
    }

    fn visit(
        &mut self,
        from: SystemTime,
        to: SystemTime,
        step: Duration,
        visit: &mut dyn FnMut(Points<'_>),
    ) -> Result<(), PastError> {
        let now = SystemTime::now();
        let mut time = from.max(now - LENGTH) + step;
        while time <= to.min(now) {
            let age_s = now.duration_since(time).unwrap_or_default().as_secs();
            let flood = age_s < 780 || (21_000..23_000).contains(&age_s);
            let wave = ((age_s as f32) / 40.0).sin() * 0.03;
            let on = |value: f32| {
                if flood {
                    value + wave
                } else {
                    wave.abs() / 4.0
                }
            };
            let point = |cgroup_id, cpu_cpus, caused_cpus, charged_cpus, taken_cpus| Point {
                cgroup_id,
                cpu_cpus,
                caused_cpus,
                charged_cpus,
                taken_cpus,
                throttled_cpus: 0.0,
            };
            let points = [
                point(1, 0.14, on(0.64), 0.06, 0.0),
                point(2, on(0.91), 0.004, on(0.35), on(0.09)),
                point(3, on(0.3), 0.03, on(0.19), 0.0),
                point(4, 0.88, 0.0, 0.012, 0.02),
            ];
            let length = step;
            visit(Points {
                time,
                length,
                points: &points,
            });
            time += step;
        }
        Ok(())
    }

    fn name(&mut self, cgroup_id: u64) -> Option<String> {
        let names = ["ingest", "orders-db", "checkout", "batch"];
        names
            .get(usize::try_from(cgroup_id).ok()?.checked_sub(1)?)
            .map(|n| (*n).to_owned())
    }
}

pub fn socket_of(page: &Page) -> SocketAddr {
    match page.address() {
        Address::Tcp(address) => *address,
        Address::Unix(path) => panic!("{} has no port", path.display()),
    }
}

/// Cookie header that admits a request.
pub fn cookie(page: &Page) -> String {
    let token = page.url().unwrap().split_once("token=").unwrap().1;
    format!("cofferdam_{}={token}", socket_of(page).port())
}

/// Connects, with timeouts of 20 seconds.
pub fn connect(page: &Page) -> TcpStream {
    let stream = TcpStream::connect(socket_of(page)).unwrap();
    stream
        .set_read_timeout(Some(Duration::from_secs(20)))
        .unwrap();
    stream
        .set_write_timeout(Some(Duration::from_secs(20)))
        .unwrap();
    stream
}

/// Sends `head` and reads to the end of the connection, at most `most` bytes.
pub fn send(page: &Page, head: &[u8], most: u64) -> String {
    let mut stream = connect(page);
    // A server that refuses early may close before all is written.
    let _ = stream.write_all(head);
    let mut bytes = Vec::new();
    let _ = stream.take(most).read_to_end(&mut bytes);
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Sends an admitted GET with more header lines.
pub fn get(page: &Page, path: &str, more: &str) -> String {
    let cookie = cookie(page);
    let head = format!(
        "GET {path} HTTP/1.1\r\nHost: localhost\r\nCookie: {cookie}\r\n{more}\
                 Connection: close\r\n\r\n"
    );
    send(page, head.as_bytes(), 64 << 20)
}

/// Body of an answer of 200.
pub fn body(answer: &str) -> &str {
    assert!(
        answer.starts_with("HTTP/1.1 200 "),
        "{}",
        &answer[..answer.len().min(400)]
    );
    answer.split_once("\r\n\r\n").unwrap().1
}
