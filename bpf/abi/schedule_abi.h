/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * Types that the diagnosis programs and their reader share: plain integers, explicit padding. All
 * times are nanoseconds; those named _at_ns are moments of the scheduler's own clock (rq->clock).
 */
#ifndef COFFERDAM_SCHEDULE_ABI_H
#define COFFERDAM_SCHEDULE_ABI_H

/* Owner of the task on a CPU. Containers begin at CF_SCHED_FIRST_CONTAINER. */
enum cf_sched_row_index {
	CF_SCHED_IDLE = 0,
	CF_SCHED_HOST, /* a task of no container, or of one that found no row free */
	CF_SCHED_FIRST_CONTAINER = 2,
};

enum cf_sched_limits {
	CF_SCHED_CPUS_MAX = 1024,	 /* CPUs that a window can look at */
	CF_SCHED_IDENTITIES = 128,	 /* direct-mapped cache of a CPU; a power of two */
	CF_SCHED_PERIOD_NS = 100000000,	 /* a scheduling period: the default of CFS bandwidth */
	CF_SCHED_LONG_WAIT_NS = 1000000, /* waits from this length on are compared with idle CPUs */
	CF_SCHED_NOTED_WAIT_NS = 50000,	 /* waits from this length on get a culprit, and may be a
					  * throttling that began after the thread slept */
	CF_SCHED_RUNS = 8,		 /* segments that a CPU remembers; a power of two */
	CF_SCHED_LOOK_NS = 10000000,	 /* interval of a container's check for the window's end */
};

/* Reason why a container that is not on a CPU may have a claim to it. */
enum cf_sched_stopped {
	CF_SCHED_ASLEEP = 0, /* no runnable thread of it was left there */
	CF_SCHED_QUEUED,     /* runnable threads of it stayed in the runqueue */
	CF_SCHED_THROTTLED,  /* its quota had run out */
};

/* One container on one CPU. Index in the map: cpu * rows_per_cpu + row. Written under that
 * CPU's runqueue lock. */
struct cf_sched_cell {
	__u64 run_ns;	    /* its threads ran */
	__u64 shared_ns;    /* it waited behind others; no CPU it may use was seen idle */
	__u64 stranded_ns;  /* it waited behind others while a CPU that it may use was idle */
	__u64 throttled_ns; /* its quota had run out and it had threads to run */
	__u64 idled_ns;	    /* the CPU was idle after this container was throttled there */
	__u64 stopped_at_ns;
	__u64 group_runqueue;	 /* cfs_rq of the thread that stopped */
	__u64 throttled_base_ns; /* that cfs_rq's throttled time then */
	__u64 looked_at_ns;	 /* last check for the window's end */
	__u64 with_ns;		 /* weight of with_row in a majority vote of waits */
	__u32 with_row;		 /* the row that it waited behind most */
	__u32 stopped;		 /* enum cf_sched_stopped */
};
_Static_assert(sizeof(struct cf_sched_cell) == 88, "cf_sched_cell is part of the ABI");

/* One container, all CPUs: the open window in which waits are set against idle time. */
struct cf_sched_window {
	__u64 began_at_ns;    /* 0: none yet */
	__u64 shared_base_ns; /* sum of its shared_ns when the window began */
	__u64 idle_base_ns;   /* idle time left by throttled others, on its CPUs, then */
	__u64 phantom_ns;     /* shared time of closed windows that idle time could make good */
};
_Static_assert(sizeof(struct cf_sched_window) == 32, "cf_sched_window is part of the ABI");

/* Cached meaning of a cgroup. */
struct cf_sched_identity {
	__u64 cgroup; /* kernel address; 0 = empty */
	__u32 generation;
	__u32 row;
};

/* A segment that ended: its row and its begin. It lasted until the next one began. */
struct cf_sched_run {
	__u64 began_at_ns;
	__u32 row;
	__u32 reserved;
};

/* The state of one CPU. Written under its runqueue lock. */
struct cf_sched_cpu {
	__u64 css_set;		/* cgroups of the task that runs */
	__u32 generation;	/* of the identity that `row` stands for */
	__u32 row;		/* the running row */
	__u64 began_at_ns;	/* the open segment; 0 until a task was seen */
	__u64 counting_at_ns;	/* begin of counting: older values in the cells are stale */
	__u64 idle_began_at_ns; /* the last idle stretch that ended … */
	__u64 idle_ended_at_ns;
	__u64 throttled_at_ns; /* a container was last throttled here … */
	__u32 throttled_row;   /* … this one, 0 when it ran here again */
	__u32 idle_row;	       /* the open idle stretch follows the throttling of this row, or 0 */
	__u64 idle_ns;
	__u64 host_ns;
	__u64 left_idle_ns;   /* idle time that followed a throttling */
	__u64 clock_ahead_ns; /* CLOCK_MONOTONIC - scheduler clock, signed; 0 until known */
	__u64 clock_at_ns;    /* time of that comparison */
	__u64 mismatches;     /* segments whose end did not name the task it began with */
	__u64 rejected;	      /* segments or waits of impossible length */
	__u32 next_run;	      /* index in `runs` to write next */
	__u32 reserved;
	struct cf_sched_run runs[CF_SCHED_RUNS];
	struct cf_sched_identity identities[CF_SCHED_IDENTITIES];
};
_Static_assert(sizeof(struct cf_sched_cpu) == 128 + 16 * 8 + 16 * 128,
	       "cf_sched_cpu is part of the ABI");

struct cf_sched_layout {
	enum cf_sched_row_index row;
	enum cf_sched_limits limit;
	enum cf_sched_stopped stopped;
};

#endif
