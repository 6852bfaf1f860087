//! Creation of the objects that a loop and an application share.

use super::cores::Hub;
use super::domain::{Domain, Share};
use super::life::Life;
use super::options::Options;
use crate::channel::{Outside, channel};
use crate::policy::Rights;
use crate::tuning::session::LEAST_DATAGRAMS;
use cofferdam_xsk::FrameFacts;
use std::io;
use std::sync::Arc;

/// Maker of the two sides of an application. The domains go to the loops by
/// [`Order::Attach`](super::Order::Attach).
#[derive(Clone)]
pub(crate) struct Maker {
    pub(super) hub: Arc<Hub>,
    pub(super) memory: FrameFacts,
    pub(super) options: Options,
    pub(super) share: Share,
}

impl Maker {
    /// Creates one domain for each core, in order, and the application's side. `client` is the
    /// index of the application in the configuration.
    pub fn make(
        &self,
        client: u8,
        name: &str,
        rights: Rights,
        life: Arc<Life>,
    ) -> io::Result<(Vec<Domain>, Outside)> {
        // Places of applications that have ended become free.
        self.hub.bury();
        let seat = self
            .hub
            .seat(client, self.options.shares.count())
            .ok_or_else(|| io::Error::other("no place is free for another application"))?;
        let (inside, mut outside) = channel(
            &self.memory,
            self.options.area_bytes,
            self.options.private_frames,
            self.share.ranges,
            self.hub.doors(),
            self.hub.trust(client),
        )?;
        outside.sizes.yields = self.options.yields;
        outside.sizes.owners = self.hub.owners().into();
        let guaranteed = self.options.shares.of(self.share.datagrams);
        let guaranteed = guaranteed.get(usize::from(client)).copied();
        outside.sizes.datagrams = guaranteed.unwrap_or(0).max(LEAST_DATAGRAMS);
        let domain = |inside| {
            let name = name.to_owned();
            let rights = rights.clone();
            Domain::new(
                client,
                name,
                inside,
                rights,
                life.clone(),
                seat.clone(),
                self.share,
            )
        };
        Ok((inside.into_iter().map(domain).collect(), outside))
    }
}
