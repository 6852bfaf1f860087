//! The file as it is written, before its rules are checked against each other.

use cofferdam_types::{CpuAmount, NetworkCpu};
use serde::Deserialize;
use serde::de::{Deserializer, Error};
use std::path::PathBuf;
use std::time::Duration;
use toml::Spanned;

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct RawConfig {
    pub rule: Vec<Spanned<RawRule>>,
    pub socket: RawSocket,
    pub metrics: RawMetrics,
    pub enforcement: RawEnforcement,
    pub reservation: RawReservation,
    pub diagnosis: RawDiagnosis,
    pub latency: RawLatency,
    pub otlp: RawOtlp,
    pub web: RawWeb,
    pub history: RawHistory,
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

#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq)]
#[serde(rename_all = "lowercase")]
pub(super) enum RawCpu {
    #[default]
    Standard,
    Strict,
}

/// A [`CpuAmount`] that may be written as a whole number.
#[derive(Clone, Copy, Debug)]
pub(super) struct Amount(pub CpuAmount);

impl<'de> Deserialize<'de> for Amount {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Amount, D::Error> {
        let cpus = f64::deserialize(deserializer)?;
        CpuAmount::try_from(cpus)
            .map(Amount)
            .map_err(D::Error::custom)
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
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct RawHistory {
    pub path: Option<Spanned<PathBuf>>,
    pub limit: Option<Spanned<String>>,
}

/// A duration with its unit.
#[derive(Clone, Copy, Debug)]
pub(super) struct Length(pub Duration);

impl<'de> Deserialize<'de> for Length {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Length, D::Error> {
        let text = String::deserialize(deserializer)?;
        humantime::parse_duration(&text).map(Length).map_err(|_| {
            D::Error::custom(format!(
                "'{text}' is not a duration: write a number and its unit, such as \"100ms\" or \"1s\""
            ))
        })
    }
}
