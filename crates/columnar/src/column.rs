//! Columns: name, type and value.

use crate::RowKind;
use crate::error::RowError;
use crate::rows::time_ms;
use crate::transfer::{Side, Transfer};
use arrow_schema::{DataType, Field, Schema, SchemaRef, TimeUnit};
use cofferdam_records::accounting::{AccountingRecord, ContainerRecord};
use cofferdam_records::diagnosis::CpuLossRecord;
use std::sync::{Arc, LazyLock};

/// Row before it becomes columns.
pub(crate) struct Row<'a> {
    pub host: &'a str,
    pub time_ms: i64,
    pub record: &'a AccountingRecord,
    pub of: RowContent<'a>,
}

/// Part of a row that depends on its kind.
pub(crate) enum RowContent<'a> {
    Interval,
    Container(&'a ContainerRecord, Option<&'a CpuLossRecord>),
    Transfer(Transfer<'a>),
}

impl<'a> RowContent<'a> {
    /// Row of a container of `record`, with its losses.
    pub(crate) fn container(
        record: &'a AccountingRecord,
        container: &'a ContainerRecord,
    ) -> RowContent<'a> {
        let losses = record.diagnosis.iter().flat_map(|d| &d.containers);
        let mut own = losses.filter(|loss| loss.cgroup_id == container.cgroup_id);
        RowContent::Container(container, own.next())
    }
}

impl<'a> Row<'a> {
    pub(crate) fn kind(&self) -> RowKind {
        match self.of {
            RowContent::Interval => RowKind::Interval,
            RowContent::Container(..) => RowKind::Container,
            RowContent::Transfer(_) => RowKind::Transfer,
        }
    }

    fn record(&self) -> Option<&'a AccountingRecord> {
        matches!(self.of, RowContent::Interval).then_some(self.record)
    }

    fn container(&self) -> Option<&'a ContainerRecord> {
        match self.of {
            RowContent::Container(container, _) => Some(container),
            _ => None,
        }
    }

    fn loss(&self) -> Option<&'a CpuLossRecord> {
        match self.of {
            RowContent::Container(_, loss) => loss,
            _ => None,
        }
    }

    fn offender(&self) -> Option<Side<'a>> {
        match self.of {
            RowContent::Transfer(transfer) => Some(transfer.offender),
            _ => None,
        }
    }

    fn victim(&self) -> Option<Side<'a>> {
        match self.of {
            RowContent::Transfer(transfer) => Some(transfer.victim),
            _ => None,
        }
    }
}

impl<'a> Side<'a> {
    fn name(self) -> &'a str {
        match self {
            Side::Container(container) => &container.name,
            Side::Other(name) => name,
        }
    }

    fn container(self) -> Option<&'a ContainerRecord> {
        match self {
            Side::Container(container) => Some(container),
            Side::Other(_) => None,
        }
    }
}

/// Function that takes a value from a row; `None` if the row's kind has none.
#[derive(Clone, Copy)]
pub(crate) enum Get {
    Time(for<'a> fn(&Row<'a>) -> i64),
    Text(for<'a> fn(&Row<'a>) -> Option<&'a str>),
    Count(for<'a> fn(&Row<'a>) -> Option<u64>),
    Signed(for<'a> fn(&Row<'a>) -> Option<i64>),
    Number(for<'a> fn(&Row<'a>) -> Option<f64>),
    Flag(for<'a> fn(&Row<'a>) -> Option<bool>),
}

/// Column of the schema.
pub struct Column {
    /// Name, with its unit.
    pub name: &'static str,
    /// Kinds of rows that have a value in the column.
    pub kinds: &'static [RowKind],
    pub(crate) get: Get,
}

impl Column {
    /// Arrow type.
    pub fn data_type(&self) -> DataType {
        match self.get {
            Get::Time(_) => DataType::Timestamp(TimeUnit::Millisecond, Some("UTC".into())),
            Get::Text(_) => DataType::Utf8,
            Get::Count(_) => DataType::UInt64,
            Get::Signed(_) => DataType::Int64,
            Get::Number(_) => DataType::Float64,
            Get::Flag(_) => DataType::Boolean,
        }
    }
}

impl Get {
    /// Formats the value as text; empty if there is none.
    fn text(self, row: &Row<'_>) -> String {
        fn format_value<T: ToString>(value: Option<T>) -> String {
            value.map_or(String::new(), |value| value.to_string())
        }
        match self {
            // Keep the recorded text.
            Get::Time(_) => row.record.time.clone(),
            Get::Text(get) => get(row).unwrap_or_default().to_owned(),
            Get::Count(get) => format_value(get(row)),
            Get::Signed(get) => format_value(get(row)),
            Get::Number(get) => format_value(get(row)),
            Get::Flag(get) => format_value(get(row)),
        }
    }
}

/// Formats the rows of the containers of `record` as text. Each row has a value for every one of
/// [`COLUMNS`], which is empty if the column belongs to another kind of rows.
///
/// # Errors
/// The record's time is invalid.
pub fn text_rows(host: &str, record: &AccountingRecord) -> Result<Vec<Vec<String>>, RowError> {
    let time_ms = time_ms(record)?;
    let rows = record.containers.iter().map(|container| {
        let row = Row {
            host,
            time_ms,
            record,
            of: RowContent::container(record, container),
        };
        COLUMNS.iter().map(|column| column.get.text(&row)).collect()
    });
    Ok(rows.collect())
}

const fn column(name: &'static str, kinds: &'static [RowKind], get: Get) -> Column {
    Column { name, kinds, get }
}

const fn every(name: &'static str, get: Get) -> Column {
    column(name, &RowKind::ALL, get)
}

const fn interval(name: &'static str, get: for<'a> fn(&Row<'a>) -> Option<u64>) -> Column {
    column(name, &[RowKind::Interval], Get::Count(get))
}

const fn container(name: &'static str, get: Get) -> Column {
    column(name, &[RowKind::Container], get)
}

const fn count(name: &'static str, get: for<'a> fn(&Row<'a>) -> Option<u64>) -> Column {
    container(name, Get::Count(get))
}

const fn flow(name: &'static str, get: Get) -> Column {
    column(name, &[RowKind::Transfer], get)
}

/// All columns, in the order of the file.
pub const COLUMNS: &[Column] = &[
    every("kind", Get::Text(|r| Some(r.kind().name()))),
    every("host", Get::Text(|r| Some(r.host))),
    every("time", Get::Time(|r| r.time_ms)),
    every("interval_s", Get::Number(|r| Some(r.record.interval_s))),
    interval("cpus", |r| Some(r.record()?.cpus.len() as u64)),
    interval("containers", |r| Some(r.record()?.containers.len() as u64)),
    interval("measured_ns", |r| {
        Some(r.record()?.cpus.iter().map(|c| c.measured_ns).sum())
    }),
    interval("unattributed_ns", |r| {
        Some(r.record()?.unattributed_ns.values().sum())
    }),
    interval("events_lost", |r| Some(r.record()?.health.events_lost)),
    interval("markers_missed", |r| {
        Some(r.record()?.health.markers_missed)
    }),
    interval("containers_without_slot", |r| {
        Some(r.record()?.health.containers_without_slot)
    }),
    container("name", Get::Text(|r| Some(&r.container()?.name))),
    count("cgroup_id", |r| Some(r.container()?.cgroup_id)),
    container(
        "cgroup_path",
        Get::Text(|r| Some(&r.container()?.cgroup_path)),
    ),
    container("runtime", Get::Text(|r| Some(&r.container()?.runtime))),
    container("pod", Get::Text(|r| r.container()?.pod.as_deref())),
    container("id", Get::Text(|r| r.container()?.id.as_deref())),
    container(
        "host_network",
        Get::Flag(|r| Some(r.container()?.host_network)),
    ),
    count("caused_rx_ns", |r| Some(r.container()?.caused_rx_ns)),
    count("caused_tx_ns", |r| Some(r.container()?.caused_tx_ns)),
    count("caused_hardirq_ns", |r| {
        Some(r.container()?.caused_hardirq_ns)
    }),
    count("caused_ns", |r| Some(r.container()?.caused_ns)),
    count("charged_network_ns", |r| {
        Some(r.container()?.charged_network_ns)
    }),
    count("charged_other_ns", |r| {
        Some(r.container()?.charged_other_ns)
    }),
    container("owed_ns", Get::Signed(|r| Some(r.container()?.owed_ns))),
    count("cpu_usage_ns", |r| Some(r.container()?.cpu_usage_ns)),
    container(
        "corrected_cpu_ns",
        Get::Signed(|r| Some(r.container()?.corrected_cpu_ns)),
    ),
    count("rx_packets", |r| Some(r.container()?.rx_packets)),
    count("rx_bytes", |r| Some(r.container()?.rx_bytes)),
    count("tx_packets", |r| Some(r.container()?.tx_packets)),
    count("tx_bytes", |r| Some(r.container()?.tx_bytes)),
    count("lost_forced_sharing_ns", |r| {
        Some(r.loss()?.forced_sharing_ns)
    }),
    count("lost_phantom_ns", |r| Some(r.loss()?.phantom_ns)),
    count("lost_throttled_ns", |r| Some(r.loss()?.throttled_ns)),
    count("lost_lack_ns", |r| Some(r.loss()?.lack_ns)),
    count("entitled_ns", |r| Some(r.loss()?.entitled_ns)),
    container(
        "entitled_by",
        Get::Text(|r| Some(r.loss()?.entitled_by.label())),
    ),
    count("got_ns", |r| Some(r.loss()?.got_ns)),
    flow("offender", Get::Text(|r| Some(r.offender()?.name()))),
    flow(
        "offender_cgroup_id",
        Get::Count(|r| Some(r.offender()?.container()?.cgroup_id)),
    ),
    flow(
        "offender_pod",
        Get::Text(|r| r.offender()?.container()?.pod.as_deref()),
    ),
    flow("victim", Get::Text(|r| Some(r.victim()?.name()))),
    flow(
        "victim_cgroup_id",
        Get::Count(|r| Some(r.victim()?.container()?.cgroup_id)),
    ),
    flow(
        "victim_pod",
        Get::Text(|r| r.victim()?.container()?.pod.as_deref()),
    ),
    flow(
        "flow_ns",
        Get::Number(|r| match r.of {
            RowContent::Transfer(transfer) => Some(transfer.ns),
            _ => None,
        }),
    ),
];

/// Schema of [`COLUMNS`].
pub fn schema() -> SchemaRef {
    static SCHEMA: LazyLock<SchemaRef> = LazyLock::new(|| {
        let field =
            |c: &Column| Field::new(c.name, c.data_type(), c.kinds.len() < RowKind::ALL.len());
        Arc::new(Schema::new(COLUMNS.iter().map(field).collect::<Vec<_>>()))
    });
    Arc::clone(&SCHEMA)
}
