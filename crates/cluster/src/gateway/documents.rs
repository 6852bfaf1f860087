//! The documents of a node, made of the agent's last answers. Pure.

use cofferdam_records::accounting::AccountingRecord;
use cofferdam_records::conditions;
use cofferdam_records::explain::{Agent, explain};
use cofferdam_records::node::report;
use cofferdam_records::status::StatusReport;
use std::collections::VecDeque;
use std::sync::Arc;

/// Largest document that is served, bytes.
pub const MOST_BYTES: usize = 8 << 20;
/// Readings of one explanation, as in `cofferdam explain`.
const READINGS: usize = 3;

/// Which document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Which {
    /// The node in short.
    Node,
    /// What is wrong there.
    Explain,
    /// The agent's status.
    Status,
    /// What should be told on pods.
    Conditions,
}

impl Which {
    /// Whether who asks for it looks on, so that the agent is asked more often for a while. Conditions are
    /// asked for all the time.
    pub fn is_watched(self) -> bool {
        self != Which::Conditions
    }
}

/// The documents of one moment.
#[derive(Clone, Debug)]
pub struct Documents {
    node: Arc<str>,
    explain: Arc<str>,
    status: Arc<str>,
    conditions: Arc<str>,
}

/// The last readings.
#[derive(Debug, Default)]
pub struct Readings {
    ledgers: VecDeque<AccountingRecord>,
    statuses: VecDeque<StatusReport>,
}

impl Readings {
    /// Takes a reading, and makes the documents of it and of those before.
    pub fn take(
        &mut self,
        ledger: AccountingRecord,
        status: StatusReport,
    ) -> Result<Documents, String> {
        if self.ledgers.len() == READINGS {
            self.ledgers.pop_front();
            self.statuses.pop_front();
        }
        let node = report(&ledger, &status);
        let conditions = conditions::report(&ledger, &status);
        let time = ledger.time.clone();
        let first = self.statuses.front().unwrap_or(&status).clone();
        self.ledgers.push_back(ledger);
        self.statuses.push_back(status.clone());
        let agent = Agent::Running(Box::new((first, status.clone())));
        let explanation = explain(self.ledgers.make_contiguous(), &agent, time);
        Ok(Documents {
            node: text(&node)?,
            explain: text(&explanation)?,
            status: text(&status)?,
            conditions: text(&conditions)?,
        })
    }
}

impl Documents {
    /// One of them.
    pub fn get(&self, which: Which) -> &Arc<str> {
        match which {
            Which::Node => &self.node,
            Which::Explain => &self.explain,
            Which::Status => &self.status,
            Which::Conditions => &self.conditions,
        }
    }
}

fn text<T: serde::Serialize>(document: &T) -> Result<Arc<str>, String> {
    let text = serde_json::to_string(document).map_err(|e| format!("cannot write JSON: {e}"))?;
    match text.len() <= MOST_BYTES {
        true => Ok(text.into()),
        false => Err(format!("a document is larger than {MOST_BYTES} bytes")),
    }
}
