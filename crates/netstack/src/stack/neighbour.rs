//! Ethernet addresses of the neighbours on the link: ARP (RFC 826) and neighbour discovery (RFC
//! 4861) in one table.
//!
//! An entry is looked up for each transmission. Only an answer to a question of this stack sets or
//! confirms an address. An unsolicited announcement of another address makes the stack probe the
//! known station first. If that is silent, the stack asks all hosts and accepts the answer. The
//! true owner refutes a false announcement within a round trip; a move is detected within
//! [`PROBES`] times [`PROBE`].
//!
//! ```text
//! state       in use  asks          next state on an answer, an announcement, the timer
//! Incomplete  no      all hosts     answer: Reachable; announcement: Stale;
//!                                   timer: asks again, removed after 3 questions
//! Reachable   yes     nobody        another station's answer or announcement: Stale
//!                                   (once a second); timer, 30 s: Stale
//! Stale       yes     nobody        the next use: Probing
//! Probing     yes     same station  its answer: Reachable;
//!                                   timer: asks again, Searching after 2 questions
//! Searching   yes     all hosts     any answer: Reachable with its address;
//!                                   timer: asks again, removed after 3 questions
//! ```

use super::route::Hop;
use crate::api::{MacAddress, Time};
use crate::core::siphash::Key;
use crate::core::slots::Slots;
use crate::core::table::Table;
use crate::tuning::READERS;
use crate::tuning::neighbours::{LEAST_ASKING, PROBE, PROBES, REACHABLE, RETRANSMIT, TRIES};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum State {
    /// The address is unknown, and the stack asks all hosts.
    #[default]
    Incomplete,
    Reachable,
    /// The address was not confirmed recently, or is doubtful. The next use starts a probe.
    Stale,
    /// The stack probes the known station and still uses its address.
    Probing,
    /// That station is silent. The stack asks all hosts and still uses the address.
    Searching,
}

#[derive(Debug, Clone, Copy, Default)]
struct Entry {
    hop: Hop,
    hash: u64,
    mac: MacAddress,
    state: State,
    tries: u8,
    /// Reader that caused the entry. An incomplete entry counts towards that reader's limit.
    asker: u8,
    /// Time of the last answer to a question of this stack.
    confirmed: Time,
}

/// Kind of message in which a neighbour states its address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Claim {
    /// A question to this stack.
    Question,
    /// An answer, perhaps to a question of this stack.
    Answer,
    /// An unsolicited message: gratuitous ARP, an unsolicited advertisement, or a question to
    /// another host.
    Announcement,
}

/// Result of a neighbour's claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClaimResult {
    Nothing,
    /// The entry in this slot has changed, and packets may be waiting for it.
    Changed(u32),
    /// The entry in this slot becomes doubtful at that time ([`Neighbours::due`]).
    ProbeAt(u32, Time),
}

/// Result of a lookup.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lookup {
    /// The address of the next hop. `ask`: the entry that must be probed.
    Known { mac: MacAddress, ask: Option<u32> },
    /// The address is unknown. `ask`: the entry for which a question is due.
    Unknown { ask: Option<u32> },
    /// The address is unknown, and the reader has reached its limit or no entry is free.
    Busy,
}

/// Action for an entry whose timer has expired.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Due {
    Nothing,
    /// Ask this station or, without an address, all hosts, and restart the timer.
    Ask {
        hop: Hop,
        mac: Option<MacAddress>,
    },
    /// The neighbour does not answer.
    Failed(Hop),
}

/// Neighbour table.
#[derive(Debug)]
pub struct Neighbours {
    entries: Vec<Entry>,
    slots: Slots,
    table: Table,
    key: Key,
    /// Number that changes whenever a cached address may be wrong.
    epoch: u32,
    hand: u32,
    /// Incomplete entries of each reader and their largest number: they cannot be evicted.
    asking: [u32; READERS as usize],
    most_asking: u32,
}

impl Neighbours {
    pub fn new(count: u32, secret: &[u8; 16]) -> Self {
        Self {
            entries: vec![Entry::default(); count as usize],
            slots: Slots::new(count),
            table: Table::new(count as usize),
            key: Key::new(secret, 5),
            epoch: 1,
            hand: 0,
            asking: [0; READERS as usize],
            most_asking: (count / u32::from(READERS)).max(LEAST_ASKING),
        }
    }

    /// Number that changes whenever a cached address may be wrong.
    pub const fn epoch(&self) -> u32 {
        self.epoch
    }

    pub fn len(&self) -> u32 {
        self.slots.used()
    }

    fn find(&self, hop: &Hop) -> (u64, Option<u32>) {
        let words = u128::from_ne_bytes(hop.ip.0);
        let interface = u64::from(hop.interface.0);
        let hash = (self.key).hash(&[words as u64, (words >> 64) as u64, interface]);
        (
            hash,
            self.table
                .find(hash, |slot| self.entries[slot as usize].hop == *hop),
        )
    }

    /// Expiry of the timer of an entry for which a question was just sent.
    pub fn retry_at(&self, slot: u32, now: Time) -> Time {
        let is_probing = self.entries[slot as usize].state == State::Probing;
        now + if is_probing { PROBE } else { RETRANSMIT }
    }

    pub fn reachable_until(now: Time) -> Time {
        now + REACHABLE
    }

    /// Looks up a next hop, and adds an entry if there is none. `asker` is below [`READERS`].
    pub fn look_up(&mut self, hop: &Hop, asker: u8) -> Lookup {
        let (hash, found) = self.find(hop);
        let Some(slot) = found else {
            if self.asking[usize::from(asker)] >= self.most_asking {
                return Lookup::Busy;
            }
            let Some(slot) = self.insert(*hop, hash, true) else {
                return Lookup::Busy;
            };
            self.asking[usize::from(asker)] += 1;
            self.entries[slot as usize].asker = asker;
            return Lookup::Unknown { ask: Some(slot) };
        };
        let entry = &mut self.entries[slot as usize];
        match entry.state {
            State::Incomplete => Lookup::Unknown { ask: None },
            State::Stale => {
                (entry.state, entry.tries) = (State::Probing, 1);
                Lookup::Known {
                    mac: entry.mac,
                    ask: Some(slot),
                }
            }
            State::Reachable | State::Probing | State::Searching => Lookup::Known {
                mac: entry.mac,
                ask: None,
            },
        }
    }

    fn insert(&mut self, hop: Hop, hash: u64, evict: bool) -> Option<u32> {
        if evict && self.slots.used() == self.slots.count() {
            self.evict();
        }
        let slot = self.slots.take()?;
        self.entries[slot as usize] = Entry {
            hop,
            hash,
            tries: 1,
            ..Entry::default()
        };
        self.table.insert(hash, slot);
        Some(slot)
    }

    /// Removes the next entry from the clock hand on that is not incomplete.
    fn evict(&mut self) {
        for _ in 0..self.entries.len() {
            self.hand = (self.hand + 1) % self.slots.count();
            if self.slots.is_used(self.hand)
                && self.entries[self.hand as usize].state != State::Incomplete
            {
                self.remove(self.hand);
                return;
            }
        }
    }

    fn remove(&mut self, slot: u32) {
        self.answered(slot);
        self.table.remove(self.entries[slot as usize].hash, slot);
        self.slots.free(slot);
        self.epoch = self.epoch.wrapping_add(1);
    }

    /// Removes an entry from its reader's incomplete ones because it is answered or removed.
    fn answered(&mut self, slot: u32) {
        let entry = &self.entries[slot as usize];
        if entry.state == State::Incomplete {
            self.asking[usize::from(entry.asker)] -= 1;
        }
    }

    /// Neighbour to ask about, and its Ethernet address if the question is a probe.
    pub fn question(&self, slot: u32) -> (Hop, Option<MacAddress>) {
        let entry = &self.entries[slot as usize];
        (
            entry.hop,
            (entry.state == State::Probing).then_some(entry.mac),
        )
    }

    /// Processes a neighbour's claim; `None` claims its known address (RFC 4861, 7.2.5). A question
    /// to this stack adds an entry if there is space (RFC 826; RFC 4861, 7.2.3). Other claims only
    /// change existing entries, so that no host can fill the table.
    pub fn record_claim(
        &mut self,
        hop: &Hop,
        mac: Option<MacAddress>,
        claim: Claim,
        now: Time,
    ) -> ClaimResult {
        let (hash, found) = self.find(hop);
        let Some(slot) = found else {
            let (Claim::Question, Some(mac)) = (claim, mac) else {
                return ClaimResult::Nothing;
            };
            let Some(slot) = self.insert(*hop, hash, false) else {
                return ClaimResult::Nothing;
            };
            // No reader asked for this neighbour, so the entry counts for none.
            self.entries[slot as usize].state = State::Stale;
            self.entries[slot as usize].mac = mac;
            self.epoch = self.epoch.wrapping_add(1);
            return ClaimResult::Changed(slot);
        };
        let entry = self.entries[slot as usize];
        let is_same = mac.is_none_or(|mac| mac == entry.mac);
        let is_answer = claim == Claim::Answer;
        match (entry.state, mac) {
            (State::Incomplete, Some(mac)) => self.take(slot, mac, is_answer, now),
            (State::Probing | State::Searching, _) if is_answer && is_same => {
                self.take(slot, entry.mac, true, now)
            }
            (State::Searching, Some(mac)) if is_answer => self.take(slot, mac, true, now),
            (State::Reachable, _) if !is_same => self.suspect_slot(slot, now),
            _ => ClaimResult::Nothing,
        }
    }

    /// Makes the neighbour of an unanswered path doubtful, because it may have disappeared.
    pub fn suspect(&self, hop: &Hop, now: Time) -> ClaimResult {
        match self.find(hop) {
            (_, Some(slot)) if self.is_reachable(slot) => self.suspect_slot(slot, now),
            _ => ClaimResult::Nothing,
        }
    }

    /// Limits doubts to one an interval: neither false announcements nor silence may cause endless
    /// questions.
    fn suspect_slot(&self, slot: u32, now: Time) -> ClaimResult {
        let confirmed = self.entries[slot as usize].confirmed;
        ClaimResult::ProbeAt(slot, now.max(confirmed + RETRANSMIT))
    }

    /// Stores an address, `confirmed` by an answer to a question of this stack or not.
    fn take(&mut self, slot: u32, mac: MacAddress, confirmed: bool, now: Time) -> ClaimResult {
        self.answered(slot);
        let entry = &mut self.entries[slot as usize];
        if entry.state == State::Incomplete || entry.mac != mac {
            self.epoch = self.epoch.wrapping_add(1);
        }
        (entry.mac, entry.tries) = (mac, 0);
        if confirmed {
            (entry.state, entry.confirmed) = (State::Reachable, now);
        } else {
            entry.state = State::Stale;
        }
        ClaimResult::Changed(slot)
    }

    /// Whether the entry is confirmed; its timer then expires at [`Self::reachable_until`].
    pub fn is_reachable(&self, slot: u32) -> bool {
        self.entries[slot as usize].state == State::Reachable
    }

    /// Handles the expired timer of an entry.
    pub fn due(&mut self, slot: u32) -> Due {
        if !self.slots.is_used(slot) {
            return Due::Nothing;
        }
        let entry = &mut self.entries[slot as usize];
        let ask = |entry: &Entry, mac| Due::Ask {
            hop: entry.hop,
            mac,
        };
        match entry.state {
            State::Stale => Due::Nothing,
            State::Reachable => {
                entry.state = State::Stale;
                self.epoch = self.epoch.wrapping_add(1);
                Due::Nothing
            }
            State::Probing if entry.tries < PROBES => {
                entry.tries += 1;
                ask(entry, Some(entry.mac))
            }
            State::Probing => {
                (entry.state, entry.tries) = (State::Searching, 1);
                ask(entry, None)
            }
            State::Incomplete | State::Searching if entry.tries < TRIES => {
                entry.tries += 1;
                ask(entry, None)
            }
            State::Incomplete | State::Searching => {
                let hop = entry.hop;
                self.remove(slot);
                Due::Failed(hop)
            }
        }
    }
}
