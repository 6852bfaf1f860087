//! SIGINT, SIGTERM and SIGHUP as a flag that the driver's loops check, so that ordinary returns
//! revert all changes.

use crate::{BenchError, Progress};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Flag that is set after one of the three signals. Catches them while it lives, unless the caller
/// does.
pub struct Signals {
    flag: Arc<AtomicBool>,
    ids: Vec<signal_hook::SigId>,
}

impl Signals {
    /// Uses the caller's flag if there is one: it has signals from before the run too. Otherwise
    /// starts to catch them.
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

    /// Whether a signal has come.
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
