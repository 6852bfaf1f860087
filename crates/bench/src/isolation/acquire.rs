//! Resource use of tenants, read each 100 ms: from the files of their cgroups and network
//! namespaces, and from BPF ([`super::trace`]). The same for every runtime and every load.

use super::cgroups::TenantCgroups;
use super::trace;
use crate::isolation::data::Point;
use cofferdam_bpf::TenantCounter;
use cofferdam_host::{CpuUsage, HostFs};
use nix::time::{ClockId, clock_gettime};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Time between two readings.
pub(super) const INTERVAL: Duration = Duration::from_millis(100);
/// Most bytes of a file that are read; the needed lines are at its start.
const TEXT: usize = 16 << 10;

/// Open files of a tenant. A file that the kernel does not have is `None`, and reads as 0.
pub(super) struct Files {
    cpu: Option<CpuUsage>,
    memory: Option<(File, &'static str)>,
    io: Option<(File, IoFile)>,
    /// v1 counts bytes in another file.
    io_bytes: Option<File>,
    net: Option<File>,
    counter: Option<TenantCounter>,
    text: Vec<u8>,
}

#[derive(Clone, Copy)]
enum IoFile {
    /// `blkio.throttle.io_serviced_recursive`, with `Total N` in its last line.
    V1,
    /// `io.stat`, with `rios=N wios=N rbytes=N wbytes=N` for each device.
    V2,
}

impl Files {
    /// Opens the files of a tenant: its process is `pid`, its cgroups are `places`.
    pub fn of(pid: u32, places: &TenantCgroups, counter: Option<TenantCounter>) -> Files {
        let TenantCgroups {
            v2,
            cpuacct,
            memory,
            blkio,
        } = places.clone();
        let open = |dir: Option<PathBuf>, name: &str| File::open(dir?.join(name)).ok();
        let fs = HostFs::host();
        let usage = |dir: &PathBuf| CpuUsage::open(&fs, dir).ok();
        // A v1 `cpu` without cpuacct also has a `cpu.stat`, but no CPU time in it.
        let counts = |usage: &CpuUsage| usage.read_ns().is_ok();
        let dirs = [cpuacct.as_ref(), v2.as_ref()].into_iter().flatten();
        let cpu = dirs.filter_map(usage).find(counts);
        let memory = open(memory, "memory.stat")
            .map(|f| (f, "total_rss"))
            .or_else(|| Some((open(v2.clone(), "memory.stat")?, "anon")));
        let io = open(blkio.clone(), "blkio.throttle.io_serviced_recursive")
            .map(|f| (f, IoFile::V1))
            .or_else(|| Some((open(v2, "io.stat")?, IoFile::V2)));
        Files {
            cpu,
            memory,
            io,
            io_bytes: open(blkio, "blkio.throttle.io_service_bytes_recursive"),
            net: File::open(format!("/proc/{pid}/net/dev")).ok(),
            counter,
            text: vec![0; TEXT],
        }
    }

    /// Reads the counters, which count from the making of the cgroup.
    pub fn read(&mut self) -> Point {
        let text = &mut self.text;
        let cpu_ns = self.cpu.as_ref().and_then(|usage| usage.read_ns().ok());
        let rss_bytes = self
            .memory
            .as_ref()
            .map_or(0, |(file, key)| field(read(file, text), key).unwrap_or(0));
        let (mut io_ops, mut io_bytes) = (0, 0);
        if let Some((file, kind)) = &self.io {
            let text = read(file, text);
            (io_ops, io_bytes) = match kind {
                IoFile::V1 => (total(text), 0),
                IoFile::V2 => (
                    sum(text, &["rios=", "wios="]),
                    sum(text, &["rbytes=", "wbytes="]),
                ),
            };
        }
        if let Some(file) = &self.io_bytes {
            io_bytes = total(read(file, text));
        }
        let counters = self
            .net
            .as_ref()
            .map(|file| interface_counters(read(file, text)));
        let counters = counters.unwrap_or_default();
        Point {
            cpu_ms: cpu_ns.unwrap_or(0) as f64 / 1e6,
            rss_bytes,
            io_ops,
            io_bytes,
            tx_packets: counters.tx_packets,
            tx_bytes: counters.tx_bytes,
            rx_packets: counters.rx_packets,
            rx_bytes: counters.rx_bytes,
            traced: self.counter.as_ref().map(trace::traced_point),
            ..Point::default()
        }
    }
}

fn read<'a>(file: &File, text: &'a mut [u8]) -> &'a str {
    let length = file.read_at(text, 0).unwrap_or(0);
    std::str::from_utf8(&text[..length]).unwrap_or_default()
}

/// Value of the line `KEY VALUE`.
fn field(text: &str, key: &str) -> Option<u64> {
    text.lines().find_map(|line| {
        line.strip_prefix(key)?
            .strip_prefix(' ')?
            .trim()
            .parse()
            .ok()
    })
}

/// Value of `Total N`, the last line of blkio's files; 0 before the first operation.
fn total(text: &str) -> u64 {
    field(text, "Total").unwrap_or(0)
}

/// Sum of the values of `keys`, over all devices.
fn sum(text: &str, keys: &[&str]) -> u64 {
    text.split_whitespace()
        .filter_map(|word| keys.iter().find_map(|key| word.strip_prefix(key)))
        .filter_map(|value| value.parse::<u64>().ok())
        .sum()
}

/// Counters of an interface.
#[derive(Debug, Default)]
struct InterfaceCounters {
    rx_bytes: u64,
    rx_packets: u64,
    tx_bytes: u64,
    tx_packets: u64,
}

/// Counters of eth0 in `/proc/net/dev`. Other devices (loopback, the tap and bridge of a virtual
/// machine) carry the same packets again.
fn interface_counters(text: &str) -> InterfaceCounters {
    let mut lines = text.lines().filter_map(|line| line.split_once(':'));
    let Some((_, numbers)) = lines.find(|(name, _)| name.trim() == "eth0") else {
        return InterfaceCounters::default();
    };
    let numbers: Vec<&str> = numbers.split_whitespace().collect();
    let number = |place: usize| {
        let number = numbers.get(place).and_then(|n| n.parse().ok());
        number.unwrap_or(0)
    };
    InterfaceCounters {
        rx_bytes: number(0),
        rx_packets: number(1),
        tx_bytes: number(8),
        tx_packets: number(9),
    }
}

/// Thread that reads the tenants each 100 ms until it is stopped.
pub(super) struct Acquisition {
    started: Instant,
    stop: Arc<AtomicBool>,
    thread: JoinHandle<AcquiredSeries>,
}

/// Tenants whose counters were read before their loads started.
pub(super) struct Tenants {
    files: Vec<Files>,
    first: Vec<Point>,
}

/// Readings of an acquisition.
pub(super) struct AcquiredSeries {
    /// Start of the points' time.
    pub started: Instant,
    /// Use of each tenant since its load started, by the time since `started`.
    pub series: Vec<Vec<Point>>,
    /// CPU time of the readings, percent of one CPU.
    pub cpu_pct: f64,
    /// Length of the acquisition, seconds.
    pub wall_s: f64,
}

impl Tenants {
    /// Reads the counters, from which all later readings count.
    pub fn new(mut files: Vec<Files>) -> Tenants {
        let first = files.iter_mut().map(Files::read).collect();
        Tenants { files, first }
    }
}

impl Acquisition {
    /// Starts the thread.
    pub fn start(tenants: Tenants) -> Acquisition {
        let Tenants { mut files, first } = tenants;
        let started = Instant::now();
        let stop = Arc::new(AtomicBool::new(false));
        let stop_flag = stop.clone();
        let thread = std::thread::spawn(move || {
            let cpu_before = thread_cpu();
            let mut series: Vec<Vec<Point>> = first.iter().map(|_| Vec::new()).collect();
            let mut round = 0;
            loop {
                let t_ms = started.elapsed().as_secs_f64() * 1e3;
                for (i, files) in files.iter_mut().enumerate() {
                    series[i].push(since(&files.read(), &first[i], t_ms));
                }
                if stop_flag.load(Ordering::Relaxed) {
                    break;
                }
                round += 1;
                let next = INTERVAL * round;
                // A late thread skips readings instead of catching up.
                round = round.max((started.elapsed().as_nanos() / INTERVAL.as_nanos()) as u32);
                std::thread::park_timeout(next.saturating_sub(started.elapsed()));
            }
            let wall = started.elapsed().as_secs_f64();
            AcquiredSeries {
                started,
                series,
                cpu_pct: (thread_cpu() - cpu_before).as_secs_f64() / wall.max(1e-9) * 100.0,
                wall_s: wall,
            }
        });
        Acquisition {
            started,
            stop,
            thread,
        }
    }

    /// Takes a last reading and stops the thread.
    pub fn end(self) -> AcquiredSeries {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.thread().unpark();
        self.thread.join().unwrap_or(AcquiredSeries {
            started: self.started,
            series: Vec::new(),
            cpu_pct: 0.0,
            wall_s: 0.0,
        })
    }
}

/// Difference between two readings. Memory is a level and has no difference.
fn since(now: &Point, first: &Point, t_ms: f64) -> Point {
    Point {
        t_ms,
        cpu_ms: now.cpu_ms - first.cpu_ms,
        rss_bytes: now.rss_bytes,
        io_ops: now.io_ops.saturating_sub(first.io_ops),
        io_bytes: now.io_bytes.saturating_sub(first.io_bytes),
        tx_packets: now.tx_packets.saturating_sub(first.tx_packets),
        tx_bytes: now.tx_bytes.saturating_sub(first.tx_bytes),
        rx_packets: now.rx_packets.saturating_sub(first.rx_packets),
        rx_bytes: now.rx_bytes.saturating_sub(first.rx_bytes),
        traced: now
            .traced
            .map(|t| trace::since(&t, &first.traced.unwrap_or_default())),
        ..Point::default()
    }
}

fn thread_cpu() -> Duration {
    clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).map_or(Duration::ZERO, Duration::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_the_files_of_both_versions() {
        let v1 = "254:0 Read 5\n254:0 Write 2\n254:0 Total 7\nTotal 7\n";
        assert_eq!((total(v1), total("")), (7, 0));
        let v2 = "254:0 rbytes=4096 wbytes=8192 rios=1 wios=2 dbytes=0 dios=9\n254:16 rios=3\n";
        assert_eq!(sum(v2, &["rios=", "wios="]), 6);
        assert_eq!(field("anon 5\nanon_thp 9\n", "anon"), Some(5));
        let dev = "Inter-| Receive\n face |bytes\n  lo: 1 1 0 0 0 0 0 0 9 9 0 0 0 0 0 0\n\
                   eth0: 1 2 0 0 0 0 0 0 1500 3 0 0 0 0 0 0\n  br0: 7 7 7 7 7 7 7 7 7 7 7\n";
        let eth0 = interface_counters(dev);
        assert_eq!((eth0.rx_bytes, eth0.rx_packets), (1, 2));
        assert_eq!((eth0.tx_bytes, eth0.tx_packets), (1500, 3));
    }

    #[test]
    fn any_text_is_read() {
        let mut random = fastrand::Rng::with_seed(4);
        let words = [
            "Total",
            "rios=",
            "eth0:",
            "lo:",
            "9",
            "18446744073709551616",
            "\n",
            " ",
            ":",
            "anon ",
        ];
        for _ in 0..2_000 {
            let text: String = (0..random.usize(..20))
                .map(|_| words[random.usize(..10)])
                .collect();
            let _ = interface_counters(&text);
            let _ = (total(&text), sum(&text, &["rios="]), field(&text, "anon"));
        }
    }

    #[test]
    fn this_process_has_files() {
        let pid = std::process::id();
        let mut files = Files::of(pid, &TenantCgroups::of(pid).unwrap(), None);
        let point = files.read();
        assert!(point.cpu_ms >= 0.0);
        let acquisition = Acquisition::start(Tenants::new(vec![files]));
        let acquired = acquisition.end();
        assert!(!acquired.series[0].is_empty());
    }
}
