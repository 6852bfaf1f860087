//! TIME_WAIT (RFC 9293, 3.6.1): the remains of a connection for twice a segment's lifetime, in a
//! table of their own, and the rules for a new connection in its place (RFC 6191, RFC 1122
//! 4.2.2.13).

use super::segment::{Incoming, Outgoing, is_in_window};
use super::seq;
use super::state::Tcb;
use crate::api::{TcpConfig, Time};
use crate::core::NONE;
use crate::core::slots::Slots;
use crate::flow::FlowKey;
use crate::tuning::acks::CHALLENGE_INTERVAL;
use crate::wire::tcp::{ACK, FIN, Options, RST, SYN};

/// Connection in TIME_WAIT.
#[derive(Debug, Clone, Copy, Default)]
pub struct Entry {
    pub key: FlowKey,
    pub hash: u64,
    /// Next sequence number to send, behind the FIN.
    pub snd_nxt: u32,
    pub rcv_nxt: u32,
    /// Window of the last acknowledgement and its scale in bits.
    window: u16,
    scale: u8,
    /// Peer's last timestamp and our offset.
    timestamps: Option<(u32, u32)>,
    /// Time of the last answer to a segment without data.
    challenged_at: Option<Time>,
    ends: Time,
    next: u32,
    previous: u32,
}

impl Entry {
    /// Whether a part of the segment is in the window (RFC 9293, table 6).
    fn is_acceptable(&self, segment: &Incoming) -> bool {
        let window = u32::from(self.window) << self.scale;
        is_in_window(self.rcv_nxt, window, segment.header.seq, segment.len())
    }
}

/// Reaction to a segment of a connection in TIME_WAIT.
#[derive(Debug, Clone, Copy)]
pub enum Answer {
    /// Nothing.
    Nothing,
    /// Send this segment.
    Send(Outgoing),
    /// Allow a new connection, with a sequence number above this one.
    Reopen { after: u32 },
}

/// Table of connections in TIME_WAIT, in the order of their ends.
#[derive(Debug)]
pub struct TimeWait {
    entries: Vec<Entry>,
    slots: Slots,
    oldest: u32,
    newest: u32,
}

impl TimeWait {
    pub fn new(count: u32) -> Self {
        Self {
            entries: vec![Entry::default(); count as usize],
            slots: Slots::new(count),
            oldest: NONE,
            newest: NONE,
        }
    }

    pub fn len(&self) -> u32 {
        self.slots.used()
    }

    pub fn get(&self, slot: u32) -> &Entry {
        &self.entries[slot as usize]
    }

    /// End of the oldest entry.
    pub fn next_end(&self) -> Option<Time> {
        self.entries
            .get(self.oldest as usize)
            .map(|entry| entry.ends)
    }

    /// The oldest entry if it has ended or the table is full.
    pub fn entry_to_evict(&self, now: Time) -> Option<u32> {
        let over = self.next_end().is_some_and(|end| end <= now);
        (over || self.len() == self.slots.count())
            .then_some(self.oldest)
            .filter(|slot| *slot != NONE)
    }

    /// Adds the remains of `tcb`, whose 4-tuple has this hash. The caller makes space first (see
    /// [`Self::entry_to_evict`]).
    pub fn add(&mut self, tcb: &Tcb, hash: u64, config: &TcpConfig, now: Time) -> Option<u32> {
        let slot = self.slots.take()?;
        self.entries[slot as usize] = Entry {
            key: tcb.key,
            hash,
            snd_nxt: tcb.sender.max(),
            rcv_nxt: tcb.receiver.next(),
            window: tcb.receiver.scaled_window(&tcb.terms),
            scale: tcb.terms.our_scale(),
            timestamps: (tcb.terms.timestamps()).then(|| tcb.timestamps.time_wait_values()),
            challenged_at: None,
            ends: now + config.time_wait,
            next: NONE,
            previous: NONE,
        };
        self.append(slot);
        Some(slot)
    }

    /// Entries of a flow group, the oldest first.
    pub fn of_group(&self, group: u8) -> Vec<u32> {
        let next = |slot: &u32| self.entries.get(*slot as usize).map(|entry| entry.next);
        std::iter::successors(Some(self.oldest), next)
            .filter(|slot| {
                let entry = self.entries.get(*slot as usize);
                entry.is_some_and(|entry| crate::flow::group(entry.hash) == group)
            })
            .collect()
    }

    /// Adds an entry of another table in the order of its end. The caller makes space first.
    pub fn put(&mut self, entry: Entry) -> Option<u32> {
        let slot = self.slots.take()?;
        let mut before = self.newest;
        while let Some(other) = self.entries.get(before as usize)
            && other.ends > entry.ends
        {
            before = other.previous;
        }
        let next = match self.entries.get_mut(before as usize) {
            Some(other) => std::mem::replace(&mut other.next, slot),
            None => std::mem::replace(&mut self.oldest, slot),
        };
        match self.entries.get_mut(next as usize) {
            Some(other) => other.previous = slot,
            None => self.newest = slot,
        }
        self.entries[slot as usize] = Entry {
            next,
            previous: before,
            ..entry
        };
        Some(slot)
    }

    pub fn remove(&mut self, slot: u32) {
        self.unlink(slot);
        self.slots.free(slot);
    }

    fn append(&mut self, slot: u32) {
        self.entries[slot as usize].previous = self.newest;
        self.entries[slot as usize].next = NONE;
        match self.entries.get_mut(self.newest as usize) {
            Some(last) => last.next = slot,
            None => self.oldest = slot,
        }
        self.newest = slot;
    }

    fn unlink(&mut self, slot: u32) {
        let Entry { next, previous, .. } = self.entries[slot as usize];
        match self.entries.get_mut(previous as usize) {
            Some(entry) => entry.next = next,
            None => self.oldest = next,
        }
        match self.entries.get_mut(next as usize) {
            Some(entry) => entry.previous = previous,
            None => self.newest = previous,
        }
    }

    /// Processes a segment. Ignores an RST: a late one must not end TIME_WAIT (RFC 1337).
    pub fn input(
        &mut self,
        slot: u32,
        segment: &Incoming,
        config: &TcpConfig,
        now: Time,
    ) -> Answer {
        let header = &segment.header;
        let entry = &mut self.entries[slot as usize];
        if segment.is(RST) {
            return Answer::Nothing;
        }
        if super::segment::is_opening(header.flags) {
            let newer = match (entry.timestamps, header.options.timestamps) {
                // RFC 6191: a later timestamp, or the same timestamp and a later number.
                (Some((recent, _)), Some((value, _))) => {
                    seq::lt(recent, value)
                        || (recent == value && seq::lt(entry.rcv_nxt, header.seq))
                }
                _ => seq::lt(entry.rcv_nxt, header.seq),
            };
            if newer {
                return Answer::Reopen {
                    after: entry.snd_nxt.wrapping_add(0x2_0000),
                };
            }
        }
        // RFC 9293, 3.10.7.4, fifth: an acceptable segment without an acknowledgement is dropped.
        let has_ack = segment.is(ACK);
        if !has_ack && !segment.is(SYN) && entry.is_acceptable(segment) {
            return Answer::Nothing;
        }
        let stamps = |value: u32, offset: u32| Options {
            timestamps: Some((super::isn::timestamp(now, offset), value)),
            ..Options::default()
        };
        let answer = Outgoing {
            seq: entry.snd_nxt,
            ack: entry.rcv_nxt,
            flags: ACK,
            window: entry.window,
            options: entry
                .timestamps
                .map(|(value, offset)| stamps(value, offset))
                .unwrap_or_default(),
            ..Outgoing::default()
        };
        let end = header.seq.wrapping_add(segment.len());
        if segment.is(FIN) && has_ack && end == entry.rcv_nxt {
            // The peer repeats its FIN because it missed our ACK. TIME_WAIT restarts.
            entry.ends = now + config.time_wait;
            self.unlink(slot);
            self.append(slot);
            return Answer::Send(answer);
        }
        if segment.len() > 0 {
            return Answer::Send(answer);
        }
        // An expected bare acknowledgement needs no answer. Another one is answered (RFC 9293,
        // 3.10.7.4, first), but not too often: two ends that disagree would otherwise answer each
        // other endlessly (RFC 5961, 7).
        let recent = |at: Time| now.since(at) < CHALLENGE_INTERVAL;
        if header.seq == entry.rcv_nxt || entry.challenged_at.is_some_and(recent) {
            return Answer::Nothing;
        }
        entry.challenged_at = Some(now);
        Answer::Send(answer)
    }
}
