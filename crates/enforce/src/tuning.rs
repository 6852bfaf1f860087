//! Every threshold and gain of the crate: its unit, where the value comes from, and what changes
//! when it is moved. "Measured" refers to the test machine of the book (two virtual CPUs,
//! Linux 6.18), "simulated" to `network/policy/simulation`.

/// Network CPU: which containers count, which pay, how fast debt is paid back.
pub(crate) mod network {
    use std::time::Duration;

    /// Part of a CPU. Others pay on a CPU when more than this part of it is charged to them.
    /// Above the accounting's scatter on an idle host (below 0.001, measured). Lower: means are put
    /// in place for noise; higher: small payers are left alone.
    pub const PAID_CPUS: f64 = 0.003;
    /// Part of a CPU. A container causes work on a CPU when its packets take more than this part of
    /// it; also the part of a quota from which its packets are charged to it. Lower: more containers
    /// are looked at in each step; higher: small offenders go free.
    pub const CAUSES_CPUS: f64 = 0.01;
    /// CPUs. A container whose packets take less, on all CPUs, is passed over without reading
    /// anything of it. Only the cost of a step depends on it.
    pub const COUNTS_CPUS: f64 = 0.001;
    /// A CPU stays one where others pay for this long: a limited offender shows up in bursts.
    /// Shorter: debt is not counted between bursts; longer: it is counted after the rival has gone.
    pub const PRESSED: Duration = Duration::from_millis(150);

    /// What a step adds to the average of what packets take of a CPU: the last fifty count.
    pub const CAUSED_NEW_PART: f64 = 0.02;
    /// CPUs. The CPU that a container is held to changes when its packets go so much further beyond its
    /// share on another: what was measured on the first says nothing about the second.
    pub const STAYS_WORST_CPUS: f64 = 0.05;

    /// Time constant of measured rates, seconds: three control periods of 20 ms. Shorter: the
    /// scatter of an interval reaches weights and buckets; longer: each correction comes later, and
    /// bucket and work swing against each other.
    pub const RATE_MEMORY_S: f64 = 0.06;
    /// Debt is paid back over this time. Shorter: more than a share is withheld after a
    /// start; longer: a rival waits longer for its time.
    pub const PAY_BACK: Duration = Duration::from_millis(500);
    /// The same of a container whose packets are a flood: no window collapses when more of it is dropped.
    pub const FLOOD_PAY_BACK: Duration = Duration::from_millis(200);
    /// What was used less than the share is kept for so long a time of the share. Measured rates
    /// scatter, and a container that is held to its share on average must be given the average.
    /// Longer: a container that slept may take more than its share for a while afterwards.
    pub const CREDIT: Duration = Duration::from_millis(20);
    /// The same while the means hold the container back: streams that lose packets stay below their
    /// limit. Simulated, 1,000 histories: with 20 ms the victims of some streams had up to 1.07 of
    /// what is fair; from 50 ms on 1.02; with 100 ms some had 0.96, because bursts get longer.
    pub const HELD_BACK_CREDIT: Duration = Duration::from_millis(50);
    /// A container counts as held back for so long after the means took something from it: as long
    /// as a stream that lost all is silent. Longer: a container that sleeps of its own accord keeps
    /// the credit.
    pub const HELD_BACK: Duration = Duration::from_millis(250);
    /// A weight is never lowered below this part of its own: the container must be able to run.
    pub const LOWEST_WEIGHT_PART: f64 = 0.02;
    /// A stream gets a NAPI thread once softirq work takes this part of its share while others wait, which leaves its
    /// weight nothing to take. Measured (streams received, weights alone): through a route, ten flows, 0.98 of the share,
    /// and the victim paid 1.16; over a plain veth, VXLAN and in a single flow 0.84 to 0.87, and 0.95 to 0.99. Lower: streams
    /// that a weight holds go through the ring of a thread; higher: those that it does not hold press others.
    pub const SPENT_PART: f64 = 0.93;
    /// … for so long, steps at which it takes less counted back. A stream that begins takes as much until its weight tells.
    pub const SPENT: Duration = Duration::from_millis(300);
    /// A weight below this, in its file's unit, has no room to be lowered, as that of a best-effort pod.
    pub const LEAST_WEIGHT: f64 = 10.0;
    /// A container with less than this part of its time on the CPUs where others pay runs elsewhere.
    pub const RUNS_THERE_PART: f64 = 0.05;
    /// A NAPI thread is put in place when softirq work takes this part of a container's share. TCP
    /// streams take 0.2 to 0.5 of it, floods all of it (measured). Lower: streams lose segmentation
    /// offload and wait for the thread where their weight alone would do (measured with 0: TCP sent over a
    /// bridge at 5 Gbit/s kept 0.86 of its goodput, with 0.6 all of it); higher: floods of a middling
    /// rate run in others' time, and only on average give it back.
    pub const BEYOND_WEIGHT_PART: f64 = 0.6;
    /// … for so long: a stream that begins takes as much for the moment of its slow start (measured: 40 to
    /// 60 ms). Shorter: streams get NAPI threads too; longer: floods run in others' time for longer.
    pub const BEYOND_WEIGHT: Duration = Duration::from_millis(200);
    /// A NAPI thread is not for a container whose sending takes this part of its network CPU: it has none of that
    /// work, and takes segmentation offload and quick acknowledgements from it. Lower: containers that
    /// receive less than they send are held by limits alone; higher: senders pay for a thread that helps nobody.
    pub const SENDER_PART: f64 = 0.5;
    /// Share that [`BEYOND_WEIGHT_PART`] is a part of while others pay and nobody waits, as beside those
    /// that sleep and wake: that of one of two.
    pub const NOBODY_WAITS_SHARE: f64 = 0.5;
    /// What a container leaves of its share is taken off the correction of its weight over this time,
    /// seconds. Shorter: the scatter of the measured rates reaches the weight; longer: a stream that
    /// begins waits longer for its weight, and one that wants more again has more for so long, which
    /// is debt.
    pub const SLACK_S: f64 = 0.1;
    /// CPUs of its share that a container may leave before any of it counts as left: the scatter.
    pub const SLACK_LEFT_CPUS: f64 = 0.01;
    /// Part of its share that a container's traffic always keeps: it must be able to end its
    /// connections, and to be seen. Lower: TCP falls silent for its retransmission timeout.
    pub const LOWEST_BUDGET_PART: f64 = 0.05;

    /// Part of its share by which a container's packets may go beyond their budget while its weight alone
    /// gives back what they take and it owes nothing: a limit on packets is for what a weight cannot hold,
    /// and a stream that loses packets gets less than its share. Simulated, 1,000 histories, with
    /// [`STREAM_BURST`]: 0.1 holds in all of them, with 0.2 and 0.3 one or two leave a bound. Measured (TCP
    /// received over a bridge, ten flows): penalty 0.82 without, 0.94 to 1.02 with it. Higher: what is owed
    /// before a limit acts grows.
    pub const ROOM_PART: f64 = 0.1;

    /// Part of its share that a container whose packets are streams may have to pay back at the moment before
    /// a limit acts on them; with half of it they have their share beside what is left of it. Simulated, 1,000
    /// histories: holds in all of them from 0.1 to 0.3. Measured (one stream received over a bridge, five pairs): penalty
    /// 0.85 [0.82, 1.07] with 0.1, and losses; 1.00 [0.92, 1.04] with 0.3. Higher: what is owed before a limit acts grows.
    pub const STREAM_ROOM_PART: f64 = 0.3;

    /// Part of its share up to which a container's packets have a stream's room whatever they are: its weight takes so little back
    /// at once. Measured: an executor of Spark that computes with all of its share lost the requests of its shuffle to a
    /// limit, and the job stood still for seconds. Higher: a flood that begins is limited later; lower: a job that
    /// communicates a little stalls.
    pub const MODEST_PART: f64 = 0.3;

    /// Of a quota that packets and tasks both want, each has this part. It decides which gives way
    /// under a quota, nothing else.
    pub const QUOTA_HALF: f64 = 0.5;
    /// Part of a quota that packets which pass always have, whatever it costs to drop the others: a
    /// flood must not silence the container that it floods.
    pub const QUOTA_QUARTER: f64 = 0.25;
    /// The kernel's default quota period (kernel/sched/fair.c, `default_cfs_period`), used where
    /// only a cgroup above has a quota.
    pub const QUOTA_PERIOD: Duration = Duration::from_millis(100);
    /// Containers whose file of CPU time stays open while they need a look; the files of others are opened
    /// for each. Bounds the descriptors that enforcement takes of the 1,024 that a process may have by default.
    pub const USAGE_FILES: usize = 128;
    /// How often quota files are read again: a quota may be set or lifted at any time. Only
    /// the cost of a step and the delay of a new quota depend on it.
    pub const QUOTA_LOOK: Duration = Duration::from_secs(1);

    /// Relative change from which a weight is written again, and the shortest time between two
    /// writes. Finer: more writes for the same share; coarser: the share is off by as much.
    pub const WEIGHT_STEP: f64 = 0.03;
    /// See [`WEIGHT_STEP`]: below the control period, so that every step may write.
    pub const WEIGHT_INTERVAL: Duration = Duration::from_millis(15);
    /// Relative change from which a quota is written again. Writing a quota refills it (measured: a
    /// quota of 0.2 rewritten every 20 ms gave 0.44), so it is written seldom.
    pub const QUOTA_STEP: f64 = 0.1;
    /// Shortest time between two writes of a quota; see [`QUOTA_STEP`].
    pub const QUOTA_INTERVAL: Duration = Duration::from_millis(500);
    /// Smallest quota that the kernel takes, microseconds (kernel/sched/core.c,
    /// `min_cfs_quota_period`).
    pub const LOWEST_QUOTA_US: f64 = 1_000.0;

    /// What a container may save up in its bucket. Longer lets bursts through; shorter drops TCP's
    /// normal bursts.
    pub const BURST: Duration = Duration::from_millis(10);
    /// The same of what comes in full segments, without a flood. The drop probability of a bucket that
    /// overdraws rises over as much: with [`BURST`] a stream that begins beside somebody lost whole windows
    /// and was silent for 200 ms and more (traced). Simulated: with 40 ms and more a few in 1,000 victims
    /// pay for it.
    pub const STREAM_BURST: Duration = Duration::from_millis(20);
    /// With fewer packets in a step, passed and dropped, nothing is learned of what one costs.
    pub const FEW_PACKETS: f64 = 20.0;
    /// What a container sends is limited too where it makes up this part of its network CPU.
    pub const SENDS_PART: f64 = 0.1;
    /// Received packets from this mean size on, in bytes, are a stream's: full segments.
    pub const LARGE_BYTES: u64 = 1_000;
    /// A stream has at least one packet come back for so many. Measured (TCP received, segments put together on the way): one
    /// for 9 to 370; a UDP flood, none. Lower: a stream that is seldom acknowledged is held as a flood; higher: a
    /// flood of large packets is given a stream's room (measured through NAT: 0.6 s until it was limited).
    pub const ANSWERED: f64 = 2_000.0;
    /// Packets dropped in a step from which a container is flooded, when as many were dropped as
    /// passed. TCP slows down and loses far fewer.
    pub const FLOOD_PACKETS: u64 = 100;
    /// So many steps in a row are a flood. See [`FLOOD_PACKETS`].
    pub const FLOOD_STEPS: u32 = 3;

    /// A limit on packets that nobody needed for so long is taken away: XDP in a veth's driver copies
    /// every packet. Chosen, not measured. Shorter: programs are attached and detached more often;
    /// longer: the container pays for the programs.
    pub const LIMIT_IDLE: Duration = Duration::from_secs(1);

    /// Time constant of a CPU's idle part, seconds; `/proc/stat` counts in ticks of 10 ms, so
    /// shorter shows the ticks.
    pub const IDLE_MEMORY_S: f64 = 0.05;
    /// A CPU idle for less than this part of the time is fully used: something waits there. Higher:
    /// an offender is held although the CPU has room; lower: a rival that sleeps a little is
    /// unprotected.
    pub const FULL_IDLE_PART: f64 = 0.15;
    /// A container that ran on a CPU within this time runs beside the others. Shorter: shares jump
    /// with every pause; longer: a share is withheld for a container that is gone.
    pub const BESIDE: Duration = Duration::from_secs(1);
    /// CPU use is read in every step for so long when a container comes of which nothing is known yet: until two readings
    /// enclose a step in which it was there. Three control periods; chosen, not measured. Shorter: where steps come late it stays
    /// unknown until the next usual reading; longer: more readings where it is not told by two.
    pub const READS_SOON: Duration = Duration::from_millis(60);
    /// … and no more often than this; chosen, not measured. Shorter: where many come and go each step has the kernel add up every cgroup's time;
    /// longer: one that comes right after another is given its whole share, whatever it wants, until the next reading.
    pub const READS_SOON_AGAIN: Duration = Duration::from_millis(500);
    /// Time constant by which the CPU use that a container is known for fades once it uses less; it rises at once. CPU
    /// use is read ten times a second while anybody is held. Measured (TCP sent over VXLAN, the victim ends): for the
    /// second of [`BESIDE`] the sender owed what it took of a CPU that nobody else wanted, and lost whole windows for
    /// it. Shorter: shares jump with pauses; longer: a share is withheld for one that is gone.
    /// So fades a debt while nobody waits. Measured (UDP flood through NAT, penalty): 0.92 when a victim was repaid what
    /// tasks of the host had been owed before it came, 0.98 with this and the bench's pause of 0.6 s.
    pub const RESTS: Duration = Duration::from_millis(100);
    /// Others wait for a CPU where nothing is idle when they want more than this part of it. Higher: those that use
    /// little wait behind an offender; lower: streams are held for what wakes for a moment, and lose windows.
    pub const WANTED_PART: f64 = 0.1;
    /// A weight stays as corrected for so long after the last step in which somebody waited: whether a CPU is full
    /// scatters from step to step. Shorter: a rival meets the full weight now and then; longer: a container that runs
    /// alone waits behind `ksoftirqd`.
    pub const WAITED: Duration = Duration::from_millis(100);
    /// A container ran on a CPU when this part of the network work there was charged to it, and
    /// [`RAN_CPUS`] of the CPU.
    pub const RAN_PART: f64 = 0.05;
    /// See [`RAN_PART`].
    pub const RAN_CPUS: f64 = 0.001;
    /// Where one ran is told by the softirqs that meet it, averaged over so much of their time, nanoseconds. Less: a few
    /// that meet it on one CPU while `ksoftirqd` hides it on another move all of it there, a rival that it is not
    /// (measured, TCP over veth: a share of 0.41 for 0.5); more: one that moves is late where it goes.
    pub const PLACED_NS: f64 = 10e6;
    /// Tasks of the host count as having run by their [`RAN_PART`] on average over about so long, or in two steps one
    /// after the other. Shorter: each wake-up of a service, our own agent's too, takes a share for [`BESIDE`]; longer:
    /// a job that pauses now and then waits for its share.
    pub const HOST_RAN_AVERAGED: Duration = Duration::from_millis(200);
    /// Tasks of the host that run for less than this part of the time, on average, and containers that use less, claim
    /// twice that of a CPU and not their whole share, which they would leave to whoever takes it. Higher: a job of the
    /// host that pauses now and then waits longer for its share; lower: a service that takes a tenth of a CPU
    /// keeps a container below its share.
    pub const LITTLE_PART: f64 = 0.2;
    /// How long the weight of a cgroup that is not corrected is believed. Only the number of file
    /// reads and the delay of a changed weight depend on it.
    pub const WEIGHT_LIFE: Duration = Duration::from_secs(2);
    /// With more such cgroups than this all are forgotten and read again: bounds the memory.
    pub const WEIGHTS_KNOWN: usize = 4096;

    /// A container pays when it is charged for others, and not given back, this part of a CPU:
    /// then `status` says so.
    pub const PAYS_CPUS: f64 = 0.05;
    /// [`PAYS_CPUS`] on average over about so long: means take a moment to be put in place.
    pub const PAYS_AVERAGED: Duration = Duration::from_secs(2);

    /// When a weight or quota that the kernel refused is written again: what it depends on (a
    /// burst, a cgroup above) may have changed. Shorter: more failed writes; longer: later in
    /// force.
    pub const REFUSED_AGAIN: Duration = Duration::from_secs(1);
    /// When a means that failed is tried again.
    pub const TRY_AGAIN: Duration = Duration::from_secs(10);
    /// How often addresses and devices are read again while programs are attached.
    pub const DEVICES_LOOK: Duration = Duration::from_secs(2);
    /// Entry devices of one namespace, at most: each costs an attachment.
    pub const MOST_DEVICES: usize = 64;
}

/// What an interrupt costs, estimated when enforcement begins and measured while much is received.
pub(crate) mod interrupt {
    use std::time::Duration;

    /// Interrupts sent to measure one: 30 ms in all.
    pub const ROUNDS: u32 = 1_000;
    /// Between two of them: rather more than one takes.
    pub const APART: Duration = Duration::from_micros(10);
    /// Fewer gaps than this tell nothing.
    pub const ENOUGH: usize = 100;
    /// No interrupt costs more; a measurement that says so is not believed.
    pub const MOST: Duration = Duration::from_micros(20);
    /// A CPU with this many interruptions a second is worth a measurement: timers behind a shaped queue cost 20 µs each, 4,000
    /// times a second (measured).
    pub const PRESSED_RATE: f64 = 2_000.0;
    /// CPU time that one takes there, less than a thousandth of a CPU with `AGAIN_AFTER` (measured: with 10 and 20 ms the victim of
    /// three streams over a veth lost 2% of its first second) …
    pub const LOOK: Duration = Duration::from_millis(5);
    /// … or up to twice that while less comes …
    pub const LONGEST_LOOK: Duration = Duration::from_millis(10);
    /// … and no more than this where it comes too slowly for `ENOUGH_SEEN` by then (measured beside one stream over a veth:
    /// 0 to 3 in 22 ms, and three such looks a second were 7% of its victim's time) …
    pub const SHORTEST_LOOK: Duration = Duration::from_millis(3);
    /// … which, together, see at least this many interrupts before they tell anything (measured beside streams: 0 to 15 in a
    /// look, the middle of ten within 1 µs of 7; behind a shaped queue 18 to 24 µs but for one in ten) …
    pub const ENOUGH_SEEN: usize = 10;
    /// … each of no more than this: else the hypervisor took a part …
    pub const MOST_LOST: Duration = Duration::from_micros(50);
    /// … of which no more than this many, the last ones, are kept …
    pub const MOST_COSTS: usize = 1_024;
    /// … and this time.
    pub const LOOK_AT_MOST: Duration = Duration::from_millis(200);
    /// The thread's own clock is compared with it at least so often …
    pub const CHECK: Duration = Duration::from_millis(1);
    /// … and what was lost meanwhile does not count where other tasks had the CPU for so long: a switch to one and back
    /// takes more, and reading the two clocks one after the other less.
    pub const AWAY: Duration = Duration::from_micros(1);
    /// Until the next one, once there was an answer …
    pub const AGAIN_AFTER: Duration = Duration::from_secs(10);
    /// … and before, doubled each time on the same CPU.
    pub const FIRST_AGAIN_AFTER: Duration = Duration::from_millis(500);
    /// So many times the interruptions of the last look are worth another one (measured through a route: 18,000 a second
    /// while `ksoftirqd` handles a flood, 50,000 while it interrupts the victim).
    pub const MANY_MORE: f64 = 2.0;
    /// … if they are this many a second: fewer scatter by as much from one control period to the next.
    pub const MANY: f64 = 10_000.0;
}

/// Reservations: when CPUs are lent.
pub(crate) mod reservation {
    use std::time::Duration;

    /// The host is compared with the plan this often: a runtime may have rewritten a cpuset, a CPU
    /// may have gone. (Rejected: inotify. It costs a watch a container and does not see what the
    /// kernel itself changes.)
    pub const LOOK_OVER: Duration = Duration::from_secs(1);
    /// CPUs that the kernel refused an owner, though the cgroups above it have them, are tried again after
    /// this: each try costs a write, its reversal, and a failed change in `status`.
    pub const RETRY_REFUSED: Duration = Duration::from_secs(10);
}

/// Threads: a cgroup move that the kernel refuses.
pub(crate) mod thread {
    use std::time::Duration;

    /// How often a move is tried again that the kernel refuses: a thread that has just been made
    /// and has not run yet.
    pub const NOT_YET_ROUNDS: u32 = 50;
    /// Between two tries.
    pub const NOT_YET: Duration = Duration::from_millis(1);
}
