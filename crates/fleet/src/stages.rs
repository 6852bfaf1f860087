//! Queries, from rows of ledgers to the results.
//!
//! No stage joins. Each row of a ledger names both sides of a transfer. Columns of a result that
//! come from different sources are combined by addition: each source has all columns, and 0 in
//! those of the others.

use crate::census::{Census, HOUR_MS, Ledger};
use crate::engine::{Batches, Engine, Source, Sums};
use crate::error::FleetError;
use crate::model;
use crate::store::{
    self, batch_of, column, constant, number, numbers, schema, seconds, text, texts,
};
use arrow_array::builder::StringViewBuilder;
use arrow_array::cast::AsArray;
use arrow_array::types::TimestampMillisecondType;
use arrow_array::{
    Array, ArrayRef, BooleanArray, Float64Array, Int64Array, RecordBatch, StringViewArray,
};
use arrow_schema::{DataType, Field, SchemaRef};
use cofferdam_columnar::{NO_CONTAINER, Reader, RowKind, Text};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

/// File name of the result per container.
pub const CONTAINERS: &str = "containers.parquet";
/// File name of the result per offender and victim.
pub const FLOWS: &str = "flows.parquet";
/// File name of the bill.
pub const TENANTS: &str = "tenants.parquet";
/// File name of the result per host.
pub const HOSTS: &str = "hosts.parquet";
/// File name of the result per host and hour.
pub const HOURS: &str = "hours.parquet";

/// Quantities that are summed up per container, in seconds except for the last two.
pub const QUANTITIES: [&str; 9] = [
    "billed_s",
    "corrected_s",
    "caused_s",
    "charged_s",
    "inflicted_s",
    "suffered_s",
    "returned_s",
    "packets",
    "containers",
];

/// Tenant of a container: its pod's namespace, otherwise its own name.
pub fn tenant<'a>(name: &'a str, pod: Option<&'a str>) -> &'a str {
    match pod.and_then(|pod| pod.split_once('/')) {
        Some((namespace, _)) if !namespace.is_empty() => namespace,
        _ => name,
    }
}

/// Schema of [`FLOWS`].
pub fn flows_schema() -> SchemaRef {
    let flag = |name| Field::new(name, DataType::Boolean, false);
    schema(vec![
        text("host"),
        text("offender"),
        flag("offender_is_container"),
        text("offender_pod"),
        text("victim"),
        flag("victim_is_container"),
        text("victim_pod"),
        number("cpu_s"),
    ])
}

fn quantities(keys: &[&str]) -> SchemaRef {
    let keys = keys.iter().map(|name| text(name));
    schema(keys.chain(QUANTITIES.map(number)).collect())
}

/// Schema of [`CONTAINERS`].
pub fn containers_schema() -> SchemaRef {
    quantities(&["host", "name", "pod", "tenant"])
}

/// Schema of [`TENANTS`].
pub fn tenants_schema() -> SchemaRef {
    quantities(&["tenant"])
}

/// Schema of [`HOSTS`].
pub fn hosts_schema() -> SchemaRef {
    let mut fields = vec![text("host")];
    fields.extend(QUANTITIES.map(number));
    fields.extend(["covered_s", "cpus", "records"].map(number));
    schema(fields)
}

/// Schema of [`HOURS`]: `hour` counts since 1970.
pub fn hours_schema() -> SchemaRef {
    schema(vec![
        text("host"),
        Field::new("hour", DataType::Int64, false),
        number("covered_s"),
        number("harm_s"),
    ])
}

/// Divides the ledgers into `parts` parts, each with whole hosts in their order.
fn parts(census: &Census, parts: usize) -> Vec<Vec<Ledger>> {
    let mut all: Vec<Vec<Ledger>> = vec![Vec::new(); parts.clamp(1, census.hosts.len().max(1))];
    let number: BTreeMap<&str, usize> = census
        .hosts
        .keys()
        .enumerate()
        .map(|(n, host)| (host.as_str(), n))
        .collect();
    let count = all.len();
    for ledger in &census.ledgers {
        all[number[ledger.host.as_str()] % count].push(ledger.clone());
    }
    all
}

/// Source of the rows of `kind` in `ledgers`, converted by `shape`.
fn rows(
    ledgers: Vec<Ledger>,
    kind: RowKind,
    columns: &'static [&'static str],
    schema: &SchemaRef,
    shape: fn(&RecordBatch, &str) -> Vec<ArrayRef>,
) -> Source {
    let own = Arc::clone(schema);
    Source {
        schema: Arc::clone(schema),
        open: Arc::new(move || {
            let own = Arc::clone(&own);
            Box::new(
                ledgers
                    .clone()
                    .into_iter()
                    .flat_map(move |ledger| -> Batches {
                        let own = Arc::clone(&own);
                        let opened = Reader::open(&ledger.path)
                            .and_then(|r| r.rows(kind, columns, Text::View));
                        match opened {
                            Ok(batches) => Box::new(
                                batches
                                    .map(move |batch| batch_of(&own, shape(&batch?, &ledger.host))),
                            ),
                            Err(e) => Box::new(std::iter::once(Err(e.into()))),
                        }
                    }),
            )
        }),
    }
}

fn hosts_column(batch: &RecordBatch, host: &str) -> ArrayRef {
    let mut builder = StringViewBuilder::with_capacity(batch.num_rows());
    let block = builder.append_block(host.as_bytes().into());
    for _ in 0..batch.num_rows() {
        // The whole batch shares one copy of the name.
        builder
            .try_append_view(block, 0, host.len() as u32)
            .expect("the block was just added");
    }
    Arc::new(builder.finish())
}

/// Sums up every container of every host into a temporary file at `to`. Nanoseconds are still
/// integers here.
pub fn containers_summed(
    engine: &Engine,
    census: &Census,
    threads: usize,
    to: &Path,
) -> Result<Source, FleetError> {
    const COLUMNS: &[&str] = &[
        "name",
        "pod",
        "caused_ns",
        "charged_network_ns",
        "cpu_usage_ns",
        "corrected_cpu_ns",
        "rx_packets",
        "tx_packets",
    ];
    let whole = |name, data_type| Field::new(name, data_type, true);
    let mut fields = vec![text("host"), text("name"), text("pod")];
    fields.extend(COLUMNS[2..].iter().map(|name| match *name {
        "corrected_cpu_ns" => whole(*name, DataType::Int64),
        _ => whole(*name, DataType::UInt64),
    }));
    let schema = schema(fields);
    let shape = |batch: &RecordBatch, host: &str| {
        let own = COLUMNS.iter().map(|name| Arc::clone(column(batch, name)));
        std::iter::once(hosts_column(batch, host))
            .chain(own)
            .collect()
    };
    let parts = parts(census, threads).into_iter();
    let sources = parts.map(|ledgers| rows(ledgers, RowKind::Container, COLUMNS, &schema, shape));
    let sums = Sums {
        keys: &["host", "name", "pod"],
        sums: &COLUMNS[2..],
        is_ordered: true,
    };
    let rows = engine.sums(sources.collect(), sums)?;
    store::write(to, &schema, rows)?;
    Ok(store::read(to, &schema))
}

/// Sums up the transfers over the whole time: [`FLOWS`].
pub fn flows(
    engine: &Engine,
    census: &Census,
    threads: usize,
    to: &Path,
) -> Result<Source, FleetError> {
    let schema = flows_schema();
    let parts = parts(census, threads).into_iter();
    let sources = parts.map(|ledgers| {
        rows(
            ledgers,
            RowKind::Transfer,
            FLOW_COLUMNS,
            &schema,
            transfer_columns,
        )
    });
    let sums = Sums {
        keys: &[
            "host",
            "offender",
            "offender_is_container",
            "offender_pod",
            "victim",
            "victim_is_container",
            "victim_pod",
        ],
        sums: &["cpu_s"],
        is_ordered: true,
    };
    let rows = engine.sums(sources.collect(), sums)?;
    store::write(to, &schema, rows.map(|b| plain(&schema, b?)))?;
    Ok(store::read(to, &schema))
}

const FLOW_COLUMNS: &[&str] = &[
    "time",
    "offender",
    "offender_cgroup_id",
    "offender_pod",
    "victim",
    "victim_cgroup_id",
    "victim_pod",
    "flow_ns",
];

fn transfer_columns(batch: &RecordBatch, host: &str) -> Vec<ArrayRef> {
    let own = |name| Arc::clone(column(batch, name));
    vec![
        hosts_column(batch, host),
        own("offender"),
        Arc::new(is_container(batch, "offender_cgroup_id")),
        own("offender_pod"),
        own("victim"),
        Arc::new(is_container(batch, "victim_cgroup_id")),
        own("victim_pod"),
        seconds(batch, "flow_ns"),
    ]
}

fn is_container(batch: &RecordBatch, name: &str) -> BooleanArray {
    let ids = column(batch, name);
    (0..batch.num_rows())
        .map(|row| Some(ids.is_valid(row)))
        .collect()
}

/// Whether each transfer of a batch is harm: a container was charged for packets of other
/// containers.
fn is_harm(batch: &RecordBatch) -> impl Fn(usize) -> bool {
    let of_container = column(batch, "offender_is_container").as_boolean();
    let to_container = column(batch, "victim_is_container").as_boolean();
    let offenders = texts(batch, "offender");
    move |row| {
        to_container.value(row) && (of_container.value(row) || offenders.value(row) != NO_CONTAINER)
    }
}

/// Removes the nulls of the type: sums may be null by their type, but are not here.
fn plain(schema: &SchemaRef, batch: RecordBatch) -> Result<RecordBatch, FleetError> {
    batch_of(schema, batch.columns().to_vec())
}

/// Bill, harm done and harm suffered of every container: [`CONTAINERS`].
pub fn containers(
    engine: &Engine,
    summed: Source,
    flows: &Source,
    to: &Path,
) -> Result<Source, FleetError> {
    let keys = ["host", "name", "pod"];
    let between = quantities(&keys);
    let zero = constant;
    let billed = store::shaped(summed, &between, move |batch| {
        let own = |name| Arc::clone(column(batch, name));
        let packets: Float64Array = {
            let (rx, tx) = (
                store::scaled(batch, "rx_packets", 1.0),
                store::scaled(batch, "tx_packets", 1.0),
            );
            rx.values()
                .iter()
                .zip(tx.values())
                .map(|(r, t)| r + t)
                .collect()
        };
        vec![
            own("host"),
            own("name"),
            own("pod"),
            seconds(batch, "cpu_usage_ns"),
            seconds(batch, "corrected_cpu_ns"),
            seconds(batch, "caused_ns"),
            seconds(batch, "charged_network_ns"),
            zero(batch, 0.0),
            zero(batch, 0.0),
            zero(batch, 0.0),
            Arc::new(packets),
            constant(batch, 1.0),
        ]
    });
    let side = |name: &'static str, pod: &'static str, flag: &'static str, is_victim: bool| {
        store::shaped(flows.clone(), &between, move |batch| {
            let harm = is_harm(batch);
            let flags = column(batch, flag).as_boolean();
            let all = numbers(batch, "cpu_s");
            let own: Float64Array = (0..batch.num_rows())
                .map(|row| {
                    if flags.value(row) && harm(row) {
                        all.value(row)
                    } else {
                        0.0
                    }
                })
                .collect();
            let own: ArrayRef = Arc::new(own);
            let (inflicted, suffered) = match is_victim {
                true => (zero(batch, 0.0), own),
                false => (own, zero(batch, 0.0)),
            };
            let column = |name| Arc::clone(column(batch, name));
            let none = || zero(batch, 0.0);
            vec![
                column("host"),
                column(name),
                column(pod),
                none(),
                none(),
                none(),
                none(),
                inflicted,
                suffered,
                none(),
                none(),
                none(),
            ]
        })
    };
    let all = store::chained(vec![
        billed,
        positive_rows(
            side("offender", "offender_pod", "offender_is_container", false),
            "inflicted_s",
        ),
        positive_rows(
            side("victim", "victim_pod", "victim_is_container", true),
            "suffered_s",
        ),
    ]);
    let sums = Sums {
        keys: &keys,
        sums: &QUANTITIES,
        is_ordered: false,
    };
    let schema = containers_schema();
    let rows = engine.sums(vec![all], sums)?;
    store::write(to, &schema, rows.map(|batch| with_tenant(&schema, &batch?)))?;
    Ok(store::read(to, &schema))
}

/// Rows with more than 0 in `name`.
fn positive_rows(source: Source, name: &'static str) -> Source {
    filtered(source, move |batch| {
        let values = numbers(batch, name);
        (0..batch.num_rows())
            .map(|row| values.value(row) > 0.0)
            .collect()
    })
}

/// Rows for which `keep` returns true.
pub fn filtered(
    source: Source,
    keep: impl Fn(&RecordBatch) -> Vec<bool> + Send + Sync + 'static,
) -> Source {
    let schema = Arc::clone(&source.schema);
    let keep = Arc::new(keep);
    Source {
        schema,
        open: Arc::new(move || {
            let keep = Arc::clone(&keep);
            Box::new((source.open)().map(move |batch| {
                let batch = batch?;
                let mask = BooleanArray::from(keep(&batch));
                datafusion_common::arrow::compute::filter_record_batch(&batch, &mask)
                    .map_err(|e| FleetError::Query(e.to_string()))
            }))
        }),
    }
}

fn with_tenant(schema: &SchemaRef, batch: &RecordBatch) -> Result<RecordBatch, FleetError> {
    let (names, pods) = (texts(batch, "name"), texts(batch, "pod"));
    let pod = |row: usize| pods.is_valid(row).then(|| pods.value(row));
    let tenants: StringViewArray = (0..batch.num_rows())
        .map(|row| Some(tenant(names.value(row), pod(row))))
        .collect();
    let (paid, billed) = (numbers(batch, "suffered_s"), numbers(batch, "billed_s"));
    let returned: Float64Array = (0..batch.num_rows())
        .map(|row| model::returned_s(paid.value(row), billed.value(row)))
        .collect();
    let mut columns = batch.columns()[..3].to_vec();
    columns.push(Arc::new(tenants));
    columns.extend(QUANTITIES.iter().map(|name| match *name {
        "returned_s" => Arc::new(returned.clone()),
        _ => Arc::clone(column(batch, name)),
    }));
    batch_of(schema, columns)
}

/// Bill of the tenants: [`TENANTS`].
pub fn tenants(engine: &Engine, containers: &Source, to: &Path) -> Result<Source, FleetError> {
    let sums = Sums {
        keys: &["tenant"],
        sums: &QUANTITIES,
        is_ordered: false,
    };
    let schema = tenants_schema();
    let rows = engine.sums(vec![containers.clone()], sums)?;
    store::write(to, &schema, rows.map(|b| plain(&schema, b?)))?;
    Ok(store::read(to, &schema))
}

/// Sums of every host, with the facts of the census: [`HOSTS`].
pub fn hosts(
    engine: &Engine,
    census: &Census,
    containers: &Source,
    to: &Path,
) -> Result<Source, FleetError> {
    let sums = Sums {
        keys: &["host"],
        sums: &QUANTITIES,
        is_ordered: false,
    };
    let schema = hosts_schema();
    let rows = engine.sums(vec![containers.clone()], sums)?;
    let with_facts = |batch: RecordBatch| {
        let hosts = texts(&batch, "host");
        let fact = |get: fn(&crate::census::Facts) -> f64| -> ArrayRef {
            let of = |host: Option<&str>| host.and_then(|h| census.hosts.get(h)).map_or(0.0, get);
            Arc::new(hosts.iter().map(of).collect::<Float64Array>())
        };
        let mut columns = batch.columns().to_vec();
        columns.extend([
            fact(|f| f.covered_s),
            fact(|f| f.cpus as f64),
            fact(|f| f.records as f64),
        ]);
        batch_of(&schema, columns)
    };
    store::write(to, &schema, rows.map(|b| with_facts(b?)))?;
    Ok(store::read(to, &schema))
}

/// Harm and coverage of every host in every hour: [`HOURS`].
pub fn hours(
    engine: &Engine,
    census: &Census,
    threads: usize,
    to: &Path,
) -> Result<Source, FleetError> {
    let schema = hours_schema();
    let shape = |batch: &RecordBatch, host: &str| -> Vec<ArrayRef> {
        let times = column(batch, "time").as_primitive::<TimestampMillisecondType>();
        // The time is the interval's end: use the hour in which it ran.
        let hours: Int64Array = times
            .values()
            .iter()
            .map(|ms| (ms - 1).div_euclid(HOUR_MS))
            .collect();
        let flows = batch_of(&flows_schema(), transfer_columns(batch, host))
            .expect("the schema's own columns");
        let harm = is_harm(&flows);
        let all = numbers(&flows, "cpu_s");
        let harm_s: Float64Array = (0..batch.num_rows())
            .map(|row| if harm(row) { all.value(row) } else { 0.0 })
            .collect();
        vec![
            hosts_column(batch, host),
            Arc::new(hours),
            constant(batch, 0.0),
            Arc::new(harm_s),
        ]
    };
    let sources = parts(census, threads).into_iter().map(|ledgers| {
        let mut all = Vec::new();
        for of_host in ledgers.chunk_by(|a, b| a.host == b.host) {
            let host = &of_host[0].host;
            all.push(covered(host, &census.hosts[host].hours, &schema));
            all.push(rows(
                of_host.to_vec(),
                RowKind::Transfer,
                FLOW_COLUMNS,
                &schema,
                shape,
            ));
        }
        store::chained(all)
    });
    let sums = Sums {
        keys: &["host", "hour"],
        sums: &["covered_s", "harm_s"],
        is_ordered: true,
    };
    let rows = engine.sums(sources.collect(), sums)?;
    store::write(to, &schema, rows.map(|b| plain(&schema, b?)))?;
    Ok(store::read(to, &schema))
}

/// Recorded hours of a host, without harm.
fn covered(host: &str, hours: &BTreeMap<i64, f64>, schema: &SchemaRef) -> Source {
    let columns: Vec<ArrayRef> = vec![
        Arc::new(
            hours
                .keys()
                .map(|_| Some(host))
                .collect::<StringViewArray>(),
        ),
        Arc::new(hours.keys().copied().collect::<Int64Array>()),
        Arc::new(hours.values().copied().collect::<Float64Array>()),
        Arc::new(hours.values().map(|_| 0.0).collect::<Float64Array>()),
    ];
    let batch = batch_of(schema, columns).expect("the schema's own columns");
    Source {
        schema: Arc::clone(schema),
        open: Arc::new(move || Box::new(std::iter::once(Ok(batch.clone())))),
    }
}
