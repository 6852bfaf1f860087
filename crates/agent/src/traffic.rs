//! What the clients of the sockets did: the server counts it, the metrics show it.

/// What the clients did, cumulative.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Traffic {
    pub requests: u64,
    pub refused_requests: u64,
    pub refused_connections: u64,
    pub timeouts: u64,
    pub scrapes: u64,
}

impl Traffic {
    /// The control socket's and the scrapers' together.
    pub fn with(self, scrapers: cofferdam_exporter::Traffic) -> Traffic {
        Traffic {
            refused_connections: self.refused_connections + scrapers.evicted,
            timeouts: self.timeouts + scrapers.timeouts,
            scrapes: self.scrapes + scrapers.scrapes,
            ..self
        }
    }
}
