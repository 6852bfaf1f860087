//! Control messages of datagrams: local address and interface (`IP_PKTINFO`, `IPV6_PKTINFO`).

use crate::heading::Heading;
use crate::udp::wants;
use libc::{c_int, cmsghdr, in_pktinfo, in6_pktinfo, msghdr};
use nix::errno::Errno;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Packet information of a datagram.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PacketInfo {
    /// Source address of a datagram to send.
    pub source: Option<IpAddr>,
    /// Destination address of a received datagram.
    pub local: Option<IpAddr>,
    pub interface: u32,
}

/// Reads the control messages of a message.
///
/// # Errors
///
/// `EINVAL` if one is truncated or requests segmentation.
///
/// # Safety
///
/// The memory that the message refers to must be valid.
pub unsafe fn read(message: &msghdr) -> Result<PacketInfo, Errno> {
    let mut packet = PacketInfo::default();
    // SAFETY: as the caller guarantees; the macros stay inside the message's control part.
    let mut header = unsafe { libc::CMSG_FIRSTHDR(message) };
    while !header.is_null() {
        // SAFETY: the pointer is not null, so it is in the control buffer.
        let cmsghdr {
            cmsg_len,
            cmsg_level,
            cmsg_type,
            ..
        } = unsafe { header.read_unaligned() };
        let left = message.msg_controllen - (header as usize - message.msg_control as usize);
        if cmsg_len < size_of::<cmsghdr>() || cmsg_len > left {
            return Err(Errno::EINVAL);
        }
        // SAFETY: the header is in the control buffer.
        let data = unsafe { libc::CMSG_DATA(header) };
        // SAFETY: the macro only computes a number.
        let has = |bytes: usize| cmsg_len >= unsafe { libc::CMSG_LEN(bytes as u32) } as usize;
        match (cmsg_level, cmsg_type) {
            (libc::IPPROTO_IP, libc::IP_PKTINFO) if has(size_of::<in_pktinfo>()) => {
                // SAFETY: the length was checked.
                let info: in_pktinfo = unsafe { data.cast::<in_pktinfo>().read_unaligned() };
                let ip = |address: libc::in_addr| Ipv4Addr::from(u32::from_be(address.s_addr));
                packet.source = Some(ip(info.ipi_spec_dst).into());
                packet.local = Some(ip(info.ipi_addr).into());
                packet.interface = info.ipi_ifindex as u32;
            }
            (libc::IPPROTO_IPV6, libc::IPV6_PKTINFO) if has(size_of::<in6_pktinfo>()) => {
                // SAFETY: the length was checked.
                let info: in6_pktinfo = unsafe { data.cast::<in6_pktinfo>().read_unaligned() };
                let ip = Ipv6Addr::from(info.ipi6_addr.s6_addr);
                let ip = IpAddr::from(ip).to_canonical();
                (packet.source, packet.local) = (Some(ip), Some(ip));
                packet.interface = info.ipi6_ifindex as u32;
            }
            // One call would send several datagrams.
            (libc::SOL_UDP, libc::UDP_SEGMENT) => return Err(Errno::EINVAL),
            _ => {}
        }
        // SAFETY: as above.
        header = unsafe { libc::CMSG_NXTHDR(message, header) };
    }
    packet.source = packet.source.filter(|ip| !ip.is_unspecified());
    Ok(packet)
}

/// Writes the control messages that the program has requested for a received datagram, as far as
/// its buffer allows.
///
/// # Safety
///
/// The memory that the message refers to must be valid.
pub unsafe fn write(message: &mut msghdr, wanted: u8, is_v6: bool, heading: &Heading) {
    let room = message.msg_controllen;
    let mut used = 0;
    let control = message.msg_control.cast::<u8>();
    if is_v6 && wanted & wants::V6 != 0 {
        let ip = match heading.local {
            IpAddr::V4(v4) => v4.to_ipv6_mapped(),
            IpAddr::V6(v6) => v6,
        };
        let info = in6_pktinfo {
            ipi6_addr: libc::in6_addr {
                s6_addr: ip.octets(),
            },
            ipi6_ifindex: heading.interface as _,
        };
        let kind = (libc::IPPROTO_IPV6, libc::IPV6_PKTINFO);
        // SAFETY: as the caller guarantees.
        let is_whole = unsafe { put(control, room, &mut used, kind, info) };
        message.msg_flags |= if is_whole { 0 } else { libc::MSG_CTRUNC };
    }
    if let (IpAddr::V4(v4), true) = (heading.local, wanted & wants::V4 != 0) {
        let ip = libc::in_addr {
            s_addr: u32::from(v4).to_be(),
        };
        let info = in_pktinfo {
            ipi_ifindex: heading.interface as c_int,
            ipi_spec_dst: ip,
            ipi_addr: ip,
        };
        let kind = (libc::IPPROTO_IP, libc::IP_PKTINFO);
        // SAFETY: as the caller guarantees.
        let is_whole = unsafe { put(control, room, &mut used, kind, info) };
        message.msg_flags |= if is_whole { 0 } else { libc::MSG_CTRUNC };
    }
    message.msg_controllen = used;
}

/// Appends one control message. Returns `false` if the buffer is too short; the message is then
/// truncated, as in Linux.
unsafe fn put<T>(
    control: *mut u8,
    room: usize,
    used: &mut usize,
    (level, kind): (c_int, c_int),
    value: T,
) -> bool {
    // SAFETY: the macros only compute numbers.
    let (whole, space, head) = unsafe {
        let bytes = size_of::<T>() as u32;
        let head = libc::CMSG_LEN(0) as usize;
        (
            libc::CMSG_LEN(bytes) as usize,
            libc::CMSG_SPACE(bytes) as usize,
            head,
        )
    };
    let len = whole.min(room - *used);
    if control.is_null() || len < head {
        return false;
    }
    // SAFETY: the buffer has space for the header and `len - head` bytes of the value.
    unsafe {
        let header = control.add(*used).cast::<cmsghdr>();
        let mut filled: cmsghdr = std::mem::zeroed();
        (filled.cmsg_len, filled.cmsg_level, filled.cmsg_type) = (len as _, level, kind);
        header.write_unaligned(filled);
        let value = (&raw const value).cast::<u8>();
        std::ptr::copy_nonoverlapping(value, libc::CMSG_DATA(header), len - head);
    }
    *used = (*used + space).min(room);
    len == whole
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::SocketAddr;

    fn message(control: &mut [u64]) -> msghdr {
        // SAFETY: all zeros are a value of it.
        let mut message: msghdr = unsafe { std::mem::zeroed() };
        message.msg_control = control.as_mut_ptr().cast();
        message.msg_controllen = size_of_val(control);
        message
    }

    fn heading(local: &str) -> Heading {
        let local = local.parse().expect("an address");
        Heading {
            remote: SocketAddr::new(local, 9),
            local,
            interface: 7,
            scope: 0,
            error: 0,
        }
    }

    /// Promise 53.
    #[test]
    fn written_messages_are_read_back_or_truncated() {
        let wanted = wants::V4 | wants::V6;
        // SAFETY: only numbers.
        let space = |bytes| unsafe { libc::CMSG_SPACE(bytes) };
        for (local, is_v6, bytes) in [
            ("10.0.0.9", false, space(12)),
            ("fd00::9", true, space(20)),
            ("10.0.0.9", true, space(12) + space(20)),
        ] {
            let mut control = [0_u64; 16];
            let mut whole = message(&mut control);
            // SAFETY: memory of ours.
            unsafe { write(&mut whole, wanted, is_v6, &heading(local)) };
            assert_eq!((whole.msg_controllen, whole.msg_flags), (bytes as usize, 0));
            // SAFETY: memory of ours.
            let info = unsafe { read(&whole) }.expect("whole");
            let ip = Some(local.parse().expect("an address"));
            let expected = PacketInfo {
                source: ip,
                local: ip,
                interface: 7,
            };
            assert_eq!(info, expected);
        }
        for (words, used) in [(1, 0), (3, 24)] {
            let mut control = [0_u64; 4];
            let mut short = message(&mut control[..words]);
            // SAFETY: memory of ours.
            unsafe { write(&mut short, wanted, false, &heading("10.0.0.9")) };
            let expected = (used, libc::MSG_CTRUNC);
            assert_eq!((short.msg_controllen, short.msg_flags), expected);
            assert_eq!(control[words], 0, "nothing behind it");
        }
    }

    #[test]
    fn truncated_and_segmentation_control_messages_are_rejected() {
        let mut control = [0_u64; 4];
        let mut used = 0;
        // SAFETY: memory of ours.
        unsafe {
            let pointer = control.as_mut_ptr().cast();
            let kind = (libc::SOL_UDP, libc::UDP_SEGMENT);
            assert!(put(pointer, 32, &mut used, kind, 1400_u16));
            assert_eq!(read(&message(&mut control)), Err(Errno::EINVAL));
            for len in [1000, 33, usize::MAX, 1, 0] {
                pointer.cast::<usize>().write(len);
                let info = read(&message(&mut control));
                assert_eq!(info, Err(Errno::EINVAL), "{len}");
            }
        }
    }
}
