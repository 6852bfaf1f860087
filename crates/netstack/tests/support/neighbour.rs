//! Neighbour of a test's stack.

use super::script::MACS;
use super::segment;
use std::net::IpAddr;

/// Answer to an ARP request or a neighbour solicitation for `peer`.
pub fn neighbour_answer(question: &[u8], us: IpAddr, peer: IpAddr) -> Option<Vec<u8>> {
    match (&question[12..14], us, peer) {
        ([8, 6], IpAddr::V4(us), IpAddr::V4(peer)) => {
            let mut arp = [MACS[1], MACS[0]].concat();
            arp.extend([8, 6, 0, 1, 8, 0, 6, 4, 0, 2]);
            arp.extend(MACS[0]);
            arp.extend(peer.octets());
            arp.extend(MACS[1]);
            arp.extend(us.octets());
            Some(arp)
        }
        ([0x86, 0xdd], IpAddr::V6(target), _) if question[20] == 58 && question[54] == 135 => {
            let IpAddr::V6(of) = peer else { return None };
            let mut body = vec![136, 0, 0, 0, 0x60, 0, 0, 0];
            body.extend(of.octets());
            body.extend([2, 1]);
            body.extend(MACS[0]);
            let sum = segment::checksum(peer, target.into(), 58, &body);
            body[2..4].copy_from_slice(&sum.to_be_bytes());
            let mut frame = segment::frame(MACS, peer, target.into(), 58, &body);
            frame[21] = 255;
            Some(frame)
        }
        _ => None,
    }
}
