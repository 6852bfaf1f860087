//! The dataplane's echo servers: inline, and in a process of its own.

use super::{Args, Control, Failure, ServerReport, config, engine, report};
use cofferdam_dataplane::applications::Echo;
use cofferdam_dataplane::{EventLoop, Session, Stage, Tally, status};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// How long the dataplane may take to start.
const PATIENCE: Duration = Duration::from_secs(5);

fn echo(port: u16) -> Echo {
    Echo::new(SocketAddr::from(([0, 0, 0, 0], port)))
}

fn server_report(tally: &Tally) -> ServerReport {
    let stages = Stage::ALL.iter().zip(tally.stage_cycles);
    ServerReport {
        packets: tally.received,
        stage_cycles: stages
            .map(|(stage, c)| (stage.name().to_owned(), c))
            .collect(),
    }
}

/// `--device D --address IP --port P --batch B`: loop and application on one thread.
pub(super) fn inline(mut args: Args, control: &mut Control) -> Result<(), Failure> {
    let device: String = args.need("device")?;
    let address: Ipv4Addr = args.need("address")?;
    let port: u16 = args.need("port")?;
    let batch: u32 = args.need("batch")?;
    args.finish()?;
    let (_device, mut engine) = engine(&device, address, batch)?;
    let session = engine.inline().map_err(|e| e.to_string())?;
    let mut event_loop = EventLoop::new(session, echo(port));
    control.start()?;
    let mut turns = 0_u32;
    while !turns.is_multiple_of(256) || !control.done() {
        turns = turns.wrapping_add(1);
        engine.turn(|| event_loop.turn());
    }
    report(&server_report(&engine.tally()))
}

/// `--device D --address IP --socket PATH --batch B`: a dataplane for an application elsewhere.
pub(super) fn dataplane(mut args: Args, control: &mut Control) -> Result<(), Failure> {
    let device: String = args.need("device")?;
    let address: Ipv4Addr = args.need("address")?;
    let socket: String = args.need("socket")?;
    let batch: u32 = args.need("batch")?;
    args.finish()?;
    let config = config(&device, address, &socket, batch)?;
    control.start()?;
    let stop = Arc::new(AtomicBool::new(false));
    let mut told = ServerReport::default();
    std::thread::scope(|scope| {
        let watching = scope.spawn(|| {
            while !control.done() && !stop.load(Ordering::Relaxed) {
                std::thread::sleep(Duration::from_millis(5));
            }
            let shown = status(&config.socket);
            stop.store(true, Ordering::Relaxed);
            shown
        });
        let outcome = cofferdam_dataplane::run(&config, &stop, |_| ());
        stop.store(true, Ordering::Relaxed);
        let shown = watching
            .join()
            .map_err(|_| "a thread panicked".to_owned())?;
        outcome.map_err(|e| e.to_string())?;
        let shown = shown.map_err(|e| e.to_string())?;
        let number = |path: &str| shown.pointer(path).and_then(|v| v.as_u64()).unwrap_or(0);
        told.packets = number("/counts/received_packets");
        for stage in Stage::ALL {
            let cycles = number(&format!("/stage_cycles/{}", stage.name()));
            told.stage_cycles.insert(stage.name().to_owned(), cycles);
        }
        Ok::<(), Failure>(())
    })?;
    report(&told)
}

/// `--socket PATH --port P`: the application.
pub(super) fn attached(mut args: Args, control: &mut Control) -> Result<(), Failure> {
    let socket: PathBuf = args.need("socket")?;
    let port: u16 = args.need("port")?;
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
    let mut event_loop = EventLoop::new(session, echo(port));
    let stopped = |_: &mut Echo| control.done();
    // The dataplane may end first.
    let _ = event_loop.run(Duration::from_millis(100), stopped);
    report(&ServerReport::default())
}
