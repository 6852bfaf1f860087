//! The stack: tables of connections, listeners and neighbours, and the doors in and out.

mod connection;
mod connections;
mod cookies;
mod echo;
mod events;
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
mod readers;
mod receive;
mod replies;
mod resolve;
mod route;
mod settle;
mod steer;
mod tcp_calls;
mod tcp_in;
mod tcp_replies;
mod timer;
mod transmit;
mod udp;

pub use groups::FlowGroup;
pub use info::{ConnectionInfo, GroupUsage, Repair, Usage};
pub use readers::READERS;
pub use steer::Steering;

use crate::api::*;
use crate::core::chunks::{Chunks, List};
use crate::core::wheel::Wheel;
use crate::flow::FlowKey;
use crate::tcp::isn::Numbers;
use crate::tcp::state::Tcb;
use crate::tcp::syncookie::Cookies;
use crate::tcp::timewait::TimeWait;
use connections::Connections;
use flows::Flows;

/// TCP/IP for one core. See the crate's documentation for how it is driven.
#[derive(Debug)]
pub struct Stack {
    config: Config,
    counters: Counters,
    routes: route::Routes,
    numbers: Numbers,
    cookies: Cookies,

    connections: Connections,
    flows: Flows,
    time_wait: TimeWait,
    listeners: listeners::Listeners,
    readers: readers::Readers,
    chunks: Chunks,
    released: List,
    /// Of the segment that is being made.
    payload: Payload,

    udp: udp::Udp,
    app_timers: timer::AppTimers,
    neighbours: neighbour::Neighbours,
    paths: pmtu::Paths,
    fragments: fragment::Reassembly,
    fragment_ids: fragment::Ids,
    replies: replies::Replies,
    wheel: Wheel,
}

/// What the rules of TCP may use, beside one connection.
macro_rules! context {
    ($stack:expr, $now:expr) => {
        crate::tcp::state::Context {
            now: $now,
            config: &$stack.config.tcp,
            chunks: &mut $stack.chunks,
            released: &mut $stack.released,
            counters: &mut $stack.counters,
            payload: &mut $stack.payload,
            reader_is_stopped: false,
            most_kept: $stack.config.limits.kept,
        }
    };
}
use context;

impl Stack {
    /// A stack with these settings. Takes all the memory it will ever use.
    ///
    /// # Errors
    /// When the settings cannot work.
    pub fn new(config: Config, now: Time) -> Result<Self, ConfigError> {
        config.check()?;
        let routes = route::Routes::new(&config)?;
        let limits = config.limits;
        let closed = Tcb::new(FlowKey::default(), &config.tcp, 536, now);
        let wheel = timer::Timers::of(&limits).count;
        Ok(Self {
            counters: Counters::default(),
            routes,
            numbers: Numbers::new(&config.secret),
            cookies: Cookies::new(&config.secret),
            connections: Connections::new(limits.connections, closed),
            flows: Flows::new(limits.connections, limits.time_wait, &config.secret),
            time_wait: TimeWait::new(limits.time_wait),
            listeners: listeners::Listeners::new(limits.listeners, &config.secret),
            readers: readers::Readers::new(limits.connections),
            chunks: Chunks::new(limits.chunks),
            released: List::default(),
            payload: Payload::default(),
            udp: udp::Udp::new(&limits, &config.secret),
            app_timers: timer::AppTimers::new(limits.timers),
            neighbours: neighbour::Neighbours::new(limits.neighbours, &config.secret),
            paths: pmtu::Paths::new(&config.secret),
            fragments: fragment::Reassembly::new(limits.reassemblies),
            fragment_ids: fragment::Ids::new(&config.secret),
            replies: replies::Replies::new(limits.replies, now),
            wheel: Wheel::new(wheel as usize, now.as_nanos()),
            config,
        })
    }

    /// The settings.
    pub const fn config(&self) -> &Config {
        &self.config
    }

    /// What happened so far.
    pub const fn counters(&self) -> &Counters {
        &self.counters
    }

    /// When [`Self::handle_timers`] next has something to do; may be early, never late.
    pub fn poll_at(&self) -> Option<Time> {
        self.wheel.next_ns().map(Time::from_nanos)
    }

    /// Our segment size for a family: what our SYN offers.
    fn our_mss(&self, v4: bool) -> u16 {
        let headers = crate::wire::ip::header_bytes(v4) + crate::wire::tcp::HEADER_BYTES;
        (self.config.mtu_bytes as usize - headers) as u16
    }
}
