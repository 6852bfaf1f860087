//! Thresholds and gains of the crate: unit, origin of the value, and the effect of another one.
//! "Measured" refers to the test machine of the book (two virtual CPUs, Linux 6.18), "simulated" to
//! 1,000 histories of `network/policy/simulation`.

/// Network CPU: containers that count, victims, and the speed of repayment.
pub(crate) mod network {
    use std::time::Duration;

    /// Charge to others, part of a CPU, above which they are victims on it. It exceeds the
    /// accounting's scatter on an idle host (measured: below 0.001). Lower: means are applied for
    /// noise; higher: small victims are ignored.
    pub const VICTIM_CPUS: f64 = 0.003;
    /// Work for a container's packets, part of a CPU, above which it counts; also the part of a
    /// quota from which its packets count against it. Lower: each step decides about more
    /// containers; higher: small offenders are ignored.
    pub const CAUSES_CPUS: f64 = 0.01;
    /// Network CPU on all CPUs below which a container causes no reads. Affects only the cost of a
    /// step.
    pub const COUNTS_CPUS: f64 = 0.001;
    /// Time that a CPU stays contended: a limited offender causes work in bursts. Shorter: debt is
    /// not counted between bursts; longer: debt is counted after the competitor has left.
    pub const STAYS_CONTENDED: Duration = Duration::from_millis(150);

    /// Weight of a step in the average of the packets' part of a CPU: the last fifty steps count.
    pub const CAUSED_NEW_PART: f64 = 0.02;
    /// CPUs by which the excess on another CPU must be larger before that one bounds the container
    /// instead: rates of the first say nothing about the second.
    pub const STAYS_WORST_CPUS: f64 = 0.05;

    /// Time constant of measured rates, seconds: three control periods of 20 ms. Shorter: the
    /// scatter of an interval reaches weights and buckets; longer: corrections come late, and
    /// bucket and work oscillate.
    pub const RATE_MEMORY_S: f64 = 0.06;
    /// Time in which debt is repaid. Shorter: more than a share is withheld after a start; longer:
    /// a competitor waits longer for its time.
    pub const REPAYMENT_TIME: Duration = Duration::from_millis(500);
    /// Time in which a flood repays its debt: it has no window that collapses when more packets are
    /// dropped.
    pub const FLOOD_REPAYMENT_TIME: Duration = Duration::from_millis(200);
    /// Time whose share a container may save. Measured rates scatter, and the average must equal
    /// the share. Longer: a container that slept may exceed its share for a while.
    pub const CREDIT: Duration = Duration::from_millis(20);
    /// Time whose share a container may save while the means affect it: streams that lose packets
    /// stay below their limit. Simulated: with 20 ms the victims of some streams get up to 1.07 of
    /// their share, with 50 ms 1.02. With 100 ms some get 0.96, because bursts become longer.
    pub const THROTTLED_CREDIT: Duration = Duration::from_millis(50);
    /// Time after which the means no longer count as affecting a container: a stream that has lost
    /// a whole window is silent for that long. Longer: a container that sleeps keeps the larger
    /// credit.
    pub const THROTTLED: Duration = Duration::from_millis(250);
    /// Least part of a container's own weight to which it is lowered: the container must be able to
    /// run.
    pub const LOWEST_WEIGHT_PART: f64 = 0.02;
    /// Softirq work, part of a stream's share, above which it gets a NAPI thread while competitors
    /// wait: its weight can hardly be lowered further. Measured: streams through a route take 0.98
    /// and weights alone do not bound them; over a veth or VXLAN they take at most 0.87 and weights
    /// do. Lower: streams that a weight bounds pass the ring of a thread; higher: unbounded streams
    /// burden their victims.
    pub const EXHAUSTED_PART: f64 = 0.93;
    /// Time for which softirq work must exceed [`EXHAUSTED_PART`]; steps below it count back. A
    /// starting stream exceeds it until its weight takes effect.
    pub const EXHAUSTED: Duration = Duration::from_millis(300);
    /// Weight, in its file's unit, below which it cannot be lowered usefully, as that of a
    /// best-effort pod.
    pub const LEAST_WEIGHT: f64 = 10.0;
    /// Use of the contended CPUs, part of a container's time, below which it runs elsewhere.
    pub const RUNS_THERE_PART: f64 = 0.05;
    /// Softirq work, part of a container's share, above which it gets a NAPI thread. Measured: TCP
    /// streams take 0.2 to 0.5, floods all of it. Lower: streams lose segmentation offload and wait
    /// for the thread although their weight is enough; higher: moderate floods run in others' time,
    /// and repay it only on average.
    pub const BEYOND_WEIGHT_PART: f64 = 0.6;
    /// Time for which softirq work must exceed [`BEYOND_WEIGHT_PART`]: longer than the slow start
    /// of a stream (measured: 40 to 60 ms). Shorter: streams get NAPI threads too; longer: floods
    /// run in others' time for longer.
    pub const BEYOND_WEIGHT: Duration = Duration::from_millis(200);
    /// Sending, part of a container's network CPU, above which it gets no NAPI thread: the thread
    /// does none of that work, and disables segmentation offload. Lower: containers that receive
    /// less than they send are bounded by limits alone; higher: senders pay for a useless thread.
    pub const SENDER_PART: f64 = 0.5;
    /// Assumed share of an offender when no competitor is runnable.
    pub const UNCONTENDED_SHARE: f64 = 0.5;
    /// Time in which a container's unused share is deducted from its weight correction, seconds.
    /// Shorter: the scatter of rates reaches the weight; longer: a starting stream waits longer for
    /// its weight, and one that wants more again builds up a debt.
    pub const UNUSED_SHARE_S: f64 = 0.1;
    /// CPUs of its share that may stay unused without effect: the scatter of rates.
    pub const UNUSED_SHARE_SCATTER_CPUS: f64 = 0.01;
    /// Least part of its share for a container's traffic, so that it can end its connections.
    /// Lower: TCP is silent until its retransmission timeout.
    pub const LOWEST_BUDGET_PART: f64 = 0.05;

    /// Part of its share by which packets may exceed their budget while the weight alone
    /// compensates that and there is no debt. A stream that loses packets gets less than its share,
    /// so a limit is only for excess that a weight cannot bound. Simulated with [`STREAM_BURST`]:
    /// 0.1 holds in all histories, 0.2 not. Measured with streams over a bridge: without it the
    /// penalty falls below its bound. Higher: debt grows before a limit acts.
    pub const OVERDRAFT_PART: f64 = 0.1;

    /// Repayment, part of a stream's share, above which its limit acts; with half of it the stream
    /// may exceed its budget freely. Simulated: 0.1 to 0.3 hold in all histories. Measured: with
    /// 0.1 a stream over a bridge loses packets, with 0.3 none. Higher: debt grows before a limit
    /// acts.
    pub const STREAM_OVERDRAFT_PART: f64 = 0.3;

    /// Network CPU, part of the share, below which packets may overdraw their budget as streams do:
    /// the weight compensates that little at once. Without it, an executor of Spark that computed
    /// with all of its share lost its shuffle requests to a limit, and the job stalled for seconds.
    /// Higher: a starting flood is limited later.
    pub const MODEST_PART: f64 = 0.3;

    /// Part of a quota for packets and for tasks if both want more.
    pub const QUOTA_HALF: f64 = 0.5;
    /// Least part of a quota for passing packets, whatever dropping costs: a flood must not silence
    /// its target.
    pub const QUOTA_QUARTER: f64 = 0.25;
    /// Default quota period of the kernel (kernel/sched/fair.c, `default_cfs_period`), used if only
    /// a cgroup above has a quota.
    pub const QUOTA_PERIOD: Duration = Duration::from_millis(100);
    /// Most containers whose usage file stays open between steps; others' files are opened for
    /// each. Bounds the descriptors of the process, which may have 1,024 by default.
    pub const USAGE_FILES: usize = 128;
    /// Time between two readings of quota files: a quota may be set or removed at any time. Affects
    /// only the cost of a step and the delay of a new quota.
    pub const QUOTA_READ_INTERVAL: Duration = Duration::from_secs(1);

    /// Smallest relative change of a weight that is written. Finer: more writes for the same share;
    /// coarser: the share is off by that part.
    pub const WEIGHT_STEP: f64 = 0.03;
    /// Shortest time between two writes of a weight: below the control period, so that every step
    /// may write.
    pub const WEIGHT_INTERVAL: Duration = Duration::from_millis(15);
    /// Smallest relative change of a quota that is written. A write refills the quota: one of 0.2
    /// that was rewritten every 20 ms gave 0.44 (measured).
    pub const QUOTA_STEP: f64 = 0.1;
    /// Shortest time between two writes of a quota; see [`QUOTA_STEP`].
    pub const QUOTA_INTERVAL: Duration = Duration::from_millis(500);
    /// Smallest quota that the kernel accepts, microseconds (kernel/sched/core.c,
    /// `min_cfs_quota_period`).
    pub const LOWEST_QUOTA_US: f64 = 1_000.0;

    /// Time whose budget a bucket may save. Longer: bursts pass; shorter: TCP's normal bursts are
    /// dropped.
    pub const BURST: Duration = Duration::from_millis(10);
    /// Time whose budget the bucket of a stream may save. The drop probability rises over the same
    /// range: with [`BURST`] a starting stream lost whole windows and was silent for 200 ms
    /// (traced). Simulated: with 40 ms a few victims lose time to it.
    pub const STREAM_BURST: Duration = Duration::from_millis(20);
    /// Packets in a step, passed and dropped, below which no cost is learned.
    pub const FEW_PACKETS: f64 = 20.0;
    /// Sending, part of a container's network CPU, from which its sent packets are limited too.
    pub const SENDS_PART: f64 = 0.1;
    /// Mean size of received packets, bytes, from which they are full segments of a stream.
    pub const LARGE_BYTES: u64 = 1_000;
    /// Most packets per answer: a stream gets at least one packet back for them. Measured with
    /// merged segments: one answer for 9 to 370 packets; a UDP flood has none. Lower: a stream with
    /// rare acknowledgements counts as a flood; higher: a flood of large packets is limited late.
    pub const MOST_PER_ANSWER: f64 = 2_000.0;
    /// Packets dropped in a step, and more than passed, that count as a flood. TCP slows down and
    /// loses far fewer.
    pub const FLOOD_PACKETS: u64 = 100;
    /// Consecutive steps that make a flood; see [`FLOOD_PACKETS`].
    pub const FLOOD_STEPS: u32 = 3;

    /// Time without drops after which a limit is removed: XDP in a veth's driver copies every
    /// packet. Chosen, not measured. Shorter: programs are attached more often; longer: the
    /// container pays for them.
    pub const LIMIT_IDLE: Duration = Duration::from_secs(1);

    /// Time constant of a CPU's idle part, seconds. `/proc/stat` counts ticks of 10 ms, which a
    /// shorter one would show.
    pub const IDLE_MEMORY_S: f64 = 0.05;
    /// Idle part of a CPU below which it is fully used. Higher: an offender is throttled although
    /// the CPU has idle time; lower: a competitor that sleeps a little is unprotected.
    pub const FULL_IDLE_PART: f64 = 0.15;
    /// Time for which a container that ran on a CPU competes there. Shorter: shares jump with every
    /// pause; longer: a share is withheld for a container that has left.
    pub const COMPETES: Duration = Duration::from_secs(1);
    /// Time for which CPU use is read in every step after a new competitor: until two readings
    /// enclose one of its steps, three control periods. Chosen, not measured. Shorter: with late
    /// steps its use stays unknown until the next usual reading; longer: more readings.
    pub const EXTRA_READINGS: Duration = Duration::from_millis(60);
    /// Shortest time between two such series; chosen, not measured. Shorter: if many containers
    /// come and go, each step makes the kernel sum up every cgroup's time; longer: a second
    /// newcomer has its whole share until the next reading.
    pub const EXTRA_READINGS_AGAIN: Duration = Duration::from_millis(500);
    /// Time constant with which the known CPU use of a container fades; it rises at once. Also that
    /// of a debt without competitors. Shorter: shares jump with pauses; longer: a share is withheld
    /// for a container that has left, and a new victim is repaid debts to earlier host tasks.
    pub const FADES: Duration = Duration::from_millis(100);
    /// Part of a fully used CPU that competitors must want to count as waiting. Higher: tasks with
    /// little use wait behind an offender; lower: streams are limited for momentary wake-ups, and
    /// lose windows.
    pub const WANTED_PART: f64 = 0.1;
    /// Time that a corrected weight stays after the last waiting competitor: whether a CPU is full
    /// varies from step to step. Shorter: a competitor meets the full weight now and then; longer:
    /// a container without competitors waits behind `ksoftirqd`.
    pub const WEIGHT_STAYS: Duration = Duration::from_millis(100);
    /// Part of a CPU's network work that must be charged to a container, with [`RAN_CPUS`], for it
    /// to count as having run there.
    pub const RAN_PART: f64 = 0.05;
    /// Part of a CPU that must be charged to a container for it to count as having run there.
    pub const RAN_CPUS: f64 = 0.001;
    /// Charged time over which a container's placement is averaged, nanoseconds. Less: a few
    /// interruptions on one CPU outweigh another on which `ksoftirqd` hides the container; more: a
    /// moved container is found late.
    pub const PLACEMENT_NS: f64 = 10e6;
    /// Time constant of host tasks' average use, which must exceed [`RAN_PART`] on average or in
    /// two consecutive steps. Shorter: each wake-up of a service gets a share for [`COMPETES`];
    /// longer: a job that pauses waits for its share.
    pub const HOST_RAN_AVERAGED: Duration = Duration::from_millis(200);
    /// Use, part of a CPU, below which host tasks and containers claim twice their use instead of
    /// their whole share. Higher: a host job with pauses waits longer for its share; lower: a
    /// service that takes a tenth of a CPU keeps a container below its share.
    pub const LITTLE_PART: f64 = 0.2;
    /// Time that the weight of an uncorrected cgroup stays cached. Affects only the number of reads
    /// and the delay of a changed weight.
    pub const WEIGHT_LIFE: Duration = Duration::from_secs(2);
    /// Most cached weights; above it the cache is cleared. Bounds the memory.
    pub const MOST_CACHED_WEIGHTS: usize = 4096;

    /// Charge for others without repayment, part of a CPU, from which `status` reports a container.
    pub const UNCOMPENSATED_CPUS: f64 = 0.05;
    /// Averaging time of [`UNCOMPENSATED_CPUS`]: means take a moment to be applied.
    pub const UNCOMPENSATED_AVERAGED: Duration = Duration::from_secs(2);

    /// Time after which a refused weight or quota is retried: its conditions, such as a burst or a
    /// cgroup above, may have changed. Shorter: more failed writes; longer: a later correction.
    pub const REFUSED_AGAIN: Duration = Duration::from_secs(1);
    /// Time after which a failed means is retried.
    pub const TRY_AGAIN: Duration = Duration::from_secs(10);
    /// Time between two readings of addresses and devices while programs are attached.
    pub const DEVICES_READ_INTERVAL: Duration = Duration::from_secs(2);
    /// Most entry devices of one namespace: each costs an attachment.
    pub const MOST_DEVICES: usize = 64;
}

/// Cost of an interrupt: estimated when enforcement begins, and measured while many packets are
/// received.
pub(crate) mod interrupt {
    use std::time::Duration;

    /// Interrupts sent for the first estimate; they take 30 ms together.
    pub const ROUNDS: u32 = 1_000;
    /// Pause between two of these interrupts: longer than one takes.
    pub const SEND_PAUSE: Duration = Duration::from_micros(10);
    /// Least number of gaps for a result.
    pub const LEAST_GAPS: usize = 100;
    /// Longest plausible cost of an interrupt.
    pub const MOST: Duration = Duration::from_micros(20);
    /// Interruptions per second from which a CPU is measured: timers behind a shaped queue
    /// interrupt 4,000 times a second.
    pub const BUSY_RATE: f64 = 2_000.0;
    /// CPU time of a conclusive measurement: with [`AGAIN_AFTER`] less than a thousandth of a CPU.
    /// Longer: the victim of a stream notices it.
    pub const MEASURED_TIME: Duration = Duration::from_millis(5);
    /// Longest CPU time of a measurement, while interrupts are rarer.
    pub const MOST_MEASURED_TIME: Duration = Duration::from_millis(10);
    /// CPU time after which a measurement ends if interrupts are too rare for [`LEAST_SAMPLES`].
    /// Repeated longer ones took 7% of a victim's time (measured with one stream over a veth).
    pub const LEAST_MEASURED_TIME: Duration = Duration::from_millis(3);
    /// Least number of interrupts, over all measurements, for a result. Measured with streams: 0 to
    /// 15 interrupts per measurement, and the median of ten is within 1 µs.
    pub const LEAST_SAMPLES: usize = 10;
    /// Longest plausible loss by one interrupt: above it the hypervisor took part.
    pub const MOST_LOST_TIME: Duration = Duration::from_micros(50);
    /// Most samples that are stored; the oldest go first.
    pub const MOST_COSTS: usize = 1_024;
    /// Longest duration of a measurement.
    pub const MEASUREMENT_TIMEOUT: Duration = Duration::from_millis(200);
    /// Longest time between two comparisons of the wall clock with the thread's clock.
    pub const CHECK: Duration = Duration::from_millis(1);
    /// Time without the CPU above which a gap does not count. A switch to another task and back
    /// takes longer, and reading the two clocks takes less.
    pub const AWAY_TIME: Duration = Duration::from_micros(1);
    /// Time until the next measurement after a conclusive one.
    pub const AGAIN_AFTER: Duration = Duration::from_secs(10);
    /// Time until the next measurement after an inconclusive one, doubled each time on a CPU.
    pub const FIRST_AGAIN_AFTER: Duration = Duration::from_millis(500);
    /// Factor by which interruptions must rise for an early measurement. When a flood moves from
    /// `ksoftirqd` to interruptions of the victim, they rise from 18,000 to 50,000 a second
    /// (measured).
    pub const MANY_MORE: f64 = 2.0;
    /// Interruptions per second needed for an early measurement: lower rates scatter by that
    /// factor.
    pub const MANY: f64 = 10_000.0;
}

/// Reservations.
pub(crate) mod reservation {
    use std::time::Duration;

    /// Time between two comparisons of the host with the plan: a runtime may rewrite a cpuset, a
    /// CPU may go offline. Rejected: inotify. It costs a watch per container and does not see
    /// changes by the kernel.
    pub const COMPARE_EVERY: Duration = Duration::from_secs(1);
    /// Time after which CPUs are retried that the kernel refused an owner although the cgroups
    /// above have them. Each try costs a write, its revert, and a failed change in `status`.
    pub const RETRY_REFUSED: Duration = Duration::from_secs(10);
}

/// Threads: retries of a refused move to a cgroup.
pub(crate) mod thread {
    use std::time::Duration;

    /// Most retries of a refused move: the kernel refuses a thread that was just created and has
    /// not run yet.
    pub const MOVE_TRIES: u32 = 50;
    /// Pause between two retries.
    pub const MOVE_RETRY_PAUSE: Duration = Duration::from_millis(1);
}
