//! The columns of the container table.

use super::Row;
use crate::units::{count, pct, signed_pct};

/// A column. Shares are percent of one CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Column {
    /// Name of the container.
    Name,
    /// CPU use that the scheduler charged.
    Cpu,
    /// Network CPU caused by receiving.
    CausedRx,
    /// Network CPU caused by sending.
    CausedTx,
    /// Hardirq time caused.
    CausedIrq,
    /// Network CPU charged.
    Charged,
    /// caused − charged.
    Owed,
    /// CPU use + owed.
    Corrected,
    /// Packets per second.
    PacketsPerS,
    /// Mean cost of a packet.
    NsPerPacket,
}

impl Column {
    /// Every column, in the order shown.
    pub const ALL: [Column; 10] = [
        Column::Name,
        Column::Cpu,
        Column::CausedRx,
        Column::CausedTx,
        Column::CausedIrq,
        Column::Charged,
        Column::Owed,
        Column::Corrected,
        Column::PacketsPerS,
        Column::NsPerPacket,
    ];

    /// Columns that a narrow terminal lacks, the first one to omit first.
    pub const DISPENSABLE: [Column; 6] = [
        Column::CausedIrq,
        Column::NsPerPacket,
        Column::CausedTx,
        Column::PacketsPerS,
        Column::Corrected,
        Column::Charged,
    ];

    /// Heading.
    pub fn title(self) -> &'static str {
        match self {
            Column::Name => "CONTAINER",
            Column::Cpu => "CPU%",
            Column::CausedRx => "RX%",
            Column::CausedTx => "TX%",
            Column::CausedIrq => "IRQ%",
            Column::Charged => "CHARGED%",
            Column::Owed => "OWED%",
            Column::Corrected => "CORRECT%",
            Column::PacketsPerS => "PKT/S",
            Column::NsPerPacket => "NS/PKT",
        }
    }

    /// Heading where there is enough space and no help that explains it.
    pub fn long_title(self) -> &'static str {
        match self {
            Column::Name => "container",
            Column::Cpu => "CPU %",
            Column::CausedRx => "caused RX %",
            Column::CausedTx => "caused TX %",
            Column::CausedIrq => "caused IRQ %",
            Column::Charged => "charged %",
            Column::Owed => "owed %",
            Column::Corrected => "corrected CPU %",
            Column::PacketsPerS => "packets/s",
            Column::NsPerPacket => "ns/packet",
        }
    }

    /// Meaning, for the help.
    pub fn meaning(self) -> &'static str {
        match self {
            Column::Name => "name of the container",
            Column::Cpu => "CPU time that the scheduler charged to it",
            Column::CausedRx => "softirq time its received packets required",
            Column::CausedTx => "softirq time its sent packets required",
            Column::CausedIrq => "its share of the network devices' hardirqs",
            Column::Charged => "network softirq time that ran in its time slices",
            Column::Owed => "caused − charged: above 0 others paid, below 0 it paid",
            Column::Corrected => "CPU + owed: CPU use if it paid for its packets",
            Column::PacketsPerS => "packets handled for it in a second",
            Column::NsPerPacket => "mean cost of one packet, nanoseconds",
        }
    }

    /// Width in a terminal table, the gap to its left included; 0 for the name, which takes the
    /// rest.
    pub fn width(self) -> u16 {
        match self {
            Column::Name => 0,
            Column::Charged | Column::Corrected => 9,
            _ => 7,
        }
    }

    /// Number that the column sorts by; `None` for the name, and for unknown values.
    pub fn value(self, row: &Row) -> Option<f64> {
        match self {
            Column::Name => None,
            Column::Cpu => Some(row.cpu_pct),
            Column::CausedRx => Some(row.caused_rx_pct),
            Column::CausedTx => Some(row.caused_tx_pct),
            Column::CausedIrq => Some(row.caused_irq_pct),
            Column::Charged => Some(row.charged_pct),
            Column::Owed => Some(row.owed_pct),
            Column::Corrected => Some(row.corrected_pct),
            Column::PacketsPerS => Some(row.packets_per_s),
            // A container without packets comes last.
            Column::NsPerPacket => Some(row.ns_per_packet.unwrap_or(-1.0)),
        }
    }

    /// Text of the cell.
    pub fn text(self, row: &Row) -> String {
        match self {
            Column::Name => row.name.clone(),
            Column::Cpu => pct(row.cpu_pct),
            Column::CausedRx => pct(row.caused_rx_pct),
            Column::CausedTx => pct(row.caused_tx_pct),
            Column::CausedIrq => pct(row.caused_irq_pct),
            Column::Charged => pct(row.charged_pct),
            Column::Owed => signed_pct(row.owed_pct),
            Column::Corrected => pct(row.corrected_pct),
            Column::PacketsPerS => count(row.packets_per_s),
            Column::NsPerPacket => row.ns_per_packet.map_or("–".to_owned(), count),
        }
    }

    /// Columns that fit into `width` next to a name of at least `name` characters.
    pub fn fitting(width: u16, name: u16) -> Vec<Column> {
        let mut columns = Column::ALL.to_vec();
        for dispensable in Column::DISPENSABLE {
            let taken: u16 = columns.iter().map(|c| c.width()).sum();
            if taken + name <= width {
                break;
            }
            columns.retain(|c| *c != dispensable);
        }
        columns
    }
}
