/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * A waiting thread is moved to another CPU: its wait on the old one ends here. Runs under the old
 * CPU's runqueue lock, on any CPU. Threads that are placed at wake-up were not queued, and are
 * ignored.
 */
#include "state.h"

SEC("tp_btf/sched_migrate_task")
int BPF_PROG(schedule_migrate, struct task_struct___sched *p, int to)
{
	struct cf_sched_cpu *s, *from_cpu;
	struct cf_sched_cell *cell;
	__u32 from, row;
	__u64 now;

	if (p->on_rq != CF_ON_RQ_MIGRATING)
		return 0;
	s = cf_sched_cpu(bpf_get_smp_processor_id());
	from = cf_cpu_of(p);
	from_cpu = cf_sched_cpu(from);
	if (!s || !from_cpu)
		return 0;
	row = cf_sched_row(s, p->cgroups->dfl_cgrp);
	if (row < CF_SCHED_FIRST_CONTAINER || from_cpu->row == row)
		return 0;
	cell = cf_sched_cell(from, row);
	if (!cell || cell->stopped != CF_SCHED_QUEUED || cf_sched_is_stale(from_cpu, cell))
		return 0;
	now = p->se.cfs_rq->rq->clock;
	if (from_cpu->row != CF_SCHED_IDLE && now > cell->stopped_at_ns)
		cell->shared_ns += now - cell->stopped_at_ns;
	cell->stopped_at_ns = now;
	if (!cf_runnable(p->se.cfs_rq))
		cell->stopped = CF_SCHED_ASLEEP;
	return 0;
}

char LICENSE[] __weak SEC("license") = "GPL";
