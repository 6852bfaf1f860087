//! Addresses for C.

use super::error::{fail, text};
use std::ffi::c_char;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// An address and a port.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct cofferdam_address {
    /// Address in network byte order; IPv4 in the first four bytes.
    pub ip: [u8; 16],
    /// Port in the host's byte order.
    pub port: u16,
    /// 4 or 6.
    pub version: u16,
}

impl From<SocketAddr> for cofferdam_address {
    fn from(address: SocketAddr) -> cofferdam_address {
        let mut ip = [0; 16];
        let version = match address.ip() {
            IpAddr::V4(v4) => {
                ip[..4].copy_from_slice(&v4.octets());
                4
            }
            IpAddr::V6(v6) => {
                ip = v6.octets();
                6
            }
        };
        cofferdam_address {
            ip,
            port: address.port(),
            version,
        }
    }
}

impl cofferdam_address {
    pub(super) fn get(self) -> Option<SocketAddr> {
        let ip = match self.version {
            4 => {
                let [a, b, c, d, ..] = self.ip;
                IpAddr::V4(Ipv4Addr::new(a, b, c, d))
            }
            6 => IpAddr::V6(Ipv6Addr::from(self.ip)),
            other => {
                fail(format_args!(
                    "an address is of IP version 4 or 6, not {other}"
                ));
                return None;
            }
        };
        Some(SocketAddr::new(ip, self.port))
    }
}

/// Parses `10.0.0.9:80` or `[fd00::9]:80`. Returns false for any other text.
///
/// # Safety
/// `written` ends with a zero byte, `address` is valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cofferdam_parse_address(
    written: *const c_char,
    address: *mut cofferdam_address,
) -> bool {
    // SAFETY: as the caller guarantees.
    let Some(written) = (unsafe { text(written, "the address") }) else {
        return false;
    };
    match written.parse::<SocketAddr>() {
        Ok(parsed) => {
            // SAFETY: as the caller guarantees.
            unsafe { *address = parsed.into() };
            true
        }
        Err(_) => {
            fail(format_args!(
                "`{written}` is not an address and port, such as 10.0.0.9:80"
            ));
            false
        }
    }
}
