//! Debian's memcached as a target, and a generator for it.
//!
//! The generator is an open loop: each connection has its own schedule, and a latency counts from
//! the request's due time. So a stalled server does not get fewer requests. (mutilate and memtier
//! would do, but neither is in Debian.)

use super::waker::{WakerReport, histogram, latency, now, sleep_until};
use super::{Args, Control, Failure, control};
use hdrhistogram::Histogram;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::time::{Duration, Instant};

/// Number of keys, and bytes of each value.
const KEYS: u64 = 1_000;
const VALUE_BYTES: usize = 100;
/// Time limit for the server to listen, and to answer.
const PATIENCE: Duration = Duration::from_secs(5);

/// Executes memcached in this process. Arguments: `--threads N --port P`.
pub(crate) fn serve(mut args: Args, control: &mut Control) -> Result<(), Failure> {
    let threads: u32 = args.need("threads")?;
    let port: u16 = args.need("port")?;
    args.finish()?;
    control.start()?;
    let error = Command::new("memcached")
        .args(["-u", "root", "-l", "127.0.0.1", "-U", "0", "-m", "64"])
        .args(["-p", &port.to_string(), "-t", &threads.to_string()])
        .exec();
    Err(format!(
        "cannot run memcached: {error}: install it (apt install memcached), or exclude its cells \
         with --target"
    ))
}

/// Sends R requests a second in all. Arguments: `--port P --connections C --rate R --seconds S`.
pub(crate) fn ask(mut args: Args, control: &mut Control) -> Result<(), Failure> {
    let port: u16 = args.need("port")?;
    let connections: u32 = args.need("connections")?;
    let rate: f64 = args.need("rate")?;
    let length = Duration::from_secs_f64(args.need("seconds")?);
    args.finish()?;
    if connections == 0 || rate <= 0.0 {
        return Err("--connections and --rate must be above 0".to_owned());
    }
    nix::sys::prctl::set_timerslack(1).map_err(|e| format!("cannot set the timer slack: {e}"))?;
    let mut all: Vec<Connection> = (0..connections)
        .map(|_| Connection::open(port))
        .collect::<Result<_, _>>()?;
    if let Some(first) = all.first_mut() {
        for key in 0..KEYS {
            first.store(key)?;
        }
    }
    control.start()?;
    let (start, cpu_start) = (Instant::now(), super::victim::cpu_time());
    let period = Duration::from_secs_f64(f64::from(connections) / rate);
    let mut late = histogram()?;
    let parts: Vec<Result<Histogram<u64>, Failure>> = std::thread::scope(|scope| {
        let threads: Vec<_> = all
            .iter_mut()
            .zip(0u32..)
            .map(|(connection, i)| {
                let phase = period * i / connections;
                scope.spawn(move || connection.run(phase, period, length))
            })
            .collect();
        threads
            .into_iter()
            .map(|t| t.join().unwrap_or(Err("a thread panicked".to_owned())))
            .collect()
    });
    for part in parts {
        late.add(part?).map_err(|e| e.to_string())?;
    }
    control::say_json(&WakerReport {
        elapsed_s: start.elapsed().as_secs_f64(),
        cpu_s: super::victim::cpu_time()
            .saturating_sub(cpu_start)
            .as_secs_f64(),
        latency: latency(&late, 0),
    })
}

struct Connection {
    stream: BufReader<TcpStream>,
}

impl Connection {
    fn open(port: u16) -> Result<Connection, Failure> {
        let start = Instant::now();
        let stream = loop {
            match TcpStream::connect((Ipv4Addr::LOCALHOST, port)) {
                Ok(stream) => break stream,
                Err(_) if start.elapsed() < PATIENCE => {
                    std::thread::sleep(Duration::from_millis(10));
                }
                Err(e) => return Err(format!("memcached does not listen: {e}; is it installed?")),
            }
        };
        let set = stream
            .set_nodelay(true)
            .and_then(|()| stream.set_read_timeout(Some(PATIENCE)));
        set.map_err(|e| format!("cannot set up the connection: {e}"))?;
        Ok(Connection {
            stream: BufReader::new(stream),
        })
    }

    fn say(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        let written = self.stream.get_mut().write_all(bytes);
        written.map_err(|e| format!("memcached no longer listens: {e}"))
    }

    fn line(&mut self) -> Result<String, Failure> {
        let mut line = String::new();
        match self.stream.read_line(&mut line) {
            Ok(n) if n > 0 => Ok(line),
            Ok(_) => Err("memcached closed the connection".to_owned()),
            Err(e) => Err(format!("memcached does not answer: {e}")),
        }
    }

    fn store(&mut self, key: u64) -> Result<(), Failure> {
        let value = "v".repeat(VALUE_BYTES);
        self.say(format!("set k{key} 0 0 {VALUE_BYTES}\r\n{value}\r\n").as_bytes())?;
        match self.line()?.trim() {
            "STORED" => Ok(()),
            other => Err(format!("memcached answered '{other}' to a set")),
        }
    }

    fn get(&mut self, key: u64) -> Result<(), Failure> {
        self.say(format!("get k{key}\r\n").as_bytes())?;
        let head = self.line()?;
        if !head.starts_with("VALUE ") {
            return Err(format!("memcached answered '{}' to a get", head.trim()));
        }
        let mut value = [0; VALUE_BYTES + 2];
        let read = self.stream.read_exact(&mut value);
        read.map_err(|e| format!("memcached's answer is cut short: {e}"))?;
        match self.line()?.trim() {
            "END" => Ok(()),
            other => Err(format!("memcached ended an answer with '{other}'")),
        }
    }

    fn run(
        &mut self,
        phase: Duration,
        period: Duration,
        length: Duration,
    ) -> Result<Histogram<u64>, Failure> {
        let mut late = histogram()?;
        let start = now()? + phase;
        let mut due = start;
        let mut key = 0;
        while due - start < length {
            sleep_until(due)?;
            self.get(key % KEYS)?;
            late.saturating_record(u64::try_from((now()? - due).as_nanos()).unwrap_or(u64::MAX));
            due += period;
            key += 7;
        }
        Ok(late)
    }
}
