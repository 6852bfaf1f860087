//! Fills a store, and reads it.

use super::Options;
use super::data::{HistoryCase, HistoryRow, HistorySample, ReadRow};
use super::synthetic::Maker;
use crate::data::SCHEMA;
use crate::error::BenchError;
use crate::experiment::Rig;
use crate::rundir;
use crate::scratch_folder::Folder;
use crate::stats::estimate;
use cofferdam_history::{Limits, Reader, Store};
use nix::time::{ClockId, clock_gettime};
use std::path::Path;
use std::time::{Duration, Instant, SystemTime};

/// Appends that make one mean value.
const BATCH: u64 = 100;
/// Values of each read.
const READS: usize = 7;
const HOUR_S: u64 = 3600;
const DAY_S: u64 = 86_400;

pub(super) fn case(
    rig: &mut Rig<'_>,
    options: &Options,
    case: HistoryCase,
) -> Result<HistoryRow, BenchError> {
    let folder = Folder::make(rig.dir.path().join("store"))?;
    let path = folder.path().join("history");
    // A limit above the goal: a store that exceeds the goal shows it.
    let limits = Limits {
        bytes: 8 << 30,
        ..Limits::default()
    };
    let mut store = Store::open(&path, limits).map_err(failed)?;
    let begin = SystemTime::UNIX_EPOCH + Duration::from_secs(1_799_971_200);
    let mut maker = Maker::new(case, options.containers, begin, options.seed);
    let mut frames = 0;
    let mut fill = |rig: &mut Rig<'_>, store: &mut Store, count: u64, seconds| {
        for at in 0..count {
            if at % 1000 == 0 {
                rig.check()?;
            }
            store.append(&maker.next(seconds)).map_err(failed)?;
            frames += 1;
        }
        Ok::<(), BenchError>(())
    };
    let days = u64::from(options.days());
    fill(rig, &mut store, (days - 1) * DAY_S / 60, 60)?;
    fill(rig, &mut store, (DAY_S - HOUR_S) / 10, 10)?;
    let before = store.usage().map_err(failed)?.bytes;
    let (mut cpu_us, mut wall_us) = (Vec::new(), Vec::new());
    for _ in 0..HOUR_S / BATCH {
        rig.check()?;
        let batch: Vec<_> = (0..BATCH).map(|_| maker.next(1)).collect();
        let (cpu, from) = (cpu_time(), Instant::now());
        for frame in &batch {
            store.append(frame).map_err(failed)?;
        }
        let cpu = cpu_time().saturating_sub(cpu);
        let mean = |time: Duration| time.as_secs_f64() * 1e6 / BATCH as f64;
        for (values, what, value) in [
            (&mut wall_us, "append_us", mean(from.elapsed())),
            (&mut cpu_us, "append_cpu_us", mean(cpu)),
        ] {
            rig.dir.sample(&sample(case, what, value))?;
            values.push(value);
        }
        frames += BATCH;
    }
    let bytes = store.usage().map_err(failed)?.bytes;
    let grown = bytes.saturating_sub(before) as f64;
    let reads = reads(rig, case, &path)?;
    let none = || BenchError::Usage("nothing was measured".to_owned());
    Ok(HistoryRow {
        case,
        containers: options.containers,
        days: options.days(),
        frames,
        bytes,
        bytes_per_container_frame: grown / HOUR_S as f64 / f64::from(options.containers),
        append_cpu_us: estimate(&cpu_us, rig.seed).ok_or_else(none)?,
        append_us: estimate(&wall_us, rig.seed).ok_or_else(none)?,
        reads,
    })
}

/// Times the reads of the screen, the page and an export, while the writer has the store open.
fn reads(rig: &mut Rig<'_>, case: HistoryCase, path: &Path) -> Result<Vec<ReadRow>, BenchError> {
    let mut reader = Reader::open(path).map_err(failed)?;
    let (begin, end) = reader
        .extent()
        .map_err(failed)?
        .unwrap_or((SystemTime::UNIX_EPOCH, SystemTime::UNIX_EPOCH));
    let all = end.duration_since(begin).unwrap_or_default();
    let ago = |length: Duration| end - length.min(all);
    let hour = Duration::from_secs(HOUR_S);
    let mut rows = Vec::new();
    for (what, length, most) in [
        ("the frame at a time", None, 1),
        ("the last 5 minutes", Some(hour / 12), 300),
        ("the last hour", Some(hour), 3600),
        ("the last day", Some(24 * hour), 1500),
        ("all of it", Some(all), 1500),
    ] {
        let (mut values, mut frames) = (Vec::new(), 0);
        for at in 0..READS {
            rig.check()?;
            let from = Instant::now();
            frames = match length {
                None => {
                    let time = begin + all / READS as u32 * at as u32;
                    u64::from(reader.frame_at(time).map_err(failed)?.is_some())
                }
                Some(length) => reader.frames(ago(length), end, most).map_err(failed)?.len() as u64,
            };
            let ms = from.elapsed().as_secs_f64() * 1e3;
            let name = format!("{what}_ms").replace(' ', "_");
            rig.dir.sample(&sample(case, &name, ms))?;
            values.push(ms);
        }
        if let Some(ms) = estimate(&values, rig.seed) {
            rows.push(ReadRow {
                what: what.to_owned(),
                frames,
                ms,
            });
        }
    }
    Ok(rows)
}

fn sample(case: HistoryCase, what: &str, value: f64) -> HistorySample {
    HistorySample {
        schema: SCHEMA,
        time: rundir::now(),
        case: case.to_string(),
        what: what.to_owned(),
        value,
    }
}

/// CPU time of this thread.
fn cpu_time() -> Duration {
    clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).map_or(Duration::ZERO, Duration::from)
}

fn failed(error: impl std::fmt::Display) -> BenchError {
    BenchError::Unsupported(error.to_string())
}
