//! `cofferdam dataplane`.

mod top;

use crate::args::{DataplaneCommand, DataplaneRunArgs};
use crate::exit::{Failure, Outcome};
use crate::interrupt::Interrupt;
use crate::output::Output;
use cofferdam_dataplane::config::{Config, Kind};
use cofferdam_dataplane::{PortError, RunError};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Runs a dataplane, or looks at one.
pub fn run(command: DataplaneCommand, interrupt: &Interrupt) -> Outcome {
    match command {
        DataplaneCommand::Run(args) => serve(&args, interrupt),
        DataplaneCommand::Top(args) => top::run(&args, interrupt),
    }
}

/// Until a signal; that is its ordinary end.
fn serve(args: &DataplaneRunArgs, interrupt: &Interrupt) -> Outcome {
    let config = Config::load(&args.config).map_err(|e| Failure::failed(e.to_string()))?;
    if args.check_config {
        let text = format!(
            "{}: {} applications, can be put in force\n",
            args.config.display(),
            config.applications.len()
        );
        return Output::stdout().write(&text);
    }
    let stop = Arc::new(AtomicBool::new(false));
    let said = ready_line(&config);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !interrupt.raised() && !stop.load(Ordering::Relaxed) {
                std::thread::sleep(Duration::from_millis(20));
            }
            stop.store(true, Ordering::Relaxed);
        });
        let outcome = cofferdam_dataplane::run(&config, &stop, || {
            // Whoever started it may have gone; it serves all the same.
            let _ = Output::stdout().write(&said);
        });
        stop.store(true, Ordering::Relaxed);
        outcome
    })?;
    Ok(())
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
