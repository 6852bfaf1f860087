//! SIGINT, SIGTERM and SIGHUP as a flag that the driver's loops look at, so that everything is undone
//! by ordinary returns.

use crate::{BenchError, Progress};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Whether one of the three signals has come; catches them while it lives, unless the caller does.
pub struct Signals {
    flag: Arc<AtomicBool>,
    ids: Vec<signal_hook::SigId>,
}

impl Signals {
    /// Takes the caller's flag where there is one: a signal that came before the run began is in it.
    /// Otherwise begins to catch.
    pub fn catch(progress: &dyn Progress) -> Result<Signals, BenchError> {
        match progress.interrupted() {
            Some(flag) => Ok(Signals {
                flag,
                ids: Vec::new(),
            }),
            None => {
                Signals::register().map_err(BenchError::host("handle signals of", "/proc/self"))
            }
        }
    }

    fn register() -> std::io::Result<Signals> {
        let flag = Arc::new(AtomicBool::new(false));
        use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
        let ids = [SIGINT, SIGTERM, SIGHUP]
            .into_iter()
            .map(|signal| signal_hook::flag::register(signal, flag.clone()))
            .collect::<std::io::Result<_>>()?;
        Ok(Signals { flag, ids })
    }

    /// Whether one has come.
    pub fn caught(&self) -> bool {
        self.flag.load(Ordering::Relaxed)
    }
}

impl Drop for Signals {
    fn drop(&mut self) {
        for id in self.ids.drain(..) {
            signal_hook::low_level::unregister(id);
        }
    }
}
