//! Census of the ledgers before a container is read: hosts, times, gaps, and records that would
//! count twice.

use crate::error::FleetError;
use arrow_array::cast::AsArray;
use arrow_array::types::{Float64Type, TimestampMillisecondType, UInt64Type};
use cofferdam_columnar::{Reader, RowKind, Text};
use std::collections::hash_map::DefaultHasher;
use std::collections::{BTreeMap, HashSet};
use std::hash::{Hash, Hasher};
use std::path::{Path, PathBuf};
use std::time::{Duration, UNIX_EPOCH};

/// Longest overlap of two intervals that is tolerated, milliseconds: times are to the millisecond,
/// and clocks are slewed. A longer overlap means a clock that was set back, or a second ledger of
/// the same time.
pub const MOST_OVERLAP_MS: i64 = 1000;
/// Share of an hour below which the hour counts as missing.
pub const LEAST_COVERED: f64 = 0.9;
/// Milliseconds of an hour.
pub const HOUR_MS: i64 = 3_600_000;

/// Ledger in Parquet form, and its host.
#[derive(Clone, Debug)]
pub struct Ledger {
    /// File that the user named, or that was found in a folder.
    pub named: PathBuf,
    /// Parquet file to read: the same file, or a temporary one.
    pub path: PathBuf,
    /// Host whose ledger this is.
    pub host: String,
}

/// Span of time, milliseconds since 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// Begin, milliseconds since 1970.
    pub from_ms: i64,
    /// End, milliseconds since 1970.
    pub to_ms: i64,
}

/// Contents of one ledger.
#[derive(Debug)]
struct Contents {
    spans: Vec<Span>,
    fingerprint: u64,
    facts: Facts,
}

/// Facts about the records of a host.
#[derive(Clone, Debug, Default)]
pub struct Facts {
    /// Number of records.
    pub records: u64,
    /// Largest number of CPUs.
    pub cpus: u64,
    /// Time covered by records, seconds.
    pub covered_s: f64,
    /// Time covered in each hour, seconds. The key is the number of the hour since 1970.
    pub hours: BTreeMap<i64, f64>,
    /// Number of times that its clock was set back by more than [`MOST_OVERLAP_MS`].
    pub clock_steps: u64,
    /// Failures of its accounting: lost events and missed markers.
    pub failures: u64,
}

impl Facts {
    /// Counts an interval. `last_ms` is the end of the previous one.
    fn add(&mut self, span: Span, last_ms: Option<i64>) {
        self.records += 1;
        self.covered_s += (span.to_ms - span.from_ms) as f64 / 1e3;
        self.clock_steps +=
            u64::from(last_ms.is_some_and(|last| span.from_ms < last - MOST_OVERLAP_MS));
        let mut from = span.from_ms;
        while from < span.to_ms {
            let hour = from.div_euclid(HOUR_MS);
            let to = span.to_ms.min((hour + 1) * HOUR_MS);
            *self.hours.entry(hour).or_default() += (to - from) as f64 / 1e3;
            from = to;
        }
    }

    fn merge(&mut self, other: &Facts) {
        self.records += other.records;
        self.cpus = self.cpus.max(other.cpus);
        self.covered_s += other.covered_s;
        self.clock_steps += other.clock_steps;
        self.failures += other.failures;
        for (hour, covered) in &other.hours {
            *self.hours.entry(*hour).or_default() += covered;
        }
    }
}

/// Hosts of all ledgers.
#[derive(Debug)]
pub struct Census {
    /// Ledgers to read. Those of one host are adjacent.
    pub ledgers: Vec<Ledger>,
    /// Facts of each host, by name.
    pub hosts: BTreeMap<String, Facts>,
    /// Time from the first record to the last.
    pub period: Span,
    /// Skipped ledgers, each with the ledger that has the same records.
    pub copies: Vec<(PathBuf, PathBuf)>,
}

/// Reads the interval rows of `ledgers`, one file at a time.
///
/// # Errors
/// A ledger cannot be read, has no record, or has one twice; or two ledgers have different records
/// of the same time.
pub fn take(ledgers: Vec<Ledger>) -> Result<Census, FleetError> {
    let mut by_host: BTreeMap<String, Vec<(Ledger, Contents)>> = BTreeMap::new();
    let mut copies = Vec::new();
    for ledger in ledgers {
        let contents = contents(&ledger)?;
        let same_host = by_host.entry(ledger.host.clone()).or_default();
        let same = |(_, other): &&(Ledger, Contents)| other.fingerprint == contents.fingerprint;
        match same_host.iter().find(same) {
            Some((first, _)) => copies.push((ledger.named, first.named.clone())),
            None => same_host.push((ledger, contents)),
        }
    }
    let (mut all, mut hosts) = (Vec::new(), BTreeMap::new());
    let mut period: Option<Span> = None;
    for (host, mut ledgers) in by_host {
        refuse_overlaps(&host, &ledgers)?;
        ledgers.sort_by_key(|(_, c)| c.spans.first().map(|s| s.from_ms));
        let mut facts = Facts::default();
        for (ledger, contents) in ledgers {
            facts.merge(&contents.facts);
            for span in contents.spans {
                let whole = period.get_or_insert(span);
                whole.from_ms = whole.from_ms.min(span.from_ms);
                whole.to_ms = whole.to_ms.max(span.to_ms);
            }
            all.push(ledger);
        }
        hosts.insert(host, facts);
    }
    Ok(Census {
        ledgers: all,
        hosts,
        period: period.unwrap_or(Span {
            from_ms: 0,
            to_ms: 0,
        }),
        copies,
    })
}

fn contents(ledger: &Ledger) -> Result<Contents, FleetError> {
    let mut found = Contents {
        spans: Vec::new(),
        fingerprint: 0,
        facts: Facts::default(),
    };
    let mut hasher = DefaultHasher::new();
    let mut last = None;
    each(&ledger.path, |row| {
        row.hash(&mut hasher);
        found.facts.add(row.span, last);
        found.facts.cpus = found.facts.cpus.max(row.cpus);
        // The count is cumulative: the last row has the total.
        found.facts.failures = row.failures;
        last = Some(row.span.to_ms);
        join(&mut found.spans, row.span);
        Ok(())
    })?;
    if found.facts.records == 0 {
        return Err(FleetError::Empty(ledger.named.clone()));
    }
    if found.facts.clock_steps > 0 {
        refuse_twice(ledger)?;
    }
    found.spans.sort_by_key(|s| s.from_ms);
    found.fingerprint = hasher.finish();
    Ok(found)
}

/// Row of the kind `interval`.
#[derive(Hash)]
struct Row {
    span: Span,
    cpus: u64,
    measured_ns: u64,
    failures: u64,
}

impl Hash for Span {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (self.from_ms, self.to_ms).hash(state);
    }
}

fn each(
    path: &Path,
    mut with: impl FnMut(Row) -> Result<(), FleetError>,
) -> Result<(), FleetError> {
    const COLUMNS: [&str; 6] = [
        "time",
        "interval_s",
        "cpus",
        "measured_ns",
        "events_lost",
        "markers_missed",
    ];
    for batch in Reader::open(path)?.rows(RowKind::Interval, &COLUMNS, Text::Plain)? {
        let batch = batch?;
        let times = batch.column(0).as_primitive::<TimestampMillisecondType>();
        let lengths = batch.column(1).as_primitive::<Float64Type>();
        let count = |column: usize| batch.column(column).as_primitive::<UInt64Type>();
        let (cpus, measured) = (count(2), count(3));
        let (lost, missed) = (count(4), count(5));
        for row in 0..batch.num_rows() {
            let to_ms = times.value(row);
            // Another program's file may have any value here.
            let length_ms = (lengths.value(row) * 1e3).clamp(0.0, 3.2e11).round() as i64;
            with(Row {
                span: Span {
                    from_ms: to_ms.saturating_sub(length_ms),
                    to_ms,
                },
                cpus: cpus.value(row),
                measured_ns: measured.value(row),
                failures: lost.value(row).saturating_add(missed.value(row)),
            })?;
        }
    }
    Ok(())
}

/// Appends `span`, and merges it with the previous one if they are adjacent.
fn join(spans: &mut Vec<Span>, span: Span) {
    match spans.last_mut() {
        Some(last) if (last.to_ms - span.from_ms).abs() <= MOST_OVERLAP_MS => {
            last.to_ms = last.to_ms.max(span.to_ms);
        }
        _ => spans.push(span),
    }
}

/// Fails if two ledgers of `host` overlap by more than [`MOST_OVERLAP_MS`]: that time would count
/// twice.
fn refuse_overlaps(host: &str, ledgers: &[(Ledger, Contents)]) -> Result<(), FleetError> {
    let mut all: Vec<(Span, usize)> = Vec::new();
    for (number, (_, contents)) in ledgers.iter().enumerate() {
        all.extend(contents.spans.iter().map(|span| (*span, number)));
    }
    all.sort_by_key(|(span, _)| (span.from_ms, span.to_ms));
    let mut open: Option<(Span, usize)> = None;
    for (span, number) in all {
        if let Some((before, first)) = open {
            let to_ms = before.to_ms.min(span.to_ms);
            if first != number && to_ms - span.from_ms > MOST_OVERLAP_MS {
                return Err(FleetError::Overlap {
                    host: host.to_owned(),
                    first: ledgers[first].0.named.clone(),
                    second: ledgers[number].0.named.clone(),
                    from: rfc3339(span.from_ms),
                    to: rfc3339(to_ms),
                });
            }
            if before.to_ms >= span.to_ms {
                continue;
            }
        }
        open = Some((span, number));
    }
    Ok(())
}

/// Fails if a record occurs twice. After a clock was set back, records overlap too, but only a
/// duplicate is equal.
fn refuse_twice(ledger: &Ledger) -> Result<(), FleetError> {
    let mut seen = HashSet::new();
    each(&ledger.path, |row| {
        let mut hasher = DefaultHasher::new();
        row.hash(&mut hasher);
        match seen.insert(hasher.finish()) {
            true => Ok(()),
            false => Err(FleetError::Twice {
                path: ledger.named.clone(),
                time: rfc3339(row.span.to_ms),
            }),
        }
    })
}

/// Formats a time in RFC 3339, or as a number if it is beyond the calendar.
pub fn rfc3339(time_ms: i64) -> String {
    let ms = u64::try_from(time_ms)
        .ok()
        .filter(|ms| *ms < 253_402_300_799_000);
    match ms {
        Some(ms) => {
            humantime::format_rfc3339_seconds(UNIX_EPOCH + Duration::from_millis(ms)).to_string()
        }
        None => format!("{time_ms} ms since 1970"),
    }
}

/// Hours that a host lacks.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Gap {
    /// Hours of the period of which less than [`LEAST_COVERED`] was recorded.
    pub missing_hours: u64,
    /// Length of the longest run of such hours.
    pub longest_hours: u64,
    /// Begin of that run, milliseconds since 1970.
    pub longest_from_ms: i64,
}

/// Gaps of a host with these hours, within the whole hours of `period`. `None` for a period shorter
/// than an hour.
pub fn gap(hours: &BTreeMap<i64, f64>, period: Span) -> Option<Gap> {
    let first =
        period.from_ms.div_euclid(HOUR_MS) + i64::from(period.from_ms.rem_euclid(HOUR_MS) > 0);
    let end = period.to_ms.div_euclid(HOUR_MS);
    let mut gap = Gap {
        missing_hours: 0,
        longest_hours: 0,
        longest_from_ms: 0,
    };
    let mut run = 0;
    for hour in first..end.min(first.saturating_add(MOST_HOURS)) {
        let covered = hours.get(&hour).copied().unwrap_or(0.0);
        run = if covered < LEAST_COVERED * 3600.0 {
            run + 1
        } else {
            0
        };
        gap.missing_hours += u64::from(run > 0);
        if run > gap.longest_hours {
            gap.longest_hours = run;
            gap.longest_from_ms = (hour + 1 - run as i64) * HOUR_MS;
        }
    }
    (gap.missing_hours > 0).then_some(gap)
}

/// Limit on the hours that are searched for gaps: twenty years. A clock that is far off must not
/// cause endless work.
const MOST_HOURS: i64 = 175_200;

#[cfg(test)]
mod tests {
    use super::*;

    fn span(from_ms: i64, to_ms: i64) -> Span {
        Span { from_ms, to_ms }
    }

    #[test]
    fn intervals_are_split_at_the_hours() {
        let mut facts = Facts::default();
        facts.add(span(HOUR_MS - 10_000, HOUR_MS + 20_000), None);
        facts.add(
            span(HOUR_MS + 20_000, HOUR_MS + 80_000),
            Some(HOUR_MS + 20_000),
        );
        facts.add(
            span(HOUR_MS + 70_000, HOUR_MS + 130_000),
            Some(HOUR_MS + 80_000),
        );
        assert_eq!(facts.hours, BTreeMap::from([(0, 10.0), (1, 140.0)]));
        assert_eq!((facts.records, facts.clock_steps), (3, 1));
        assert!((facts.covered_s - 150.0).abs() < 1e-9);
    }

    /// Promise 17.
    #[test]
    fn gaps_are_the_whole_hours_that_lack_records() {
        let hours = BTreeMap::from([(0, 100.0), (1, 3600.0), (2, 1000.0), (4, 3600.0)]);
        // The period cuts the first and the last hour.
        let found = gap(&hours, span(HOUR_MS / 2, 6 * HOUR_MS + 5)).unwrap();
        assert_eq!((found.missing_hours, found.longest_hours), (3, 2));
        assert_eq!(found.longest_from_ms, 2 * HOUR_MS);
        assert_eq!(gap(&hours, span(0, HOUR_MS / 2)), None);
        assert_eq!(gap(&hours, span(HOUR_MS, 2 * HOUR_MS)), None);
        // A clock at the end of time must not cause endless counting.
        assert!(gap(&hours, span(0, i64::MAX)).is_some());
    }

    #[test]
    fn times_beyond_the_calendar_have_a_name() {
        assert_eq!(rfc3339(1_790_000_000_000), "2026-09-21T14:13:20Z");
        assert_eq!(rfc3339(-5), "-5 ms since 1970");
        assert!(rfc3339(i64::MAX).contains("since 1970"));
    }
}
