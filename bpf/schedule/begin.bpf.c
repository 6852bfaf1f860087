/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * Begins counting on the CPU on which it runs. The kernel's test run brings it there by an
 * interrupt, during which the CPU cannot switch; it is attached to nothing. Without it counting
 * would begin at the CPU's first switch: a thread that has a CPU to itself may not switch for
 * seconds.
 */
#include "state.h"

SEC("raw_tp/sched_switch")
int schedule_begin(void *context)
{
	struct task_struct___sched *task = (struct task_struct___sched *)bpf_get_current_task_btf();
	struct cf_sched_cpu *s = cf_sched_cpu(bpf_get_smp_processor_id());
	struct css_set *css_set = task->cgroups;

	if (!s)
		return 0;
	cf_run_ended(s);
	/* Time of the last tick, or earlier on an idle CPU, where no task waits. */
	s->began_at_ns = task->se.cfs_rq->rq->clock;
	s->counting_at_ns = s->began_at_ns;
	s->row = task->pid ? cf_sched_row(s, css_set->dfl_cgrp) : CF_SCHED_IDLE;
	s->css_set = (__u64)css_set;
	s->generation = sched_generation;
	s->throttled_row = 0;
	s->idle_row = 0;
	return 0;
}

char LICENSE[] __weak SEC("license") = "GPL";
