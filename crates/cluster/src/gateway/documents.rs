//! Documents of a node, derived from the agent's last answers by pure functions.

use cofferdam_records::accounting::AccountingRecord;
use cofferdam_records::conditions;
use cofferdam_records::explain::{Agent, explain};
use cofferdam_records::node::report;
use cofferdam_records::status::StatusReport;
use std::collections::VecDeque;
use std::sync::Arc;

/// Largest document that is served, bytes.
pub const MOST_BYTES: usize = 8 << 20;
/// Number of readings of one explanation, as in `cofferdam explain`.
const READINGS: usize = 3;

/// Kind of document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DocumentKind {
    /// Summary of the node.
    Node,
    /// Explanation of what is wrong there.
    Explain,
    /// Status of the agent.
    Status,
    /// Conditions of the pods.
    Conditions,
}

impl DocumentKind {
    /// Whether a request for it shows that a client watches, so that the agent is asked more often
    /// for a while. Conditions are requested all the time.
    pub fn is_watched(self) -> bool {
        self != DocumentKind::Conditions
    }
}

/// Documents of one moment.
#[derive(Clone, Debug)]
pub struct Documents {
    node: Arc<str>,
    explain: Arc<str>,
    status: Arc<str>,
    conditions: Arc<str>,
}

/// Last readings.
#[derive(Debug, Default)]
pub struct Readings {
    ledgers: VecDeque<AccountingRecord>,
    statuses: VecDeque<StatusReport>,
}

impl Readings {
    /// Adds a reading, and derives the documents from it and from earlier ones.
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
    /// Document of the given kind.
    pub fn get(&self, kind: DocumentKind) -> &Arc<str> {
        match kind {
            DocumentKind::Node => &self.node,
            DocumentKind::Explain => &self.explain,
            DocumentKind::Status => &self.status,
            DocumentKind::Conditions => &self.conditions,
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
