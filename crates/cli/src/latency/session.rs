//! Running measurement of the selected containers, which may start and end meanwhile.

use super::args::MeasureArgs;
use crate::exit::Failure;
use crate::selection::Selection;
use cofferdam_latency::{
    Counts, Filter, Fleet, Meter, NotMeasurable, Reader, ReportCounts, Sample, measurable,
};
use cofferdam_types::{Container, NetnsId};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Time between two checks for new containers.
const REFRESH: Duration = Duration::from_millis(500);

/// Running measurement.
pub struct Session {
    args: MeasureArgs,
    fleet: Fleet,
    selection: Selection,
    meter: Meter,
    reader: Reader,
    measured: BTreeMap<NetnsId, Arc<Container>>,
    refreshed: Instant,
    ended: Vec<String>,
}

impl Session {
    /// Finds the containers, loads the programs and starts the measurement.
    pub fn begin(args: &MeasureArgs) -> Result<Session, Failure> {
        let fleet = Fleet::scan().map_err(|e| Failure::failed(e.to_string()))?;
        let containers = fleet.containers();
        let selection = Selection::new(&args.containers.containers, &containers)?;
        if !selection.has_no_selectors() {
            check(&containers, &selection)?;
        }
        check_interface(args, &containers, &selection)?;
        let meter = Meter::load(args.sizes(), args.start())?;
        let mut session = Session {
            args: args.clone(),
            reader: meter.reader()?,
            fleet,
            selection,
            meter,
            measured: BTreeMap::new(),
            refreshed: Instant::now(),
            ended: Vec::new(),
        };
        session.follow()?;
        Ok(session)
    }

    /// Starts measuring containers that have started, and stops measuring ended ones.
    fn follow(&mut self) -> Result<(), Failure> {
        let selection = &self.selection;
        let now = self.fleet.by_netns(|c| selection.matches(c));
        let left: Vec<NetnsId> = self
            .measured
            .keys()
            .filter(|netns| !now.contains_key(netns))
            .copied()
            .collect();
        for netns in left {
            self.meter.off(netns);
            self.ended
                .extend(self.measured.remove(&netns).map(|c| c.name.clone()));
        }
        for (netns, containers) in now {
            let Some(first) = containers.into_iter().next() else {
                continue;
            };
            if self.measured.get(&netns) == Some(&first) {
                continue;
            }
            let Some(filter) = self.filter(&first) else {
                continue;
            };
            self.meter.on(netns, &filter)?;
            self.measured.insert(netns, first);
        }
        Ok(())
    }

    /// Filter for `container`; `None` when it lacks the requested interface.
    fn filter(&self, container: &Container) -> Option<Filter> {
        let Some(wanted) = &self.args.interface else {
            return Some(self.args.filter(None));
        };
        let pair = container
            .interfaces
            .iter()
            .find(|i| i.container_name.as_deref() == Some(wanted))?;
        Some(self.args.filter(Some(pair.container_ifindex.0)))
    }

    /// Passes every pending sample to `sink`, and checks for new containers when it is time.
    pub fn take(&mut self, mut sink: impl FnMut(&Container, Sample)) -> Result<(), Failure> {
        self.meter.maintain()?;
        let measured = &self.measured;
        self.reader.take(|sample| {
            if let Some(container) = measured.get(&sample.report.netns) {
                sink(container, sample);
            }
        });
        if self.refreshed.elapsed() >= REFRESH {
            self.fleet.refresh();
            self.follow()?;
            self.refreshed = Instant::now();
        }
        Ok(())
    }

    /// Containers measured now, with their counts since the measurement of each started.
    pub fn counts(&self) -> Result<Vec<(NetnsId, Arc<Container>, Counts)>, Failure> {
        let each = self.measured.iter().map(|(netns, container)| {
            let counts = self.meter.counts(*netns)?;
            Ok((*netns, container.clone(), counts))
        });
        each.collect()
    }

    /// Numbers of reports that the reader has taken, missed and refused.
    pub fn totals(&self) -> ReportCounts {
        self.reader.totals()
    }

    /// Memory of the maps, bytes.
    pub fn memory_bytes(&self) -> u64 {
        self.meter.memory_bytes()
    }

    /// Host devices that timestamp received packets in hardware.
    pub fn hardware_timestamping(&self) -> &[String] {
        self.meter.hardware_timestamping()
    }

    /// Returns the names of containers that ended since the last call.
    pub fn take_ended(&mut self) -> Vec<String> {
        std::mem::take(&mut self.ended)
    }

    /// Number of measured containers.
    pub fn measured(&self) -> usize {
        self.measured.len()
    }

    /// Whether containers were selected by name.
    pub fn is_selected(&self) -> bool {
        !self.selection.has_no_selectors()
    }
}

/// Fails if none of the selected containers can be measured.
fn check(containers: &[Arc<Container>], selection: &Selection) -> Result<(), Failure> {
    let mut why: Option<NotMeasurable> = None;
    for container in containers.iter().filter(|c| selection.matches(c)) {
        match measurable(container) {
            Ok(_) => return Ok(()),
            Err(e) => why = why.or(Some(e)),
        }
    }
    let text = why.map(|w| w.to_string());
    Err(Failure::failed(
        text.unwrap_or_else(|| "no container was selected".to_owned()),
    ))
}

fn check_interface(
    args: &MeasureArgs,
    containers: &[Arc<Container>],
    selection: &Selection,
) -> Result<(), Failure> {
    let Some(wanted) = &args.interface else {
        return Ok(());
    };
    let mut names: Vec<&str> = containers
        .iter()
        .filter(|c| selection.matches(c))
        .flat_map(|c| {
            c.interfaces
                .iter()
                .filter_map(|i| i.container_name.as_deref())
        })
        .collect();
    if names.contains(&wanted.as_str()) {
        return Ok(());
    }
    names.sort_unstable();
    names.dedup();
    Err(Failure::failed(format!(
        "no selected container has an interface '{wanted}': there are {}",
        if names.is_empty() {
            "none".to_owned()
        } else {
            names.join(", ")
        }
    )))
}
