//! Reservations of a benchmark, made by the product's own code.

use crate::error::BenchError;
use cofferdam_enforce::journal::{FOLDER, Journal};
use cofferdam_enforce::reservation::{ReservationOptions, Reservations};
use cofferdam_host::HostFs;
use std::path::Path;

/// Reservations, and the journal of their changes. Dropping it reverts all of them.
pub(crate) struct JournaledReservations {
    pub journal: Journal,
    pub reservations: Reservations,
}

impl JournaledReservations {
    /// Opens the journal, without a reservation yet.
    ///
    /// # Errors
    /// [`BenchError::Unsupported`] if this host cannot reserve CPUs.
    pub fn open(options: ReservationOptions) -> Result<JournaledReservations, BenchError> {
        let unsupported = |text: String| BenchError::Unsupported(text);
        let (journal, _) =
            Journal::open(Path::new(FOLDER)).map_err(|e| unsupported(e.to_string()))?;
        let reservations =
            Reservations::new(HostFs::host(), options).map_err(|e| unsupported(e.to_string()))?;
        Ok(JournaledReservations {
            journal,
            reservations,
        })
    }
}

impl Drop for JournaledReservations {
    fn drop(&mut self) {
        self.reservations.set(&mut self.journal, &[], &[]);
        let report = self.journal.revert_all();
        for line in report.failed.iter().chain(&report.foreign) {
            eprintln!("cofferdam: {line}");
        }
    }
}
