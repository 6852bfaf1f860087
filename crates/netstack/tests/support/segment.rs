//! TCP segments over IPv4 and IPv6 as bytes, written and parsed independently of the tested code.

use std::net::IpAddr;

/// TCP segment with absolute sequence numbers.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Segment {
    pub from: u16,
    pub to: u16,
    pub seq: u32,
    pub ack: u32,
    pub flags: u8,
    pub window: u16,
    pub urgent: u16,
    /// Kind and body of each option except padding.
    pub options: Vec<(u8, Vec<u8>)>,
    pub data: Vec<u8>,
    /// ECN bits of the IP header.
    pub ecn: u8,
}

fn sum(bytes: &[u8]) -> u32 {
    bytes
        .chunks(2)
        .map(|pair| u32::from(pair[0]) << 8 | u32::from(*pair.get(1).unwrap_or(&0)))
        .sum()
}

fn folded(mut total: u32) -> u16 {
    while total > 0xffff {
        total = (total & 0xffff) + (total >> 16);
    }
    !(total as u16)
}

fn octets(ip: IpAddr) -> Vec<u8> {
    match ip {
        IpAddr::V4(ip) => ip.octets().to_vec(),
        IpAddr::V6(ip) => ip.octets().to_vec(),
    }
}

/// Ethernet frame with an IP packet of `protocol`.
pub fn frame(
    macs: [[u8; 6]; 2],
    from: IpAddr,
    to: IpAddr,
    protocol: u8,
    payload: &[u8],
) -> Vec<u8> {
    let mut frame = [macs[1], macs[0]].concat();
    if from.is_ipv4() {
        let len = (20 + payload.len() as u16).to_be_bytes();
        let mut ip = vec![0x45, 0, len[0], len[1], 0, 0, 0x40, 0, 64, protocol, 0, 0];
        ip.extend(octets(from));
        ip.extend(octets(to));
        let check = folded(sum(&ip)).to_be_bytes();
        ip[10..12].copy_from_slice(&check);
        frame.extend([8, 0]);
        frame.extend(ip);
    } else {
        let len = (payload.len() as u16).to_be_bytes();
        frame.extend([0x86, 0xdd, 0x60, 0, 0, 0, len[0], len[1], protocol, 64]);
        frame.extend(octets(from));
        frame.extend(octets(to));
    }
    frame.extend(payload);
    frame
}

/// Checksum over pseudo header and `payload`, whose own checksum field is zero.
pub fn checksum(from: IpAddr, to: IpAddr, protocol: u8, payload: &[u8]) -> u16 {
    let pseudo = sum(&octets(from)) + sum(&octets(to)) + u32::from(protocol) + payload.len() as u32;
    folded(pseudo + sum(payload))
}

impl Segment {
    pub fn write(&self, macs: [[u8; 6]; 2], from: IpAddr, to: IpAddr) -> Vec<u8> {
        let mut options = Vec::new();
        for (kind, body) in &self.options {
            options.extend([*kind, body.len() as u8 + 2]);
            options.extend(body);
        }
        options.resize(options.len().div_ceil(4) * 4, 1);
        let mut tcp = Vec::new();
        tcp.extend(self.from.to_be_bytes());
        tcp.extend(self.to.to_be_bytes());
        tcp.extend(self.seq.to_be_bytes());
        tcp.extend(self.ack.to_be_bytes());
        tcp.extend([((20 + options.len()) as u8 / 4) << 4, self.flags]);
        tcp.extend(self.window.to_be_bytes());
        tcp.extend([0, 0]);
        tcp.extend(self.urgent.to_be_bytes());
        tcp.extend(options);
        tcp.extend(&self.data);
        let check = checksum(from, to, 6, &tcp).to_be_bytes();
        tcp[16..18].copy_from_slice(&check);
        let mut frame = frame(macs, from, to, 6, &tcp);
        if from.is_ipv4() {
            frame[15] |= self.ecn;
            frame[24..26].fill(0);
            let check = folded(sum(&frame[14..34])).to_be_bytes();
            frame[24..26].copy_from_slice(&check);
        } else {
            frame[15] |= self.ecn << 4;
        }
        frame
    }

    /// Parses the segment in a frame, if there is one; its checksums must be correct.
    pub fn read(frame: &[u8]) -> Option<Self> {
        let (ip, addresses, header, protocol) = match frame[12..14] {
            [8, 0] => (&frame[14..], 12..20, 20, frame[23]),
            [0x86, 0xdd] => (&frame[14..], 8..40, 40, frame[20]),
            _ => return None,
        };
        if protocol != 6 {
            return None;
        }
        let tcp = &ip[header..];
        let pseudo = sum(&ip[addresses]) + 6 + tcp.len() as u32;
        assert_eq!(folded(pseudo + sum(tcp)), 0, "wrong TCP checksum");
        assert!(
            header == 40 || folded(sum(&ip[..20])) == 0,
            "wrong IP checksum"
        );
        let word = |at: usize| u16::from_be_bytes([tcp[at], tcp[at + 1]]);
        let long = |at: usize| u32::from(word(at)) << 16 | u32::from(word(at + 2));
        let len = usize::from(tcp[12] >> 4) * 4;
        let mut options = Vec::new();
        let mut at = 20;
        while at < len && tcp[at] != 0 {
            if tcp[at] == 1 {
                at += 1;
                continue;
            }
            let end = at + usize::from(tcp[at + 1]);
            options.push((tcp[at], tcp[at + 2..end].to_vec()));
            at = end;
        }
        Some(Self {
            from: word(0),
            to: word(2),
            seq: long(4),
            ack: long(8),
            flags: tcp[13],
            window: word(14),
            urgent: word(18),
            options,
            data: tcp[len..].to_vec(),
            ecn: if header == 20 {
                frame[15] & 3
            } else {
                frame[15] >> 4 & 3
            },
        })
    }

    pub fn option(&self, kind: u8) -> Option<&[u8]> {
        self.options
            .iter()
            .find(|option| option.0 == kind)
            .map(|option| option.1.as_slice())
    }
}

/// Flags of the letters `S`, `F`, `R`, `P`, `.`, `U`, `E` (ECE) and `W` (CWR).
pub fn flags(text: &str) -> u8 {
    text.chars()
        .map(|flag| match flag {
            'F' => 1,
            'S' => 2,
            'R' => 4,
            'P' => 8,
            '.' => 16,
            'U' => 32,
            'E' => 64,
            'W' => 128,
            other => panic!("no flag {other}"),
        })
        .sum()
}

/// Letters of the flags.
pub fn flags_text(flags: u8) -> String {
    "FSRP.UEW"
        .chars()
        .enumerate()
        .filter(|(bit, _)| flags >> bit & 1 == 1)
        .map(|(_, flag)| flag)
        .collect()
}

/// Checksum of a message without pseudo header (ICMP).
pub fn plain_checksum(message: &[u8]) -> u16 {
    folded(sum(message))
}

/// Source and destination of a frame with an IP packet: Ethernet addresses, then IP.
pub fn addresses(frame: &[u8]) -> ([[u8; 6]; 2], IpAddr, IpAddr) {
    fn octets<const N: usize>(frame: &[u8], at: usize) -> [u8; N] {
        frame[at..at + N].try_into().expect("as many")
    }
    let (from, to) = if frame[12] == 8 {
        let ip = |at| IpAddr::from(octets::<4>(frame, at));
        (ip(26), ip(30))
    } else {
        let ip = |at| IpAddr::from(octets::<16>(frame, at));
        (ip(22), ip(38))
    };
    ([octets(frame, 6), octets(frame, 0)], from, to)
}
