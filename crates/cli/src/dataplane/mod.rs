//! `cofferdam dataplane`.

mod attack;
mod elastic;
mod exec;
mod groups;
mod serve;
mod top;

use crate::args::{DataplaneCommand, DataplaneRunArgs};
use crate::exit::{Failure, Outcome, needs_root, one_line, refused_without_root};
use crate::interrupt::Interrupt;
use crate::output::Output;
use cofferdam_dataplane::config::{Config, ConfigError, Link, LinkKind};
use cofferdam_dataplane::{LinkState, Notice, PortError, RunError, pkey};
use std::io::{Write, stderr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Rights that a dataplane needs.
const RIGHTS: &str = "a dataplane needs root (CAP_BPF, CAP_NET_ADMIN, CAP_NET_RAW)";
/// Longest time until a signal is noticed.
const PATIENCE: Duration = Duration::from_millis(20);

/// Runs a command of `cofferdam dataplane`.
pub fn run(command: DataplaneCommand, interrupt: &Interrupt) -> Outcome {
    match command {
        DataplaneCommand::Run(args) => run_dataplane(&args, interrupt),
        DataplaneCommand::Top(args) => top::run(&args, interrupt),
        DataplaneCommand::Groups(args) => groups::run(&args),
        DataplaneCommand::Move(args) => groups::move_one(&args),
        DataplaneCommand::Exec(args) => exec::run(&args, interrupt),
        DataplaneCommand::Serve(args) => serve::run(&args, interrupt),
        DataplaneCommand::Attack(args) => attack::run(&args),
    }
}

/// Runs a dataplane until a signal, which is its ordinary end.
fn run_dataplane(args: &DataplaneRunArgs, interrupt: &Interrupt) -> Outcome {
    let config = match Config::load(&args.config) {
        Ok(config) => config,
        Err(ConfigError::Wrong { path, problems }) if args.check_config => {
            return crate::agent::refuse(&path, &problems);
        }
        Err(error) => return Err(Failure::failed(error.to_string())),
    };
    if args.check_config {
        let count = config.applications.len();
        let text = format!(
            "{}: valid, {count} application{}\n",
            args.config.display(),
            if count == 1 { "" } else { "s" }
        );
        return Output::stdout().write(&text);
    }
    if config.guest().is_some() && pkey::supported().is_ok() && !pkey::is_bound_now() {
        let error = pkey::bind_now();
        return Err(Failure::failed(format!(
            "cannot start itself again: {error}"
        )));
    }
    let stop = Arc::new(AtomicBool::new(false));
    // The thread uses no data of the first thread, whose stack it may become unable to read.
    let (raised, ends, own) = (interrupt.flag(), stop.clone(), config.clone());
    let watch = std::thread::spawn(move || {
        // An application in this process can write to this thread's stack, so the thread has no
        // rights.
        if let Err(e) = pkey::relinquish_thread(&own) {
            let _ = writeln!(stderr(), "cofferdam: cannot drop rights: {e}");
            ends.store(true, Ordering::Relaxed);
        }
        while !raised.load(Ordering::Relaxed) && !ends.load(Ordering::Relaxed) {
            std::thread::sleep(PATIENCE);
        }
        ends.store(true, Ordering::Relaxed);
        // Ending the thread would read memory that needs a key's rights: it ends with the process.
        while own.guest().is_some() {
            std::thread::park();
        }
    });
    let outcome = cofferdam_dataplane::run(&config, &stop, |notice| print_notice(&config, &notice));
    stop.store(true, Ordering::Relaxed);
    if config.guest().is_some() {
        // The application may have left locks of the C library held, for which an ordinary end
        // would wait.
        let code = outcome.map_err(Failure::from).map_or_else(
            |failure| {
                failure.report();
                failure.code()
            },
            |()| 0,
        );
        pkey::end_process(code);
    }
    // The thread does not panic; if it did, there would be no remedy.
    let _ = watch.join();
    Ok(outcome?)
}

/// Prints one line: readiness on standard output, warnings on standard error. Errors are ignored,
/// because the dataplane serves even if its parent is gone.
fn print_notice(config: &Config, notice: &Notice) {
    let text = match notice {
        Notice::Ready => {
            let _ = Output::stdout().write(&ready_line(config));
            return;
        }
        Notice::Device { name, link } => match link {
            LinkState::Up => format!("{name} is up again: serving resumes"),
            _ => format!(
                "{name} is down: nothing arrives and nothing leaves until it is up again; \
             connections are kept as long as their timeouts allow"
            ),
        },
        Notice::Offence { count: 1, last } => format!("application ended: {last}"),
        Notice::Offence { count, last } => format!("{count} applications ended, last {last}"),
        Notice::Stuck { group, core } => format!(
            "flow group {group} is stuck on its way to core {core}, which may get no CPU time: \
             no other flow group moves until it arrives"
        ),
    };
    let _ = writeln!(stderr(), "cofferdam: {}", one_line(&text));
}

fn ready_line(config: &Config) -> String {
    let served: Vec<String> = config.links.iter().map(served).collect();
    format!(
        "serving {}; applications attach at {}\n",
        served.join(", and "),
        config.socket.display()
    )
}

/// Text of a device with its addresses.
fn served(link: &Link) -> String {
    let addresses: Vec<String> = link.addresses.iter().map(|a| a.ip.to_string()).collect();
    let by = match link.kind {
        LinkKind::Xdp(_) => "AF_XDP",
        LinkKind::Tap => "tap",
    };
    format!("{} on {} ({by})", addresses.join(", "), link.name)
}

impl From<RunError> for Failure {
    fn from(error: RunError) -> Failure {
        match error {
            RunError::Port(PortError::Unsupported { .. }) => Failure::Unsupported(format!(
                "{error}; set mode = \"tap\" in [device], or use a kernel with CONFIG_XDP_SOCKETS"
            )),
            RunError::Region { .. } | RunError::Seal { .. } => {
                Failure::Unsupported(error.to_string())
            }
            RunError::Port(ref port) if port.is_denied() => needs_root(error.into(), RIGHTS),
            other => refused_without_root(other.into(), RIGHTS),
        }
    }
}
