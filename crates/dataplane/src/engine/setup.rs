//! Setting a dataplane up: its settings, its cores, and what other threads hold of it.

use super::calls;
use super::cores::{Cores, Hub, MOST_CORES};
use super::domain::{Domain, Share};
use super::idle::Idle;
use super::owners::Owners;
use super::shares::Pools;
use super::{Engine, Life, MOST_APPLICATIONS, MOST_BATCH, Tally};
use crate::channel::{Outside, channel};
use crate::handle;
use crate::policy::{Rights, Shares};
use crate::session::Session;
use cofferdam_netstack::{Config, ConfigError, Stack, Time};
use cofferdam_xsk::{Frame, FrameFacts, Memory, Packet, Port};
use std::io;
use std::sync::Arc;
use std::sync::mpsc::Receiver;
use std::time::Duration;

/// Settings of the loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Packets taken in one turn at most (IX's B); 1 to 256, default 64.
    pub batch: u32,
    /// Longest time to poll for packets before sleeping; default 20 ms. How long it really polls
    /// follows the traffic.
    pub spin: Duration,
    /// Memory that each application sends from; default 16 MiB.
    pub area_bytes: u32,
    /// Frames of an application's own that received data is copied into, so that it cannot see
    /// others' data nor keep their frames; `None`: it reads the dataplane's frames in place.
    pub private_frames: Option<u32>,
    /// Give the CPU away after each batch of conditions: for applications on the same CPU.
    pub yields: bool,
    /// Cores that share the flow groups at the start, the first ones; `None`: all.
    pub first_cores: Option<u8>,
    /// What part of the tables each application is guaranteed. Default: one application.
    pub shares: Shares,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            batch: 64,
            spin: Duration::from_millis(20),
            area_bytes: 16 << 20,
            private_frames: None,
            yields: false,
            first_cores: None,
            shares: Shares::equal(1),
        }
    }
}

/// What other threads ask of a loop.
pub(crate) enum Order {
    /// Serve this application.
    Attach(Box<Domain>),
    /// Take this flow group from the core that has it.
    Fetch(u8),
    /// Look up: something has changed that the loop checks each turn.
    Look,
}

/// Makes the sides of an application; the domains go to the loops by [`Order::Attach`].
pub(crate) struct Maker {
    hub: Arc<Hub>,
    memory: FrameFacts,
    options: Options,
    share: Share,
}

impl Maker {
    /// One domain a core, in the cores' order, and the application's side. `client` is its place
    /// among those of the configuration.
    pub fn make(
        &self,
        client: u8,
        name: &str,
        rights: Rights,
        life: Arc<Life>,
    ) -> io::Result<(Vec<Domain>, Outside)> {
        let seat = self
            .hub
            .seat(client, self.options.shares.count())
            .ok_or_else(|| io::Error::other("it already serves as many applications as it can"))?;
        let (inside, mut outside) = channel(
            &self.memory,
            self.options.area_bytes,
            self.options.private_frames,
            self.share.ranges,
            self.hub.doors(),
        )?;
        outside.sizes.owners = self.hub.owners();
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

/// A dataplane that cannot be set up.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    /// The network stack refuses its settings.
    #[error("the dataplane's network settings: {0}")]
    Config(#[from] ConfigError),
    /// A setting of the loop.
    #[error("{0}")]
    Options(&'static str),
    /// No memory or no descriptors.
    #[error("cannot set the dataplane up: {0}")]
    Os(#[from] io::Error),
}

impl<P: Port> Engine<P> {
    /// A dataplane of one core. Sets everything up; after this the loop allocates nothing.
    pub fn new(
        port: P,
        memory: Memory,
        config: Config,
        options: Options,
    ) -> Result<Engine<P>, EngineError> {
        let mut one = Engine::several(vec![(port, memory)], &config, options)?;
        one.pop()
            .ok_or(EngineError::Options("a dataplane needs a core"))
    }

    /// A dataplane of several cores, one for each port; the memories are the parts of one
    /// ([`Memory::split`]), in order. Each loop is to be driven by a thread of its own.
    pub fn several(
        ports: Vec<(P, Memory)>,
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
        let (hub, orders) = Hub::new(ports.len(), options.first_cores)?;
        let cores = Cores::joined(&hub, config.limits.connections);
        let parts = ports.into_iter().zip(cores).zip(orders);
        parts
            .map(|(((port, memory), cores), orders)| {
                Engine::one(port, memory, cores, orders, config.clone(), options)
            })
            .collect()
    }

    fn one(
        port: P,
        memory: Memory,
        cores: Cores,
        orders: Receiver<Order>,
        mut config: Config,
        options: Options,
    ) -> Result<Engine<P>, EngineError> {
        // Three eighths for an application that reads in place, a quarter for the stack; what is
        // left is for what arrives and what is sent, however greedy both are.
        config.limits.kept = (memory.own_frames() / 4).max(4);
        let limits = config.limits;
        // Its session keeps to it: it is told the number once, so nothing of it is lent.
        let attached = u32::from(options.shares.count()).min(MOST_APPLICATIONS as u32);
        let clock = cores.hub.clock;
        let empty = Packet {
            frame: Frame(0),
            start: 0,
            len: 0,
        };
        let mut stack = Stack::new(config, clock.now())?;
        stack.set_owned_groups(cores.own_groups());
        Ok(Engine {
            share: Share {
                frames: memory.own_frames() / 8 * 3,
                ranges: (limits.chunks / 2 / attached.max(1)).max(1),
            },
            pools: Pools::new(&limits, &options.shares),
            stack,
            owners: Owners::new(limits.connections),
            bounds: (0..limits.listeners + limits.udp)
                .map(|_| None)
                .collect::<Vec<Option<calls::Bound>>>(),
            batch: vec![empty; options.batch as usize],
            domains: (0..MOST_APPLICATIONS).map(|_| None).collect(),
            unsent: None,
            is_stuck: false,
            idle: Idle::new(options.spin),
            tally: Tally::default(),
            since_shown: Time::ZERO,
            port,
            memory,
            clock,
            options,
            orders,
            cores,
        })
    }

    /// What other threads hold of all the cores.
    pub(crate) fn hub(&self) -> Arc<Hub> {
        self.cores.hub.clone()
    }

    /// What makes applications' domains, for another thread.
    pub(crate) fn maker(&self) -> Maker {
        Maker {
            hub: self.hub(),
            memory: self.memory.facts(),
            options: self.options,
            share: self.share,
        }
    }

    /// An application in this process: unprotected, on the loop's own thread.
    ///
    /// # Errors
    /// No memory, no descriptors or no place left; a dataplane of several cores.
    pub fn inline(&mut self) -> io::Result<Session> {
        if self.cores.is_many() {
            return Err(io::Error::other(
                "an inline application needs a dataplane with one core",
            ));
        }
        let (domains, outside) = self
            .maker()
            .make(0, "inline", Rights::all(), Arc::default())?;
        let session = Session::new(outside.map()?, None);
        for domain in domains {
            self.attach(Box::new(domain));
        }
        Ok(session)
    }

    pub(super) fn attach(&mut self, domain: Box<Domain>) {
        if let Some(place) = self.domains.get_mut(usize::from(domain.seat.place)) {
            *place = Some(domain);
            self.tally.attached += 1;
        }
    }
}
