//! Figures of the page, computed from the results: totals, and the begin of each list.

use crate::census::{Census, Gap, gap};
use crate::engine::{Engine, Source};
use crate::error::FleetError;
use crate::stages::filtered;
use crate::store::{column, numbers, texts};
use arrow_array::RecordBatch;
use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use cofferdam_columnar::{NO_CONTAINER, NOBODY};
use std::collections::BTreeMap;

/// Rows of a list on the page.
pub const LISTED: usize = 25;
/// Hosts in the picture of hours.
pub const PICTURED: usize = 24;

/// Sums of a container, a tenant, a host, or all.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Sum {
    /// Name.
    pub name: String,
    /// CPU time that the kernel billed, seconds.
    pub billed_s: f64,
    /// CPU time had every packet been billed to its owner, seconds.
    pub corrected_s: f64,
    /// Network CPU that its packets required, seconds.
    pub caused_s: f64,
    /// CPU time that other containers were billed for its packets, seconds.
    pub inflicted_s: f64,
    /// CPU time that it was billed for packets of other containers, seconds.
    pub suffered_s: f64,
    /// CPU time that enforcement would return to it by the model, seconds.
    pub returned_s: f64,
    /// Number of containers.
    pub containers: f64,
    /// Recorded time of a host, seconds.
    pub covered_s: f64,
}

/// Transfer: CPU time that a victim was charged for an offender's packets.
#[derive(Clone, Debug, PartialEq)]
pub struct Transfer {
    /// Name of the host.
    pub host: String,
    /// Container whose packets caused it.
    pub offender: String,
    /// Container that was billed.
    pub victim: String,
    /// CPU time, seconds.
    pub cpu_s: f64,
}

/// Sums of the transfers.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct TransferSums {
    /// CPU time that containers were billed for packets of other containers, seconds.
    pub harm_s: f64,
    /// CPU time that containers were billed for packets of no container, seconds.
    pub of_none_s: f64,
    /// CPU time that containers caused and no container was billed for, seconds.
    pub to_nobody_s: f64,
}

/// Hours of a host.
#[derive(Clone, Debug, PartialEq)]
pub struct Hours {
    /// Name of the host.
    pub host: String,
    /// Recorded time and harm, seconds, by the number of the hour since 1970.
    pub hours: BTreeMap<i64, (f64, f64)>,
}

/// Host that lacks hours.
#[derive(Clone, Debug, PartialEq)]
pub struct Missing {
    /// Name of the host.
    pub host: String,
    /// Missing hours.
    pub gap: Gap,
}

/// All figures of the page.
#[derive(Debug)]
pub struct Figures {
    /// Sums of all containers.
    pub all: Sum,
    /// Sums of all transfers.
    pub flows: TransferSums,
    /// Largest transfers between containers.
    pub top_transfers: Vec<Transfer>,
    /// Bill of the tenants, largest first.
    pub tenants: Vec<Sum>,
    /// Number of all tenants.
    pub tenants_count: u64,
    /// Tenants that inflicted most on other containers.
    pub noisiest: Vec<Sum>,
    /// Hosts, ordered by the time that enforcement would return.
    pub hosts: Vec<Sum>,
    /// Number of hosts on which it would return any.
    pub hosts_worth: u64,
    /// Hours of the hosts with most harm.
    pub hours: Vec<Hours>,
    /// Hosts that lack hours, worst first.
    pub missing: Vec<Missing>,
}

/// Results from which the figures are computed.
#[derive(Debug)]
pub struct Results {
    /// One row per container.
    pub containers: Source,
    /// One row per offender and victim.
    pub flows: Source,
    /// One row per tenant.
    pub tenants: Source,
    /// One row per host.
    pub hosts: Source,
    /// One row per host and hour.
    pub hours: Source,
}

impl Figures {
    /// Error of the conservation, seconds. Σ corrected − Σ billed should equal the time that ran in
    /// no container, less the time billed for packets of no container. Complete ledgers differ by
    /// rounding only.
    pub fn conservation_error_s(&self) -> f64 {
        let difference = self.all.corrected_s - self.all.billed_s;
        (difference - (self.flows.to_nobody_s - self.flows.of_none_s)).abs()
    }

    /// Computes the figures.
    ///
    /// # Errors
    /// A result cannot be read.
    pub fn take(
        engine: &Engine,
        results: &Results,
        census: &Census,
    ) -> Result<Figures, FleetError> {
        let top = |source: &Source, by: &str, key: &str| -> Result<Vec<Sum>, FleetError> {
            let rows = engine.top(source.clone(), by, LISTED)?;
            collect(rows, |batch, row| sum(batch, key, row))
        };
        let between = filtered(results.flows.clone(), |batch| {
            let of = column(batch, "offender_is_container").as_boolean();
            let to = column(batch, "victim_is_container").as_boolean();
            (0..batch.num_rows())
                .map(|row| of.value(row) && to.value(row))
                .collect()
        });
        let top_transfers = collect(engine.top(between, "cpu_s", LISTED)?, transfer)?;
        let mut all = Sum::default();
        let mut tenants_count = 0;
        for batch in (results.tenants.open)() {
            let batch = batch?;
            tenants_count += batch.num_rows() as u64;
            for row in 0..batch.num_rows() {
                all.add(&sum(&batch, "tenant", row));
            }
        }
        let mut hosts_worth = 0;
        for batch in (results.hosts.open)() {
            let returned = batch?;
            hosts_worth += numbers(&returned, "returned_s")
                .values()
                .iter()
                .filter(|s| **s > 0.0)
                .count() as u64;
        }
        let mut noisiest = top(&results.tenants, "inflicted_s", "tenant")?;
        noisiest.retain(|t| t.inflicted_s > 0.0);
        let worst = engine.top(results.hosts.clone(), "suffered_s", PICTURED)?;
        let worst = collect(worst, |batch, row| {
            texts(batch, "host").value(row).to_owned()
        })?;
        let mut missing: Vec<Missing> = (census.hosts.iter())
            .filter_map(|(host, facts)| {
                let gap = gap(&facts.hours, census.period)?;
                Some(Missing {
                    host: host.clone(),
                    gap,
                })
            })
            .collect();
        missing.sort_by_key(|m| std::cmp::Reverse(m.gap.missing_hours));
        Ok(Figures {
            all,
            flows: sum_transfers(&results.flows)?,
            top_transfers,
            tenants: top(&results.tenants, "billed_s", "tenant")?,
            tenants_count,
            noisiest,
            hosts: top(&results.hosts, "returned_s", "host")?,
            hosts_worth,
            hours: hours(&results.hours, worst)?,
            missing,
        })
    }
}

impl Sum {
    fn add(&mut self, other: &Sum) {
        self.billed_s += other.billed_s;
        self.corrected_s += other.corrected_s;
        self.caused_s += other.caused_s;
        self.inflicted_s += other.inflicted_s;
        self.suffered_s += other.suffered_s;
        self.returned_s += other.returned_s;
        self.containers += other.containers;
        self.covered_s += other.covered_s;
    }

    /// Sums without the `listed` ones.
    pub fn without(&self, listed: &[Sum]) -> Sum {
        let mut listed_sum = Sum::default();
        listed.iter().for_each(|sum| listed_sum.add(sum));
        Sum {
            name: String::new(),
            billed_s: self.billed_s - listed_sum.billed_s,
            corrected_s: self.corrected_s - listed_sum.corrected_s,
            caused_s: self.caused_s - listed_sum.caused_s,
            inflicted_s: self.inflicted_s - listed_sum.inflicted_s,
            suffered_s: self.suffered_s - listed_sum.suffered_s,
            returned_s: self.returned_s - listed_sum.returned_s,
            containers: self.containers - listed_sum.containers,
            covered_s: self.covered_s - listed_sum.covered_s,
        }
    }
}

fn collect<T>(
    rows: impl Iterator<Item = Result<RecordBatch, FleetError>>,
    take: impl Fn(&RecordBatch, usize) -> T,
) -> Result<Vec<T>, FleetError> {
    let mut all = Vec::new();
    for batch in rows {
        let batch = batch?;
        all.extend((0..batch.num_rows()).map(|row| take(&batch, row)));
    }
    Ok(all)
}

fn sum(batch: &RecordBatch, key: &str, row: usize) -> Sum {
    let of = |name| numbers(batch, name).value(row);
    Sum {
        name: texts(batch, key).value(row).to_owned(),
        billed_s: of("billed_s"),
        corrected_s: of("corrected_s"),
        caused_s: of("caused_s"),
        inflicted_s: of("inflicted_s"),
        suffered_s: of("suffered_s"),
        returned_s: of("returned_s"),
        containers: of("containers"),
        covered_s: if key == "host" { of("covered_s") } else { 0.0 },
    }
}

fn transfer(batch: &RecordBatch, row: usize) -> Transfer {
    let text = |name| texts(batch, name).value(row).to_owned();
    Transfer {
        host: text("host"),
        offender: text("offender"),
        victim: text("victim"),
        cpu_s: numbers(batch, "cpu_s").value(row),
    }
}

fn sum_transfers(source: &Source) -> Result<TransferSums, FleetError> {
    let mut sums = TransferSums::default();
    for batch in (source.open)() {
        let batch = batch?;
        let of = column(&batch, "offender_is_container").as_boolean();
        let to = column(&batch, "victim_is_container").as_boolean();
        let (offenders, victims) = (texts(&batch, "offender"), texts(&batch, "victim"));
        let cpu = numbers(&batch, "cpu_s");
        for row in 0..batch.num_rows() {
            let sum = if !to.value(row) && victims.value(row) == NOBODY {
                &mut sums.to_nobody_s
            } else if !of.value(row) && offenders.value(row) == NO_CONTAINER {
                &mut sums.of_none_s
            } else {
                &mut sums.harm_s
            };
            *sum += cpu.value(row);
        }
    }
    Ok(sums)
}

fn hours(source: &Source, hosts: Vec<String>) -> Result<Vec<Hours>, FleetError> {
    let mut found: Vec<Hours> = (hosts.into_iter())
        .map(|host| Hours {
            host,
            hours: BTreeMap::new(),
        })
        .collect();
    for batch in (source.open)() {
        let batch = batch?;
        let names = texts(&batch, "host");
        let hours = column(&batch, "hour").as_primitive::<Int64Type>();
        let (covered, harm) = (numbers(&batch, "covered_s"), numbers(&batch, "harm_s"));
        for row in 0..batch.num_rows() {
            if let Some(host) = found.iter_mut().find(|h| h.host == names.value(row)) {
                host.hours
                    .insert(hours.value(row), (covered.value(row), harm.value(row)));
            }
        }
    }
    Ok(found)
}
