//! Bound addresses: every core has each of them.

use super::Bound;
use crate::abi::Refusal;
use std::net::SocketAddr;

/// A bound address.
pub(super) struct Place {
    generation: u32,
    /// What each core calls it; 0 is a name too.
    handles: Vec<Option<u64>>,
    /// Cores that have not answered.
    unanswered: usize,
    refused: Option<Refusal>,
    /// Of datagrams: the address.
    local: Option<SocketAddr>,
    /// Datagrams from there that are on their way to the device.
    pub unsent: u32,
    /// The application has given it back.
    pub is_closing: bool,
    /// Where its last datagram came from: the way back is known there.
    pub core: usize,
}

impl Place {
    /// The handle at the core that a datagram is best sent from.
    pub fn sender(&self) -> Option<(usize, u64)> {
        let handle = self.handles.get(self.core).copied().flatten()?;
        Some((self.core, handle))
    }

    /// Takes the handles away, with their cores.
    pub fn take(&mut self) -> Vec<(usize, u64)> {
        let handles = self.handles.iter_mut().enumerate();
        handles
            .filter_map(|(core, handle)| Some((core, handle.take()?)))
            .collect()
    }

    /// Whether all cores have answered.
    pub fn is_answered(&self) -> bool {
        self.unanswered == 0
    }

    /// Takes a core's answer; the whole answer when it was the last one's.
    pub fn answer(
        &mut self,
        core: usize,
        result: Result<u64, Refusal>,
    ) -> Option<Result<(), Refusal>> {
        match result {
            Ok(handle) => {
                if let Some(place) = self.handles.get_mut(core) {
                    *place = Some(handle);
                }
            }
            Err(refusal) => {
                self.refused.get_or_insert(refusal);
            }
        }
        self.unanswered = self.unanswered.saturating_sub(1);
        self.is_answered().then(|| self.refused.map_or(Ok(()), Err))
    }
}

/// All of an application. A place is used again for another address; conditions of the one that had it
/// before name none.
#[derive(Default)]
pub(super) struct Bounds {
    all: Vec<(u32, Option<Place>)>,
    free: Vec<u32>,
}

impl Bounds {
    /// A name for an address of which `cores` are asked.
    pub fn add(&mut self, cores: usize, local: Option<SocketAddr>) -> Bound {
        let index = self.free.pop().unwrap_or_else(|| {
            self.all.push((0, None));
            self.all.len() as u32 - 1
        });
        let Some((generation, place)) = self.all.get_mut(index as usize) else {
            return Bound(u64::MAX);
        };
        *generation = generation.wrapping_add(1);
        *place = Some(Place {
            generation: *generation,
            handles: vec![None; cores],
            unanswered: cores,
            refused: None,
            local,
            unsent: 0,
            is_closing: false,
            core: 0,
        });
        Bound(u64::from(*generation) << 32 | u64::from(index))
    }

    /// The address with this name.
    pub fn get_mut(&mut self, bound: Bound) -> Option<&mut Place> {
        let (_, place) = self.all.get_mut(bound.0 as u32 as usize)?;
        let generation = (bound.0 >> 32) as u32;
        place
            .as_mut()
            .filter(|place| place.generation == generation)
    }

    /// The name is nobody's any more.
    pub fn remove(&mut self, bound: Bound) {
        if self.get_mut(bound).is_some() {
            let index = bound.0 as u32;
            if let Some((_, place)) = self.all.get_mut(index as usize) {
                *place = None;
            }
            self.free.push(index);
        }
    }

    /// The name of an address that was given back and still sends.
    pub fn closing(&self, local: SocketAddr) -> Option<Bound> {
        let found = self.all.iter().position(|(_, place)| {
            let place = place.as_ref().filter(|place| place.is_closing);
            place.is_some_and(|place| place.local == Some(local))
        })?;
        let (generation, _) = self.all.get(found)?;
        Some(Bound(u64::from(*generation) << 32 | found as u64))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise 70.
    #[test]
    fn a_name_that_was_given_back_is_not_anothers() {
        let mut bounds = Bounds::default();
        let local = Some(([10, 0, 0, 9], 53).into());
        let first = bounds.add(2, local);
        let place = bounds.get_mut(first).expect("a place");
        assert_eq!(place.answer(0, Ok(7)), None);
        assert_eq!(
            place.answer(1, Err(Refusal::InUse)),
            Some(Err(Refusal::InUse))
        );
        assert_eq!(place.take(), [(0, 7)]);
        place.is_closing = true;
        assert_eq!(bounds.closing(([10, 0, 0, 9], 53).into()), Some(first));
        bounds.remove(first);
        assert_eq!(bounds.closing(([10, 0, 0, 9], 53).into()), None);
        let second = bounds.add(1, None);
        assert_eq!(second.0 as u32, first.0 as u32, "the place is used again");
        assert!(bounds.get_mut(first).is_none());
        // Given back twice: the second time it is another's.
        bounds.remove(first);
        assert!(bounds.get_mut(second).is_some());
    }
}
