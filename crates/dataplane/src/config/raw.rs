//! Keys of the file and their types. Other modules check the values.

use serde::Deserialize;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use toml::Spanned;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Raw {
    pub socket: Option<PathBuf>,
    pub metrics: Option<SocketAddr>,
    pub device: RawDevice,
    pub network: RawNetwork,
    #[serde(default, rename = "link")]
    pub links: Vec<Spanned<RawLink>>,
    #[serde(default)]
    pub tcp: RawTcp,
    #[serde(default)]
    pub limits: RawLimits,
    #[serde(default, rename = "loop")]
    pub turns: RawLoop,
    #[serde(default, rename = "core")]
    pub cores: Vec<Spanned<RawCore>>,
    pub elastic: Option<Spanned<RawElastic>>,
    #[serde(default, rename = "application")]
    pub applications: Vec<RawApplication>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawDevice {
    pub name: String,
    #[serde(default)]
    pub mode: RawMode,
    pub queue: Option<Spanned<u32>>,
    pub cpu: Option<Spanned<usize>>,
    pub frames: Option<Spanned<u32>>,
    pub frame_bytes: Option<Spanned<u32>>,
    #[serde(default)]
    pub checksums: RawChecksums,
    pub segmentation: Option<bool>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawCore {
    pub cpu: Option<Spanned<usize>>,
    #[serde(default)]
    pub queue: u32,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawElastic {
    pub least_cores: Option<Spanned<u32>>,
    pub most_cores: Option<Spanned<u32>>,
    pub interval: Option<Spanned<String>>,
    pub queue_delay: Option<Spanned<String>>,
    pub busy_share: Option<Spanned<f64>>,
    pub intervals: Option<Spanned<u32>>,
    pub pause: Option<Spanned<String>>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "lowercase")]
pub(super) enum RawMode {
    #[default]
    Best,
    Native,
    Generic,
    Tap,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "lowercase")]
pub(super) enum RawChecksums {
    #[default]
    Verify,
    Trust,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawNetwork {
    pub addresses: Spanned<Vec<Spanned<String>>>,
    #[serde(default)]
    pub gateways: Vec<IpAddr>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawLink {
    pub device: Spanned<String>,
    pub mode: Option<Spanned<RawMode>>,
    pub queue: Option<u32>,
    pub addresses: Spanned<Vec<Spanned<String>>>,
    #[serde(default)]
    pub gateways: Vec<IpAddr>,
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields)]
pub(super) struct RawTcp {
    pub connections: Option<Spanned<u32>>,
    pub congestion: Option<RawCongestion>,
}

#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum RawCongestion {
    Cubic,
    Newreno,
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields)]
pub(super) struct RawLimits {
    pub listeners: Option<Spanned<u32>>,
    pub datagram_addresses: Option<Spanned<u32>>,
    pub datagrams: Option<Spanned<u32>>,
    pub timers: Option<Spanned<u32>>,
    pub neighbours: Option<Spanned<u32>>,
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields)]
pub(super) struct RawLoop {
    pub batch: Option<Spanned<u32>>,
    pub spin: Option<Spanned<String>>,
    pub yields: Option<bool>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawApplication {
    pub name: Spanned<String>,
    pub user: Spanned<String>,
    #[serde(default)]
    pub bind: Vec<Spanned<String>>,
    #[serde(default)]
    pub connect: bool,
    pub share_pct: Option<Spanned<u8>>,
    pub domain: Option<Spanned<RawDomain>>,
    pub program: Option<Spanned<String>>,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum RawDomain {
    Process,
    Pkey,
}
