//! The stack: tables of connections, listeners and neighbours, and its public operations.

mod adjust;
mod app_timers;
mod connection;
mod connections;
mod cookies;
mod datagrams;
mod due;
mod echo;
mod events;
mod fast_open;
mod flows;
mod fragment;
mod groups;
mod icmp;
mod info;
mod links;
mod listen;
mod listeners;
mod neighbour;
mod pmtu;
mod ports;
mod ranges;
mod readers;
mod reading;
mod receive;
mod replies;
mod resolve;
mod route;
mod steer;
mod table_updates;
mod tcp_calls;
mod tcp_in;
mod tcp_replies;
mod timers;
mod transmit;
mod udp;

pub use connections::GroupUsage;
pub use groups::FlowGroup;
pub use info::{ConnectionInfo, Repair, Usage};
pub use steer::Steering;

use crate::api::{Config, ConfigError, Counters, Time};
use crate::flow::FlowKey;
use crate::tcp::isn::Numbers;
use crate::tcp::state::Tcb;
use crate::tcp::syncookie::Cookies;
use crate::tcp::timewait::TimeWait;
use app_timers::AppTimers;
use connections::Connections;
use flows::Flows;
use ports::Ports;
use ranges::Ranges;
use timers::Timers;

/// TCP/IP for one core. The crate's documentation describes the caller's loop.
#[derive(Debug)]
pub struct Stack {
    config: Config,
    counters: Counters,
    routes: route::Routes,
    numbers: Numbers,
    cookies: Cookies,

    connections: Connections,
    flows: Flows,
    ports: Ports,
    time_wait: TimeWait,
    listeners: listeners::Listeners,
    readers: readers::Readers,
    ranges: Ranges,

    udp: udp::Udp,
    app_timers: AppTimers,
    neighbours: neighbour::Neighbours,
    paths: pmtu::Paths,
    servers: fast_open::Servers,
    fragments: fragment::Reassembly,
    fragment_ids: fragment::Ids,
    replies: replies::Replies,
    timers: Timers,
}

impl Stack {
    /// A stack with these settings. Allocates all the memory that it will ever use.
    ///
    /// # Errors
    ///
    /// If the settings are invalid.
    pub fn new(config: Config, now: Time) -> Result<Self, ConfigError> {
        config.check()?;
        let routes = route::Routes::new(&config)?;
        let limits = config.limits;
        let closed = Tcb::new(FlowKey::default(), &config.tcp, 536, now);
        Ok(Self {
            counters: Counters::default(),
            routes,
            numbers: Numbers::new(&config.secret),
            cookies: Cookies::new(&config.secret),
            connections: Connections::new(limits.connection_places(), closed),
            flows: Flows::new(limits.connection_places(), limits.time_wait, &config.secret),
            ports: Ports::new(&config.secret),
            time_wait: TimeWait::new(limits.time_wait),
            listeners: listeners::Listeners::new(limits.listeners, &config.secret),
            readers: readers::Readers::new(limits.connection_places()),
            ranges: Ranges::new(limits.chunks),
            udp: udp::Udp::new(&limits, &config.secret),
            app_timers: AppTimers::new(limits.timers),
            neighbours: neighbour::Neighbours::new(limits.neighbours, &config.secret),
            paths: pmtu::Paths::new(&config.secret),
            servers: fast_open::Servers::new(&config.secret),
            fragments: fragment::Reassembly::new(limits.reassemblies),
            fragment_ids: fragment::Ids::new(&config.secret),
            replies: replies::Replies::new(limits.replies, now),
            timers: Timers::new(&limits, now),
            config,
        })
    }

    /// Current settings.
    pub const fn config(&self) -> &Config {
        &self.config
    }

    /// Counters since the start.
    pub const fn counters(&self) -> &Counters {
        &self.counters
    }
}
