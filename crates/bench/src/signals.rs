//! SIGINT, SIGTERM and SIGHUP as a flag that the driver's loops look at, so that everything is undone
//! by ordinary returns.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Catches the three signals while it lives.
pub struct Signals {
    flag: Arc<AtomicBool>,
    ids: Vec<signal_hook::SigId>,
}

impl Signals {
    /// Begins to catch. Where the process already has handlers, these come in addition.
    pub fn catch() -> std::io::Result<Signals> {
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
