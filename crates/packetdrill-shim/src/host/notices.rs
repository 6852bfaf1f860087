//! A socket's error queue. It reports when data was sent and acknowledged (SO_TIMESTAMPING), and
//! when its memory is free again (MSG_ZEROCOPY).

use super::Host;
use super::datagrams::Message;
use super::errors::Result;
use crate::control::Control;
use cofferdam_netstack::Time;
use nix::errno::Errno;
use std::collections::VecDeque;

/// Values from linux/net_tstamp.h.
const TX_SOFTWARE: u32 = 1 << 1;
const SOFTWARE: u32 = 1 << 4;
const OPT_ID: u32 = 1 << 7;
const TX_SCHED: u32 = 1 << 8;
const TX_ACK: u32 = 1 << 9;
/// Values from linux/errqueue.h.
const ORIGIN_TIMESTAMPING: u8 = 4;
const ORIGIN_ZEROCOPY: u8 = 5;
const CODE_COPIED: u8 = 1;
const STAMP_SENT: u32 = 0;
const STAMP_SCHEDULED: u32 = 1;
const STAMP_ACKNOWLEDGED: u32 = 2;

/// An entry of the queue, `struct sock_extended_err`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Report {
    errno: u32,
    origin: u8,
    code: u8,
    info: u32,
    data: u32,
    /// Time, for a timestamp.
    at: Option<Time>,
}

/// The error queue, and the writes that still have to be reported.
#[derive(Debug, Default)]
pub struct Notices {
    queue: VecDeque<Report>,
    /// Zero-copy writes whose memory is in use: stream offset of their end, and number.
    in_use: VecDeque<(u64, u32)>,
    zero_copies: u32,
    /// Writes to timestamp: stream offset of their end, and the requested stamps.
    to_send: VecDeque<(u64, u32)>,
    to_acknowledge: VecDeque<(u64, u32)>,
    /// Stream offset at which OPT_ID was set; keys count from there.
    first_key: Option<u64>,
    acknowledged: u64,
    made: u64,
}

impl Notices {
    /// Whether the queue is empty.
    pub fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// Number of reports made so far, including those merged into another.
    pub const fn made(&self) -> u64 {
        self.made
    }

    /// Records a write that ends at stream offset `end`.
    pub fn written(&mut self, end: u64, zero_copy: bool, stamps: u32) {
        if zero_copy {
            self.in_use.push_back((end, self.zero_copies));
            self.zero_copies += 1;
        }
        if stamps & (TX_SOFTWARE | TX_SCHED) != 0 {
            self.to_send.push_back((end, stamps));
        }
        if stamps & TX_ACK != 0 {
            self.to_acknowledge.push_back((end, stamps));
        }
    }

    /// Records that SO_TIMESTAMPING was set after `written` bytes had been written.
    pub fn stamping(&mut self, stamps: u32, written: u64) {
        if stamps & OPT_ID == 0 {
            self.first_key = None;
        } else if self.first_key.is_none() {
            self.first_key = Some(written);
        }
    }

    fn stamp(&mut self, kind: u32, end: u64, stamps: u32, at: Time) {
        if stamps & SOFTWARE == 0 {
            return;
        }
        let key = self
            .first_key
            .map_or(0, |first| end.wrapping_sub(1 + first));
        self.queue.push_back(Report {
            errno: Errno::ENOMSG as u32,
            origin: ORIGIN_TIMESTAMPING,
            code: 0,
            info: kind,
            data: key as u32,
            at: Some(at),
        });
    }

    /// Records that data up to `end` was sent for the first time.
    pub fn sent(&mut self, end: u64, now: Time) {
        while let Some((at, stamps)) = self.to_send.front().copied().filter(|(at, _)| *at <= end) {
            self.to_send.pop_front();
            if stamps & TX_SCHED != 0 {
                self.stamp(STAMP_SCHEDULED, at, stamps, now);
            }
            if stamps & TX_SOFTWARE != 0 {
                self.stamp(STAMP_SENT, at, stamps, now);
            }
        }
    }

    /// Records `bytes` more as acknowledged.
    pub fn acknowledged(&mut self, bytes: u64, now: Time) {
        self.acknowledged += bytes;
        let end = self.acknowledged;
        while let Some((at, stamps)) =
            (self.to_acknowledge.front().copied()).filter(|(at, _)| *at <= end)
        {
            self.to_acknowledge.pop_front();
            self.stamp(STAMP_ACKNOWLEDGED, at, stamps, now);
        }
        self.release(end);
    }

    /// Reports the memory of writes up to `end` as free. Adjacent writes share one report.
    pub fn release(&mut self, end: u64) {
        while let Some((_, number)) = self.in_use.front().copied().filter(|(at, _)| *at <= end) {
            self.in_use.pop_front();
            self.made += 1;
            if let Some(last) = self.queue.back_mut()
                && last.origin == ORIGIN_ZEROCOPY
                && last.data.wrapping_add(1) == number
            {
                last.data = number;
                continue;
            }
            self.queue.push_back(Report {
                errno: 0,
                origin: ORIGIN_ZEROCOPY,
                // The stack copied the bytes into packet memory.
                code: CODE_COPIED,
                info: number,
                data: number,
                at: None,
            });
        }
    }
}

impl Report {
    /// Control messages of `recvmsg`. Times are on the script's clock.
    fn messages(self, is_v6: bool) -> Vec<Control> {
        let mut messages = Vec::new();
        if let Some(at) = self.at {
            let ns = at.as_nanos();
            let mut data = Vec::new();
            data.extend((ns / 1_000_000_000).to_ne_bytes());
            data.extend((ns % 1_000_000_000).to_ne_bytes());
            // The message ends with two hardware timestamps, which are zero.
            data.resize(48, 0);
            messages.push(Control {
                level: libc::SOL_SOCKET,
                kind: libc::SCM_TIMESTAMPING,
                data,
            });
        }
        let mut data = Vec::new();
        data.extend(self.errno.to_ne_bytes());
        data.extend([self.origin, 0, self.code, 0]);
        data.extend(self.info.to_ne_bytes());
        data.extend(self.data.to_ne_bytes());
        // The address of the offender is unspecified.
        let (level, kind, address) = match is_v6 {
            true => (
                libc::IPPROTO_IPV6,
                libc::IPV6_RECVERR,
                size_of::<libc::sockaddr_in6>(),
            ),
            false => (
                libc::IPPROTO_IP,
                libc::IP_RECVERR,
                size_of::<libc::sockaddr_in>(),
            ),
        };
        data.resize(16 + address, 0);
        messages.push(Control { level, kind, data });
        messages
    }
}

impl Host {
    /// The oldest report of a socket's error queue. Reports carry no stream data, so the room of
    /// the caller does not matter.
    ///
    /// # Errors
    /// `EAGAIN` if the queue is empty.
    pub(super) fn next_notice(&mut self, file: i32, _most: usize) -> Result<Message> {
        let is_v6 = self.socket_of(file)?.is_v6;
        let conn = self.connection_of(file).map_err(|_| Errno::EAGAIN)?;
        let report = conn.notices.queue.pop_front().ok_or(Errno::EAGAIN)?;
        Ok(Message {
            control: report.messages(is_v6),
            is_error: true,
            // Linux attaches the packet to a timestamp and truncates it.
            is_cut: report.at.is_some(),
            ..Message::default()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const AT: Time = Time::from_nanos(5_000_000_007);

    /// Promise 62.
    #[test]
    fn neighbouring_zero_copies_are_reported_as_one() {
        let mut notices = Notices::default();
        for end in [100, 200, 300] {
            notices.written(end, true, 0);
        }
        notices.acknowledged(250, AT);
        let first = notices.queue.pop_front().expect("two are done");
        assert_eq!(
            (first.info, first.data, first.origin),
            (0, 1, ORIGIN_ZEROCOPY)
        );
        notices.acknowledged(50, AT);
        let second = notices.queue.pop_front().expect("the third");
        assert_eq!((second.info, second.data), (2, 2));
        assert!(notices.is_empty());
    }

    /// Promise 62.
    #[test]
    fn the_last_byte_of_a_write_is_timestamped() {
        let all = TX_SOFTWARE | TX_SCHED | TX_ACK | SOFTWARE | OPT_ID;
        let mut notices = Notices::default();
        notices.stamping(all, 10);
        notices.written(30, false, all);
        notices.sent(29, AT);
        assert!(notices.is_empty());
        notices.sent(30, AT);
        notices.acknowledged(30, AT);
        let kinds: Vec<_> = notices.queue.iter().map(|r| (r.info, r.data)).collect();
        assert_eq!(
            kinds,
            [
                (STAMP_SCHEDULED, 19),
                (STAMP_SENT, 19),
                (STAMP_ACKNOWLEDGED, 19)
            ]
        );
        let messages = notices.queue[0].messages(false);
        assert_eq!(messages[0].data[..8], 5_u64.to_ne_bytes());
        assert_eq!(messages[0].data[8..16], 7_u64.to_ne_bytes());
        assert_eq!(messages[1].data.len(), 32);
    }
}
