//! `cofferdam dataplane`.

mod elastic;
mod groups;
mod top;

use crate::args::{DataplaneCommand, DataplaneRunArgs, DataplaneServeArgs, Server};
use crate::exit::{Failure, Outcome, one_line};
use crate::interrupt::Interrupt;
use crate::output::Output;
use cofferdam_dataplane::applications::{Echo, Http, Memcached};
use cofferdam_dataplane::config::{Config, Kind};
use cofferdam_dataplane::{
    Application, EventLoop, LinkState, Notice, PortError, RunError, Session,
};
use std::io::{Write, stderr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Values that `serve memcached` keeps, in bytes.
const MEMCACHED_BYTES: usize = 64 << 20;
/// A signal is noticed within this time.
const PATIENCE: Duration = Duration::from_millis(20);

/// Runs a dataplane, looks at one, or serves on one.
pub fn run(command: DataplaneCommand, interrupt: &Interrupt) -> Outcome {
    match command {
        DataplaneCommand::Run(args) => serve(&args, interrupt),
        DataplaneCommand::Top(args) => top::run(&args, interrupt),
        DataplaneCommand::Groups(args) => groups::run(&args),
        DataplaneCommand::Move(args) => groups::move_one(&args),
        DataplaneCommand::Serve(args) => application(&args, interrupt),
    }
}

/// A small server, until a signal or the dataplane's end.
fn application(args: &DataplaneServeArgs, interrupt: &Interrupt) -> Outcome {
    let session =
        Session::attach(&args.socket, &args.name).map_err(|e| Failure::failed(e.to_string()))?;
    let address = args.address;
    match args.server {
        Server::Echo => turns(session, Echo::new(address), interrupt),
        Server::Http => turns(session, Http::new(address), interrupt),
        Server::Memcached => turns(session, Memcached::new(address, MEMCACHED_BYTES), interrupt),
    }
}

fn turns(session: Session, application: impl Application, interrupt: &Interrupt) -> Outcome {
    let mut event_loop = EventLoop::new(session, application);
    event_loop
        .run(PATIENCE, |_| interrupt.raised())
        .map_err(|e| Failure::failed(e.to_string()))
}

/// Until a signal; that is its ordinary end.
fn serve(args: &DataplaneRunArgs, interrupt: &Interrupt) -> Outcome {
    let config = Config::load(&args.config).map_err(|e| Failure::failed(e.to_string()))?;
    if args.check_config {
        let count = config.applications.len();
        let text = format!(
            "{}: {count} application{}, can be put in force\n",
            args.config.display(),
            if count == 1 { "" } else { "s" }
        );
        return Output::stdout().write(&text);
    }
    let stop = Arc::new(AtomicBool::new(false));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !interrupt.raised() && !stop.load(Ordering::Relaxed) {
                std::thread::sleep(PATIENCE);
            }
            stop.store(true, Ordering::Relaxed);
        });
        let outcome = cofferdam_dataplane::run(&config, &stop, |notice| say(&config, &notice));
        stop.store(true, Ordering::Relaxed);
        outcome
    })?;
    Ok(())
}

/// One line: that it is ready on standard output, what its owner should look at on standard error.
/// Whoever started it may have gone; it serves all the same.
fn say(config: &Config, notice: &Notice) {
    let device = &config.device.name;
    let text = match notice {
        Notice::Ready => {
            let _ = Output::stdout().write(&ready_line(config));
            return;
        }
        Notice::Device(LinkState::Up) => format!("{device} is up again: serving"),
        Notice::Device(_) => format!(
            "{device} is down: nothing arrives and nothing leaves until it is up again; \
             connections are kept as long as their timeouts allow"
        ),
        Notice::Offence { count: 1, last } => format!("application ended: {last}"),
        Notice::Offence { count, last } => format!("{count} applications ended, last {last}"),
        Notice::Stuck { group, core } => format!(
            "flow group {group} is stuck on its way to core {core}, which may get no CPU: \
             no more is moved until it is there"
        ),
    };
    let _ = writeln!(stderr(), "cofferdam: {}", one_line(&text));
}

fn ready_line(config: &Config) -> String {
    let addresses: Vec<String> = config.addresses.iter().map(|a| a.ip.to_string()).collect();
    let by = match config.device.kind {
        Kind::Xdp(_) => "AF_XDP",
        Kind::Tap => "tap",
    };
    format!(
        "serving {} on {} ({by}); applications attach at {}\n",
        addresses.join(", "),
        config.device.name,
        config.socket.display()
    )
}

impl From<RunError> for Failure {
    fn from(error: RunError) -> Failure {
        match error {
            RunError::Port(PortError::Unsupported { .. }) => Failure::Unsupported(format!(
                "{error}; set mode = \"tap\" in [device], or use a kernel with CONFIG_XDP_SOCKETS"
            )),
            other => Failure::Failed(other.into()),
        }
    }
}
