//! Hierarchical timing wheel (Varghese and Lauck, 1987): arming, moving and removing a timer is
//! O(1). It has four levels of 256 slots; a tick is 16.384 µs, a turn of the wheel 19.5 hours.

use super::NONE;
use crate::tuning::timers::LOOKED_AT;

/// Binary logarithm of the nanoseconds in a tick.
const TICK_SHIFT: u32 = 14;
const LEVELS: usize = 4;
const SLOTS: usize = 256;
const UNARMED: u16 = u16::MAX;
/// Farthest deadline in ticks. A later one is armed for this tick, and armed again when it expires.
const MOST_TICKS: u64 = (1 << 32) - 256;

#[derive(Debug, Clone, Copy)]
struct Timer {
    deadline: u64,
    next: u32,
    previous: u32,
    /// `level * 256 + slot`, or [`UNARMED`].
    list: u16,
}

/// Timing wheel with the timers `0..count`.
#[derive(Debug)]
pub struct Wheel {
    timers: Vec<Timer>,
    heads: Vec<u32>,
    occupied: [[u64; 4]; LEVELS],
    /// Current tick: all earlier ones are done.
    now: u64,
    /// Tick before which no work is due. It may be too early after a timer was removed: one
    /// needless wake-up costs less than a search at each removal.
    quiet_until: u64,
    armed: u32,
}

impl Wheel {
    /// A wheel with the timers `0..count`, none of them armed.
    pub fn new(count: usize, now_ns: u64) -> Self {
        let idle = Timer {
            deadline: 0,
            next: NONE,
            previous: NONE,
            list: UNARMED,
        };
        Self {
            timers: vec![idle; count],
            heads: vec![NONE; LEVELS * SLOTS],
            occupied: [[0; 4]; LEVELS],
            now: now_ns >> TICK_SHIFT,
            quiet_until: u64::MAX,
            armed: 0,
        }
    }

    /// Number of armed timers.
    pub fn armed(&self) -> u32 {
        self.armed
    }

    /// Tick in which a timer expires, if it is armed.
    fn due_tick(&self, id: u32) -> Option<u64> {
        let timer = &self.timers[id as usize];
        (timer.list != UNARMED).then_some(timer.deadline)
    }

    /// Arms or moves a timer: it expires at `at_ns` or up to a tick later.
    pub fn arm(&mut self, id: u32, at_ns: u64) {
        self.disarm(id);
        let tick = (at_ns.saturating_add((1 << TICK_SHIFT) - 1)) >> TICK_SHIFT;
        self.timers[id as usize].deadline = tick.clamp(self.now, self.now + MOST_TICKS);
        self.link_timer(id);
        self.armed += 1;
    }

    /// Arms a timer unless it is already armed for that moment or an earlier one. At the early
    /// expiry the owner compares its real deadline and arms the timer again, so that a deadline
    /// which moves with every packet costs nothing.
    pub fn arm_no_later(&mut self, id: u32, at_ns: u64) {
        let tick = (at_ns.saturating_add((1 << TICK_SHIFT) - 1)) >> TICK_SHIFT;
        if self.due_tick(id).is_none_or(|armed| armed > tick) {
            self.arm(id, at_ns);
        }
    }

    fn link_timer(&mut self, id: u32) {
        let deadline = self.timers[id as usize].deadline;
        let ahead = deadline.saturating_sub(self.now);
        let level = match ahead {
            0..=0xff => 0,
            0x100..=0xffff => 1,
            0x1_0000..=0xff_ffff => 2,
            _ => 3,
        };
        let slot = (deadline >> (8 * level)) as usize % SLOTS;
        let list = level * SLOTS + slot;
        let head = self.heads[list];
        let timer = &mut self.timers[id as usize];
        (timer.next, timer.previous, timer.list) = (head, NONE, list as u16);
        if head != NONE {
            self.timers[head as usize].previous = id;
        }
        self.heads[list] = id;
        self.quiet_until = self.quiet_until.min(deadline >> (8 * level) << (8 * level));
        self.occupied[level][slot / 64] |= 1 << (slot % 64);
    }

    fn unlink(&mut self, id: u32) {
        let Timer {
            next,
            previous,
            list,
            ..
        } = self.timers[id as usize];
        if next != NONE {
            self.timers[next as usize].previous = previous;
        }
        if previous != NONE {
            self.timers[previous as usize].next = next;
        } else {
            let list = usize::from(list);
            self.heads[list] = next;
            if next == NONE {
                let slot = list % SLOTS;
                self.occupied[list / SLOTS][slot / 64] &= !(1 << (slot % 64));
            }
        }
        self.timers[id as usize].list = UNARMED;
    }

    /// Disarms a timer, if it is armed.
    pub fn disarm(&mut self, id: u32) {
        if self.timers[id as usize].list != UNARMED {
            self.unlink(id);
            self.armed -= 1;
        }
    }

    /// Number of slots from `from` (inclusive) to the next occupied one of a level, once around.
    fn distance(&self, level: usize, from: usize) -> Option<usize> {
        let bits = &self.occupied[level];
        let mut at = from % SLOTS;
        let mut distance = 0;
        while distance < SLOTS + 64 {
            let word = bits[at / 64] >> (at % 64);
            if word != 0 {
                return Some(distance + word.trailing_zeros() as usize);
            }
            let step = 64 - at % 64;
            distance += step;
            at = (at + step) % SLOTS;
        }
        None
    }

    /// Next tick that needs work: a slot that expires, or one to distribute over the level below.
    fn next_stop(&self) -> Option<u64> {
        let mut stop = self
            .distance(0, self.now as usize)
            .map(|slots| self.now + slots as u64);
        for level in 1..LEVELS {
            let shift = 8 * level;
            let here = self.now >> shift;
            if let Some(slots) = self.distance(level, here as usize + 1) {
                let tick = (here + 1 + slots as u64) << shift;
                stop = Some(stop.map_or(tick, |stop| stop.min(tick)));
            }
        }
        stop
    }

    /// Moment before which [`Self::take_due`] returns nothing; `None` if no timer is armed.
    pub fn next_ns(&self) -> Option<u64> {
        (self.quiet_until != u64::MAX).then_some(self.quiet_until << TICK_SHIFT)
    }

    /// Identifier and moment of the first timer. If its slot has too many timers to examine, the
    /// identifier is `NONE` and the moment may be early, never late.
    pub fn first(&self) -> Option<(u32, u64)> {
        let slots = (0..LEVELS).filter_map(|level| {
            let shift = 8 * level;
            let here = (self.now >> shift) + u64::from(level > 0);
            let slots = self.distance(level, here as usize)?;
            Some((level, here + slots as u64))
        });
        let first = slots.map(|(level, slot)| {
            let mut id = self.heads[level * SLOTS + slot as usize % SLOTS];
            let mut first = (id, u64::MAX);
            for _ in 0..LOOKED_AT {
                let timer = &self.timers[id as usize];
                if timer.deadline < first.1 {
                    first = (id, timer.deadline);
                }
                id = timer.next;
                if id == NONE {
                    return first;
                }
            }
            (NONE, slot << (8 * level))
        });
        let (id, tick) = first.min_by_key(|(_, tick)| *tick)?;
        Some((id, tick << TICK_SHIFT))
    }

    /// Removes and returns one expired timer. The caller repeats this until `None`.
    pub fn take_due(&mut self, now_ns: u64) -> Option<u32> {
        let until = now_ns >> TICK_SHIFT;
        loop {
            let due = self.heads[self.now as usize % SLOTS];
            if due != NONE && self.now <= until {
                self.unlink(due);
                self.armed -= 1;
                return Some(due);
            }
            let stop = self.next_stop();
            self.quiet_until = stop.unwrap_or(u64::MAX);
            match stop {
                Some(stop) if stop <= until && until > self.now => {
                    self.now = stop;
                    self.cascade();
                }
                _ => {
                    self.now = until.max(self.now);
                    return None;
                }
            }
        }
    }

    /// Distributes the slots that begin at this tick over the levels below, highest first.
    fn cascade(&mut self) {
        for level in (1..LEVELS).rev() {
            let shift = 8 * level;
            if self.now & ((1 << shift) - 1) != 0 {
                continue;
            }
            let list = level * SLOTS + (self.now >> shift) as usize % SLOTS;
            let mut id = self.heads[list];
            while id != NONE {
                let next = self.timers[id as usize].next;
                self.unlink(id);
                self.link_timer(id);
                id = next;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TICK: u64 = 1 << TICK_SHIFT;

    /// Comparison with a sorted list for random deadlines and steps, with timers armed again in
    /// between.
    /// Promise 56.
    #[test]
    fn each_timer_expires_in_its_tick_and_never_before() {
        let mut random = 7u64;
        let mut draw = |most: u64| {
            random = random
                .wrapping_mul(6364136223846793005)
                .wrapping_add(1442695040888963407);
            (random >> 16) % most
        };
        let mut wheel = Wheel::new(200, 12_345_678_901);
        let mut deadlines: Vec<Option<u64>> = vec![None; 200];
        let mut now = 12_345_678_901u64;
        for _ in 0..30_000 {
            let id = draw(200) as u32;
            match draw(4) {
                0 => {
                    wheel.disarm(id);
                    deadlines[id as usize] = None;
                }
                _ => {
                    let span = [
                        300,
                        70_000,
                        20_000_000,
                        6_000_000_000_000,
                        6_900_000_000_000,
                    ][draw(5) as usize];
                    let at = now + draw(span * 10);
                    wheel.arm(id, at);
                    deadlines[id as usize] = Some(at);
                }
            }
            let earliest = deadlines.iter().flatten().min().copied();
            assert_eq!(wheel.next_ns().is_some(), earliest.is_some());
            if let (Some(hint), Some(earliest)) = (wheel.next_ns(), earliest) {
                assert!(
                    hint <= (earliest.max(now) + TICK) & !(TICK - 1),
                    "{hint} {earliest}"
                );
                let (id, first) = wheel.first().expect("armed");
                assert!(first.saturating_sub(TICK) <= earliest.max(now), "late");
                if id != NONE {
                    let at = deadlines[id as usize].expect("armed");
                    assert!(first + TICK > earliest && at < earliest + TICK, "early");
                }
            } else {
                assert_eq!(wheel.first(), None);
            }
            now += [
                0,
                draw(50_000),
                draw(10_000_000),
                draw(5_000_000_000),
                draw(8_000_000_000_000),
            ][draw(5) as usize];
            while let Some(id) = wheel.take_due(now) {
                let at = deadlines[id as usize].take().expect("armed");
                assert!(at <= now, "too early");
            }
            for at in deadlines.iter().flatten() {
                assert!(at + TICK > now, "{at} missed at {now}");
            }
        }
        assert_eq!(wheel.armed() as usize, deadlines.iter().flatten().count());
    }

    #[test]
    fn a_deadline_beyond_the_wheel_wakes_early_not_never() {
        let mut wheel = Wheel::new(1, 0);
        wheel.arm(0, u64::MAX);
        assert_eq!(wheel.take_due(60_000_000_000_000), None);
        assert_eq!(wheel.take_due(80_000_000_000_000), Some(0));
        assert_eq!(
            (wheel.take_due(u64::MAX >> 1), wheel.next_ns()),
            (None, None)
        );
    }

    #[test]
    fn arm_no_later_keeps_an_earlier_deadline() {
        let mut wheel = Wheel::new(1, 0);
        wheel.arm_no_later(0, 10 * TICK);
        wheel.arm_no_later(0, 90 * TICK);
        assert_eq!(wheel.take_due(10 * TICK), Some(0));
        wheel.arm_no_later(0, 90 * TICK);
        wheel.arm_no_later(0, 20 * TICK);
        assert_eq!(wheel.take_due(20 * TICK), Some(0));
    }
}
