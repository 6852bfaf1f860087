//! What the ledgers hold, before a container is looked at: which hosts, which times, what is missing,
//! what would count twice.

use crate::error::FleetError;
use arrow_array::cast::AsArray;
use arrow_array::types::{Float64Type, TimestampMillisecondType, UInt64Type};
use cofferdam_columnar::{Kind, Reader, Text};
use std::collections::hash_map::DefaultHasher;
use std::collections::{BTreeMap, HashSet};
use std::hash::{Hash, Hasher};
use std::path::{Path, PathBuf};
use std::time::{Duration, UNIX_EPOCH};

/// An interval may begin this long before the last one ended: times are to the millisecond, and clocks
/// are slewed. More is a clock that was set back, or a second ledger of the same time.
pub const MOST_OVERLAP_MS: i64 = 1000;
/// An hour with less than this share covered is missing.
pub const LEAST_COVERED: f64 = 0.9;
/// Milliseconds of an hour.
pub const HOUR_MS: i64 = 3_600_000;

/// A ledger as Parquet, and what it is of.
#[derive(Clone, Debug)]
pub struct Ledger {
    /// The file that was named, or found.
    pub named: PathBuf,
    /// The Parquet file to read: the same, or a temporary one.
    pub path: PathBuf,
    /// Whose it is.
    pub host: String,
}

/// A length of time, milliseconds since 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// Its begin.
    pub from_ms: i64,
    /// Its end.
    pub to_ms: i64,
}

/// What one ledger holds.
#[derive(Debug)]
struct Contents {
    spans: Vec<Span>,
    fingerprint: u64,
    facts: Facts,
}

/// What was recorded of a host.
#[derive(Clone, Debug, Default)]
pub struct Facts {
    /// Records.
    pub records: u64,
    /// CPUs, the most at any time.
    pub cpus: u64,
    /// Time covered by records, seconds.
    pub covered_s: f64,
    /// The same in each hour, by its number since 1970.
    pub hours: BTreeMap<i64, f64>,
    /// Times that its clock was set back by more than [`MOST_OVERLAP_MS`].
    pub clock_steps: u64,
    /// Failures of its accounting: events lost and markers missed.
    pub failures: u64,
}

impl Facts {
    /// Counts an interval; `last_ms` is the end of the one before.
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

/// The hosts of all ledgers.
#[derive(Debug)]
pub struct Census {
    /// The ledgers to read, those of one host after each other.
    pub ledgers: Vec<Ledger>,
    /// By name.
    pub hosts: BTreeMap<String, Facts>,
    /// From the first record to the last.
    pub period: Span,
    /// Ledgers left out because another one holds the same records, with that one.
    pub copies: Vec<(PathBuf, PathBuf)>,
}

/// Reads the interval rows of `ledgers`, one file at a time.
///
/// # Errors
/// If one cannot be read, holds no record or one twice, or two hold different records of one time.
pub fn take(ledgers: Vec<Ledger>) -> Result<Census, FleetError> {
    let mut by_host: BTreeMap<String, Vec<(Ledger, Contents)>> = BTreeMap::new();
    let mut copies = Vec::new();
    for ledger in ledgers {
        let contents = contents(&ledger)?;
        let known = by_host.entry(ledger.host.clone()).or_default();
        let same = |(_, other): &&(Ledger, Contents)| other.fingerprint == contents.fingerprint;
        match known.iter().find(same) {
            Some((first, _)) => copies.push((ledger.named, first.named.clone())),
            None => known.push((ledger, contents)),
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
        // Counted since the accounting's start: the last says all.
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

/// A row of the kind `interval`.
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
    for batch in Reader::open(path)?.rows(Kind::Interval, &COLUMNS, Text::Plain)? {
        let batch = batch?;
        let times = batch.column(0).as_primitive::<TimestampMillisecondType>();
        let lengths = batch.column(1).as_primitive::<Float64Type>();
        let count = |column: usize| batch.column(column).as_primitive::<UInt64Type>();
        let (cpus, measured) = (count(2), count(3));
        let (lost, missed) = (count(4), count(5));
        for row in 0..batch.num_rows() {
            let to_ms = times.value(row);
            // A file of others' making may say anything here.
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

/// Adds `span` to those before it.
fn join(spans: &mut Vec<Span>, span: Span) {
    match spans.last_mut() {
        Some(last) if (last.to_ms - span.from_ms).abs() <= MOST_OVERLAP_MS => {
            last.to_ms = last.to_ms.max(span.to_ms);
        }
        _ => spans.push(span),
    }
}

/// Two ledgers of `host` that share more than [`MOST_OVERLAP_MS`] count twice what happened then.
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

/// A clock that was set back and a record that occurs twice both overlap; only the second is alike.
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

/// A time as people and programs read it; what no calendar holds as its number.
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

/// What a host lacks of the period.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Gap {
    /// Hours of the period with less than [`LEAST_COVERED`] of them recorded.
    pub missing_hours: u64,
    /// The longest run of them.
    pub longest_hours: u64,
    /// Begin of that run, milliseconds since 1970.
    pub longest_from_ms: i64,
}

/// The gaps of a host with these hours, in the whole hours of `period`. Nothing for a period that is
/// shorter than an hour.
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

/// Hours that gaps are looked for: twenty years. A clock that was far off must not keep us busy.
const MOST_HOURS: i64 = 175_200;

#[cfg(test)]
mod tests {
    use super::*;

    fn span(from_ms: i64, to_ms: i64) -> Span {
        Span { from_ms, to_ms }
    }

    #[test]
    fn intervals_are_split_at_the_hours_and_steps_back_are_counted() {
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
        // The first and the last hour are cut by the period.
        let found = gap(&hours, span(HOUR_MS / 2, 6 * HOUR_MS + 5)).unwrap();
        assert_eq!((found.missing_hours, found.longest_hours), (3, 2));
        assert_eq!(found.longest_from_ms, 2 * HOUR_MS);
        assert_eq!(gap(&hours, span(0, HOUR_MS / 2)), None);
        assert_eq!(gap(&hours, span(HOUR_MS, 2 * HOUR_MS)), None);
        // A clock at the end of time is no reason to count to it.
        assert!(gap(&hours, span(0, i64::MAX)).is_some());
    }

    #[test]
    fn times_beyond_the_calendar_have_a_name() {
        assert_eq!(rfc3339(1_790_000_000_000), "2026-09-21T14:13:20Z");
        assert_eq!(rfc3339(-5), "-5 ms since 1970");
        assert!(rfc3339(i64::MAX).contains("since 1970"));
    }
}
