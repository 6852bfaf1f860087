/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * Finds waiting time that idle CPUs could have served: idle time of another CPU during a wait of a
 * millisecond or more, and, once per scheduling period for each container that waits, idle time
 * that throttled containers left. Each of the two walks over the CPUs.
 */
#ifndef COFFERDAM_SCHEDULE_WINDOW_H
#define COFFERDAM_SCHEDULE_WINDOW_H

#include "state.h"

#define CF_MASK_WORDS (CF_SCHED_CPUS_MAX / 64)

/* CPUs that a task may use; all CPUs if the kernel's mask cannot be read. */
struct cf_mask {
	__u64 words[CF_MASK_WORDS];
};

static __always_inline void cf_mask_read(struct cf_mask *mask, struct task_struct___sched *p)
{
	/* The mask is as long as the kernel's NR_CPUS; the memory after it is the kernel's too.
	 * A typed pointer cannot be indexed by a variable. */
	__u32 bytes = ((sched_cpus + 63) / 64) * 8;

	if (bytes > sizeof(*mask))
		bytes = sizeof(*mask);
	if (bpf_probe_read_kernel(mask, bytes, p->cpus_ptr))
		__builtin_memset(mask, 0xff, sizeof(*mask));
}

static __always_inline bool cf_mask_has(const struct cf_mask *mask, __u32 cpu)
{
	return mask->words[(cpu / 64) & (CF_MASK_WORDS - 1)] & (1ULL << (cpu & 63));
}

static __always_inline __u64 cf_overlap(__u64 from, __u64 to, __u64 since, __u64 until)
{
	__u64 first = from > since ? from : since, last = to < until ? to : until;

	return last > first ? last - first : 0;
}

/* Longest idle time of another CPU of the mask within [since, now], by its last two stretches. */
static __noinline __u64 cf_longest_idle(const struct cf_mask *mask, __u32 own_cpu, __u64 since,
					__u64 now)
{
	__u64 most = 0;

	for (__u32 cpu = 0; cpu < CF_SCHED_CPUS_MAX; cpu++) {
		struct cf_sched_cpu *s;
		__u64 ns;

		if (cpu >= sched_cpus)
			break;
		s = cf_sched_cpu(cpu);
		if (!s || cpu == own_cpu || !s->began_at_ns || !cf_mask_has(mask, cpu))
			continue;
		ns = cf_overlap(s->idle_began_at_ns, s->idle_ended_at_ns, since, now);
		if (s->row == CF_SCHED_IDLE)
			ns += cf_overlap(s->began_at_ns, now, since, now);
		if (ns > most)
			most = ns;
	}
	return most;
}

struct cf_window_sums_ns {
	__u64 shared_ns; /* waiting time of the container, all CPUs */
	__u64 idle_ns;	 /* left idle by other, throttled containers on its CPUs */
};

static __noinline int cf_window_sums(const struct cf_mask *mask, __u32 row, __u64 now,
				     struct cf_window_sums_ns *sums)
{
	__u64 shared_ns = 0, idle_ns = 0;

	for (__u32 cpu = 0; cpu < CF_SCHED_CPUS_MAX; cpu++) {
		struct cf_sched_cell *cell;
		struct cf_sched_cpu *s;

		if (cpu >= sched_cpus)
			break;
		s = cf_sched_cpu(cpu);
		cell = cf_sched_cell(cpu, row);
		if (!s || !cell)
			break;
		shared_ns += cell->shared_ns;
		if (!cf_mask_has(mask, cpu))
			continue;
		idle_ns += s->left_idle_ns - cell->idled_ns;
		if (s->row == CF_SCHED_IDLE && s->idle_row && s->idle_row != row &&
		    now > s->began_at_ns)
			idle_ns += now - s->began_at_ns;
	}
	sums->shared_ns = shared_ns;
	sums->idle_ns = idle_ns;
	return 0;
}

/* Closes the container's window if it is a period old. Of the time that the container waited in it,
 * the part that throttled others left idle is phantom. One CPU wins the exchange; the others
 * return. Called before the wait that has just ended is counted, which then falls into the next
 * window. */
static __always_inline void cf_window_close_if_due(__u32 row, __u64 now, __u64 counting_at_ns,
						   struct task_struct___sched *p)
{
	struct cf_sched_window *w = bpf_map_lookup_elem(&sched_window_map, &row);
	__u64 began, shared_ns, idle_ns;
	struct cf_window_sums_ns sums = {};
	struct cf_mask mask = {};
	bool open;

	if (!w)
		return;
	began = w->began_at_ns;
	open = began && began >= counting_at_ns;
	if (open && (now < began || now - began < CF_SCHED_PERIOD_NS))
		return;
	if (__sync_val_compare_and_swap(&w->began_at_ns, began, now) != began)
		return;
	cf_mask_read(&mask, p);
	cf_window_sums(&mask, row, now, &sums);
	if (open && p->nr_cpus_allowed > 1) {
		shared_ns = sums.shared_ns - w->shared_base_ns;
		/* The mask may have changed: then this window has no meaning. */
		idle_ns = sums.idle_ns > w->idle_base_ns ? sums.idle_ns - w->idle_base_ns : 0;
		/* No task woke it for longer than a period: takes a period's part of the idle time.
		 * */
		if (now - began > 2 * CF_SCHED_PERIOD_NS)
			idle_ns = idle_ns / ((now - began) / CF_SCHED_PERIOD_NS);
		w->phantom_ns += shared_ns < idle_ns ? shared_ns : idle_ns;
	}
	w->shared_base_ns = sums.shared_ns;
	w->idle_base_ns = sums.idle_ns;
}

#endif
