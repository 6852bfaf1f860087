//! Running tenant with its load generator, and the sink of its datagrams.

use super::cgroups::TenantCgroups;
use super::generator::{HostGenerator, Iperf3Sink};
use super::guest::{Guest, LoadFigures, Tick, late_error};
use super::levels::{Load, Target};
use super::runtime::Tenant;
use super::testbed::IsolationTestbed;
use crate::error::BenchError;
use crate::isolation::data::GeneratorKind;
use cofferdam_bpf::TenantWatch;
use std::time::Duration;

/// Time limit for the start of a sink.
const SINK: Duration = Duration::from_secs(20);

/// Running tenant and its parts.
pub(super) struct Place {
    // Dropped first: the programs go before their cgroups.
    pub watch: Option<TenantWatch>,
    /// Generator of the host that runs in the tenant; dropped before the tenant.
    pub host_generator: Option<HostGenerator>,
    pub tenant: Tenant,
    pub target: Target,
    pub cgroups: TenantCgroups,
}

impl Place {
    /// Sends the next load to the generator; does not wait.
    pub fn begin(&mut self, load: &Load) -> Result<(), BenchError> {
        if let Some(host_generator) = &mut self.host_generator {
            host_generator.prepare(load);
            // Our generator writes the file before the cell begins.
            if !matches!(load, Load::Disk { .. }) {
                return Ok(());
            }
        }
        self.tenant.guest.begin(&load.line())
    }

    /// Waits for the end of the preparation that [`Place::begin`] started.
    pub fn await_prepared(&mut self, load: &Load) -> Result<(), BenchError> {
        match (&self.host_generator, load) {
            (None, _) | (_, Load::Disk { .. }) => self.tenant.guest.await_prepared(),
            _ => Ok(()),
        }
    }

    /// Starts the load.
    pub fn go(&mut self, warmup: Duration, measure: Duration) -> Result<(), BenchError> {
        match &mut self.host_generator {
            None => self.tenant.guest.go(warmup, measure),
            Some(host_generator) => host_generator.go(warmup, measure),
        }
    }

    /// Stops the load early.
    pub fn stop(&mut self) -> Result<(), BenchError> {
        match &mut self.host_generator {
            None => self.tenant.guest.stop(),
            Some(host_generator) => {
                host_generator.stop();
                Ok(())
            }
        }
    }

    /// Waits at most `patience` for the end of the load; `None` if it still runs.
    pub fn await_figures(&mut self, patience: Duration) -> Result<Option<LoadFigures>, BenchError> {
        match &mut self.host_generator {
            None => self.tenant.guest.await_figures(patience),
            Some(host_generator) => host_generator.await_figures(patience),
        }
    }

    /// Reports of the generator since the last preparation. A generator of the host makes none.
    pub fn ticks(&self) -> &[Tick] {
        match &self.host_generator {
            None => self.tenant.guest.ticks(),
            Some(_) => &[],
        }
    }
}

/// Sink of a tenant's datagrams.
pub(super) struct Sink {
    port: u16,
    kind: Kind,
}

enum Kind {
    Own(Guest),
    /// Server of one cell; `None` between cells.
    Iperf3(Option<Iperf3Sink>),
}

impl Sink {
    /// Makes the sink at the peer.
    pub fn new(
        testbed: &IsolationTestbed,
        generator: GeneratorKind,
        port: u16,
    ) -> Result<Sink, BenchError> {
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

    /// Prepares the sink before each cell.
    pub fn prepare(&mut self, testbed: &IsolationTestbed) -> Result<(), BenchError> {
        match &mut self.kind {
            Kind::Own(guest) => guest.prepare(&format!("sink port={}", self.port)),
            Kind::Iperf3(server) => {
                // The last server ends first: it may use the port.
                *server = None;
                *server = Some(Iperf3Sink::start(testbed, self.port)?);
                Ok(())
            }
        }
    }

    /// Starts counting, at the earliest `lead` before the tenant's window.
    pub fn go(
        &mut self,
        lead: Duration,
        warmup: Duration,
        measure: Duration,
    ) -> Result<(), BenchError> {
        match &mut self.kind {
            Kind::Own(guest) => guest.go(lead + warmup, measure),
            // The server's time begins with its client's.
            Kind::Iperf3(server) => {
                server.iter_mut().for_each(|s| s.go(warmup, measure));
                Ok(())
            }
        }
    }

    /// Figures and ticks of the sink; `None` if nothing was sent.
    pub fn await_figures(
        &mut self,
        sent: bool,
        patience: Duration,
    ) -> Result<Option<(LoadFigures, Vec<Tick>)>, BenchError> {
        match &mut self.kind {
            Kind::Own(guest) => {
                let done = guest.await_end(patience)?;
                Ok(sent.then(|| (done, guest.ticks().to_vec())))
            }
            Kind::Iperf3(server) => match server.take() {
                Some(mut server) if sent => {
                    let done = server
                        .await_figures(patience)?
                        .ok_or_else(|| late_error("sink"))?;
                    Ok(Some((done, Vec::new())))
                }
                _ => Ok(None),
            },
        }
    }
}
