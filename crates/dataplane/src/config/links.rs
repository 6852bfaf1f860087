//! Devices of a dataplane: the one of `[device]` and `[network]`, and further ones, each with its
//! own networks.

use super::raw::{RawDevice, RawLink, RawMode};
use super::value::Wrong;
use super::{LinkKind, interface};
use cofferdam_netstack::{InterfaceAddress, MOST_INTERFACES};
use cofferdam_xsk::Mode;
use std::net::IpAddr;
use toml::Spanned;

/// A device, the way its packets come off it, and its networks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Link {
    /// Name of the device.
    pub name: String,
    /// The way in which packets come off it.
    pub kind: LinkKind,
    /// Queue of the device that all cores use; `None`: each core uses the queue that it has on the
    /// first device.
    pub queue: Option<u32>,
    /// Addresses of the dataplane on the device.
    pub addresses: Vec<InterfaceAddress>,
    /// Next hops for packets to other networks.
    pub gateways: Vec<IpAddr>,
}

impl Link {
    /// Whether an address of the dataplane is on this device.
    pub fn has(&self, ip: IpAddr) -> bool {
        self.addresses.iter().any(|own| own.ip == ip)
    }
}

/// Devices of a file: `first`, then its `[[link]]` entries.
pub(super) fn links(
    device: &RawDevice,
    first: Link,
    given: Vec<Spanned<RawLink>>,
) -> Result<Vec<Link>, Wrong> {
    let mut links = vec![first];
    for raw in given {
        let (span, raw) = (raw.span(), raw.into_inner());
        if matches!(device.mode, RawMode::Tap) {
            let why = "a dataplane with a tap device has no other: remove the [[link]], or mode = \
                \"tap\"";
            return Err((span, why.to_owned()));
        }
        if links.len() == MOST_INTERFACES {
            let why = format!("a dataplane has at most {MOST_INTERFACES} devices");
            return Err((span, why));
        }
        let link = link(raw, &links)?;
        links.push(link);
    }
    Ok(links)
}

fn link(raw: RawLink, before: &[Link]) -> Result<Link, Wrong> {
    let name = raw.device.get_ref();
    if before.iter().any(|other| other.name == *name) {
        let why = format!("link.device = \"{name}\" is a device of this dataplane already");
        return Err((raw.device.span(), why));
    }
    let kind = match raw.mode.as_ref().map(Spanned::get_ref) {
        None => kind(&RawMode::Best),
        Some(RawMode::Tap) => {
            let why = "link.mode = \"tap\": a tap device is a dataplane's only one";
            let span = raw.mode.as_ref().map(Spanned::span).unwrap_or_default();
            return Err((span, why.to_owned()));
        }
        Some(mode) => kind(mode),
    };
    let addresses = addresses("link.addresses", &raw.addresses)?;
    for (address, given) in addresses.iter().zip(raw.addresses.get_ref()) {
        if let Some(other) = before.iter().find(|other| other.has(address.ip)) {
            let why = format!("{} is an address on {} already", address.ip, other.name);
            return Err((given.span(), why));
        }
    }
    Ok(Link {
        name: raw.device.into_inner(),
        kind,
        queue: raw.queue,
        addresses,
        gateways: raw.gateways,
    })
}

pub(super) fn kind(mode: &RawMode) -> LinkKind {
    match mode {
        RawMode::Best => LinkKind::Xdp(Mode::Best),
        RawMode::Native => LinkKind::Xdp(Mode::Native),
        RawMode::Generic => LinkKind::Xdp(Mode::Generic),
        RawMode::Tap => LinkKind::Tap,
    }
}

/// Parses the addresses under `key`, at least one.
pub(super) fn addresses(
    key: &str,
    given: &Spanned<Vec<Spanned<String>>>,
) -> Result<Vec<InterfaceAddress>, Wrong> {
    if given.get_ref().is_empty() {
        let why = format!("{key} is empty: the dataplane needs an address of its own");
        return Err((given.span(), why));
    }
    let all = given.get_ref().iter();
    all.map(|a| interface(key, a.get_ref()).map_err(|why| (a.span(), why)))
        .collect()
}
