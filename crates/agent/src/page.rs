//! Live page in the agent. It reads the view that the control loop publishes, and never blocks the
//! loop.

mod past;

use crate::config::{SocketConfig, WebConfig};
use crate::latency::{FlowTotals, MeasuredContainer};
use crate::server::find_group;
use crate::view::View;
use cofferdam_latency::{Class, Direction, Stage};
use cofferdam_records::accounting::AccountingRecord;
use cofferdam_types::{Degradation, Snapshot};
use cofferdam_web::{
    Dataplanes, Feed, FeedError, Latency, Options, Page, Past, Reading, StartError,
};
use past::StorePast;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Name of the file with the page's URL, next to the control socket.
pub(crate) const URL_FILE: &str = "web.url";
/// Time between two readings without a visitor. A published view costs nothing to read, so the last
/// minutes are stored for the next visitor.
const IDLE: Duration = Duration::from_secs(1);

/// Page, if one is configured and can be served.
#[derive(Default)]
pub(crate) struct LivePage {
    config: WebConfig,
    group: Option<String>,
    history: Option<PathBuf>,
    page: Option<Page>,
    /// Whether a visitor has looked since [`LivePage::was_watched`].
    watched: Arc<AtomicBool>,
    failure: Option<Degradation>,
}

impl LivePage {
    /// Starts or stops the page as configured. Retries what has failed.
    pub fn switch(
        &mut self,
        config: &WebConfig,
        socket: &SocketConfig,
        history: Option<PathBuf>,
        view: &Arc<Mutex<Arc<View>>>,
    ) {
        let same = *config == self.config && socket.group == self.group && history == self.history;
        let runs = self.page.as_ref().is_some_and(|page| !page.has_ended());
        if same && runs {
            return;
        }
        self.config = config.clone();
        self.group = socket.group.clone();
        self.history = history;
        self.failure = None;
        // The old page must release its address before the next one binds it.
        self.page = None;
        let Some(address) = &config.address else {
            return;
        };
        let options = Options {
            address: address.clone(),
            hosts: config.hosts.clone(),
            remote: config.remote,
            // An unknown group is reported as a problem of the control socket.
            group: (socket.group.as_deref())
                .and_then(|group| find_group(group).ok())
                .map(|group| group.as_raw()),
            url_file: url_file(&socket.path),
        };
        let history = self.history.clone();
        let past = history.map(|path| Box::new(StorePast::new(path)) as Box<dyn Past>);
        let dataplanes = Dataplanes::new(config.dataplanes.clone(), cofferdam_dataplane::status);
        let started = dataplanes
            .map_err(|why| StartError::Process {
                what: "start a thread",
                why,
            })
            .and_then(|dataplanes| {
                let feed = ViewFeed::new(view.clone(), dataplanes, self.watched.clone());
                Page::start(&options, Box::new(feed), past)
            });
        match started {
            Ok(page) => {
                tracing::info!("the live page is at {}", page.address());
                self.page = Some(page);
            }
            Err(why) => {
                let text = format!("no page is served: {why}; then reload");
                tracing::warn!("{text}");
                self.failure = Some(Degradation {
                    name: "web_page".to_owned(),
                    text,
                });
            }
        }
    }

    /// Whether a visitor has looked since the last call.
    pub fn was_watched(&self) -> bool {
        self.watched.swap(false, Ordering::Relaxed)
    }

    /// Degradation if the page does not run as configured.
    pub fn degraded(&self) -> Option<Degradation> {
        let ended = self.page.as_ref().is_some_and(Page::has_ended);
        let ended = ended.then(|| Degradation {
            name: "web_page".to_owned(),
            text: "no page is served: its thread has ended, the log says why; reload to try again"
                .to_owned(),
        });
        ended.or_else(|| self.failure.clone())
    }
}

fn url_file(socket: &Path) -> Option<PathBuf> {
    Some(socket.parent()?.join(URL_FILE))
}

/// Feed from the view that the control loop publishes after each step.
struct ViewFeed {
    view: Arc<Mutex<Arc<View>>>,
    last: Option<Arc<Snapshot>>,
    dataplanes: Dataplanes,
    watched: Arc<AtomicBool>,
}

impl ViewFeed {
    fn new(
        view: Arc<Mutex<Arc<View>>>,
        dataplanes: Dataplanes,
        watched: Arc<AtomicBool>,
    ) -> ViewFeed {
        ViewFeed {
            view,
            last: None,
            dataplanes,
            watched,
        }
    }
}

impl Feed for ViewFeed {
    fn read(&mut self, looks: bool) -> Result<Option<Reading>, FeedError> {
        if looks {
            self.watched.store(true, Ordering::Relaxed);
        }
        let view = self.view.lock();
        let view = view.unwrap_or_else(PoisonError::into_inner).clone();
        let now = view.snapshot.clone();
        let Some(last) = self.last.replace(now.clone()) else {
            return Ok(None);
        };
        if now.uptime <= last.uptime {
            return Ok(None);
        }
        Ok(Some(Reading {
            ledger: AccountingRecord::new(&now.since(&last)),
            status: view.report(None, &[]),
            latency: view.latency.containers.iter().flat_map(latency).collect(),
            dataplanes: self.dataplanes.latest_if(looks),
        }))
    }

    fn idle_interval(&self) -> Duration {
        IDLE
    }
}

/// Averages of the measurements of a container's packets.
fn latency(measured: &MeasuredContainer) -> Vec<Latency> {
    let flows = measured.flows.iter();
    let row = |(&(direction, class), flow): (&(Direction, Class), &FlowTotals)| {
        let packets = flow.total.count();
        let average = |sum_ns: u64, packets: u64| sum_ns.checked_div(packets);
        let stages = Stage::ALL.iter().zip(flow.stages_ns);
        Some(Latency {
            cgroup_id: measured.container.cgroup.0,
            direction: direction.label(),
            protocol: class.label(),
            packets,
            total_ns: average(flow.total.sum_ns, packets)?,
            added_ns: average(flow.added.sum_ns, flow.added.count()),
            stages_ns: stages
                .filter(|(_, ns)| *ns > 0)
                .map(|(stage, ns)| (stage.label(), ns / packets))
                .collect(),
        })
    };
    flows.filter_map(row).collect()
}
