//! Who on the link has which Ethernet address: ARP (RFC 826) and neighbour discovery (RFC 4861)
//! in one table.
//!
//! An entry is looked up when something is sent. Only an answer to a question of ours sets or
//! confirms an address that is used. Whoever says unasked that it has moved makes us ask the
//! station that we know; only if that is silent we ask all, and take the answer (a lie is denied
//! within the round trip, a move is found within [`PROBES`] times [`PROBE`]).
//!
//! ```text
//! state       used  asks       answer, same station  another's answer   unasked, another station  timer
//! Incomplete  no    all        Reachable             -                  Stale                     asks again; fails after 3
//! Reachable   yes   nobody     -                     Stale              Stale (once a second)     Stale after 30 s
//! Stale       yes   -          -                     -                  -                         - (the next use: Probing)
//! Probing     yes   the same   Reachable             -                  -                         asks again; Searching after 2
//! Searching   yes   all        Reachable             takes, Reachable   -                         asks again; fails after 3
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
    /// Unknown, and all hosts are asked.
    #[default]
    Incomplete,
    Reachable,
    /// Not confirmed lately, or doubted; the next use asks.
    Stale,
    /// The station that is known is asked; used meanwhile.
    Probing,
    /// That station is silent, and all hosts are asked; used meanwhile.
    Searching,
}

#[derive(Debug, Clone, Copy, Default)]
struct Entry {
    hop: Hop,
    hash: u64,
    mac: MacAddress,
    state: State,
    tries: u8,
    /// The reader that made it; while it is incomplete it counts towards that reader's limit.
    asker: u8,
    /// Last answer to a question of ours.
    confirmed: Time,
}

/// In what a neighbour says where it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Claim {
    /// A question to us.
    Question,
    /// An answer, perhaps to a question of ours.
    Answer,
    /// A message that nobody asked for: gratuitous ARP, an unsolicited advertisement, or a question
    /// to another host.
    Announcement,
}

/// What a claim leads to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Heard {
    Nothing,
    /// This entry has changed; it may wake others.
    Changed(u32),
    /// This entry is to be doubted from then on ([`Neighbours::due`]).
    DoubtAt(u32, Time),
}

/// What a lookup leads to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lookup {
    /// Send there. `ask`: and ask whether it is still right.
    Known { mac: MacAddress, ask: Option<u32> },
    /// Wait. `ask`: a question is due, for this entry.
    Unknown { ask: Option<u32> },
    /// Unknown, and the asker asks for as many as it may, or no entry is free.
    Busy,
}

/// A timer of an entry leads to this.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Due {
    Nothing,
    /// Ask again (this station, or all hosts), and wake in a second.
    Ask {
        hop: Hop,
        mac: Option<MacAddress>,
    },
    /// It does not answer.
    Failed(Hop),
}

/// The table.
#[derive(Debug)]
pub struct Neighbours {
    entries: Vec<Entry>,
    slots: Slots,
    table: Table,
    key: Key,
    /// Changes whenever a cached address may be wrong.
    epoch: u32,
    hand: u32,
    /// Incomplete entries of each asker, and how many it may have: they cannot be evicted.
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

    /// Changes whenever a cached address may be wrong.
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

    /// When an entry just asked about wants to be woken.
    pub fn retry_at(&self, slot: u32, now: Time) -> Time {
        let is_probing = self.entries[slot as usize].state == State::Probing;
        now + if is_probing { PROBE } else { RETRANSMIT }
    }

    pub fn reachable_until(now: Time) -> Time {
        now + REACHABLE
    }

    /// Looks up where to send; makes an entry if there is none. `asker` is below [`READERS`].
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

    /// Makes room: removes the next entry at the hand that nothing waits for.
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

    /// The entry is no longer incomplete, or goes.
    fn answered(&mut self, slot: u32) {
        let entry = &self.entries[slot as usize];
        if entry.state == State::Incomplete {
            self.asking[usize::from(entry.asker)] -= 1;
        }
    }

    /// The neighbour and the Ethernet address (if known) to ask about.
    pub fn question(&self, slot: u32) -> (Hop, Option<MacAddress>) {
        let entry = &self.entries[slot as usize];
        (
            entry.hop,
            (entry.state == State::Probing).then_some(entry.mac),
        )
    }

    /// A neighbour says where it is, on its link; without an address (RFC 4861, 7.2.5): where it
    /// was. A question to us makes an entry if there is room (RFC 826; RFC 4861, 7.2.3); all else
    /// changes only what exists: no host may fill the table unasked.
    pub fn heard(&mut self, hop: &Hop, mac: Option<MacAddress>, claim: Claim, now: Time) -> Heard {
        let (hash, found) = self.find(hop);
        let Some(slot) = found else {
            let (Claim::Question, Some(mac)) = (claim, mac) else {
                return Heard::Nothing;
            };
            let Some(slot) = self.insert(*hop, hash, false) else {
                return Heard::Nothing;
            };
            // Nobody asked for it: it counts for no reader.
            self.entries[slot as usize].state = State::Stale;
            self.entries[slot as usize].mac = mac;
            self.epoch = self.epoch.wrapping_add(1);
            return Heard::Changed(slot);
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
            (State::Reachable, _) if !is_same => self.doubt_at(slot, now),
            _ => Heard::Nothing,
        }
    }

    /// Nothing comes back from beyond a neighbour: perhaps it is not there any more.
    pub fn doubt(&self, hop: &Hop, now: Time) -> Heard {
        match self.find(hop) {
            (_, Some(slot)) if self.is_reachable(slot) => self.doubt_at(slot, now),
            _ => Heard::Nothing,
        }
    }

    /// At most once an interval: whoever lies, or is silent, must not make us ask without end.
    fn doubt_at(&self, slot: u32, now: Time) -> Heard {
        let confirmed = self.entries[slot as usize].confirmed;
        Heard::DoubtAt(slot, now.max(confirmed + RETRANSMIT))
    }

    /// Takes an address, `confirmed` by an answer to our question or not.
    fn take(&mut self, slot: u32, mac: MacAddress, confirmed: bool, now: Time) -> Heard {
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
        Heard::Changed(slot)
    }

    /// Whether the entry was confirmed (and wants to be woken in [`Self::reachable_until`]).
    pub fn is_reachable(&self, slot: u32) -> bool {
        self.entries[slot as usize].state == State::Reachable
    }

    /// The timer of an entry is due.
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
