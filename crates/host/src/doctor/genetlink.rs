//! The `netdev` family of generic netlink: what drivers announce about XDP, and which devices
//! have NAPI. Source: `Documentation/netlink/specs/netdev.yaml`.

use crate::links::Rtnetlink;
use crate::links::message::{attribute, attributes, u16_at, u32_at};
use netlink_sys::protocols::NETLINK_GENERIC;
use std::collections::{BTreeMap, BTreeSet};
use std::io;

const GENL_ID_CTRL: u16 = 16;
const CTRL_CMD_GETFAMILY: u8 = 3;
const CTRL_ATTR_FAMILY_ID: u16 = 1;
const CTRL_ATTR_FAMILY_NAME: u16 = 2;
const NETDEV_CMD_DEV_GET: u8 = 1;
const NETDEV_CMD_NAPI_GET: u8 = 11;
const NETDEV_A_DEV_IFINDEX: u16 = 1;
const NETDEV_A_DEV_XDP_FEATURES: u16 = 3;
const NETDEV_A_NAPI_IFINDEX: u16 = 1;
const NETDEV_A_NAPI_PID: u16 = 4;

/// The family, once found; kernels before 6.3 do not have it.
pub(crate) struct Netdev {
    socket: Rtnetlink,
    family: u16,
}

impl Netdev {
    pub fn open() -> io::Result<Netdev> {
        let mut socket = Rtnetlink::open_protocol(NETLINK_GENERIC)?;
        let name = attribute(CTRL_ATTR_FAMILY_NAME, b"netdev\0");
        let mut family = None;
        socket.ask(
            GENL_ID_CTRL,
            0,
            &[command(CTRL_CMD_GETFAMILY), name].concat(),
            |m| {
                for (kind, value) in attributes(m.payload.get(4..).unwrap_or(&[])) {
                    if kind == CTRL_ATTR_FAMILY_ID {
                        family = u16_at(value, 0);
                    }
                }
            },
        )?;
        let family = family.ok_or_else(|| io::Error::from(io::ErrorKind::NotFound))?;
        Ok(Netdev { socket, family })
    }

    /// Interface index → XDP feature bits.
    pub fn xdp_features(&mut self) -> io::Result<BTreeMap<u32, u64>> {
        let mut found = BTreeMap::new();
        self.socket.ask(
            self.family,
            libc::NLM_F_DUMP,
            &command(NETDEV_CMD_DEV_GET),
            |m| {
                let (mut index, mut bits) = (None, None);
                for (kind, value) in attributes(m.payload.get(4..).unwrap_or(&[])) {
                    match kind {
                        NETDEV_A_DEV_IFINDEX => index = u32_at(value, 0),
                        NETDEV_A_DEV_XDP_FEATURES => {
                            bits = value.first_chunk().map(|bytes| u64::from_ne_bytes(*bytes));
                        }
                        _ => {}
                    }
                }
                if let (Some(index), Some(bits)) = (index, bits) {
                    found.insert(index, bits);
                }
            },
        )?;
        Ok(found)
    }

    /// Indices of devices that have at least one NAPI instance (kernel 6.8 on).
    pub fn with_napi(&mut self) -> io::Result<BTreeSet<u32>> {
        let mut found = BTreeSet::new();
        self.socket.ask(
            self.family,
            libc::NLM_F_DUMP,
            &command(NETDEV_CMD_NAPI_GET),
            |m| {
                let mut all = attributes(m.payload.get(4..).unwrap_or(&[]));
                let index = all.find(|(kind, _)| *kind == NETDEV_A_NAPI_IFINDEX);
                found.extend(index.and_then(|(_, value)| u32_at(value, 0)));
            },
        )?;
        Ok(found)
    }

    /// Interface index and thread of each NAPI instance that has a thread.
    pub fn napi_threads(&mut self) -> io::Result<Vec<(u32, u32)>> {
        let mut found = Vec::new();
        self.socket.ask(
            self.family,
            libc::NLM_F_DUMP,
            &command(NETDEV_CMD_NAPI_GET),
            |m| {
                let all = attributes(m.payload.get(4..).unwrap_or(&[]));
                let (mut index, mut thread) = (None, None);
                for (kind, value) in all {
                    match kind {
                        NETDEV_A_NAPI_IFINDEX => index = u32_at(value, 0),
                        NETDEV_A_NAPI_PID => thread = u32_at(value, 0),
                        _ => {}
                    }
                }
                found.extend(index.zip(thread));
            },
        )?;
        Ok(found)
    }
}

/// `struct genlmsghdr`.
fn command(command: u8) -> Vec<u8> {
    vec![command, 1, 0, 0]
}
