//! Counts of the loop, and the time of its stages.

use super::clock::cycles;
use cofferdam_netstack::FLOW_GROUPS;
use cofferdam_xsk::PortCounters;

/// A part of a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Takes frames from the devices and gives them free ones.
    Reclaim,
    /// Executes the applications' calls.
    Calls,
    /// Runs the timers.
    Timers,
    /// Takes packets off the ring.
    Receive,
    /// Processes packets in the network stack.
    Process,
    /// Delivers event conditions.
    Conditions,
    /// Runs the application, if it is on the same thread.
    Application,
    /// Builds packets.
    Transmit,
    /// Makes the system call that sends them.
    Flush,
}

impl Stage {
    /// All stages, in the loop's order.
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

    /// Name in metrics and tables.
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

/// Counts of an attached application.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct ApplicationTally {
    /// Name in the configuration.
    pub name: String,
    /// Protection domain: `process`, `pkey` or `inline`.
    pub domain: &'static str,
    /// Place in every core's table.
    #[serde(skip)]
    pub place: u8,
    /// Present connections.
    pub connections: u32,
    /// Received frames that it has not released.
    pub held_frames: u32,
}

/// Counts of a flow group that has, or had, connections.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct GroupTally {
    /// Number, `0..`[`cofferdam_netstack::FLOW_GROUPS`].
    pub group: u8,
    /// Core that has the group.
    pub core: u8,
    /// Present connections, without those in TIME_WAIT.
    pub connections: u32,
    /// TCP segments received for them since the start.
    pub segments: u64,
}

/// Counts since the start.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    /// Turns in which packets arrived.
    pub batches: u64,
    /// Turns without work.
    pub empty_turns: u64,
    /// Packets received.
    pub received: u64,
    /// Packets sent.
    pub sent: u64,
    /// Bytes of payload sent.
    pub sent_payload_bytes: u64,
    /// Bytes of payload that the loop copied into packets; the rest went out from the application's
    /// memory.
    pub copied_payload_bytes: u64,
    /// Batches of 1, 2, 3 to 4, 5 to 8, … 129 to 256 packets.
    pub batch_sizes: [u64; 9],
    /// Sum of the packets that were pending after each batch; divided by `batches`, the mean queue.
    pub queued: u64,
    /// Sum over packets of the packets pending at their arrival, themselves included. Divided by
    /// the packets received and steered in, it is the mean queue that a packet sees.
    pub waited: u64,
    /// Time in turns in which packets were taken, in cycles of the time-stamp counter.
    pub packet_cycles: u64,
    /// Whether packets were taken in this turn.
    took: bool,
    /// Calls executed.
    pub calls: u64,
    /// Conditions delivered.
    pub conditions: u64,
    /// Wake-ups of applications.
    pub wakeups: u64,
    /// Times that the loop slept.
    pub sleeps: u64,
    /// Calls for an object that had ended.
    pub stale_calls: u64,
    /// Connections ended because the application sent beyond its window.
    pub overruns: u64,
    /// Datagrams dropped because the application had too many frames.
    pub over_quota: u64,
    /// Times that an application had all the frames that it may, so that its peers' windows were
    /// closed.
    pub readers_stopped: u64,
    /// Times that no frame was free for a packet.
    pub out_of_frames: u64,
    /// Connections refused because the application is at its limit, or the table is full.
    pub connections_refused: u64,
    /// Connections reset because they rested and a newcomer needed a place.
    pub connections_evicted: u64,
    /// Timers that fired at once because the application is at its limit.
    pub timers_refused: u64,
    /// Datagrams that could not be sent.
    pub datagrams_refused: u64,
    /// Sends that the device refused.
    pub flush_errors: u64,
    /// Packets passed to the core of their flow group.
    pub steered_out: u64,
    /// Packets received from other cores.
    pub steered_in: u64,
    /// Packets lost because the other core was too far behind.
    pub steering_lost: u64,
    /// Flow groups that came from another core.
    pub groups_moved: u64,
    /// Connections of these groups.
    pub connections_moved: u64,
    /// Connections that did not fit on the new core of their group.
    pub connections_lost: u64,
    /// Applications that attached.
    pub attached: u64,
    /// Applications that ended.
    pub ended: u64,
    /// Applications that were ended for an offence.
    pub offences: u64,
    /// Name of the application and reason of the last offence.
    pub last_offence: Option<String>,
    /// Number of the last offence among those of all cores.
    pub(crate) offence_number: u64,
    /// Time in turns without work, in cycles of the time-stamp counter.
    pub idle_cycles: u64,
    /// Cycles in each stage of turns with work.
    pub stage_cycles: [u64; Stage::ALL.len()],
    /// Free frames.
    pub free_frames: u32,
    /// Sum of the counters of all ports.
    pub port: PortCounters,
    /// Counters of each device, in order.
    pub devices: Vec<PortCounters>,
    /// Counters of the network stack, by name.
    pub stack: Vec<(&'static str, u64)>,
    /// Attached applications.
    pub applications: Vec<ApplicationTally>,
    /// Flow groups with traffic, by number.
    pub groups: Vec<GroupTally>,
    /// Packets of each flow group of this core, TCP or not; counted only with several cores.
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

/// Summary of one core.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct CoreTally {
    /// Number of the core.
    pub core: u8,
    /// CPU that it is bound to.
    pub cpu: Option<usize>,
    /// Flow groups that it has.
    pub groups: u32,
    /// Connections of these groups.
    pub connections: u32,
    /// Packets that this core received from the device.
    pub received_packets: u64,
    /// Packets that this core passed to the device.
    pub sent_packets: u64,
    /// Packets from other cores.
    pub steered_in_packets: u64,
    /// Time in turns with work, in cycles of the time-stamp counter.
    pub busy_cycles: u64,
    /// Time in turns without work, in the same unit. Sleep counts in neither.
    pub idle_cycles: u64,
    /// Times that the loop slept.
    pub sleeps: u64,
    /// Estimated time that a packet waited before the core took it, in the control plane's last
    /// interval: the queue that it saw × the mean time of a packet. 0 without packets.
    pub queue_delay_ns: u64,
}

impl Tally {
    /// Adds the counts of another core of the same dataplane.
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

    /// Packets from the device and from other cores.
    pub(crate) fn packets(&self) -> u64 {
        self.received + self.steered_in
    }

    /// Records the queue that `packets` packets saw: themselves, and `left` packets behind them.
    #[inline]
    pub(super) fn count_wait(&mut self, packets: u64, left: u32) {
        self.waited += packets * (packets + u64::from(left));
        self.took = true;
    }

    /// Counters that are added over cores.
    fn numbers(&mut self) -> [&mut u64; 36] {
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
            &mut self.connections_evicted,
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

    /// Starts a turn.
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

/// Clock of the stages of one turn.
pub(super) struct Stages {
    last: u64,
    spent: [u64; Stage::ALL.len()],
}

impl Stages {
    /// Assigns the time since the previous stage's end to `stage`.
    #[inline]
    pub fn end(&mut self, stage: Stage) {
        let now = cycles();
        self.spent[stage as usize] += now.wrapping_sub(self.last);
        self.last = now;
    }

    /// Adds the turn to the tally. Turns without work are counted apart, because they would distort
    /// the cost of a packet.
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
