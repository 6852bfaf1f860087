//! Reservations of a benchmark, by the product's own code.

use crate::error::BenchError;
use cofferdam_enforce::journal::{FOLDER, Journal};
use cofferdam_enforce::reservation::{ReservationOptions, Reservations};
use cofferdam_host::HostFs;
use std::path::Path;

/// Reservations and the journal of their changes; everything goes back when it is dropped.
pub(crate) struct Held {
    pub journal: Journal,
    pub reservations: Reservations,
}

impl Held {
    /// None yet. `Unsupported` where this host cannot reserve.
    pub fn open(options: ReservationOptions) -> Result<Held, BenchError> {
        let unsupported = |text: String| BenchError::Unsupported(text);
        let (journal, _) =
            Journal::open(Path::new(FOLDER)).map_err(|e| unsupported(e.to_string()))?;
        let reservations =
            Reservations::new(HostFs::host(), options).map_err(|e| unsupported(e.to_string()))?;
        Ok(Held {
            journal,
            reservations,
        })
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.reservations.set(&mut self.journal, &[], &[]);
        let report = self.journal.undo_all();
        for line in report.failed.iter().chain(&report.foreign) {
            eprintln!("cofferdam: {line}");
        }
    }
}
