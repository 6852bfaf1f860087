//! Echo requests and their answers.

use std::net::IpAddr;

/// Length of the header, bytes.
const HEADER: usize = 8;

/// Makes an echo request with this identifier, number and payload length.
pub fn request(to: IpAddr, id: u16, sequence: u16, payload: usize) -> Vec<u8> {
    let kind = if to.is_ipv4() { 8 } else { 128 };
    let mut bytes = vec![kind, 0, 0, 0];
    bytes.extend(id.to_be_bytes());
    bytes.extend(sequence.to_be_bytes());
    // Different in each request, so that two are never confused.
    let mark = (u32::from(id) << 16 | u32::from(sequence)).to_be_bytes();
    bytes.extend((0..payload).map(|i| mark[i % 4] ^ (i / 4) as u8));
    if to.is_ipv4() {
        let sum = checksum(&bytes).to_be_bytes();
        bytes[2..4].copy_from_slice(&sum);
    }
    bytes
}

/// Computes the checksum of RFC 1071.
fn checksum(bytes: &[u8]) -> u16 {
    let words = bytes
        .chunks(2)
        .map(|pair| u32::from(pair[0]) << 8 | u32::from(pair.get(1).copied().unwrap_or(0)));
    let mut sum: u32 = words.sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

/// Whether `bytes` answer the request. A raw IPv4 socket returns the IP header as well. The kernel
/// chooses the identifier of a ping socket (`id` is `None`).
pub fn answers(bytes: &[u8], v4: bool, raw: bool, id: Option<u16>, sequence: u16) -> bool {
    let mut rest = bytes;
    if v4 && raw {
        let Some(first) = rest.first() else {
            return false;
        };
        rest = rest.get(usize::from(first & 15) * 4..).unwrap_or(&[]);
    }
    let Some(header) = rest.first_chunk::<HEADER>() else {
        return false;
    };
    let kind = if v4 { 0 } else { 129 };
    header[0] == kind
        && header[6..8] == sequence.to_be_bytes()
        && id.is_none_or(|id| header[4..6] == id.to_be_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;

    #[test]
    fn a_request_has_a_correct_checksum_and_matches_its_answer() {
        let mut bytes = request(Ipv4Addr::LOCALHOST.into(), 7, 258, 57);
        assert_eq!(checksum(&bytes), 0);
        assert!(
            !answers(&bytes, true, false, Some(7), 258),
            "a request is no answer"
        );
        bytes[0] = 0;
        assert!(answers(&bytes, true, false, Some(7), 258));
        assert!(!answers(&bytes, true, false, Some(8), 258));
        assert!(answers(&bytes, true, false, None, 258));
        assert!(!answers(&bytes, true, false, Some(7), 259));
        let mut framed = vec![0x45; 20];
        framed.extend(&bytes);
        assert!(answers(&framed, true, true, Some(7), 258));
        assert!(!answers(&framed[..21], true, true, Some(7), 258));
        assert!(!answers(&[], true, true, None, 1));
    }
}
