//! Control messages (cmsg(3)): the ancillary data of `sendmsg` and `recvmsg`.

use nix::errno::Errno;

/// Header of a message, `struct cmsghdr`: total length, level and type.
const HEADER_BYTES: usize = size_of::<libc::cmsghdr>();

/// One control message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Control {
    /// `cmsg_level`.
    pub level: i32,
    /// `cmsg_type`.
    pub kind: i32,
    /// Data after the header.
    pub data: Vec<u8>,
}

/// Rounds `len` up to the start of the next message.
const fn align(len: usize) -> usize {
    len.next_multiple_of(size_of::<usize>())
}

/// Encodes messages in at most `room` bytes. Returns also whether some did not fit.
pub fn lay_out(messages: &[Control], room: usize) -> (Vec<u8>, bool) {
    let mut out = Vec::new();
    for message in messages {
        let len = HEADER_BYTES + message.data.len();
        if out.len() + len > room {
            return (out, true);
        }
        out.extend(len.to_ne_bytes());
        out.extend(message.level.to_ne_bytes());
        out.extend(message.kind.to_ne_bytes());
        out.extend(&message.data);
        // The last message needs no padding if there is no room for it.
        out.resize(align(out.len()).min(room), 0);
    }
    (out, false)
}

/// Parses control messages.
///
/// # Errors
/// `EINVAL` for an impossible length.
pub fn parse(mut bytes: &[u8]) -> Result<Vec<Control>, Errno> {
    let mut messages = Vec::new();
    while bytes.len() >= HEADER_BYTES {
        let (len, rest) = bytes.split_first_chunk().ok_or(Errno::EINVAL)?;
        let (level, rest) = rest.split_first_chunk().ok_or(Errno::EINVAL)?;
        let (kind, _) = rest.split_first_chunk().ok_or(Errno::EINVAL)?;
        let len = usize::from_ne_bytes(*len);
        let data = bytes.get(HEADER_BYTES..len).ok_or(Errno::EINVAL)?;
        messages.push(Control {
            level: i32::from_ne_bytes(*level),
            kind: i32::from_ne_bytes(*kind),
            data: data.to_vec(),
        });
        bytes = bytes.get(align(len)..).unwrap_or_default();
    }
    Ok(messages)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(kind: i32, len: usize) -> Control {
        let data = (0..len).map(|n| n as u8).collect();
        Control {
            level: libc::SOL_SOCKET,
            kind,
            data,
        }
    }

    /// Promise 62.
    #[test]
    fn messages_have_the_layout_of_the_c_library() {
        let messages = [message(1, 4), message(2, 12), message(3, 0)];
        let (mut bytes, cut) = lay_out(&messages, 1000);
        assert!(!cut);
        assert_eq!(parse(&bytes), Ok(messages.to_vec()));
        // SAFETY: an all-zero message header is valid. The control data is ours and as aligned as a
        // byte vector of this size (checked).
        unsafe {
            assert_eq!(bytes.as_ptr() as usize % align_of::<libc::cmsghdr>(), 0);
            let mut header: libc::msghdr = std::mem::zeroed();
            header.msg_control = bytes.as_mut_ptr().cast();
            header.msg_controllen = bytes.len();
            let mut next = libc::CMSG_FIRSTHDR(&raw const header);
            for expected in &messages {
                assert!(!next.is_null());
                assert_eq!((*next).cmsg_type, expected.kind);
                assert_eq!((*next).cmsg_len, HEADER_BYTES + expected.data.len());
                let data = libc::CMSG_DATA(next);
                let data = std::slice::from_raw_parts(data, expected.data.len());
                assert_eq!(data, expected.data);
                next = libc::CMSG_NXTHDR(&raw const header, next);
            }
            assert!(next.is_null());
        }
    }

    /// Promise 62.
    #[test]
    fn short_buffers_truncate_and_wrong_lengths_are_rejected() {
        let messages = [message(1, 4), message(2, 4)];
        let (bytes, cut) = lay_out(&messages, 40);
        assert!(cut && parse(&bytes) == Ok(messages[..1].to_vec()));
        assert_eq!(lay_out(&messages, 0), (Vec::new(), true));
        assert_eq!(
            lay_out(&messages[..1], 20).0.len(),
            20,
            "no padding beyond the room"
        );
        for len in [0, 15, 21, usize::MAX] {
            let mut wrong = bytes.clone();
            wrong.truncate(20);
            wrong[..8].copy_from_slice(&len.to_ne_bytes());
            assert_eq!(parse(&wrong), Err(Errno::EINVAL), "{len}");
        }
        assert_eq!(parse(&[0; 15]), Ok(Vec::new()), "no header");
    }
}
