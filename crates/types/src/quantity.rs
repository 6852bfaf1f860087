//! Quantities as a person writes them: each has its unit, and each mistake its own message.

use std::time::Duration;

/// Shortest interval between two readings. With a shorter one the readings would be the load.
pub const SHORTEST_INTERVAL: Duration = Duration::from_millis(10);

/// Longest accepted duration: ten years, so that sums of times cannot overflow.
const LONGEST: Duration = Duration::from_secs(10 * 365 * 24 * 3600);

/// A duration with its unit, such as `5s`, `250ms` or `1m 30s`; more than zero.
pub fn duration(text: &str) -> Result<Duration, String> {
    if text.trim().parse::<f64>().is_ok() {
        return Err("it has no unit: write 5s, 250ms or 1m".to_owned());
    }
    match humantime::parse_duration(text) {
        Ok(value) if value.is_zero() => Err("it must be more than 0".to_owned()),
        Ok(value) if value > LONGEST => Err("it is longer than ten years".to_owned()),
        Ok(value) => Ok(value),
        Err(_) => Err("not a duration: write 5s, 250ms or 1m".to_owned()),
    }
}

/// A duration between readings: at least [`SHORTEST_INTERVAL`].
pub fn interval(text: &str) -> Result<Duration, String> {
    let value = duration(text)?;
    if value < SHORTEST_INTERVAL {
        return Err("the shortest interval is 10ms".to_owned());
    }
    Ok(value)
}

/// A time to wait: a duration with its unit, or zero.
pub fn wait(text: &str) -> Result<Duration, String> {
    match humantime::parse_duration(text) {
        Ok(value) if value.is_zero() => Ok(value),
        _ => duration(text),
    }
}

/// A whole number of at least one.
pub fn positive(text: &str) -> Result<u32, String> {
    match text.parse() {
        Ok(0) => Err("it must be at least 1".to_owned()),
        Ok(value) => Ok(value),
        Err(_) => Err("not a whole number".to_owned()),
    }
}

/// A size with its unit, in bytes: `200B`, `16KiB`, `1MiB`.
pub fn bytes(text: &str) -> Result<u32, String> {
    const WRONG: &str = "not a size: write 200B, 16KiB or 1MiB";
    let (number, unit) = split(text);
    let scale: u32 = match unit {
        "B" => 1,
        "KiB" => 1 << 10,
        "MiB" => 1 << 20,
        "" => return Err("it has no unit: write 200B, 16KiB or 1MiB".to_owned()),
        _ => return Err(WRONG.to_owned()),
    };
    let number: u32 = number.parse().map_err(|_| WRONG.to_owned())?;
    match number.checked_mul(scale) {
        Some(0) => Err("it must be more than 0".to_owned()),
        Some(bytes) => Ok(bytes),
        None => Err("it is larger than 4GiB".to_owned()),
    }
}

/// A rate with its unit, in Gbit/s: `5Gbit`, `2.5Gbit`.
pub fn gbit(text: &str) -> Result<f64, String> {
    let (number, unit) = split(text);
    match (number.parse::<f64>(), unit) {
        (Ok(rate), "Gbit" | "Gbit/s") if rate > 0.0 => Ok(rate),
        (Ok(_), "") => Err("it has no unit: write 5Gbit".to_owned()),
        _ => Err("not a rate: write 5Gbit".to_owned()),
    }
}

fn split(text: &str) -> (&str, &str) {
    let end = text
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(text.len());
    text.split_at(end)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_carry_units() {
        assert_eq!(duration("250ms"), Ok(Duration::from_millis(250)));
        assert_eq!(duration("1m 30s"), Ok(Duration::from_secs(90)));
        for text in ["5", "0", "-1", "1.5"] {
            assert!(
                duration(text).is_err_and(|e| e.contains("no unit")),
                "{text}"
            );
        }
        for text in ["0s", "0ms"] {
            assert!(duration(text).is_err_and(|e| e.contains("more than 0")));
        }
        for text in ["", "s", "soon", "5 parsecs", "-1s", "99999999999999999999s"] {
            assert!(duration(text).is_err(), "{text}");
        }
        assert!(duration("11years").is_err_and(|e| e.contains("ten years")));
    }

    #[test]
    fn intervals_have_a_floor() {
        assert!(interval("9ms").is_err_and(|e| e.contains("10ms")));
        assert_eq!(interval("10ms"), Ok(SHORTEST_INTERVAL));
    }

    /// Promise 66.
    #[test]
    fn a_wait_may_be_zero_but_has_a_unit() {
        assert_eq!(wait("0s"), Ok(Duration::ZERO));
        assert_eq!(wait("2s"), Ok(Duration::from_secs(2)));
        for text in ["-1s", "soon", "5"] {
            assert!(wait(text).is_err(), "{text}");
        }
    }

    #[test]
    fn counts_are_whole_and_positive() {
        assert_eq!(positive("7"), Ok(7));
        for text in ["0", "-1", "1.5", "many"] {
            assert!(positive(text).is_err(), "{text}");
        }
    }

    #[test]
    fn sizes_and_rates_carry_units() {
        assert_eq!(bytes("200B"), Ok(200));
        assert_eq!(bytes("16KiB"), Ok(16_384));
        for text in ["200", "0B", "-1B", "1.5KiB", "9999999MiB", "KiB", "1kB", ""] {
            assert!(bytes(text).is_err(), "{text}");
        }
        assert_eq!(gbit("2.5Gbit"), Ok(2.5));
        assert_eq!(gbit("10Gbit/s"), Ok(10.0));
        for text in ["5", "0Gbit", "Gbit", "5Mbit", "-5Gbit", "1.2.3Gbit"] {
            assert!(gbit(text).is_err(), "{text}");
        }
    }
}
