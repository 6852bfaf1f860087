//! Start and end of the daemon.

use crate::assign::Assigner;
use crate::config::{Config, ConfigError, Source};
use crate::control::{Channels, Control, EndCause, OpenEffects, Signals};
use crate::effects::{Effects, HostEffects, RevertResult, options};
use crate::losses::{self, OpenDiagnosis};
use crate::notify::Notifier;
use crate::remains;
use crate::server::{ControlSocket, ListenError, Notice, Parts, Server, refuse_taken};
use crate::wake;
use cofferdam_accounting::{Accountant, Options, ReadError, StartError};
use cofferdam_enforce::EnforceError;
use cofferdam_host::HostFs;
use cofferdam_types::Degradation;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use std::io;
use std::path::Path;
use std::sync::mpsc::{channel, sync_channel};
use std::sync::{Arc, Mutex};

/// Limit on the requests that wait for the control loop.
const QUEUE: usize = 64;

/// Reason why the agent could not start, or could not continue.
#[derive(Debug, thiserror::Error)]
pub enum AgentError {
    /// Error in the configuration.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// Error with the control socket.
    #[error(transparent)]
    Listen(#[from] ListenError),
    /// The accounting could not start.
    #[error(transparent)]
    Start(#[from] StartError),
    /// The accounting could not be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// Changes of an earlier agent cannot be reverted.
    #[error(transparent)]
    Enforce(#[from] EnforceError),
    /// Failure of the process itself.
    #[error("cannot {what}: {why}")]
    Process {
        /// Failed operation.
        what: &'static str,
        /// Cause.
        why: io::Error,
    },
    /// The agent ended, and changes of the host remain.
    #[error(
        "{count} changes could not be reverted, first: {first}; try 'cofferdam agent --restore'"
    )]
    NotReverted {
        /// Number of changes that remain.
        count: usize,
        /// First of them.
        first: String,
    },
}

/// Runs the agent until a signal or a client stops it, then reverts everything that it changed.
///
/// # Errors
/// [`AgentError`]; nothing on the host is changed then, except as [`AgentError::NotReverted`] says.
pub fn run(config: Option<&Path>) -> Result<EndCause, AgentError> {
    let source = Source::new(config);
    let loaded = source.load()?;
    let process = |what: &'static str| move |why: io::Error| AgentError::Process { what, why };
    // Check first, for a clear message. Later the lock of the accounting excludes a second agent.
    refuse_taken(&loaded.config.socket.path)?;
    let notifier = Notifier::of_environment();
    let (wake_control, sleeper) = wake::pair().map_err(process("make a pipe"))?;
    let signals = Signals::default();
    for (signal, flag) in [
        (SIGHUP, &signals.reload),
        (SIGINT, &signals.interrupt),
        (SIGTERM, &signals.terminate),
    ] {
        // Register the flag first: a thread that wakes must find it set.
        signal_hook::flag::register(signal, flag.clone()).map_err(process("watch for signals"))?;
        let wake = wake_control.descriptor().map_err(process("make a pipe"))?;
        signal_hook::low_level::pipe::register(signal, wake)
            .map_err(process("watch for signals"))?;
    }
    let accountant = Accountant::start(Options::default())?;
    let control_socket = ControlSocket::open(&loaded.config.socket)?;
    let mut not_reverted = None;
    match revert_leftovers() {
        Ok(reverted) => reverted.log("an earlier agent had left changes"),
        Err(why) => {
            tracing::error!("could not look for changes of an earlier agent: {why}");
            not_reverted = Some(why.to_string());
        }
    }
    let metrics = loaded.config.metrics.address;
    let from_file = loaded.from_file;
    let rules = loaded.config.rules.len();
    let path = source.path.clone();
    let assigner = Assigner::new(HostFs::host(), Vec::new());
    let openers: (OpenEffects, OpenDiagnosis) = (effects_opener(), Box::new(losses::open));
    let mut control = Control::start(accountant, openers, assigner, (source, loaded), signals)?;
    control.record_unreverted(not_reverted);
    let view = Arc::new(Mutex::new(Arc::new(control.view())));
    let (commands, incoming) = sync_channel(QUEUE);
    let (notices, notices_receiver) = channel();
    let (wake_server, server_sleeper) = wake::pair().map_err(process("make a pipe"))?;
    let server = Server::new(Parts {
        control: control_socket,
        metrics,
        view: view.clone(),
        commands,
        wake_control,
        notices: notices_receiver,
        sleeper: server_sleeper,
    });
    let server = std::thread::Builder::new()
        .name("cofferdam-server".into())
        .spawn(move || server.run())
        .map_err(process("start a thread"))?;
    let channels = Channels {
        commands: incoming,
        sleeper,
        notices,
        wake_server,
        view,
    };
    let state = if from_file {
        format!("{rules} rules from {}", path.display())
    } else {
        format!("{} does not exist, observing only", path.display())
    };
    tracing::info!("ready: {state}");
    notifier.send(&format!("READY=1\nSTATUS={state}"));
    control.notify(notifier);
    let (ended, reverted) = control.run(&channels);
    let _ = channels.notices.send(Notice::End);
    channels.wake_server.wake();
    if server.join().is_err() {
        tracing::error!("the thread that serves clients had panicked");
    }
    reverted.log("stopping");
    let ended = ended?;
    tracing::info!("stopped");
    match reverted.failures.first() {
        None => Ok(ended),
        Some(first) => Err(AgentError::NotReverted {
            count: reverted.failures.len(),
            first: first.clone(),
        }),
    }
}

/// Returns the function that opens the enforcement of this host.
fn effects_opener() -> OpenEffects {
    Box::new(|config: &Config| match HostEffects::open(config) {
        Ok(effects) => Ok(Box::new(effects) as Box<dyn Effects>),
        Err(why) => Err(Degradation {
            name: "enforcement_unavailable".to_owned(),
            text: format!("nothing can be enforced: {why}"),
        }),
    })
}

/// Reverts the changes that a killed agent left on this host, and removes its files. `socket` is
/// the path of its socket.
///
/// # Errors
/// An agent is running, or the journal cannot be read.
pub fn restore(socket: &Path) -> Result<RevertResult, AgentError> {
    let reverted = revert_leftovers()?;
    remains::clear(Path::new(cofferdam_enforce::journal::FOLDER), socket);
    Ok(reverted)
}

fn revert_leftovers() -> Result<RevertResult, AgentError> {
    let report = cofferdam_enforce::revert_leftover(&options(&Config::default()))?;
    Ok(RevertResult::from(&report))
}
