//! Neighbour solicitations and advertisements (RFC 4861).

use super::address::Addr;
use super::ethernet;
use super::packet::Packet;
use crate::api::MacAddress;

pub const SOLICITATION: u8 = 135;
pub const ADVERTISEMENT: u8 = 136;
/// Length of a message: ICMPv6 header, target, one link-layer address option.
pub const BYTES: usize = 32;
const SOURCE_LINK_LAYER: u8 = 1;
const TARGET_LINK_LAYER: u8 = 2;

/// Neighbour solicitation or advertisement.
#[derive(Debug, Clone, Copy)]
pub struct Neighbour {
    pub target: Addr,
    /// Link-layer address option: that of the source in a solicitation, of the target in an
    /// advertisement.
    pub mac: Option<MacAddress>,
    /// Whether there is such an option, even one for another kind of link.
    has_link_layer_option: bool,
    /// Solicited flag of an advertisement. The override flag is not needed: the neighbour table
    /// probes before it accepts another station.
    pub solicited: bool,
}

impl Neighbour {
    /// Whether the message is valid in this packet (RFC 4861, 7.1.1 and 7.1.2). The caller checks
    /// hop limit, checksum, code and lengths.
    pub fn is_valid(&self, kind: u8, packet: &Packet) -> bool {
        let destination = &packet.destination;
        let is_for_packet = if kind == ADVERTISEMENT {
            !(destination.is_multicast() && self.solicited)
        } else if packet.source.is_unspecified() {
            // Duplicate address detection has no source and is sent to the group of the address.
            !self.has_link_layer_option && *destination == self.target.solicited_node()
        } else {
            true
        };
        is_for_packet && !self.target.is_multicast()
    }
}

/// Parses a whole message with its ICMPv6 header. Returns `None` if an option has length zero or is
/// incomplete (RFC 4861, 7.1).
pub fn parse(bytes: &[u8]) -> Option<Neighbour> {
    let (kind, flags) = (*bytes.first()?, *bytes.get(4)?);
    let mut options = bytes.get(24..)?;
    let wanted = if kind == SOLICITATION {
        SOURCE_LINK_LAYER
    } else {
        TARGET_LINK_LAYER
    };
    let (mut mac, mut has_link_layer_option) = (None, false);
    while let [option, len, ..] = *options {
        let len = usize::from(len) * 8;
        if len == 0 || len > options.len() {
            return None;
        }
        if option == wanted {
            has_link_layer_option = true;
            mac = (len == 8).then(|| ethernet::mac_at(options, 2)).or(mac);
        }
        options = &options[len..];
    }
    options.is_empty().then_some(Neighbour {
        target: Addr::v6_at(bytes, 8),
        mac,
        has_link_layer_option,
        solicited: flags & 0x40 != 0,
    })
}

/// Writes a message of [`BYTES`] bytes with `sum` in its checksum field. `flags` are those of an
/// advertisement, zero in a solicitation.
pub fn write(out: &mut [u8], kind: u8, flags: u8, sum: u16, target: &Addr, mac: MacAddress) {
    super::icmp::write(out, kind, 0, sum, [flags, 0, 0, 0]);
    out[8..24].copy_from_slice(&target.0);
    out[24] = if kind == SOLICITATION {
        SOURCE_LINK_LAYER
    } else {
        TARGET_LINK_LAYER
    };
    out[25] = 1;
    out[26..32].copy_from_slice(&mac.0);
}
