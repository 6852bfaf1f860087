//! Values of the file, and places of mistakes.

use std::ops::Range;
use std::time::Duration;

/// Place of a mistake in a file, and its description.
pub(super) type Wrong = (Range<usize>, String);

/// Parses a number with its unit; `None` if it is not one.
pub(super) fn duration(text: &str) -> Option<Duration> {
    let digits = text.find(|c: char| !c.is_ascii_digit())?;
    let (number, unit) = text.split_at(digits);
    let number: u64 = number.parse().ok()?;
    Some(match unit.trim_start() {
        "us" => Duration::from_micros(number),
        "ms" => Duration::from_millis(number),
        "s" => Duration::from_secs(number),
        _ => return None,
    })
}
