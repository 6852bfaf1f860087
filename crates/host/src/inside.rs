//! Queries about the calling thread's network namespace; see [`crate::in_namespace`].

use crate::netlink::{LinkMessage, Napi, Netdev, Rtnetlink, attributes, u32_at};
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

const IFA_ADDRESS: u16 = 1;
const IFA_LOCAL: u16 = 2;

/// Lists all NAPI instances of devices that are up. Needs Linux 6.8.
pub fn napis() -> io::Result<Vec<Napi>> {
    Netdev::open()?.napis()
}

/// Lists the addresses of all interfaces but loopback, with the interface's index.
pub fn addresses() -> io::Result<Vec<(u32, IpAddr)>> {
    let mut found = Vec::new();
    // struct ifaddrmsg: family, prefix length, flags, scope, index.
    let payload = [0; 8];
    Rtnetlink::open()?.query(libc::RTM_GETADDR, libc::NLM_F_DUMP, &payload, |m| {
        let Some(index) = u32_at(m.payload, 4).filter(|_| m.kind == libc::RTM_NEWADDR) else {
            return;
        };
        // On a point-to-point interface ADDRESS is the other end's, and LOCAL is ours.
        let (mut address, mut local) = (None, None);
        for (kind, value) in attributes(m.payload.get(8..).unwrap_or(&[])) {
            match kind {
                IFA_ADDRESS => address = ip(value),
                IFA_LOCAL => local = ip(value),
                _ => {}
            }
        }
        if let Some(ip) = local.or(address).filter(|ip| !ip.is_loopback()) {
            found.push((index, ip));
        }
    })?;
    Ok(found)
}

/// Lists all devices but loopback that are up.
pub fn devices() -> io::Result<Vec<LinkMessage>> {
    let links = Rtnetlink::open()?.links()?;
    Ok(links.into_iter().filter(|l| l.up && !l.loopback).collect())
}

fn ip(bytes: &[u8]) -> Option<IpAddr> {
    match bytes.len() {
        4 => Some(Ipv4Addr::from(*bytes.first_chunk::<4>()?).into()),
        16 => Some(Ipv6Addr::from(*bytes.first_chunk::<16>()?).into()),
        _ => None,
    }
}
