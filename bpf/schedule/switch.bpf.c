/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * Running and waiting of containers. `sched_switch` runs on the CPU that switches, under its
 * runqueue lock, so that a CPU's cells have one writer at a time and need no atomics.
 *
 * Time on a CPU is cut where its owner changes: idle, the host, or a container. Switches
 * between threads of one owner return at once, without a clock. The clock is the runqueue's
 * own, which the scheduler has just read: it costs a load, bpf_ktime_get_ns costs 20 ns.
 *
 * Waiting needs no program at the wake-up: the kernel notes in every task when it was queued
 * (sched_info.last_queued). When a container leaves the CPU, the runnable count of its group
 * (cfs_rq.h_nr_runnable) says what stays in the runqueue. A container's wait on a CPU thus lasts
 * from its last time there, or from being queued after that, to now: threads that wait together
 * count once. Counting runnable threads by sched_wakeup was considered and rejected: it doubles the
 * cost of this program, and it drifts (tasks that are throttled, moved between cgroups, or woken
 * while they still run raise no event).
 *
 * The kernel also has the time for which a group was throttled, by CPU
 * (cfs_rq.throttled_clock_self_time).
 */
#include "window.h"

/* Longest time from a throttling to an idle stretch that counts as its result. */
#define CF_LEFT_IDLE_NS CF_SCHED_PERIOD_NS

/* Finds the container's most frequent neighbour: a majority vote, weighted by time. */
static __always_inline void cf_vote(struct cf_sched_cell *cell, __u32 row, __u64 ns)
{
	if (cell->with_row == row) {
		cell->with_ns += ns;
	} else if (cell->with_ns > ns) {
		cell->with_ns -= ns;
	} else {
		cell->with_ns = ns - cell->with_ns;
		cell->with_row = row;
	}
}

/* Votes for the rows that ran while the container waited from `since` to `now`, each by its time,
 * as far back as the CPU remembers. The last row alone would be wrong: a kernel thread that runs
 * for 20 µs between two containers (which a wake-up on kernels before 6.6 often causes) did not
 * delay a container by 4 ms. */
static __always_inline void cf_vote_runs(struct cf_sched_cpu *s, struct cf_sched_cell *cell,
					 __u64 since, __u64 now)
{
	__u64 ended = now;

	for (__u32 i = 1; i <= CF_SCHED_RUNS; i++) {
		struct cf_sched_run *run = &s->runs[(s->next_run - i) & (CF_SCHED_RUNS - 1)];

		if (!run->began_at_ns || ended <= since)
			return;
		if (run->row != CF_SCHED_IDLE)
			cf_vote(cell, run->row, cf_overlap(run->began_at_ns, ended, since, now));
		ended = run->began_at_ns;
	}
}

/* `prev` leaves the CPU to another task. */
static __always_inline void cf_leave(struct cf_sched_cpu *s, struct cf_sched_cell *cell, __u32 row,
				     struct task_struct___sched *prev, __u64 ns, __u64 now)
{
	struct cfs_rq *cfs = prev->se.cfs_rq;
	__u32 stopped = CF_SCHED_ASLEEP;

	cell->run_ns += ns;
	cell->stopped_at_ns = now;
	if ((__u64)prev->cgroups != s->css_set) {
		s->mismatches++;
		cell->stopped = stopped;
		cell->group_runqueue = 0;
		return;
	}
	cell->group_runqueue = (__u64)cfs;
	cell->throttled_base_ns = cf_throttled_ns(cfs);
	if (cfs->throttle_count && prev->on_rq) {
		stopped = CF_SCHED_THROTTLED;
		s->throttled_row = row;
		s->throttled_at_ns = now;
	} else if (cf_runnable(cfs)) {
		stopped = CF_SCHED_QUEUED;
	}
	cell->stopped = stopped;
}

/* Counts `ns` in which the container had threads here and did not run. */
static __always_inline void cf_waited(struct cf_sched_cpu *s, struct cf_sched_cell *cell, __u32 cpu,
				      __u32 row, struct task_struct___sched *next, __u64 since,
				      __u64 ns, __u64 now)
{
	__u64 stranded_ns = 0;

	if (now - cell->looked_at_ns >= CF_SCHED_LOOK_NS) {
		cell->looked_at_ns = now;
		cf_window_close_if_due(row, now, s->counting_at_ns, next);
	}
	if (ns >= CF_SCHED_LONG_WAIT_NS && next->nr_cpus_allowed > 1) {
		struct cf_mask mask = {};

		cf_mask_read(&mask, next);
		stranded_ns = cf_longest_idle(&mask, cpu, since, now);
		if (stranded_ns > ns)
			stranded_ns = ns;
	}
	cell->stranded_ns += stranded_ns;
	cell->shared_ns += ns - stranded_ns;
	if (ns >= CF_SCHED_NOTED_WAIT_NS)
		cf_vote_runs(s, cell, since, now);
}

/* `next` takes the CPU from `behind`. */
static __always_inline void cf_enter(struct cf_sched_cpu *s, struct cf_sched_cell *cell, __u32 cpu,
				     __u32 row, __u32 behind, struct task_struct___sched *next,
				     __u64 now)
{
	__u64 since = next->sched_info.last_queued, ns, throttled_ns = 0;
	__u32 stopped = cell->stopped;

	cell->stopped = CF_SCHED_ASLEEP;
	if (s->throttled_row == row)
		s->throttled_row = 0;
	if (cf_sched_is_stale(s, cell)) {
		if (since && since < s->counting_at_ns)
			since = s->counting_at_ns;
	} else if (stopped != CF_SCHED_ASLEEP || since < cell->stopped_at_ns) {
		since = cell->stopped_at_ns;
	}
	if (!since || since >= now)
		return;
	ns = now - since;
	if (stopped == CF_SCHED_THROTTLED || ns >= CF_SCHED_NOTED_WAIT_NS) {
		struct cfs_rq *cfs = next->se.cfs_rq;

		if ((__u64)cfs == cell->group_runqueue)
			throttled_ns = cf_throttled_ns(cfs) - cell->throttled_base_ns;
		if (throttled_ns > ns)
			throttled_ns = ns;
		cell->throttled_ns += throttled_ns;
		ns -= throttled_ns;
	}
	/* From idle it only woke up: no task was in its way. */
	if (ns && behind != CF_SCHED_IDLE)
		cf_waited(s, cell, cpu, row, next, since + throttled_ns, ns, now);
}

static __always_inline void cf_idle_end(struct cf_sched_cpu *s, __u32 cpu, __u64 ns, __u64 now)
{
	struct cf_sched_cell *cell;

	s->idle_ns += ns;
	s->idle_began_at_ns = s->began_at_ns;
	s->idle_ended_at_ns = now;
	if (!s->idle_row)
		return;
	s->left_idle_ns += ns;
	cell = cf_sched_cell(cpu, s->idle_row);
	if (cell)
		cell->idled_ns += ns;
	s->idle_row = 0;
}

/* Notes the offset of CLOCK_MONOTONIC to the scheduler's clock for the reader, once a period. */
static __always_inline void cf_clock_note(struct cf_sched_cpu *s, __u64 now)
{
	if (now - s->clock_at_ns < CF_SCHED_PERIOD_NS)
		return;
	s->clock_at_ns = now;
	s->clock_ahead_ns = bpf_ktime_get_ns() - now;
}

SEC("tp_btf/sched_switch")
int BPF_PROG(schedule_switch, bool preempt, struct task_struct___sched *prev,
	     struct task_struct___sched *next)
{
	__u32 cpu = bpf_get_smp_processor_id(), row = CF_SCHED_IDLE, old;
	struct cf_sched_cpu *s = cf_sched_cpu(cpu);
	struct css_set *css_set = next->cgroups;
	struct cf_sched_cell *cell;
	__u64 now, ns;

	if (!s)
		return 0;
	old = s->row;
	/* The owner is unchanged if the css_set is: only the idle task shares the host's. */
	if (s->css_set == (__u64)css_set && s->generation == sched_generation &&
	    (old >= CF_SCHED_FIRST_CONTAINER || !!next->pid == old))
		return 0;
	if (next->pid)
		row = cf_sched_row(s, css_set->dfl_cgrp);
	if (row == old && s->began_at_ns) {
		s->generation = sched_generation;
		s->css_set = (__u64)css_set;
		return 0;
	}
	now = prev->se.cfs_rq->rq->clock;
	ns = now - s->began_at_ns;
	if (!s->began_at_ns || now < s->began_at_ns) {
		s->rejected += !!s->began_at_ns;
		ns = 0;
	}
	if (old == CF_SCHED_IDLE) {
		cf_idle_end(s, cpu, ns, now);
	} else if (old == CF_SCHED_HOST) {
		s->host_ns += ns;
	} else {
		cell = cf_sched_cell(cpu, old);
		if (cell)
			cf_leave(s, cell, old, prev, ns, now);
	}
	cf_run_ended(s);
	s->began_at_ns = now;
	s->row = row;
	s->generation = sched_generation;
	if (row == CF_SCHED_IDLE) {
		if (s->throttled_row && now - s->throttled_at_ns < CF_LEFT_IDLE_NS)
			s->idle_row = s->throttled_row;
	} else if (row >= CF_SCHED_FIRST_CONTAINER) {
		cell = cf_sched_cell(cpu, row);
		if (cell)
			cf_enter(s, cell, cpu, row, old, next, now);
	}
	s->css_set = (__u64)css_set;
	cf_clock_note(s, now);
	return 0;
}

char LICENSE[] __weak SEC("license") = "GPL";
