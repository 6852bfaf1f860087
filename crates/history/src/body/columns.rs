//! Containers of a frame, one column per count.

use super::{Entries, Entry, EntryId, Identity, Keys, LOST, derive, identity};
use cofferdam_records::accounting::ContainerRecord;
use serde::{Deserialize, Serialize};

/// Columns of equal length.
#[derive(Default, Serialize, Deserialize)]
pub(super) struct Containers {
    who: Vec<EntryId>,
    caused_rx_ns: Vec<u64>,
    caused_tx_ns: Vec<u64>,
    caused_hardirq_ns: Vec<u64>,
    rx_packets: Vec<u64>,
    rx_bytes: Vec<u64>,
    tx_packets: Vec<u64>,
    tx_bytes: Vec<u64>,
    charged_network_ns: Vec<u64>,
    charged_other_ns: Vec<u64>,
    cpu_usage_ns: Vec<u64>,
    /// One cell per container and CPU.
    caused_by_cpu_ns: Vec<u64>,
    charged_by_cpu_ns: Vec<u64>,
    /// Row, sender and packets, for each container that received something.
    received_from: Vec<(u32, u64, u64)>,
}

impl Containers {
    pub fn new(
        all: &[ContainerRecord],
        cpus: usize,
        keys: &mut Keys<'_>,
    ) -> rusqlite::Result<Containers> {
        let mut to = Containers::default();
        for (row, c) in all.iter().enumerate() {
            to.who.push(keys(Entry::Container(identity(c)))?);
            to.caused_rx_ns.push(c.caused_rx_ns);
            to.caused_tx_ns.push(c.caused_tx_ns);
            to.caused_hardirq_ns.push(c.caused_hardirq_ns);
            to.rx_packets.push(c.rx_packets);
            to.rx_bytes.push(c.rx_bytes);
            to.tx_packets.push(c.tx_packets);
            to.tx_bytes.push(c.tx_bytes);
            to.charged_network_ns.push(c.charged_network_ns);
            to.charged_other_ns.push(c.charged_other_ns);
            to.cpu_usage_ns.push(c.cpu_usage_ns);
            let by_cpu = |of: &[u64], cpu| of.get(cpu).copied().unwrap_or(0);
            for cpu in 0..cpus {
                to.caused_by_cpu_ns.push(by_cpu(&c.caused_by_cpu_ns, cpu));
                to.charged_by_cpu_ns.push(by_cpu(&c.charged_by_cpu_ns, cpu));
            }
            let received = c.received_from.iter();
            to.received_from
                .extend(received.map(|(from, packets)| (row as u32, *from, *packets)));
        }
        Ok(to)
    }

    /// Converts the columns to records. `None` if their lengths differ.
    pub fn records(self, cpus: usize, entries: &mut dyn Entries) -> Option<Vec<ContainerRecord>> {
        let rows = self.who.len();
        let columns = [
            &self.caused_rx_ns,
            &self.caused_tx_ns,
            &self.caused_hardirq_ns,
            &self.rx_packets,
            &self.rx_bytes,
            &self.tx_packets,
            &self.tx_bytes,
            &self.charged_network_ns,
            &self.charged_other_ns,
            &self.cpu_usage_ns,
        ];
        let by_cpu = [&self.caused_by_cpu_ns, &self.charged_by_cpu_ns];
        let cells = rows.checked_mul(cpus)?;
        if columns.iter().any(|c| c.len() != rows) || by_cpu.iter().any(|c| c.len() != cells) {
            return None;
        }
        let mut all = Vec::with_capacity(rows);
        for (row, who) in self.who.iter().enumerate() {
            let who = match entries.get(*who) {
                Some(Entry::Container(identity)) => identity,
                _ => unreadable_identity(),
            };
            let cpus = row * cpus..(row + 1) * cpus;
            let mut container = ContainerRecord {
                name: who.name,
                cgroup_id: who.cgroup_id,
                cgroup_path: who.cgroup_path,
                id: who.id,
                runtime: who.runtime,
                pod: who.pod,
                netns: who.netns,
                host_network: who.host_network,
                caused_rx_ns: self.caused_rx_ns[row],
                caused_tx_ns: self.caused_tx_ns[row],
                caused_hardirq_ns: self.caused_hardirq_ns[row],
                caused_ns: 0,
                rx_packets: self.rx_packets[row],
                rx_bytes: self.rx_bytes[row],
                tx_packets: self.tx_packets[row],
                tx_bytes: self.tx_bytes[row],
                charged_network_ns: self.charged_network_ns[row],
                charged_other_ns: self.charged_other_ns[row],
                owed_ns: 0,
                cpu_usage_ns: self.cpu_usage_ns[row],
                corrected_cpu_ns: 0,
                ns_per_packet: None,
                caused_by_cpu_ns: self.caused_by_cpu_ns[cpus.clone()].to_vec(),
                charged_by_cpu_ns: self.charged_by_cpu_ns[cpus].to_vec(),
                received_from: Default::default(),
                interval_95: None,
            };
            derive(&mut container);
            all.push(container);
        }
        for (row, sender, packets) in self.received_from {
            let container: &mut ContainerRecord = all.get_mut(row as usize)?;
            container.received_from.insert(sender, packets);
        }
        Some(all)
    }
}

/// Identity of a container whose entry cannot be read; its counts are still valid.
fn unreadable_identity() -> Identity {
    Identity {
        name: LOST.to_owned(),
        cgroup_id: 0,
        cgroup_path: String::new(),
        id: None,
        runtime: "plain".to_owned(),
        pod: None,
        netns: None,
        host_network: false,
    }
}
