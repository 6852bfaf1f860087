//! Host at one moment, with its explanation: from the newest readings, or from the past.

use crate::dataplanes::Dataplane;
use crate::feed::{Latency, Reading};
use cofferdam_records::accounting::AccountingRecord;
use cofferdam_records::explain::{Agent, Explanation, explain};
use cofferdam_records::status::StatusReport;
use std::collections::VecDeque;
use std::time::SystemTime;

/// Number of readings behind an explanation. A finding that holds in all of them lasts.
const READINGS: usize = 3;

/// Host at one moment.
#[derive(Clone, Debug)]
pub(crate) struct Moment {
    pub live: bool,
    pub ledger: AccountingRecord,
    /// Status of the agent. `None` for the past, which does not store it.
    pub status: Option<StatusReport>,
    pub latency: Vec<Latency>,
    pub dataplanes: Vec<Dataplane>,
    pub explanation: Explanation,
    /// Reason why there is nothing newer.
    pub error: Option<String>,
}

/// Newest readings.
#[derive(Debug, Default)]
pub(crate) struct NewestReadings {
    ledgers: VecDeque<AccountingRecord>,
    statuses: VecDeque<StatusReport>,
    latency: Vec<Latency>,
    dataplanes: Vec<Dataplane>,
    error: Option<String>,
}

impl NewestReadings {
    pub fn push(&mut self, reading: Reading) {
        self.error = None;
        if self.ledgers.len() == READINGS {
            self.ledgers.pop_front();
        }
        // One more status than readings: the one before the first reading.
        if self.statuses.len() == READINGS + 1 {
            self.statuses.pop_front();
        }
        self.ledgers.push_back(reading.ledger);
        self.statuses.push_back(reading.status);
        self.latency = reading.latency;
        self.dataplanes = reading.dataplanes;
    }

    pub fn fail(&mut self, why: String) {
        self.error = Some(why);
    }

    /// Newest moment with its explanation. `None` before the first reading.
    pub fn moment(&mut self) -> Option<Moment> {
        let ledger = self.ledgers.back()?.clone();
        let status = self.statuses.back()?.clone();
        let first = self.statuses.front()?.clone();
        let agent = Agent::Running(Box::new((first, status)));
        let now = cofferdam_records::time(SystemTime::now());
        let explanation = explain(self.ledgers.make_contiguous(), &agent, now);
        let Agent::Running(both) = agent else {
            return None;
        };
        Some(Moment {
            live: true,
            ledger,
            status: Some(both.1),
            latency: self.latency.clone(),
            dataplanes: self.dataplanes.clone(),
            explanation,
            error: self.error.clone(),
        })
    }

    /// Reason why there is no reading, or none newer.
    pub fn error(&self) -> Option<&str> {
        self.error.as_deref()
    }
}

impl Moment {
    /// Moment of the past.
    pub fn past(ledger: AccountingRecord) -> Moment {
        let time = ledger.time.clone();
        // The agent's status of that time is not stored. The explanation treats the agent as not
        // queried.
        let readings = [ledger];
        let explanation = explain(&readings, &Agent::NotPermitted, time);
        let [ledger] = readings;
        Moment {
            live: false,
            ledger,
            status: None,
            latency: Vec::new(),
            dataplanes: Vec::new(),
            explanation,
            error: None,
        }
    }
}
