//! A tenant that lives, what makes its load, and where that is received.

use super::cgroups::TenantCgroups;
use super::generator::{Foreign, Iperf3Sink};
use super::guest::{Done, Guest, Tick, late};
use super::levels::{Load, Target};
use super::runtime::Tenant;
use super::testbed::Testbed;
use crate::error::BenchError;
use crate::isolation::data::GeneratorKind;
use cofferdam_bpf::TenantWatch;
use std::time::Duration;

/// How long a sink may take to start.
const SINK: Duration = Duration::from_secs(20);

/// A tenant that lives, and what is known of it.
pub(super) struct Place {
    // First: its programs go before its cgroups.
    pub watch: Option<TenantWatch>,
    /// A generator of the host, which runs in the tenant; it goes before the tenant.
    pub foreign: Option<Foreign>,
    pub tenant: Tenant,
    pub target: Target,
    pub cgroups: TenantCgroups,
}

impl Place {
    /// Tells its generator what to do next; does not wait.
    pub fn begin(&mut self, load: &Load) -> Result<(), BenchError> {
        if let Some(foreign) = &mut self.foreign {
            foreign.prepare(load);
            // Its file is written by ours, before the cell begins.
            if !matches!(load, Load::Disk { .. }) {
                return Ok(());
            }
        }
        self.tenant.guest.begin(&load.line())
    }

    /// Waits for what [`Place::begin`] began.
    pub fn prepared(&mut self, load: &Load) -> Result<(), BenchError> {
        match (&self.foreign, load) {
            (None, _) | (_, Load::Disk { .. }) => self.tenant.guest.prepared(),
            _ => Ok(()),
        }
    }

    /// Lets it go.
    pub fn go(&mut self, warmup: Duration, measure: Duration) -> Result<(), BenchError> {
        match &mut self.foreign {
            None => self.tenant.guest.go(warmup, measure),
            Some(foreign) => foreign.go(warmup, measure),
        }
    }

    /// Ends its load early.
    pub fn stop(&mut self) -> Result<(), BenchError> {
        match &mut self.foreign {
            None => self.tenant.guest.stop(),
            Some(foreign) => {
                foreign.stop();
                Ok(())
            }
        }
    }

    /// Waits at most `patience` for it to be done; `None` when it is not yet.
    pub fn done(&mut self, patience: Duration) -> Result<Option<Done>, BenchError> {
        match &mut self.foreign {
            None => self.tenant.guest.done(patience),
            Some(foreign) => foreign.done(patience),
        }
    }

    /// Its generator's reports since it was prepared; those of the host make none.
    pub fn ticks(&self) -> &[Tick] {
        match &self.foreign {
            None => self.tenant.guest.ticks(),
            Some(_) => &[],
        }
    }
}

/// Where a tenant's datagrams arrive.
pub(super) struct Sink {
    port: u16,
    kind: Kind,
}

enum Kind {
    Own(Guest),
    /// One for each cell; `None` between cells.
    Iperf3(Option<Iperf3Sink>),
}

impl Sink {
    /// At the peer.
    pub fn new(testbed: &Testbed, generator: GeneratorKind, port: u16) -> Result<Sink, BenchError> {
        let kind = match generator {
            GeneratorKind::Iperf3 => Kind::Iperf3(None),
            _ => {
                let mut command = testbed.in_peer(&testbed.load);
                command.arg("serve");
                Kind::Own(Guest::start("sink", command, SINK)?)
            }
        };
        Ok(Sink { port, kind })
    }

    /// Before each cell.
    pub fn prepare(&mut self, testbed: &Testbed) -> Result<(), BenchError> {
        match &mut self.kind {
            Kind::Own(guest) => guest.prepare(&format!("sink port={}", self.port)),
            Kind::Iperf3(server) => {
                // The last one first: it may hold the port.
                *server = None;
                *server = Some(Iperf3Sink::start(testbed, self.port)?);
                Ok(())
            }
        }
    }

    /// Lets it count, `lead` before the tenant's window opens at the earliest.
    pub fn go(
        &mut self,
        lead: Duration,
        warmup: Duration,
        measure: Duration,
    ) -> Result<(), BenchError> {
        match &mut self.kind {
            Kind::Own(guest) => guest.go(lead + warmup, measure),
            // Its time begins with its client's.
            Kind::Iperf3(server) => {
                server.iter_mut().for_each(|s| s.go(warmup, measure));
                Ok(())
            }
        }
    }

    /// What arrived, and its reports; `None` where nobody sent.
    pub fn done(
        &mut self,
        sent: bool,
        patience: Duration,
    ) -> Result<Option<(Done, Vec<Tick>)>, BenchError> {
        match &mut self.kind {
            Kind::Own(guest) => {
                let done = guest.finished(patience)?;
                Ok(sent.then(|| (done, guest.ticks().to_vec())))
            }
            Kind::Iperf3(server) => match server.take() {
                Some(mut server) if sent => {
                    let done = server.done(patience)?.ok_or_else(|| late("sink"))?;
                    Ok(Some((done, Vec::new())))
                }
                _ => Ok(None),
            },
        }
    }
}
