//! Watch of an agent over its socket, which survives the agent's restarts.

use crate::client::{Client, ClientError};
use cofferdam_records::accounting::AccountingRecord;
use cofferdam_records::status::StatusReport;
use cofferdam_types::Snapshot;
use std::path::PathBuf;

/// State between two readings of one agent.
#[derive(Debug)]
pub struct Watch {
    socket: PathBuf,
    client: Option<Client>,
    last: Option<Snapshot>,
}

impl Watch {
    /// Watches the agent that listens on `socket`. Connects with the first reading.
    pub fn new(socket: PathBuf) -> Watch {
        Watch {
            socket,
            client: None,
            last: None,
        }
    }

    /// Watches the agent that listens on `socket`, and connects now.
    ///
    /// # Errors
    /// [`ClientError`] if no agent answers.
    pub fn connect(socket: PathBuf) -> Result<Watch, ClientError> {
        let client = Some(Client::connect(&socket)?);
        Ok(Watch {
            client,
            ..Watch::new(socket)
        })
    }

    /// Reads the current state of the agent, and the ledger of the time since the previous reading.
    /// The ledger is `None` at the first reading since the agent's start: it would count from the
    /// beginning.
    ///
    /// # Errors
    /// [`ClientError`] if the agent does not answer; the next reading connects again.
    pub fn read(&mut self) -> Result<(StatusReport, Option<AccountingRecord>), ClientError> {
        self.read_as(Client::snapshot)
    }

    /// Reads like [`Watch::read`] while no person looks: see [`Client::glance`].
    ///
    /// # Errors
    /// The errors of [`Watch::read`].
    pub fn glance(&mut self) -> Result<(StatusReport, Option<AccountingRecord>), ClientError> {
        self.read_as(Client::glance)
    }

    fn read_as(
        &mut self,
        snapshot: fn(&mut Client) -> Result<Snapshot, ClientError>,
    ) -> Result<(StatusReport, Option<AccountingRecord>), ClientError> {
        let read = self.ask(snapshot);
        if read.is_err() {
            self.client = None;
            self.last = None;
        }
        read
    }

    fn ask(
        &mut self,
        snapshot: fn(&mut Client) -> Result<Snapshot, ClientError>,
    ) -> Result<(StatusReport, Option<AccountingRecord>), ClientError> {
        let client = match &mut self.client {
            Some(client) => client,
            none => none.insert(Client::connect(&self.socket)?),
        };
        let now = snapshot(client)?;
        let status = client.status()?;
        let last = self.last.replace(now.clone());
        let last = last.filter(|last| last.uptime < now.uptime);
        let ledger = last.map(|last| AccountingRecord::new(&now.since(&last)));
        Ok((status, ledger))
    }
}
