//! Reads and sets a device's offloads by name, with the ioctls of `linux/ethtool.h`.
//!
//! The old `ETHTOOL_STSO` is not used: it sets four offloads at once, and could not revert to a
//! state in which only some were on.

use super::sys::ethtool;
use std::io;
use std::net::UdpSocket;

const ETHTOOL_GSTRINGS: u32 = 0x1b;
const ETHTOOL_GSSET_INFO: u32 = 0x37;
const ETHTOOL_GFEATURES: u32 = 0x3a;
const ETHTOOL_SFEATURES: u32 = 0x3b;
const ETH_SS_FEATURES: u32 = 4;
const NAME_BYTES: usize = 32;
/// Result flag: the driver does not let this offload be changed.
const ETHTOOL_F_UNSUPPORTED: i32 = 1;

/// Offloads of a device.
pub(super) struct Features {
    interface: String,
    names: Vec<String>,
    /// One word per 32 offloads, with the requested ones.
    requested: Vec<u32>,
}

impl Features {
    pub fn read(socket: &UdpSocket, interface: &str) -> io::Result<Features> {
        let count = count(socket, interface)?;
        let blocks = count.div_ceil(32);
        let mut words = vec![0; 2 + 4 * blocks];
        if let [command, size, ..] = words.as_mut_slice() {
            (*command, *size) = (ETHTOOL_GFEATURES, to_word(blocks));
        }
        ethtool(socket, interface, &mut words)?;
        // available, requested, active, never_changed
        let requested = words[2..].chunks_exact(4).map(|block| block[1]).collect();
        Ok(Features {
            interface: interface.to_owned(),
            names: names(socket, interface, count)?,
            requested,
        })
    }

    fn index_of(&self, name: &str) -> Option<usize> {
        self.names.iter().position(|n| n == name)
    }

    fn is_bit_requested(&self, bit: usize) -> bool {
        self.requested
            .get(bit / 32)
            .is_some_and(|word| word & (1 << (bit % 32)) != 0)
    }

    /// Whether the administrator requests the offload; `None` if the kernel has none of this name.
    pub fn is_requested(&self, name: &str) -> Option<bool> {
        self.index_of(name).map(|bit| self.is_bit_requested(bit))
    }

    /// Names of the requested offloads.
    pub fn requested_names(&self) -> Vec<String> {
        let all = self.names.iter().enumerate();
        all.filter(|(bit, _)| self.is_bit_requested(*bit))
            .map(|(_, name)| name.clone())
            .collect()
    }

    pub fn set(&self, socket: &UdpSocket, name: &str, on: bool) -> io::Result<()> {
        let bit = self.index_of(name).ok_or(io::ErrorKind::Unsupported)?;
        let blocks = self.requested.len();
        let mut words = vec![0; 2 + 2 * blocks];
        words[0] = ETHTOOL_SFEATURES;
        words[1] = to_word(blocks);
        // valid, requested
        words[2 + 2 * (bit / 32)] = 1 << (bit % 32);
        words[3 + 2 * (bit / 32)] = u32::from(on) << (bit % 32);
        let result = ethtool(socket, &self.interface, &mut words)?;
        if result & ETHTOOL_F_UNSUPPORTED != 0 {
            return Err(super::unsupported(format!(
                "the driver of {} does not let {name} be changed",
                self.interface
            )));
        }
        Ok(())
    }
}

fn to_word(count: usize) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}

fn count(socket: &UdpSocket, interface: &str) -> io::Result<usize> {
    // The words are command, reserved, a 64-bit mask of sets, and the count of the requested set.
    let mut words = [ETHTOOL_GSSET_INFO, 0, 1 << ETH_SS_FEATURES, 0, 0];
    ethtool(socket, interface, &mut words)?;
    Ok(words[4] as usize)
}

fn names(socket: &UdpSocket, interface: &str, count: usize) -> io::Result<Vec<String>> {
    let mut words = vec![0; 3 + count * NAME_BYTES / 4];
    words[0] = ETHTOOL_GSTRINGS;
    words[1] = ETH_SS_FEATURES;
    words[2] = to_word(count);
    ethtool(socket, interface, &mut words)?;
    let bytes: Vec<u8> = words[3..].iter().flat_map(|w| w.to_ne_bytes()).collect();
    let name = |bytes: &[u8]| {
        let end = bytes.iter().position(|b| *b == 0).unwrap_or(bytes.len());
        String::from_utf8_lossy(&bytes[..end]).into_owned()
    };
    Ok(bytes.chunks_exact(NAME_BYTES).map(name).collect())
}
