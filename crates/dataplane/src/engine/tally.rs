//! What the loop counts, and where its time goes.

use super::clock::cycles;
use cofferdam_netstack::FLOW_GROUPS;
use cofferdam_xsk::PortCounters;

/// A part of a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Frames back from the device, free ones to it.
    Reclaim,
    /// The applications' calls.
    Calls,
    /// Timers.
    Timers,
    /// Packets taken off the ring.
    Receive,
    /// The network stack.
    Process,
    /// Event conditions handed out.
    Conditions,
    /// The application, where it runs on the same thread.
    Application,
    /// Packets built.
    Transmit,
    /// The system call that sends them.
    Flush,
}

impl Stage {
    /// All, in the loop's order.
    pub const ALL: [Stage; 9] = [
        Stage::Reclaim,
        Stage::Calls,
        Stage::Timers,
        Stage::Receive,
        Stage::Process,
        Stage::Conditions,
        Stage::Application,
        Stage::Transmit,
        Stage::Flush,
    ];

    /// Its name in metrics and tables.
    pub fn name(self) -> &'static str {
        match self {
            Stage::Reclaim => "reclaim",
            Stage::Calls => "calls",
            Stage::Timers => "timers",
            Stage::Receive => "receive",
            Stage::Process => "process",
            Stage::Conditions => "conditions",
            Stage::Application => "application",
            Stage::Transmit => "transmit",
            Stage::Flush => "flush",
        }
    }
}

/// An attached application, as counted.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct ApplicationTally {
    /// Its name in the configuration.
    pub name: String,
    /// Its protection domain: `process`, `pkey` or `inline`.
    pub domain: &'static str,
    /// Its place in every core's table.
    #[serde(skip)]
    pub place: u8,
    /// Its connections.
    pub connections: u32,
    /// Received frames that it has not returned.
    pub held_frames: u32,
}

/// A flow group with connections, or that had some.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct GroupTally {
    /// Its number, `0..`[`cofferdam_netstack::FLOW_GROUPS`].
    pub group: u8,
    /// The core that has it.
    pub core: u8,
    /// Connections that it has now; those in TIME_WAIT are not counted.
    pub connections: u32,
    /// TCP segments received for them since the start.
    pub segments: u64,
}

/// Counts since the start.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    /// Turns in which packets came.
    pub batches: u64,
    /// Turns in which nothing was to be done.
    pub empty_turns: u64,
    /// Packets received.
    pub received: u64,
    /// Packets sent.
    pub sent: u64,
    /// Payload sent, bytes.
    pub sent_payload_bytes: u64,
    /// Of that, what the loop copied into packets; the rest went from where the application wrote it.
    pub copied_payload_bytes: u64,
    /// Batches of 1, 2, 3 to 4, 5 to 8, … 129 to 256 packets.
    pub batch_sizes: [u64; 9],
    /// Packets that waited when a batch had been taken, summed: over `batches` the mean queue.
    pub queued: u64,
    /// Packets that were found waiting with each packet, itself included, summed over packets: over
    /// those received and steered in it is the mean queue that a packet sees.
    pub waited: u64,
    /// Time in turns in which packets were taken, in cycles of the time-stamp counter.
    pub packet_cycles: u64,
    /// Packets were taken in this turn.
    took: bool,
    /// Calls done.
    pub calls: u64,
    /// Conditions handed out.
    pub conditions: u64,
    /// Applications woken.
    pub wakeups: u64,
    /// Times the loop slept.
    pub sleeps: u64,
    /// Calls that named an object that had ended.
    pub stale_calls: u64,
    /// Connections ended because the application sent more than its window.
    pub overruns: u64,
    /// Datagrams dropped because the application kept too many frames.
    pub over_quota: u64,
    /// Times an application had all the frames it may, and its peers' windows were closed.
    pub readers_stopped: u64,
    /// Times a packet could not be built for lack of a frame.
    pub out_of_frames: u64,
    /// Connections refused: the application is at its limit, or the table is full.
    pub connections_refused: u64,
    /// Timers refused, and reported as due at once: their application has as many as it may.
    pub timers_refused: u64,
    /// Datagrams that could not be sent.
    pub datagrams_refused: u64,
    /// Sends that the device refused.
    pub flush_errors: u64,
    /// Packets passed on to the core of their flow group, and received so.
    pub steered_out: u64,
    /// See `steered_out`.
    pub steered_in: u64,
    /// Packets lost on the way: the other core was too far behind.
    pub steering_lost: u64,
    /// Flow groups that came from another core, and their connections.
    pub groups_moved: u64,
    /// See `groups_moved`.
    pub connections_moved: u64,
    /// Connections that found no room on the core that their group went to.
    pub connections_lost: u64,
    /// Applications that attached, ended, were ended for an offence.
    pub attached: u64,
    /// See `attached`.
    pub ended: u64,
    /// See `attached`.
    pub offences: u64,
    /// Application and reason of the last offence.
    pub last_offence: Option<String>,
    /// Its number among those of all cores.
    pub(crate) offence_number: u64,
    /// Time in turns without work, in cycles of the time-stamp counter.
    pub idle_cycles: u64,
    /// Time in each stage of turns with work, in the same unit.
    pub stage_cycles: [u64; Stage::ALL.len()],
    /// Free frames.
    pub free_frames: u32,
    /// The counters of all ports.
    pub port: PortCounters,
    /// Those of each device, in order.
    pub devices: Vec<PortCounters>,
    /// The network stack's counters, by name.
    pub stack: Vec<(&'static str, u64)>,
    /// The attached applications.
    pub applications: Vec<ApplicationTally>,
    /// Flow groups that had something to do, by number.
    pub groups: Vec<GroupTally>,
    /// Packets of each flow group that this core had, TCP or not; counted on several cores only.
    pub(crate) group_packets: GroupPackets,
}

/// A number for each flow group.
#[derive(Clone, Copy, Debug)]
pub(crate) struct GroupPackets(pub [u64; FLOW_GROUPS as usize]);

impl Default for GroupPackets {
    fn default() -> GroupPackets {
        GroupPackets([0; FLOW_GROUPS as usize])
    }
}

impl GroupPackets {
    #[inline]
    pub fn count(&mut self, group: u8) {
        if let Some(count) = self.0.get_mut(usize::from(group)) {
            *count += 1;
        }
    }
}

/// One core, in short.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct CoreTally {
    /// Its number.
    pub core: u8,
    /// The CPU that it is bound to.
    pub cpu: Option<usize>,
    /// Flow groups that it has.
    pub groups: u32,
    /// Connections of these groups.
    pub connections: u32,
    /// Packets received from the device here.
    pub received_packets: u64,
    /// Packets passed to the device here.
    pub sent_packets: u64,
    /// Packets that came from another core.
    pub steered_in_packets: u64,
    /// Time in turns with work, in cycles of the time-stamp counter.
    pub busy_cycles: u64,
    /// Time in turns without work, in the same unit; asleep it counts neither.
    pub idle_cycles: u64,
    /// Times it slept.
    pub sleeps: u64,
    /// What a packet waited before the core took it, in the control plane's last interval, by
    /// estimate: the queue that it saw × the mean time a packet. 0 without packets.
    pub queue_delay_ns: u64,
}

impl Tally {
    /// Adds what another core of the same dataplane has counted.
    pub(crate) fn add(&mut self, other: &Tally) {
        for (to, from) in self.numbers().into_iter().zip(other.clone().numbers()) {
            *to += *from;
        }
        for (to, from) in self.batch_sizes.iter_mut().zip(other.batch_sizes) {
            *to += from;
        }
        for (to, from) in self.stage_cycles.iter_mut().zip(other.stage_cycles) {
            *to += from;
        }
        // Each application attaches to every core, and has ended when all have forgotten it.
        self.attached = self.attached.max(other.attached);
        self.ended = self.ended.min(other.ended);
        if other.offence_number > self.offence_number {
            self.offence_number = other.offence_number;
            self.last_offence.clone_from(&other.last_offence);
        }
        self.free_frames += other.free_frames;
        for (to, from) in self.devices.iter_mut().zip(&other.devices) {
            *to = to.with(from);
        }
        for (to, from) in self.stack.iter_mut().zip(&other.stack) {
            to.1 += from.1;
        }
        for from in &other.applications {
            match self.applications.iter_mut().find(|a| a.place == from.place) {
                Some(to) => {
                    to.connections += from.connections;
                    to.held_frames += from.held_frames;
                }
                None => self.applications.push(from.clone()),
            }
        }
        for from in &other.groups {
            match self.groups.iter_mut().find(|g| g.group == from.group) {
                Some(to) => {
                    to.connections += from.connections;
                    to.segments += from.segments;
                }
                None => self.groups.push(*from),
            }
        }
        self.groups.sort_by_key(|g| g.group);
        for (to, from) in (self.group_packets.0.iter_mut()).zip(other.group_packets.0) {
            *to += from;
        }
    }

    /// Time in turns with work, in cycles.
    pub(crate) fn busy_cycles(&self) -> u64 {
        self.stage_cycles.iter().sum()
    }

    /// Packets taken from the device and from other cores.
    pub(crate) fn packets(&self) -> u64 {
        self.received + self.steered_in
    }

    /// Counts what `packets` packets saw when they were taken: themselves, and `left` behind them.
    #[inline]
    pub(super) fn count_wait(&mut self, packets: u64, left: u32) {
        self.waited += packets * (packets + u64::from(left));
        self.took = true;
    }

    /// The counters that cores' sums are made of.
    fn numbers(&mut self) -> [&mut u64; 35] {
        let port = &mut self.port;
        [
            &mut self.batches,
            &mut self.empty_turns,
            &mut self.received,
            &mut self.sent,
            &mut self.sent_payload_bytes,
            &mut self.copied_payload_bytes,
            &mut self.queued,
            &mut self.waited,
            &mut self.packet_cycles,
            &mut self.calls,
            &mut self.conditions,
            &mut self.wakeups,
            &mut self.sleeps,
            &mut self.stale_calls,
            &mut self.overruns,
            &mut self.over_quota,
            &mut self.readers_stopped,
            &mut self.out_of_frames,
            &mut self.connections_refused,
            &mut self.timers_refused,
            &mut self.datagrams_refused,
            &mut self.flush_errors,
            &mut self.steered_out,
            &mut self.steered_in,
            &mut self.steering_lost,
            &mut self.groups_moved,
            &mut self.connections_moved,
            &mut self.connections_lost,
            &mut self.offences,
            &mut self.idle_cycles,
            &mut port.lost_packets,
            &mut port.refused_packets,
            &mut port.large_packets,
            &mut port.received_packets,
            &mut port.system_calls,
        ]
    }

    /// Begins a turn.
    pub(super) fn start(&self) -> Stages {
        Stages {
            last: cycles(),
            spent: [0; Stage::ALL.len()],
        }
    }

    pub(super) fn count_batch(&mut self, got: usize, pending: u32) {
        if got == 0 {
            return;
        }
        self.batches += 1;
        self.received += got as u64;
        self.queued += u64::from(pending);
        self.count_wait(got as u64, pending);
        let class = got.next_power_of_two().trailing_zeros() as usize;
        if let Some(count) = self.batch_sizes.get_mut(class) {
            *count += 1;
        }
    }
}

/// Measures the stages of one turn.
pub(super) struct Stages {
    last: u64,
    spent: [u64; Stage::ALL.len()],
}

impl Stages {
    /// The time since the last stage's end was this stage's.
    #[inline]
    pub fn end(&mut self, stage: Stage) {
        let now = cycles();
        self.spent[stage as usize] += now.wrapping_sub(self.last);
        self.last = now;
    }

    /// Adds the turn to the tally: an empty one would hide what a packet costs.
    pub fn count(self, tally: &mut Tally, had_work: bool) {
        if !had_work {
            tally.idle_cycles += self.spent.iter().sum::<u64>();
            return;
        }
        if std::mem::take(&mut tally.took) {
            tally.packet_cycles += self.spent.iter().sum::<u64>();
        }
        for (total, spent) in tally.stage_cycles.iter_mut().zip(self.spent) {
            *total += spent;
        }
    }
}
