//! Quantities of an experiment file, each with its unit.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::fmt;
use std::time::Duration;

/// Duration, such as `400ms`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct Span(pub Duration);

/// Size in bytes, such as `512MiB`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct Size(pub u64);

/// Rate in bits a second, such as `500Mbit`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct BitRate(pub u64);

const SIZES: [(&str, u64); 4] = [
    ("GiB", 1 << 30),
    ("MiB", 1 << 20),
    ("KiB", 1 << 10),
    ("B", 1),
];
const RATES: [(&str, u64); 4] = [
    ("Gbit", 1_000_000_000),
    ("Mbit", 1_000_000),
    ("kbit", 1_000),
    ("bit", 1),
];

impl TryFrom<String> for Span {
    type Error = String;

    fn try_from(text: String) -> Result<Span, String> {
        match humantime::parse_duration(&text) {
            Ok(time) if time.is_zero() => Err(format!("'{text}' must be more than 0")),
            Ok(time) if time > Duration::from_secs(24 * 3600) => {
                Err(format!("'{text}' is longer than a day"))
            }
            Ok(time) => Ok(Span(time)),
            Err(_) => Err(format!("'{text}' is not a duration such as 400ms or 30m")),
        }
    }
}

impl TryFrom<String> for Size {
    type Error = String;

    fn try_from(text: String) -> Result<Size, String> {
        parse_scaled(&text, &SIZES).map(Size).ok_or_else(|| {
            format!("'{text}' is not a size such as 512MiB (B, KiB, MiB or GiB, more than 0)")
        })
    }
}

impl TryFrom<String> for BitRate {
    type Error = String;

    fn try_from(text: String) -> Result<BitRate, String> {
        parse_scaled(&text, &RATES).map(BitRate).ok_or_else(|| {
            format!("'{text}' is not a rate such as 500Mbit (bit, kbit, Mbit or Gbit, more than 0)")
        })
    }
}

/// Parses a positive number with one of `units`, as a whole number of the smallest.
fn parse_scaled(text: &str, units: &[(&str, u64)]) -> Option<u64> {
    let (number, scale) = units
        .iter()
        .find_map(|(unit, scale)| Some((text.strip_suffix(unit)?, *scale)))?;
    let value = number.trim_end().parse::<f64>().ok()? * scale as f64;
    (value >= 1.0 && value < (1_u64 << 53) as f64).then_some(value.round() as u64)
}

/// Writes a value in the largest unit that leaves a whole number.
fn format_scaled(value: u64, units: &[(&str, u64)]) -> String {
    let whole = units.iter().find(|(_, scale)| value.is_multiple_of(*scale));
    let (unit, scale) = whole.unwrap_or(&units[units.len() - 1]);
    format!("{}{unit}", value / scale)
}

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", humantime::format_duration(self.0))
    }
}

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&format_scaled(self.0, &SIZES))
    }
}

impl fmt::Display for BitRate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&format_scaled(self.0, &RATES))
    }
}

macro_rules! quantity {
    ($name:ident, $description:literal, $pattern:literal) => {
        impl From<$name> for String {
            fn from(value: $name) -> String {
                value.to_string()
            }
        }

        impl JsonSchema for $name {
            fn schema_name() -> Cow<'static, str> {
                stringify!($name).into()
            }

            fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
                schemars::json_schema!({
                    "type": "string", "description": $description, "pattern": $pattern,
                })
            }
        }
    };
}
quantity!(Span, "A duration with its units.", r"^([0-9]+ ?[a-z]+ ?)+$");
quantity!(Size, "A size with its unit.", r"^[0-9.]+ ?([KMG]iB|B)$");
quantity!(BitRate, "A rate with its unit.", r"^[0-9.]+ ?[kMG]?bit$");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_carry_units_and_are_written_as_read() {
        for (text, bytes) in [("512MiB", 512 << 20), ("1.5GiB", 3 << 29), ("4096B", 4096)] {
            let size = Size::try_from(text.to_owned()).unwrap();
            assert_eq!(size.0, bytes, "{text}");
            assert_eq!(Size::try_from(size.to_string()), Ok(size));
        }
        let rate = BitRate::try_from("0.5Gbit".to_owned()).unwrap();
        assert_eq!(
            (rate.0, rate.to_string().as_str()),
            (500_000_000, "500Mbit")
        );
        let span = Span::try_from("1m 30s".to_owned()).unwrap();
        assert_eq!(Span::try_from(span.to_string()), Ok(span));
        for text in [
            "512",
            "0MiB",
            "-1MiB",
            "NaNMiB",
            "infGiB",
            "MiB",
            "",
            "99999999GiB",
            "5 MB",
        ] {
            assert!(Size::try_from(text.to_owned()).is_err(), "{text}");
        }
        for text in ["0s", "5", "soon", "2days"] {
            assert!(Span::try_from(text.to_owned()).is_err(), "{text}");
        }
        assert!(BitRate::try_from("1Gbyte".to_owned()).is_err());
    }
}
