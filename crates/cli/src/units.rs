//! Quantities as people read them.

use std::time::Duration;

/// `ns` as percent of one CPU over `length`; 0 for an empty interval.
pub fn percent_of(ns: f64, length: Duration) -> f64 {
    let total = length.as_nanos() as f64;
    if total > 0.0 { ns / total * 100.0 } else { 0.0 }
}

/// Percentage with one decimal; `0` for a value that rounds to nothing, so that other figures stand
/// out. Never `-0.0`.
pub fn pct(value: f64) -> String {
    if value.abs() < 0.05 {
        "0".to_owned()
    } else {
        format!("{value:.1}")
    }
}

/// Percentage with one decimal and its sign, for owed time.
pub fn signed_pct(value: f64) -> String {
    if value.abs() < 0.05 {
        "0".to_owned()
    } else {
        format!("{value:+.1}")
    }
}

/// Percentage inside a sentence: whole, but `0.4%` below one.
pub fn spoken_pct(value: f64) -> String {
    if value.abs() < 0.95 {
        format!("{value:.1}%")
    } else {
        format!("{value:.0}%")
    }
}

/// A count or rate in at most five characters: `0`, `950`, `12.3k`, `1.25M`.
pub fn count(value: f64) -> String {
    match value {
        v if v < 999.5 => format!("{v:.0}"),
        v if v < 9_995.0 => format!("{:.2}k", v / 1e3),
        v if v < 99_950.0 => format!("{:.1}k", v / 1e3),
        v if v < 999_500.0 => format!("{:.0}k", v / 1e3),
        v if v < 9_995_000.0 => format!("{:.2}M", v / 1e6),
        v if v < 99_950_000.0 => format!("{:.1}M", v / 1e6),
        v => format!("{:.0}M", v / 1e6),
    }
}

/// Duration in the form of the command line: `1s`, `250ms`, `1m 30s`.
pub fn duration(value: Duration) -> String {
    humantime::format_duration(value).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percent_of_nothing_is_nothing() {
        assert_eq!(percent_of(5.0, Duration::ZERO), 0.0);
        assert_eq!(percent_of(250_000_000.0, Duration::from_secs(1)), 25.0);
    }

    #[test]
    fn zeros_have_no_sign_and_no_decimals() {
        assert_eq!(pct(-0.01), "0");
        assert_eq!(signed_pct(0.04), "0");
        assert_eq!(signed_pct(-31.04), "-31.0");
        assert_eq!(signed_pct(12.0), "+12.0");
    }

    #[test]
    fn counts_never_take_more_than_five_characters() {
        for v in [0.0, 1.0, 999.4, 999.6, 9_994.0, 9_996.0, 99_949.0, 99_951.0] {
            for scale in [1.0, 10.0, 100.0, 1_000.0] {
                let text = count(v * scale);
                assert!(text.len() <= 5, "{text}");
            }
        }
        assert_eq!(count(712_345.0), "712k");
        assert_eq!(count(1_254_000.0), "1.25M");
    }
}
