//! The loop over AF_XDP, compiled with this crate. Generic code is compiled with the settings of
//! the crate that uses it, so that a debug build would have a slow loop.

use crate::config::Config;
use crate::engine::Engine;
use crate::notice::Notice;
use crate::run::{RunError, run};
use cofferdam_xsk::Socket;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// Runs [`Engine::turn`] of this crate's build.
pub fn turn(engine: &mut Engine<Socket>, inline: &mut dyn FnMut() -> bool) -> bool {
    engine.turn(inline)
}

/// Runs [`run`] of this crate's build.
///
/// # Errors
/// Errors of [`run`].
pub fn serve(
    config: &Config,
    stop: &Arc<AtomicBool>,
    notify: &(dyn Fn(Notice) + Send + Sync),
) -> Result<(), RunError> {
    run(config, stop, notify)
}
