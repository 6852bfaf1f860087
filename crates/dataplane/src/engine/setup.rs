//! Setup of a dataplane: its cores, and the handles for other threads.

use super::Engine;
use super::bounds::Bounds;
use super::cores::{Cores, Hub};
use super::domain::{Domain, Share};
use super::domains::Domains;
use super::idle::Idle;
use super::link::Link;
use super::maker::Maker;
use super::options::Options;
use super::order::Order;
use super::owners::Owners;
use super::protection::Protection;
use super::shares::Pools;
use super::tally::Tally;
use super::trains::Trains;
use crate::channel::Outside;
use crate::handle;
use crate::policy::Rights;
use crate::session::Session;
use crate::tuning::eviction::SPARE_PART;
use crate::tuning::turns::{HELD_PART, STACK_PART};
use crate::tuning::{MOST_APPLICATIONS, MOST_BATCH, MOST_CORES};
use cofferdam_netstack::{Config, ConfigError, Stack, Time};
use cofferdam_pkey::ordinary;
use cofferdam_xsk::{Memory, Port};
use std::hash::RandomState;
use std::io;
use std::sync::Arc;
use std::sync::mpsc::Receiver;

/// The reason why a dataplane cannot be set up.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    /// The network stack refuses its settings.
    #[error("the dataplane's network settings: {0}")]
    Config(#[from] ConfigError),
    /// A setting of the loop is invalid.
    #[error("{0}")]
    Options(&'static str),
    /// There is no memory, or no descriptor.
    #[error("cannot set the dataplane up: {0}")]
    Os(#[from] io::Error),
}

impl<P: Port> Engine<P> {
    /// A dataplane of one core. After the setup the loop allocates nothing.
    pub fn new(
        port: P,
        memory: Memory,
        config: Config,
        options: Options,
    ) -> Result<Engine<P>, EngineError> {
        let mut one = Engine::several(vec![(vec![port], memory)], &config, options)?;
        one.pop()
            .ok_or(EngineError::Options("a dataplane needs a core"))
    }

    /// A dataplane of several cores. Each has a port on each device, in the order of `config`'s
    /// interfaces, and in order a part of one memory ([`Memory::split`]). A thread of its own
    /// drives each loop.
    pub fn several(
        ports: Vec<(Vec<P>, Memory)>,
        config: &Config,
        options: Options,
    ) -> Result<Vec<Engine<P>>, EngineError> {
        if !(1..=MOST_BATCH).contains(&options.batch) {
            return Err(EngineError::Options(
                "the batch bound must be between 1 and 256",
            ));
        }
        if ports.len() > MOST_CORES {
            return Err(EngineError::Options("a dataplane has at most 32 cores"));
        }
        if config.limits.connections > handle::MOST_CONNECTIONS {
            return Err(EngineError::Options(
                "a core has at most 1,048,576 connections",
            ));
        }
        let mut config = config.clone();
        let connections = config.limits.connections;
        config.limits.spare_connections = (connections / SPARE_PART)
            .max(2 * MOST_BATCH)
            .min(handle::MOST_CONNECTIONS - connections);
        let hasher = RandomState::new();
        let (hub, orders) = Hub::new(ports.len(), options.first_cores)?;
        let cores = Cores::joined(&hub, config.limits.connections);
        let parts = ports.into_iter().zip(cores).zip(orders);
        parts
            .map(|(((ports, memory), cores), orders)| {
                let hasher = hasher.clone();
                Engine::one(
                    ports,
                    memory,
                    (cores, hasher),
                    orders,
                    config.clone(),
                    options,
                )
            })
            .collect()
    }

    fn one(
        ports: Vec<P>,
        memory: Memory,
        (cores, hasher): (Cores, RandomState),
        orders: Receiver<Order>,
        mut config: Config,
        options: Options,
    ) -> Result<Engine<P>, EngineError> {
        if ports.len() != config.interfaces.len() {
            return Err(EngineError::Options(
                "a core needs a port on each device of the dataplane",
            ));
        }
        for (interface, port) in config.interfaces.iter_mut().zip(&ports) {
            interface.segmentation = port.sends_large();
        }
        let frames = memory.own_frames();
        config.limits.kept = (frames / STACK_PART.1 * STACK_PART.0).max(4);
        // A session learns its number once and keeps to it, so that no part is lent. The table has
        // room for all attachments at their limit, and for received data.
        let attached = u32::from(options.shares.count()).clamp(1, MOST_APPLICATIONS as u32);
        let ranges = (config.limits.chunks / 2 / attached).max(1);
        config.limits.chunks = config.limits.kept + ranges * MOST_APPLICATIONS as u32;
        let limits = config.limits;
        let clock = cores.hub().clock;
        let mut stack = Stack::new(config, clock.now())?;
        stack.set_owned_groups(cores.own_groups());
        Ok(Engine {
            maker: Maker {
                hub: cores.hub().clone(),
                memory: memory.facts(),
                options,
                share: Share {
                    frames: frames / HELD_PART.1 * HELD_PART.0,
                    ranges,
                    datagrams: limits.udp_sends,
                },
            },
            pools: Pools::new(&limits, &options.shares),
            stack,
            owners: Owners::new(limits.connections + limits.spare_connections, hasher),
            bounds: Bounds::new(limits.listeners + limits.udp),
            domains: Domains::new(),
            link: Link::new(ports, options.batch),
            idle: Idle::new(options.spin),
            tally: Tally::default(),
            trains: Trains::new(P::MOST_LARGE_PARTS),
            shown_at: Time::ZERO,
            eviction_places_left: 0,
            memory,
            clock,
            options,
            orders,
            cores,
        })
    }

    /// State that all cores share, for other threads.
    pub(crate) fn hub(&self) -> Arc<Hub> {
        self.cores.hub().clone()
    }

    /// Maker of applications' domains, for another thread.
    pub(crate) fn maker(&self) -> Maker {
        self.maker.clone()
    }

    /// An unprotected application in this process, on the loop's own thread.
    ///
    /// # Errors
    /// There is no memory, descriptor or place; the dataplane has several cores.
    pub fn inline(&mut self) -> io::Result<Session> {
        if self.cores.is_many() {
            return Err(io::Error::other(
                "an inline application needs a dataplane with one core",
            ));
        }
        let (session, _) = self.joined(0, "inline", Rights::all(), Protection::Inline)?;
        Ok(session)
    }

    /// An application in this process, behind protection keys. Its end lies in ordinary memory.
    /// Returns its place in the table of applications too.
    ///
    /// # Errors
    /// Errors of [`Engine::inline`].
    pub(crate) fn guest(
        &mut self,
        client: u8,
        name: &str,
        rights: Rights,
    ) -> io::Result<(Session, u8)> {
        self.joined(client, name, rights, Protection::Pkey)
    }

    fn joined(
        &mut self,
        client: u8,
        name: &str,
        rights: Rights,
        protection: Protection,
    ) -> io::Result<(Session, u8)> {
        if self.cores.is_many() {
            return Err(io::Error::other(
                "an inline application needs a dataplane with one core",
            ));
        }
        let (domains, outside) = self.maker.make(client, name, rights, Arc::default())?;
        // The session belongs to the application.
        let session = ordinary(|| -> io::Result<Session> {
            let sizes = outside.sizes.clone();
            Ok(Session::new(Outside { sizes, ..outside }.map()?, None))
        })?;
        let mut place = 0;
        for mut domain in domains {
            place = domain.seat().place;
            domain.set_protection(protection);
            self.attach(Box::new(domain));
        }
        Ok((session, place))
    }

    /// Ends the application in a place for a fault, with its description.
    pub(crate) fn terminate(&mut self, place: u8, fault: String) {
        if let Some(domain) = self.domains.get_mut(place) {
            domain.terminate_faulty(fault);
        }
    }

    pub(super) fn attach(&mut self, domain: Box<Domain>) {
        self.tally.attached += u64::from(self.domains.insert(domain));
    }
}
