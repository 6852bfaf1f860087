//! Values of the file, and where one is wrong.

use std::ops::Range;
use std::time::Duration;

/// Where a file is wrong, and why.
pub(super) type Wrong = (Range<usize>, String);

/// A number with its unit; `None` when it is none.
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
