//! Decodes by hand the few fields of rtnetlink messages that matter here: a general decoder refuses
//! the whole message if one attribute of a newer kernel surprises it. Source: netlink(7),
//! rtnetlink(7), `linux/if_link.h`, `linux/net_namespace.h`.

use cofferdam_types::Tunnel;

/// One netlink message without its header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message<'a> {
    /// `nlmsg_type`.
    pub kind: u16,
    /// `nlmsg_flags`.
    pub flags: u16,
    /// `nlmsg_seq`.
    pub sequence: u32,
    /// Bytes after the header.
    pub payload: &'a [u8],
}

/// A network device, from `RTM_NEWLINK` or `RTM_DELLINK`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LinkMessage {
    /// Index of the device.
    pub index: u32,
    /// Name of the device.
    pub name: String,
    /// Driver family, such as `veth`; empty for most physical devices.
    pub kind: String,
    /// Index of the other end (veth) or the lower device (macvlan).
    pub peer: Option<u32>,
    /// Namespace of that device, if it is another one.
    pub peer_nsid: Option<i32>,
    /// Index of the bridge, bond or other device that it is a port of.
    pub master: Option<u32>,
    /// UDP port of a vxlan or Geneve device.
    pub tunnel_port: Option<u16>,
    /// Whether it is `lo`.
    pub loopback: bool,
    /// Whether its packets begin with an Ethernet header.
    pub ethernet: bool,
    /// Whether it is administratively up.
    pub up: bool,
    /// True for `RTM_DELLINK`.
    pub removed: bool,
}

impl LinkMessage {
    /// Whether its peer is the other end of a pair, rather than a lower device.
    pub fn is_pair(&self) -> bool {
        matches!(self.kind.as_str(), "veth" | "netkit")
    }

    /// Returns the tunnel of which it is one end, if the tunnel's packets pass this namespace and
    /// are recognizable outside of it.
    pub fn tunnel(&self) -> Option<Tunnel> {
        if self.peer_nsid.is_some() {
            return None;
        }
        match self.kind.as_str() {
            "vxlan" => self.tunnel_port.map(Tunnel::Vxlan),
            "geneve" => self.tunnel_port.map(Tunnel::Geneve),
            "ipip" | "sit" => Some(Tunnel::Ip),
            _ => None,
        }
    }

    /// Whether the device is in use. Kernels with tunnel modules create one of each kind in every
    /// namespace, down and unused.
    pub fn is_in_use(&self) -> bool {
        const TUNNELS: [&str; 11] = [
            "sit",
            "ipip",
            "ip6tnl",
            "gre",
            "gretap",
            "ip6gre",
            "ip6gretap",
            "erspan",
            "ip6erspan",
            "vti",
            "vti6",
        ];
        !self.loopback && (self.up || !TUNNELS.contains(&self.kind.as_str()))
    }
}

const HEADER_BYTES: usize = 16;
/// linux/if_link.h; absent from the libc crate.
const IFLA_VXLAN_PORT: u16 = 15;
const IFLA_GENEVE_PORT: u16 = 5;

/// Splits a datagram into messages; stops at the first that does not fit.
pub fn netlink_messages(datagram: &[u8]) -> impl Iterator<Item = Message<'_>> {
    let mut rest = datagram;
    std::iter::from_fn(move || {
        let length = usize::try_from(u32_at(rest, 0)?).ok()?;
        let message = Message {
            kind: u16_at(rest, 4)?,
            flags: u16_at(rest, 6)?,
            sequence: u32_at(rest, 8)?,
            payload: rest.get(HEADER_BYTES..length)?,
        };
        rest = rest.get(align(length)..).unwrap_or(&[]);
        Some(message)
    })
}

/// Splits bytes into attributes (type without its flag bits, value).
pub fn attributes(bytes: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    let mut rest = bytes;
    std::iter::from_fn(move || {
        let length = usize::from(u16_at(rest, 0)?);
        let attribute = (u16_at(rest, 2)? & 0x3fff, rest.get(4..length)?);
        rest = rest.get(align(length)..).unwrap_or(&[]);
        Some(attribute)
    })
}

/// Decodes the device in a link message; `None` for other messages and for those without a name.
pub fn link_message(message: &Message<'_>) -> Option<LinkMessage> {
    if !matches!(message.kind, libc::RTM_NEWLINK | libc::RTM_DELLINK) {
        return None;
    }
    // struct ifinfomsg: family, pad, type, index, flags, change.
    let flags = u32_at(message.payload, 8)?;
    let has = |flag: libc::c_int| flags & flag.cast_unsigned() != 0;
    let mut link = LinkMessage {
        index: u32_at(message.payload, 4)?,
        ethernet: u16_at(message.payload, 2) == Some(libc::ARPHRD_ETHER),
        loopback: has(libc::IFF_LOOPBACK),
        up: has(libc::IFF_UP),
        removed: message.kind == libc::RTM_DELLINK,
        ..LinkMessage::default()
    };
    for (kind, value) in attributes(message.payload.get(16..)?) {
        match kind {
            libc::IFLA_IFNAME => link.name = text(value),
            libc::IFLA_LINK => link.peer = u32_at(value, 0).filter(|index| *index != 0),
            libc::IFLA_MASTER => link.master = u32_at(value, 0).filter(|index| *index != 0),
            libc::IFLA_LINK_NETNSID => link.peer_nsid = u32_at(value, 0).map(u32::cast_signed),
            libc::IFLA_LINKINFO => {
                let find = |wanted| attributes(value).find(|(kind, _)| *kind == wanted);
                let kind = find(libc::IFLA_INFO_KIND);
                link.kind = kind.map(|(_, value)| text(value)).unwrap_or_default();
                let data = find(libc::IFLA_INFO_DATA).map_or(&[][..], |(_, value)| value);
                link.tunnel_port = tunnel_port(&link.kind, data);
            }
            _ => {}
        }
    }
    (!link.name.is_empty()).then_some(link)
}

/// Finds the UDP port in the attributes of a device of the driver family `kind`.
fn tunnel_port(kind: &str, data: &[u8]) -> Option<u16> {
    let wanted = match kind {
        "vxlan" => IFLA_VXLAN_PORT,
        "geneve" => IFLA_GENEVE_PORT,
        _ => return None,
    };
    let (_, value) = attributes(data).find(|(kind, _)| *kind == wanted)?;
    Some(u16::from_be_bytes(*value.first_chunk()?))
}

/// Decodes `NETNSA_NSID` of a namespace id message, with its message type; `None` for other
/// messages.
pub fn nsid_message(message: &Message<'_>) -> Option<(u16, i32)> {
    if !matches!(
        message.kind,
        libc::RTM_NEWNSID | libc::RTM_DELNSID | libc::RTM_GETNSID
    ) {
        return None;
    }
    attributes(message.payload.get(4..)?)
        .find(|(kind, _)| *kind == NETNSA_NSID)
        .and_then(|(_, value)| u32_at(value, 0))
        .map(|nsid| (message.kind, nsid.cast_signed()))
}

pub(crate) const NETNSA_NSID: u16 = 1;
pub(crate) const NETNSA_FD: u16 = 3;

/// Encodes one attribute, padded. The value has at most 65531 bytes.
pub fn attribute(kind: u16, value: &[u8]) -> Vec<u8> {
    let length = u16::try_from(4 + value.len()).expect("attributes built here are short");
    let mut bytes = Vec::with_capacity(align(length.into()));
    bytes.extend(length.to_ne_bytes());
    bytes.extend(kind.to_ne_bytes());
    bytes.extend(value);
    bytes.resize(align(length.into()), 0);
    bytes
}

/// Encodes one request.
pub(crate) fn request(kind: u16, flags: libc::c_int, sequence: u32, payload: &[u8]) -> Vec<u8> {
    let flags = u16::try_from(flags).expect("netlink flags have 16 bits");
    let length = u32::try_from(HEADER_BYTES + payload.len()).expect("requests are short");
    let mut bytes = Vec::new();
    bytes.extend(length.to_ne_bytes());
    bytes.extend(kind.to_ne_bytes());
    bytes.extend(flags.to_ne_bytes());
    bytes.extend(sequence.to_ne_bytes());
    bytes.extend(0u32.to_ne_bytes());
    bytes.extend(payload);
    bytes
}

fn text(value: &[u8]) -> String {
    let end = value.iter().position(|b| *b == 0).unwrap_or(value.len());
    String::from_utf8_lossy(value.get(..end).unwrap_or(value)).into_owned()
}

fn align(length: usize) -> usize {
    // A length below its own header would stop the iterators.
    length.max(1).next_multiple_of(4)
}

pub(crate) fn u16_at(bytes: &[u8], offset: usize) -> Option<u16> {
    Some(u16::from_ne_bytes(*bytes.get(offset..)?.first_chunk()?))
}

/// Reads the 32 bits at `offset`, in the byte order of this machine; `None` beyond the end.
pub fn u32_at(bytes: &[u8], offset: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(*bytes.get(offset..)?.first_chunk()?))
}

#[cfg(test)]
mod tests;
