//! CPU time in a readable form.

use crate::census::rfc3339;
use cofferdam_page::format::{number, scaled};

/// Unit of CPU time, one for a whole table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Seconds.
    Seconds,
    /// Hours.
    Hours,
}

impl Unit {
    /// Unit in which `largest_s` is a short number.
    pub fn of(largest_s: f64) -> Unit {
        if largest_s.abs() >= 7200.0 {
            Unit::Hours
        } else {
            Unit::Seconds
        }
    }

    /// Number without the unit.
    pub fn value(self, seconds: f64) -> String {
        let value = self.scale(seconds);
        match value.abs() {
            v if v >= 999.5 => grouped(value),
            v if v < 0.0005 => "0".to_owned(),
            _ => number(value),
        }
    }

    /// Number with its sign, without the unit.
    pub fn signed(self, seconds: f64) -> String {
        let text = self.value(seconds.abs());
        match (text.as_str(), seconds < 0.0) {
            ("0", _) => text,
            (_, true) => format!("−{text}"),
            (_, false) => format!("+{text}"),
        }
    }

    /// Number with the unit.
    pub fn show(self, seconds: f64) -> String {
        format!("{} {}", self.value(seconds), self.name())
    }

    /// Name of the unit.
    pub fn name(self) -> &'static str {
        match self {
            Unit::Seconds => "CPU seconds",
            Unit::Hours => "CPU hours",
        }
    }

    /// Converts seconds to the unit.
    pub fn scale(self, seconds: f64) -> f64 {
        match self {
            Unit::Seconds => seconds,
            Unit::Hours => seconds / 3600.0,
        }
    }
}

/// Formats a whole number with separated thousands.
fn grouped(value: f64) -> String {
    let digits = format!("{:.0}", value.abs());
    let mut text = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push('\u{202f}');
        }
        text.push(digit);
    }
    if value < 0.0 {
        format!("−{text}")
    } else {
        text
    }
}

/// Formats a count: `1 host`, `12 hosts`, `43 200 records`, `4.32 G records`.
pub fn count(number: f64, what: &str) -> String {
    let many = if number == 1.0 { "" } else { "s" };
    let number = match number {
        n if n < 999_999.5 => grouped(n),
        n => scaled(n),
    };
    format!("{number} {what}{many}")
}

/// Formats a time to the minute.
pub fn date(time_ms: i64) -> String {
    let text = rfc3339(time_ms);
    match text.get(..16) {
        Some(minute) if text.ends_with('Z') => minute.replace('T', " "),
        _ => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_short_and_keep_their_unit() {
        assert_eq!(Unit::of(7199.0).show(7199.0), "7\u{202f}199 CPU seconds");
        assert_eq!(Unit::of(7200.0).show(7200.0), "2.00 CPU hours");
        assert_eq!(
            Unit::Hours.value(3600.0 * 1_234_567.0),
            "1\u{202f}234\u{202f}567"
        );
        assert_eq!(Unit::Seconds.signed(-1.5), "−1.50");
        assert_eq!(Unit::Seconds.signed(0.0), "0");
        assert_eq!(count(1.0, "host"), "1 host");
        assert_eq!(count(43_200.0, "record"), "43\u{202f}200 records");
        assert_eq!(count(4.32e9, "record"), "4.32 G records");
        assert_eq!(date(1_790_000_000_000), "2026-09-21 14:13");
        assert_eq!(date(-5), "-5 ms since 1970");
    }
}
