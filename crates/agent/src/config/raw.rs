//! Configuration file in its written form, before the rules are checked against each other.

use cofferdam_types::{AccountingMode, CpuAmount, NetworkCpu};
use serde::Deserialize;
use serde::de::{self, Deserializer, Error};
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;
use toml::Spanned;

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct RawConfig {
    pub rule: Vec<Spanned<RawRule>>,
    pub socket: RawSocket,
    pub metrics: RawMetrics,
    pub accounting: RawAccounting,
    pub enforcement: RawEnforcement,
    pub reservation: RawReservation,
    pub diagnosis: RawDiagnosis,
    pub latency: RawLatency,
    pub otlp: RawOtlp,
    pub web: RawWeb,
    pub history: RawHistory,
    pub nri: RawNri,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawRule {
    #[serde(rename = "match")]
    pub matches: Spanned<String>,
    #[serde(default)]
    pub network_cpu: NetworkCpu,
    #[serde(default)]
    pub cpu: RawCpu,
    pub cpus: Option<Spanned<Amount>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct RawNri {
    pub socket: Option<Spanned<PathBuf>>,
    pub may_ask: Vec<Spanned<String>>,
}

#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq)]
#[serde(rename_all = "lowercase")]
pub(super) enum RawCpu {
    #[default]
    Standard,
    Strict,
}

/// [`CpuAmount`] that may be written as a whole number, or `request`: the amount that each
/// container requests.
#[derive(Clone, Copy, Debug)]
pub(super) enum Amount {
    Cpus(CpuAmount),
    Request,
}

impl<'de> Deserialize<'de> for Amount {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Amount, D::Error> {
        struct Visitor;

        impl de::Visitor<'_> for Visitor {
            type Value = Amount;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a number of CPUs such as 1.5, or \"request\"")
            }

            fn visit_f64<E: Error>(self, cpus: f64) -> Result<Amount, E> {
                let amount = CpuAmount::try_from(cpus);
                amount.map(Amount::Cpus).map_err(E::custom)
            }

            fn visit_i64<E: Error>(self, cpus: i64) -> Result<Amount, E> {
                self.visit_f64(cpus as f64)
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Amount, E> {
                match text {
                    "request" => Ok(Amount::Request),
                    _ => Err(E::invalid_value(de::Unexpected::Str(text), &self)),
                }
            }
        }
        deserializer.deserialize_any(Visitor)
    }
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct RawSocket {
    pub path: Option<Spanned<PathBuf>>,
    pub group: Option<Spanned<String>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct RawMetrics {
    pub address: Option<Spanned<String>>,
    pub containers: Option<Spanned<u32>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct RawAccounting {
    pub mode: Option<AccountingMode>,
    pub window: Option<Spanned<Length>>,
    pub period: Option<Spanned<Length>>,
    pub exact_below: Option<Spanned<f64>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct RawEnforcement {
    pub control_period: Option<Spanned<Length>>,
    pub debt_bound: Option<Spanned<Length>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct RawReservation {
    pub lend: Option<bool>,
    pub move_irqs: Option<bool>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct RawDiagnosis {
    pub enabled: Option<bool>,
    pub mode: Option<AccountingMode>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct RawLatency {
    pub histograms: Option<bool>,
    pub containers: Option<Spanned<u32>>,
    pub start: Option<RawStart>,
    pub socket: Option<Spanned<PathBuf>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct RawOtlp {
    pub endpoint: Option<Spanned<String>>,
    pub interval: Option<Spanned<Length>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct RawWeb {
    pub address: Option<Spanned<String>>,
    pub hosts: Vec<Spanned<String>>,
    pub remote: Option<bool>,
    pub dataplanes: Vec<Spanned<PathBuf>>,
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum RawStart {
    Queue,
    Send,
    Device,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct RawHistory {
    pub path: Option<Spanned<PathBuf>>,
    pub limit: Option<Spanned<String>>,
}

/// Duration with its unit.
#[derive(Clone, Copy, Debug)]
pub(super) struct Length(pub Duration);

impl<'de> Deserialize<'de> for Length {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Length, D::Error> {
        let text = String::deserialize(deserializer)?;
        humantime::parse_duration(&text).map(Length).map_err(|_| {
            D::Error::custom(format!(
                "'{text}' is not a duration: write a number and its unit, \
                                 such as \"100ms\" or \"1s\""
            ))
        })
    }
}
