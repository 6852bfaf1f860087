//! Bound addresses, which every core has.

use super::BoundAddress;
use crate::abi::Refusal;
use std::net::SocketAddr;

/// A bound address.
pub(super) struct Place {
    generation: u32,
    /// Name of the address at each core; 0 is a valid name.
    handles: Vec<Option<u64>>,
    /// Number of cores that have not answered.
    unanswered: usize,
    refused: Option<Refusal>,
    /// The address, for datagrams.
    local: Option<SocketAddr>,
    /// Datagrams from there that are pending.
    pub unsent: u32,
    /// Whether the application has released it.
    pub is_closing: bool,
    /// Core of its last datagram, where the way back is known.
    pub core: usize,
}

impl Place {
    /// Core and handle for sending a datagram.
    pub fn sender(&self) -> Option<(usize, u64)> {
        let handle = self.handles.get(self.core).copied().flatten()?;
        Some((self.core, handle))
    }

    /// Takes the handles with their cores.
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

    /// Records a core's answer. Returns the combined answer after the last one.
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

/// Bound addresses of an application. A place is used again for another address; conditions of the
/// previous one name none.
#[derive(Default)]
pub(super) struct Bounds {
    all: Vec<(u32, Option<Place>)>,
    free: Vec<u32>,
}

impl Bounds {
    /// Adds an address that `cores` are asked to bind. Returns its name.
    pub fn add(&mut self, cores: usize, local: Option<SocketAddr>) -> BoundAddress {
        let index = self.free.pop().unwrap_or_else(|| {
            self.all.push((0, None));
            self.all.len() as u32 - 1
        });
        let Some((generation, place)) = self.all.get_mut(index as usize) else {
            return BoundAddress(u64::MAX);
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
        BoundAddress(u64::from(*generation) << 32 | u64::from(index))
    }

    /// Address with this name.
    pub fn get_mut(&mut self, bound: BoundAddress) -> Option<&mut Place> {
        let (_, place) = self.all.get_mut(bound.0 as u32 as usize)?;
        let generation = (bound.0 >> 32) as u32;
        place
            .as_mut()
            .filter(|place| place.generation == generation)
    }

    /// Removes the address with this name.
    pub fn remove(&mut self, bound: BoundAddress) {
        if self.get_mut(bound).is_some() {
            let index = bound.0 as u32;
            if let Some((_, place)) = self.all.get_mut(index as usize) {
                *place = None;
            }
            self.free.push(index);
        }
    }

    /// Name of a released address that still sends.
    pub fn closing(&self, local: SocketAddr) -> Option<BoundAddress> {
        let found = self.all.iter().position(|(_, place)| {
            let place = place.as_ref().filter(|place| place.is_closing);
            place.is_some_and(|place| place.local == Some(local))
        })?;
        let (generation, _) = self.all.get(found)?;
        Some(BoundAddress(u64::from(*generation) << 32 | found as u64))
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
        // The second release of the same name must not affect the next address.
        bounds.remove(first);
        assert!(bounds.get_mut(second).is_some());
    }
}
