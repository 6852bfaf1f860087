//! One core's table of the attached applications.

use super::domain::Domain;
use crate::tuning::MOST_APPLICATIONS;

/// Attached applications by place. The loop takes an application out while it works for it, because
/// that needs the rest of the engine too.
pub(crate) struct Domains(Vec<Option<Box<Domain>>>);

impl Domains {
    pub fn new() -> Domains {
        Domains((0..MOST_APPLICATIONS).map(|_| None).collect())
    }

    /// Puts an application into its place. Returns false if there is no such place.
    pub fn insert(&mut self, domain: Box<Domain>) -> bool {
        let place = self.0.get_mut(usize::from(domain.seat().place));
        place.map(|place| *place = Some(domain)).is_some()
    }

    /// Takes the application out of a place.
    #[inline]
    pub fn take(&mut self, place: u8) -> Option<Box<Domain>> {
        self.0.get_mut(usize::from(place))?.take()
    }

    /// Application in a place.
    #[inline]
    pub fn get_mut(&mut self, place: u8) -> Option<&mut Domain> {
        self.0.get_mut(usize::from(place))?.as_deref_mut()
    }

    /// Application in a place, if its generation is this one.
    pub fn get_generation(&self, place: u8, generation: u8) -> Option<&Domain> {
        let domain = self.0.get(usize::from(place))?.as_deref()?;
        (domain.seat().generation == generation).then_some(domain)
    }

    /// Application in a place, if its generation is this one.
    pub fn get_generation_mut(&mut self, place: u8, generation: u8) -> Option<&mut Domain> {
        self.get_mut(place)
            .filter(|domain| domain.seat().generation == generation)
    }

    /// All applications.
    pub fn iter(&self) -> impl Iterator<Item = &Domain> {
        self.0.iter().flatten().map(Box::as_ref)
    }

    /// All applications.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut Domain> {
        self.0.iter_mut().flatten().map(Box::as_mut)
    }
}
