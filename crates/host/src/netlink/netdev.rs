//! The `netdev` family of generic netlink: XDP features of drivers, and devices with NAPI. Source:
//! `Documentation/netlink/specs/netdev.yaml`.

use super::message::{attribute, attributes, u16_at, u32_at};
use super::socket::Rtnetlink;
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

/// `NETDEV_CMD_NAPI_SET`: changes a NAPI instance. Since Linux 6.13.
pub const NAPI_SET: u8 = 14;
/// `NETDEV_A_NAPI_ID`: number of the instance, 32 bits.
pub const NAPI_ID: u16 = 2;
/// `NETDEV_A_NAPI_THREADED`: whether it polls in a thread, 32 bits. Since Linux 6.17.
pub const NAPI_THREADED: u16 = 8;

/// The family, once found; kernels before 6.3 lack it.
pub struct Netdev {
    socket: Rtnetlink,
    family: u16,
}

impl Netdev {
    /// Looks up the family; not found if the kernel lacks it.
    pub fn open() -> io::Result<Netdev> {
        let mut socket = Rtnetlink::open_protocol(NETLINK_GENERIC)?;
        let name = attribute(CTRL_ATTR_FAMILY_NAME, b"netdev\0");
        let mut family = None;
        socket.query(
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

    /// Returns the XDP feature bits by interface index.
    pub fn xdp_features(&mut self) -> io::Result<BTreeMap<u32, u64>> {
        let mut found = BTreeMap::new();
        self.socket.query(
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

    /// Returns the indices of devices that have at least one NAPI instance (since Linux 6.8).
    pub fn with_napi(&mut self) -> io::Result<BTreeSet<u32>> {
        let mut found = BTreeSet::new();
        self.socket.query(
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

    /// Lists all NAPI instances of devices that are up.
    pub fn napis(&mut self) -> io::Result<Vec<Napi>> {
        let mut found = Vec::new();
        self.socket.query(
            self.family,
            libc::NLM_F_DUMP,
            &command(NETDEV_CMD_NAPI_GET),
            |m| found.extend(napi(m.payload.get(4..).unwrap_or(&[]))),
        )?;
        Ok(found)
    }

    /// Sends a request whose only answer is an acknowledgement.
    pub fn request(&mut self, kind: u8, attributes: &[u8]) -> io::Result<()> {
        let request = [&command(kind), attributes].concat();
        self.socket.request(self.family, 0, &request)
    }
}

/// NAPI instance of a network device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Napi {
    /// Index of the device.
    pub ifindex: u32,
    /// Number of the instance; a new one each time the device creates it.
    pub id: u32,
    /// Thread of the instance, if it has one.
    pub thread: Option<u32>,
    /// 0: it polls in softirq, 1: in its thread; `None` before Linux 6.17.
    pub threaded: Option<u32>,
}

fn napi(bytes: &[u8]) -> Option<Napi> {
    let (mut ifindex, mut id, mut thread, mut threaded) = (None, None, None, None);
    for (kind, value) in attributes(bytes) {
        match kind {
            NETDEV_A_NAPI_IFINDEX => ifindex = u32_at(value, 0),
            NAPI_ID => id = u32_at(value, 0),
            NETDEV_A_NAPI_PID => thread = u32_at(value, 0),
            NAPI_THREADED => threaded = u32_at(value, 0),
            _ => {}
        }
    }
    Some(Napi {
        ifindex: ifindex?,
        id: id?,
        thread,
        threaded,
    })
}

/// `struct genlmsghdr`.
fn command(command: u8) -> Vec<u8> {
    vec![command, 1, 0, 0]
}
