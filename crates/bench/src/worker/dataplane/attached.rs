//! Servers on the dataplane: inline, and in a process of their own.

use super::service::DataplaneServer;
use super::work::Work;
use super::{Args, Control, Failure, Idle, OF_ROOT, ServerReport, Setup, config, engine, report};
use cofferdam_dataplane::{EventLoop, Session, Stage, Tally, compiled, status};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Time limit for the start of the dataplane.
const PATIENCE: Duration = Duration::from_secs(5);
/// Time between two checks of a loop that sleeps.
const TICK: Duration = Duration::from_millis(100);

fn server_report(tally: &Tally) -> ServerReport {
    let stages = Stage::ALL.iter().zip(tally.stage_cycles);
    ServerReport {
        packets: tally.received,
        payload_bytes: [tally.sent_payload_bytes, tally.copied_payload_bytes],
        stage_cycles: stages
            .map(|(stage, c)| (stage.name().to_owned(), c))
            .collect(),
    }
}

/// Runs loop and application on one thread. Counts requests, and turns without work in place of
/// bytes. Arguments: those of [`Setup`] and `--port P --ports N --work W --idle I`.
pub(super) fn inline(mut args: Args, control: &mut Control) -> Result<(), Failure> {
    let setup = Setup::take(&mut args)?;
    let port: u16 = args.need("port")?;
    let ports: u16 = args.need("ports")?;
    let work: Work = args.need("work")?;
    let adapts = args.need::<Idle>("idle")? == Idle::Adapts;
    args.finish()?;
    let (_device, mut engine) = engine(&setup, None)?;
    let session = engine.inline().map_err(|e| e.to_string())?;
    let mut served = DataplaneServer::new(work, port, ports);
    // A loop that sleeps would not notice the end.
    served.ticks = adapts.then_some(TICK);
    let mut event_loop = EventLoop::new(session, served);
    control.start()?;
    let looks = if adapts { 1 } else { 256 };
    let (mut turns, mut in_vain, mut counted) = (0_u32, 0, 0);
    while !turns.is_multiple_of(looks) || !control.done() {
        turns = turns.wrapping_add(1);
        let worked = compiled::turn(&mut engine, &mut || event_loop.turn());
        in_vain += u64::from(!worked);
        if adapts {
            engine.wait_for_work(worked);
        }
        if turns.is_multiple_of(looks) {
            let requests = event_loop.application.requests();
            control.count(requests - counted, in_vain);
            (counted, in_vain) = (requests, 0);
        }
    }
    report(&server_report(&engine.tally()))
}

/// Report from a dataplane's status.
pub(super) fn of_status(shown: &serde_json::Value) -> ServerReport {
    let number = |path: &str| shown.pointer(path).and_then(|v| v.as_u64()).unwrap_or(0);
    let cycles = |stage: &Stage| {
        let cycles = number(&format!("/stage_cycles/{}", stage.name()));
        (stage.name().to_owned(), cycles)
    };
    ServerReport {
        packets: number("/counts/received_packets"),
        payload_bytes: ["sent", "copied"]
            .map(|what| number(&format!("/counts/{what}_payload_bytes"))),
        stage_cycles: Stage::ALL.iter().map(cycles).collect(),
    }
}

/// Runs a dataplane for an application elsewhere, with one core for each `--core`. Arguments: those
/// of [`Setup`] and `--socket PATH --core CPU|any --idle I`.
pub(super) fn dataplane(mut args: Args, control: &mut Control) -> Result<(), Failure> {
    let setup = Setup::take(&mut args)?;
    let socket: String = args.need("socket")?;
    let cores = args.all("core");
    let idle: Idle = args.need("idle")?;
    args.finish()?;
    let config = config(&setup, &socket, &cores, idle, OF_ROOT)?;
    control.start()?;
    let stop = Arc::new(AtomicBool::new(false));
    let mut server_report = ServerReport::default();
    std::thread::scope(|scope| {
        let watching = scope.spawn(|| {
            while !control.done() && !stop.load(Ordering::Relaxed) {
                std::thread::sleep(Duration::from_millis(5));
            }
            let shown = status(&config.socket);
            stop.store(true, Ordering::Relaxed);
            shown
        });
        let outcome = compiled::serve(&config, &stop, &|_| ());
        stop.store(true, Ordering::Relaxed);
        let shown = watching
            .join()
            .map_err(|_| "a thread panicked".to_owned())?;
        outcome.map_err(|e| e.to_string())?;
        let shown = shown.map_err(|e| e.to_string())?;
        server_report = of_status(&shown);
        Ok::<(), Failure>(())
    })?;
    report(&server_report)
}

/// Runs the application. Counts requests. Arguments: `--socket PATH --port P --ports N --work W`.
pub(super) fn attached(mut args: Args, control: &mut Control) -> Result<(), Failure> {
    let socket: PathBuf = args.need("socket")?;
    let port: u16 = args.need("port")?;
    let ports: u16 = args.need("ports")?;
    let work: Work = args.need("work")?;
    args.finish()?;
    control.start()?;
    let until = Instant::now() + PATIENCE;
    let session = loop {
        match Session::attach(&socket, "bench") {
            Ok(session) => break session,
            Err(_) if Instant::now() < until => std::thread::sleep(Duration::from_millis(10)),
            Err(e) => return Err(e.to_string()),
        }
    };
    let mut event_loop = EventLoop::new(session, DataplaneServer::new(work, port, ports));
    let mut counted = 0;
    let stopped = |served: &mut DataplaneServer| {
        let requests = served.requests();
        control.count(requests - counted, 0);
        counted = requests;
        control.done()
    };
    // The dataplane may end first.
    let _ = event_loop.run(Duration::from_millis(100), stopped);
    report(&ServerReport::default())
}
