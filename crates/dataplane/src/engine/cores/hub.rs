//! State that the loops of one dataplane and its control plane share. Packets do not touch it.

use crate::bell::Doors;
use crate::engine::clock::Clock;
use crate::engine::domain::Domain;
use crate::engine::order::Order;
use crate::engine::seats::{Seat, Seats};
use crate::engine::tally::Tally;
use crate::policy::MOST_CLIENTS;
use crate::ringer::Trust;
use cofferdam_netstack::FLOW_GROUPS;
use nix::sys::eventfd::{EfdFlags, EventFd};
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};

/// One core's loop, for other threads.
pub(crate) struct Remote {
    orders: Sender<Order>,
    pub(in crate::engine) bell: EventFd,
    pub(in crate::engine) shown: Mutex<Tally>,
    /// Whether the loop sleeps, or is about to.
    pub(in crate::engine) sleeps: AtomicBool,
}

/// State shared by the loops and the control plane of one dataplane.
pub(crate) struct Hub {
    pub(in crate::engine) clock: Clock,
    pub(in crate::engine) cores: Vec<Remote>,
    /// Doors of the applications to each core.
    doors: Vec<Arc<Doors>>,
    /// Core of each flow group after its last move. Each core has a table of its own.
    owners: [AtomicU8; FLOW_GROUPS as usize],
    /// Rung when an application has ended.
    control: EventFd,
    /// Number of offences on all cores.
    offences: AtomicU64,
    seats: Mutex<Seats>,
    /// Trust in each configured application.
    trust: Vec<Arc<Trust>>,
    /// Applications that have ended. Unmapping and freeing their memory takes longer than the loop
    /// can wait.
    #[expect(
        clippy::vec_box,
        reason = "a loop hands over a pointer, not a copy of the domain"
    )]
    retired: Mutex<Vec<Box<Domain>>>,
}

/// Core of a flow group at the start: equal shares, in order.
fn first_owner(group: u8, cores: usize) -> u8 {
    (usize::from(group) * cores / usize::from(FLOW_GROUPS)) as u8
}

impl Hub {
    /// A hub for `cores` cores, and the orders for each. The first `in_use` of them share the flow
    /// groups; `None`: all.
    pub fn new(cores: usize, in_use: Option<u8>) -> io::Result<(Arc<Hub>, Vec<Receiver<Order>>)> {
        let in_use = in_use.map_or(cores, |n| usize::from(n).clamp(1, cores.max(1)));
        let (mut remotes, mut orders) = (Vec::new(), Vec::new());
        for _ in 0..cores {
            let (sender, receiver) = channel();
            orders.push(receiver);
            remotes.push(Remote {
                orders: sender,
                bell: EventFd::from_flags(EfdFlags::EFD_NONBLOCK | EfdFlags::EFD_CLOEXEC)?,
                shown: Mutex::default(),
                sleeps: AtomicBool::new(false),
            });
        }
        let mut group = 0;
        let owners = [(); FLOW_GROUPS as usize].map(|()| {
            group += 1;
            AtomicU8::new(first_owner(group - 1, in_use))
        });
        let hub = Hub {
            clock: Clock::new(),
            doors: remotes
                .iter()
                .map(|_| Doors::new())
                .collect::<io::Result<_>>()?,
            cores: remotes,
            control: EventFd::from_flags(EfdFlags::EFD_NONBLOCK | EfdFlags::EFD_CLOEXEC)?,
            owners,
            offences: AtomicU64::new(0),
            seats: Mutex::default(),
            trust: (0..MOST_CLIENTS).map(|_| Arc::default()).collect(),
            retired: Mutex::default(),
        };
        Ok((Arc::new(hub), orders))
    }

    /// Number of cores.
    pub fn count(&self) -> usize {
        self.cores.len()
    }

    /// Doors of the applications to each core.
    pub fn doors(&self) -> &[Arc<Doors>] {
        &self.doors
    }

    /// Sends an order to a core and wakes it. Returns false if the core has ended.
    pub fn order(&self, core: usize, order: Order) -> bool {
        let Some(remote) = self.cores.get(core) else {
            return false;
        };
        let sent = remote.orders.send(order).is_ok();
        // A full counter wakes as well.
        let _ = remote.bell.write(1);
        sent
    }

    /// Wakes the control plane, because an application has ended.
    pub fn wake_control(&self) {
        // A full counter wakes as well.
        let _ = self.control.write(1);
    }

    /// Descriptor that [`Hub::wake_control`] rings.
    pub fn control(&self) -> &EventFd {
        &self.control
    }

    /// Makes every core run the checks of a turn.
    pub fn wake_cores(&self) {
        for core in 0..self.count() {
            self.order(core, Order::Check);
        }
    }

    /// Published counts of each core.
    pub fn shown(&self) -> Vec<Tally> {
        let shown = |remote: &Remote| {
            let shown = remote.shown.lock();
            shown.unwrap_or_else(PoisonError::into_inner).clone()
        };
        self.cores.iter().map(shown).collect()
    }

    /// Core that has a flow group.
    pub fn owner(&self, group: u8) -> u8 {
        let owner = self.owners.get(usize::from(group));
        owner.map_or(0, |owner| owner.load(Ordering::Acquire))
    }

    /// Core of each flow group, by number.
    pub fn owners(&self) -> [u8; FLOW_GROUPS as usize] {
        std::array::from_fn(|group| self.owner(group as u8))
    }

    /// Records that a flow group has arrived at a core.
    pub(in crate::engine) fn record_owner(&self, group: u8, core: u8) {
        if let Some(owner) = self.owners.get(usize::from(group)) {
            owner.store(core, Ordering::Release);
        }
    }

    /// Next number of an offence, by which the last one of all cores is known.
    pub(in crate::engine) fn next_offence(&self) -> u64 {
        self.offences.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Retires an application to which nothing refers any more. Another thread calls [`Hub::bury`].
    pub(in crate::engine) fn retire(&self, domain: Box<Domain>) {
        let mut retired = self.retired.lock().unwrap_or_else(PoisonError::into_inner);
        retired.push(domain);
        drop(retired);
        self.wake_control();
    }

    /// Unmaps and frees the memory of applications that have ended.
    pub fn bury(&self) {
        let mut retired = self.retired.lock().unwrap_or_else(PoisonError::into_inner);
        let ended = std::mem::take(&mut *retired);
        drop(retired);
        ended.iter().for_each(|domain| domain.discard_at_end());
        drop(ended);
    }

    /// Trust of the loops in an application of the configuration.
    pub fn trust(&self, client: u8) -> Arc<Trust> {
        (self.trust.get(usize::from(client))).map_or_else(Arc::default, Arc::clone)
    }

    /// Takes a place for an application: see [`Seats::take`].
    pub fn seat(&self, client: u8, clients: u8) -> Option<Seat> {
        let mut seats = self.seats.lock().unwrap_or_else(PoisonError::into_inner);
        seats.take(client, clients)
    }
}
