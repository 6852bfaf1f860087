//! Latency in the agent: histograms of every container for Prometheus, and the socket on which a
//! container reads its own reports. Both are off by default, because they cost time for each
//! packet.

mod histogram;
mod measure;
mod service;

pub(crate) use histogram::{BOUNDS_NS, Buckets};
pub(crate) use measure::{FlowTotals, LatencyView, MeasuredContainer};

use crate::config::LatencyConfig;
use cofferdam_host::HostError;
use cofferdam_latency::MeasureError;
use cofferdam_paths::ListenError;
use cofferdam_types::{Container, Degradation};
use measure::Measuring;
use service::Service;
use std::io;
use std::sync::Arc;

/// Reason why a part could not be started.
#[derive(Debug, thiserror::Error)]
enum StartError {
    #[error(transparent)]
    Measure(#[from] MeasureError),
    #[error(transparent)]
    Host(#[from] HostError),
    #[error(transparent)]
    Listen(#[from] ListenError),
    #[error("cannot make a pipe: {0}")]
    Pipe(#[source] io::Error),
    #[error(transparent)]
    Thread(io::Error),
}

/// Running parts of the latency measurement.
#[derive(Default)]
pub(crate) struct Latency {
    config: LatencyConfig,
    measuring: Option<Measuring>,
    service: Option<Service>,
    failures: Vec<Degradation>,
}

impl Latency {
    /// Starts or stops what the configuration asks for. Retries what has failed.
    pub fn switch(&mut self, config: &LatencyConfig) {
        let changed = *config != self.config;
        self.config = config.clone();
        self.failures.clear();
        if changed {
            // The old socket file must be removed before a new one is created in its place.
            self.measuring = None;
            self.service = None;
        }
        if config.histograms {
            self.measure();
        }
        if let Some(path) = &config.socket
            && self.service.as_ref().is_none_or(Service::has_ended)
        {
            self.service = None;
            match Service::start(path, config.start) {
                Ok(service) => self.service = Some(service),
                Err(why) => self.fail("latency_socket", "containers cannot read latencies", &why),
            }
        }
    }

    /// Starts the measurement thread unless it runs.
    fn measure(&mut self) {
        if self.measuring.as_ref().is_some_and(|m| !m.has_ended()) {
            return;
        }
        self.measuring = None;
        match Measuring::start(&self.config) {
            Ok(measuring) => self.measuring = Some(measuring),
            Err(why) => self.fail("latency_unavailable", "latency is not measured", &why),
        }
    }

    /// Measures these containers from now on. Unless all containers have histograms, the thread
    /// runs only while there are some.
    pub fn follow(&mut self, containers: &[Arc<Container>]) {
        if !self.config.histograms {
            match containers.is_empty() {
                true => self.measuring = None,
                // After a failure, wait until the configuration is read again.
                false if self.failures.is_empty() => self.measure(),
                false => {}
            }
        }
        if let Some(measuring) = &self.measuring {
            measuring.follow(containers);
        }
    }

    /// Measurements; empty while nothing is measured.
    pub fn view(&self) -> Arc<LatencyView> {
        let view = self.measuring.as_ref().map(Measuring::view);
        view.unwrap_or_default()
    }

    /// Parts that do not run as configured.
    pub fn degraded(&self) -> impl Iterator<Item = Degradation> {
        let ended = |name: &str, what: &str| Degradation {
            name: name.to_owned(),
            text: format!("{what}: its thread has ended, the log says why; reload to try again"),
        };
        let measuring = self.measuring.as_ref().filter(|m| m.has_ended());
        let service = self.service.as_ref().filter(|s| s.has_ended());
        self.failures
            .clone()
            .into_iter()
            .chain(measuring.map(|_| ended("latency_unavailable", "latency is not measured")))
            .chain(service.map(|_| ended("latency_socket", "containers cannot read latencies")))
    }

    fn fail(&mut self, name: &str, what: &str, why: &StartError) {
        let text = format!("{what}: {why}");
        tracing::warn!("{text}");
        self.failures.push(Degradation {
            name: name.to_owned(),
            text,
        });
    }
}
