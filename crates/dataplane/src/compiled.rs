//! The loop over AF_XDP, compiled with this crate. Generic code is compiled by the crate that uses
//! it, with that crate's settings; a program that is built for debugging would have a slow loop.

use crate::config::Config;
use crate::engine::Engine;
use crate::notice::Notice;
use crate::run::{RunError, run};
use cofferdam_xsk::Socket;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// As [`Engine::turn`].
pub fn turn(engine: &mut Engine<Socket>, inline: &mut dyn FnMut() -> bool) -> bool {
    engine.turn(inline)
}

/// As [`run`].
///
/// # Errors
/// Those of [`run`].
pub fn serve(
    config: &Config,
    stop: &Arc<AtomicBool>,
    say: &(dyn Fn(Notice) + Send + Sync),
) -> Result<(), RunError> {
    run(config, stop, say)
}
