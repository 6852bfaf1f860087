//! The diagnosis next to the ledger: CPU time that containers were entitled to but did not get.
//!
//! The diagnosis is optional: a host that cannot run it still has its ledger, and the reason is
//! reported.

use crate::exit::one_line;
use crate::here;
use crate::selection::Selection;
use crate::table::{finish, numbers_right, plain};
use cofferdam_agent::Client;
use cofferdam_diagnosis::{Diagnosis, DiagnosisOptions, DiagnosisReading};
use cofferdam_records::diagnosis::DiagnosisRecord;
use cofferdam_records::explain::Agent;
use cofferdam_records::status::StatusReport;
use cofferdam_types::{Container, DiagnosedContainer, ScheduleInterval};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// Smallest loss that is mentioned, CPUs.
const WORTH_WORDS_CPUS: f64 = 0.01;

/// The running diagnosis, or the reason why there is none.
pub struct Watch {
    running: Option<Running>,
    off: Option<String>,
    wanted: bool,
    /// The agent's status before and after the last interval.
    statuses: Option<Box<(StatusReport, StatusReport)>>,
}

enum Running {
    /// Diagnosis in this process.
    Own(Box<(Diagnosis, Option<DiagnosisReading>)>),
    /// Diagnosis in the agent, over the last second or so.
    Agent(Client),
}

impl Watch {
    /// Starts the diagnosis, if it is wanted.
    pub fn start(wanted: bool) -> Watch {
        if !wanted {
            return Watch::off(None);
        }
        match Diagnosis::start(DiagnosisOptions::default()) {
            Ok(diagnosis) => Watch {
                running: Some(Running::Own(Box::new((diagnosis, None)))),
                wanted,
                ..Watch::off(None)
            },
            Err(e) => Watch::off(Some(e.to_string())),
        }
    }

    /// Uses the diagnosis of the agent at `socket`: nothing is loaded twice. If it is not wanted,
    /// the agent is still asked for its status.
    pub fn agent(wanted: bool, socket: &Path) -> Watch {
        match Client::connect(socket) {
            Ok(client) => Watch {
                running: Some(Running::Agent(client)),
                wanted,
                ..Watch::off(None)
            },
            Err(e) => Watch::off(Some(e.to_string())),
        }
    }

    /// No diagnosis, for the reason `why`.
    pub fn off(why: Option<String>) -> Watch {
        Watch {
            running: None,
            off: why,
            wanted: false,
            statuses: None,
        }
    }

    /// Reason why there is no diagnosis although it was wanted.
    pub fn why_off(&self) -> Option<&str> {
        self.off.as_deref()
    }

    /// The agent, with its last two statuses.
    pub fn agent_state(&self) -> Agent {
        match &self.statuses {
            Some(statuses) => Agent::Running(statuses.clone()),
            None => Agent::NotRunning(here::start()),
        }
    }

    /// Ends an interval and begins the next. Returns `None` for the first, and without a diagnosis.
    pub fn cut(&mut self, containers: &[Arc<Container>]) -> Option<ScheduleInterval> {
        let cut = match self.running.as_mut()? {
            Running::Own(own) => {
                let (diagnosis, last) = own.as_mut();
                match diagnosis.snapshot(containers) {
                    Ok(now) => {
                        let interval = last.as_ref().map(|last| now.since(last));
                        *last = Some(now);
                        Ok(interval)
                    }
                    Err(e) => Err(e.to_string()),
                }
            }
            Running::Agent(client) => match client.status() {
                Ok(status) => {
                    let losses = of_agent(&status, containers).filter(|_| self.wanted);
                    let before = self
                        .statuses
                        .take()
                        .map_or_else(|| status.clone(), |statuses| statuses.1);
                    self.statuses = Some(Box::new((before, status)));
                    Ok(losses)
                }
                Err(e) => Err(e.to_string()),
            },
        };
        cut.unwrap_or_else(|why| {
            *self = Watch::off(Some(why));
            None
        })
    }
}

/// Last diagnosis of the agent; `None` while it is off or has just started.
fn of_agent(status: &StatusReport, containers: &[Arc<Container>]) -> Option<ScheduleInterval> {
    let diagnosis = status.diagnosis.as_ref()?;
    Some(diagnosis.interval(containers))
}

/// Containers of `selection`, the largest losses to others first.
pub fn selected<'a>(
    interval: &'a ScheduleInterval,
    selection: &Selection,
) -> Vec<&'a DiagnosedContainer> {
    let mut shown = interval.worst_first();
    shown.retain(|c| selection.matches(&c.container));
    shown
}

/// Sentence about the container that lost most to others; `None` if none lost anything.
pub fn worst(interval: &ScheduleInterval) -> Option<String> {
    let worst = interval
        .containers
        .iter()
        .max_by_key(|c| c.loss.taken_ns())?;
    let taken_cpus = cpus(worst.loss.taken_ns(), interval.length);
    (taken_cpus >= WORTH_WORDS_CPUS).then(|| one_line(&worst.words(interval.length)))
}

/// Sentence about the container of a document that lost most to others.
pub fn worst_of(record: &DiagnosisRecord) -> Option<String> {
    let worst = record.containers.iter().max_by_key(|c| c.taken_ns())?;
    let length = Duration::try_from_secs_f64(record.interval_s).unwrap_or_default();
    (cpus(worst.taken_ns(), length) >= WORTH_WORDS_CPUS).then(|| one_line(&worst.words(length)))
}

/// Losses as a table; empty without containers.
pub fn table(interval: &ScheduleInterval, selection: &Selection, width: Option<u16>) -> String {
    let shown = selected(interval, selection);
    if shown.is_empty() {
        return String::new();
    }
    let mut table = plain(width);
    table.set_header([
        "CPUs promised",
        "entitled",
        "by",
        "got",
        "sharing",
        "phantom",
        "quota",
        "no threads",
    ]);
    for one in shown {
        let loss = &one.loss;
        let text = |ns: u64| format!("{:.2}", cpus(ns, interval.length));
        table.add_row([
            one_line(&one.container.name),
            text(loss.entitled_ns),
            one.entitlement.to_string(),
            text(loss.got_ns),
            text(loss.forced_sharing_ns),
            text(loss.phantom_ns),
            text(loss.throttled_ns),
            text(loss.lack_ns),
        ]);
    }
    numbers_right(&mut table);
    let mut text = format!("\n{}", finish(&table));
    if let Some(words) = worst(interval) {
        text += &format!("{words}\n");
    }
    text
}

/// Diagnosis for the document.
pub fn record(interval: &ScheduleInterval, selection: &Selection) -> DiagnosisRecord {
    DiagnosisRecord::new(interval, selected(interval, selection))
}

fn cpus(ns: u64, length: Duration) -> f64 {
    ns as f64 / length.as_nanos().max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::container;
    use cofferdam_types::{CpuLoss, DiagnosisHealth, Entitlement, Neighbour, ScheduleTime};

    const MS: u64 = 1_000_000;

    fn interval() -> ScheduleInterval {
        let diagnosed = |id, name, entitled_ms: u64, run_ms: u64, shared_ms: u64| {
            let time = ScheduleTime {
                run_ns: run_ms * MS,
                shared_ns: shared_ms * MS,
                ..ScheduleTime::default()
            };
            DiagnosedContainer {
                container: Arc::new(container(id, name)),
                loss: CpuLoss::split(entitled_ms * MS, &time),
                entitlement: Entitlement::Weight,
                time,
                neighbour: (shared_ms > 0).then(|| Neighbour::Container("n1".to_owned())),
            }
        };
        ScheduleInterval {
            length: Duration::from_secs(1),
            counted: Duration::from_secs(1),
            cpus: 2,
            idle_ns: 0,
            left_idle_ns: 0,
            host_ns: 0,
            containers: vec![
                diagnosed(1, "n1", 1000, 1300, 0),
                diagnosed(2, "t", 1000, 600, 300),
            ],
            shares: Vec::new(),
            unused: Vec::new(),
            health: DiagnosisHealth::default(),
        }
    }

    #[test]
    fn the_worst_is_described() {
        assert_eq!(
            worst(&interval()).as_deref(),
            Some(
                "t got 0.60 of 1.00 CPUs it was promised: 0.30 to forced runqueue sharing with \
                 n1, 0.10 to lack of threads"
            )
        );
        let mut calm = interval();
        calm.containers.pop();
        assert_eq!(worst(&calm), None);
    }

    #[test]
    fn the_table_begins_with_the_largest_victim() {
        let text = table(&interval(), &Selection::default(), None);
        let lines: Vec<_> = text.trim().lines().collect();
        assert!(
            lines[1].starts_with("t ") && lines[1].contains("0.30"),
            "{text}"
        );
        assert!(lines[2].starts_with("n1 "), "{text}");
        assert!(lines[3].starts_with("t got 0.60 of 1.00 CPUs"), "{text}");
    }

    /// Promise 12.
    #[test]
    fn the_agents_diagnosis_looks_like_ones_own() {
        let own = interval();
        let mut report = crate::status::tests::report();
        let containers: Vec<_> = own.containers.iter().map(|c| c.container.clone()).collect();
        report.diagnosis = None;
        assert_eq!(of_agent(&report, &containers), None, "it has just started");
        report.diagnosis = Some(super::record(&own, &Selection::default()));
        let shown = of_agent(&report, &containers).unwrap();
        let all = Selection::default();
        assert_eq!(table(&shown, &all, None), table(&own, &all, None));
        assert_eq!(super::record(&shown, &all), super::record(&own, &all));
        // A container that the ledger lacks is left out.
        let one = of_agent(&report, &containers[..1]).unwrap();
        assert_eq!(one.containers.len(), 1);
    }

    #[test]
    fn off_is_reported_and_does_nothing() {
        let mut watch = Watch::off(Some("no BTF".to_owned()));
        assert_eq!(watch.cut(&[]), None);
        assert_eq!(watch.why_off(), Some("no BTF"));
    }
}
