//! A row for each container and interval, as comma-separated values (RFC 4180).

use cofferdam_records::accounting::{AccountingRecord, ContainerRecord};
use cofferdam_records::diagnosis::CpuLossRecord;
use std::io::{self, Write};

/// The names of the columns: those of the ledger's and the diagnosis' fields.
pub const COLUMNS: [&str; 29] = [
    "time",
    "interval_s",
    "name",
    "cgroup_id",
    "cgroup_path",
    "id",
    "runtime",
    "pod",
    "caused_rx_ns",
    "caused_tx_ns",
    "caused_hardirq_ns",
    "caused_ns",
    "rx_packets",
    "rx_bytes",
    "tx_packets",
    "tx_bytes",
    "charged_network_ns",
    "charged_other_ns",
    "owed_ns",
    "cpu_usage_ns",
    "corrected_cpu_ns",
    "entitled_ns",
    "entitled_by",
    "got_ns",
    "forced_sharing_ns",
    "phantom_ns",
    "throttled_ns",
    "lack_ns",
    "host_network",
];

/// Writes rows to `to`.
pub struct Rows<W: Write> {
    to: csv::Writer<W>,
}

impl<W: Write> Rows<W> {
    /// Begins with the heading.
    pub fn new(to: W) -> io::Result<Rows<W>> {
        let mut to = csv::WriterBuilder::new().from_writer(to);
        to.write_record(COLUMNS)?;
        Ok(Rows { to })
    }

    /// Adds the rows of one interval.
    pub fn write(&mut self, record: &AccountingRecord) -> io::Result<()> {
        for container in &record.containers {
            let losses = record.diagnosis.as_ref().and_then(|d| {
                let mut all = d.containers.iter();
                all.find(|c| c.cgroup_id == container.cgroup_id)
            });
            self.to.write_record(row(record, container, losses))?;
        }
        Ok(())
    }

    /// Hands on all of it, and gives back where it went.
    pub fn finish(self) -> io::Result<W> {
        self.to
            .into_inner()
            .map_err(|e| io::Error::new(e.error().kind(), e.to_string()))
    }
}

fn row(
    record: &AccountingRecord,
    c: &ContainerRecord,
    losses: Option<&CpuLossRecord>,
) -> [String; COLUMNS.len()] {
    // What is not known is empty.
    let lost = |of: fn(&CpuLossRecord) -> u64| losses.map_or(String::new(), |l| of(l).to_string());
    let by = losses.and_then(|l| serde_json::to_value(l.entitled_by).ok());
    let by = by.and_then(|v| v.as_str().map(str::to_owned));
    [
        record.time.clone(),
        record.interval_s.to_string(),
        c.name.clone(),
        c.cgroup_id.to_string(),
        c.cgroup_path.clone(),
        c.id.clone().unwrap_or_default(),
        c.runtime.clone(),
        c.pod.clone().unwrap_or_default(),
        c.caused_rx_ns.to_string(),
        c.caused_tx_ns.to_string(),
        c.caused_hardirq_ns.to_string(),
        c.caused_ns.to_string(),
        c.rx_packets.to_string(),
        c.rx_bytes.to_string(),
        c.tx_packets.to_string(),
        c.tx_bytes.to_string(),
        c.charged_network_ns.to_string(),
        c.charged_other_ns.to_string(),
        c.owed_ns.to_string(),
        c.cpu_usage_ns.to_string(),
        c.corrected_cpu_ns.to_string(),
        lost(|l| l.entitled_ns),
        by.unwrap_or_default(),
        lost(|l| l.got_ns),
        lost(|l| l.forced_sharing_ns),
        lost(|l| l.phantom_ns),
        lost(|l| l.throttled_ns),
        lost(|l| l.lack_ns),
        c.host_network.to_string(),
    ]
}
