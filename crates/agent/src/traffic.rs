//! Counts of the clients' requests: the server counts, the metrics show.

/// Cumulative counts of the clients' requests.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Traffic {
    pub requests: u64,
    pub refused_requests: u64,
    pub refused_connections: u64,
    pub timeouts: u64,
    pub scrapes: u64,
}

impl Traffic {
    /// Sum of the control socket's counts and the scrapers'.
    pub fn plus(self, scrapers: cofferdam_exporter::Traffic) -> Traffic {
        Traffic {
            refused_connections: self.refused_connections + scrapers.evicted,
            timeouts: self.timeouts + scrapers.timeouts,
            scrapes: self.scrapes + scrapers.scrapes,
            ..self
        }
    }
}
