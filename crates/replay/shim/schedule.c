/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/* Scheduler objects as the programs of the diagnosis see them. See also world.c. */
#include "../../../bpf/schedule/kernel.h"
#include "../../../bpf/abi/schedule_abi.h"

void *calloc(__typeof__(sizeof(0)) count, __typeof__(sizeof(0)) bytes);

__u32 sched_rows = CF_SCHED_FIRST_CONTAINER + 14;
__u32 sched_cpus = 2;

/* Allocates the runqueue of a CPU. */
void *world_runqueue(void)
{
	return calloc(1, sizeof(struct rq));
}

void world_clock(struct rq *rq, __u64 now)
{
	rq->clock = now;
}

/* Allocates a container's part of a CPU's runqueue. */
void *world_group(struct rq *rq)
{
	struct cfs_rq *cfs = calloc(1, sizeof(*cfs));

	cfs->rq = rq;
	return cfs;
}

void world_group_set(struct cfs_rq *cfs, __u32 runnable, int throttled, __u64 throttled_ns)
{
	cfs->h_nr_runnable = runnable;
	cfs->throttle_count = throttled;
	cfs->throttled_clock_self_time = throttled_ns;
}

void *world_css_set(struct cgroup *cgroup)
{
	struct css_set *set = calloc(1, sizeof(*set));

	set->dfl_cgrp = cgroup;
	return set;
}

/* Allocates a thread that may use the CPUs of `mask`. */
void *world_thread(int pid, struct css_set *set, unsigned long mask)
{
	struct {
		struct task_struct___sched task;
		struct cpumask mask;
	} *t = calloc(1, sizeof(*t));

	t->mask.bits[0] = mask;
	t->task.pid = pid;
	t->task.cgroups = set;
	t->task.cpus_ptr = &t->mask;
	t->task.nr_cpus_allowed = __builtin_popcountl(mask);
	return &t->task;
}

void world_thread_set(struct task_struct___sched *task, struct cfs_rq *cfs, __u32 cpu, int on_rq,
		      __u64 last_queued)
{
	task->se.cfs_rq = cfs;
	task->thread_info.cpu = cpu;
	task->on_rq = on_rq;
	task->sched_info.last_queued = last_queued;
}
