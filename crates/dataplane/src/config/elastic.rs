//! Settings of elastic cores.

use super::raw::RawElastic;
use super::value::{Wrong, duration};
use std::ops::RangeInclusive;
use std::time::Duration;
use toml::Spanned;

/// Conditions for adding and removing cores (`[elastic]`).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Elastic {
    /// Number of cores, from the first of the file on, that always have flow groups; default 1.
    pub least_cores: u8,
    /// Cores with flow groups, at most; default all of the file.
    pub most_cores: u8,
    /// Time between readings; 50 ms to 60 s, default 100 ms.
    pub interval: Duration,
    /// A core is added if a packet waits longer than this; 0 to 1 s, default 100 µs. With 0 any
    /// traffic adds a core.
    pub queue_delay: Duration,
    /// A core is removed if no other would be busy for more than this share of its time; 0.05 to
    /// 0.95, default 0.6.
    pub busy_share: f64,
    /// Consecutive readings that must agree; 1 to 1,000, default 3.
    pub intervals: u32,
    /// Time without changes after a change; 0 to 1 h, default 1 s.
    pub pause: Duration,
}

impl Elastic {
    /// Defaults for a dataplane of `cores` cores.
    pub fn for_cores(cores: u8) -> Elastic {
        Elastic {
            least_cores: 1,
            most_cores: cores,
            interval: Duration::from_millis(100),
            queue_delay: Duration::from_micros(100),
            busy_share: 0.6,
            intervals: 3,
            pause: Duration::from_secs(1),
        }
    }
}

/// Checks the section, for a file with `cores` `[[core]]` entries.
pub(super) fn elastic(given: &Spanned<RawElastic>, cores: usize) -> Result<Elastic, Wrong> {
    if cores < 2 {
        let why = "[elastic] needs two [[core]] entries or more: with one there is none to add";
        return Err((given.span(), why.to_owned()));
    }
    // `config::cores` has limited the number.
    let all = u8::try_from(cores).unwrap_or(u8::MAX);
    let defaults = Elastic::for_cores(all);
    let raw = given.get_ref();
    let least = number("least_cores", &raw.least_cores, 1, 1..=u32::from(all))?;
    let most = number(
        "most_cores",
        &raw.most_cores,
        u32::from(all),
        1..=u32::from(all),
    )?;
    if least > most {
        let span = raw.least_cores.as_ref().or(raw.most_cores.as_ref());
        let why = format!("elastic.least_cores = {least} is more than most_cores = {most}");
        return Err((span.map_or(given.span(), Spanned::span), why));
    }
    let busy_share = match &raw.busy_share {
        None => defaults.busy_share,
        Some(found) => match *found.get_ref() {
            share if (0.05..=0.95).contains(&share) => share,
            share => {
                let why = format!("elastic.busy_share = {share} is outside 0.05..=0.95");
                return Err((found.span(), why));
            }
        },
    };
    let seconds = Duration::from_secs;
    Ok(Elastic {
        least_cores: least as u8,
        most_cores: most as u8,
        interval: time(
            "interval",
            &raw.interval,
            defaults.interval,
            Duration::from_millis(50)..=seconds(60),
        )?,
        queue_delay: time(
            "queue_delay",
            &raw.queue_delay,
            defaults.queue_delay,
            Duration::ZERO..=seconds(1),
        )?,
        busy_share,
        intervals: number("intervals", &raw.intervals, defaults.intervals, 1..=1000)?,
        pause: time(
            "pause",
            &raw.pause,
            defaults.pause,
            Duration::ZERO..=seconds(3600),
        )?,
    })
}

fn number(
    key: &str,
    found: &Option<Spanned<u32>>,
    default: u32,
    range: RangeInclusive<u32>,
) -> Result<u32, Wrong> {
    let Some(found) = found else {
        return Ok(default);
    };
    let value = *found.get_ref();
    if range.contains(&value) {
        return Ok(value);
    }
    let (first, last) = range.into_inner();
    let why = format!("elastic.{key} = {value} is outside {first}..={last}");
    Err((found.span(), why))
}

fn time(
    key: &str,
    found: &Option<Spanned<String>>,
    default: Duration,
    range: RangeInclusive<Duration>,
) -> Result<Duration, Wrong> {
    let Some(found) = found else {
        return Ok(default);
    };
    let text = found.get_ref();
    let Some(value) = duration(text) else {
        let why = format!(
            "elastic.{key} = \"{text}\": write a number with its unit, such as 100us, 50ms, 2s"
        );
        return Err((found.span(), why));
    };
    if range.contains(&value) {
        return Ok(value);
    }
    let (first, last) = range.into_inner();
    let why = format!("elastic.{key} = \"{text}\" is outside {first:?} to {last:?}");
    Err((found.span(), why))
}
