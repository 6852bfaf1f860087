/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * The scheduler's types, reduced to the fields that the diagnosis reads, and the differences
 * between kernels. "___" flavours are the same kernel type with other fields (CO-RE ignores the
 * suffix).
 */
#ifndef COFFERDAM_SCHEDULE_KERNEL_H
#define COFFERDAM_SCHEDULE_KERNEL_H

#include "../include/kernel.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include <bpf/bpf_core_read.h>

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct rq {
	u64 clock;
};
struct cfs_rq {
	unsigned int h_nr_runnable; /* read as cfs_rq___runnable; first here for the host's tests */
	struct rq *rq;
	int throttle_count;
	u64 throttled_clock_self_time;
};
/* Before 6.6 (commit 677ea015f231) only the clock of load tracking existed. */
struct cfs_rq___pelt {
	u64 throttled_clock_pelt_time;
};
/* Name before 5.19 (commit 64eaf50731ac). */
struct cfs_rq___task {
	u64 throttled_clock_task_time;
};
/* Runnable threads, with those of sub-groups. Since 6.14 (commit c2a295bffeaf) h_nr_runnable,
 * without threads whose dequeue is delayed; before, h_nr_running. */
struct cfs_rq___runnable {
	unsigned int h_nr_runnable;
};
struct cfs_rq___running {
	unsigned int h_nr_running;
};
struct sched_entity {
	struct cfs_rq *cfs_rq;
};
struct sched_info {
	unsigned long long last_queued;
};
struct cpumask {
	unsigned long bits[1];
};
struct thread_info___cpu {
	u32 cpu;
};
struct task_struct___sched {
	struct thread_info___cpu thread_info;
	int on_rq;
	int pid;
	int nr_cpus_allowed;
	const struct cpumask *cpus_ptr;
	struct css_set *cgroups;
	struct sched_entity se;
	struct sched_info sched_info;
};
/* Before 5.16 (commit bcf9033e5449) the CPU was in the task itself. */
struct task_struct___cpu {
	unsigned int cpu;
};

#pragma clang attribute pop

/* task_struct.on_rq of a queued task that is being moved to another CPU. */
#define CF_ON_RQ_MIGRATING 2

/* Time for which this group's runqueue was throttled with something to run, ns. */
static __always_inline __u64 cf_throttled_ns(struct cfs_rq *cfs)
{
	if (bpf_core_field_exists(cfs->throttled_clock_self_time))
		return cfs->throttled_clock_self_time;
	if (bpf_core_field_exists(struct cfs_rq___pelt, throttled_clock_pelt_time))
		return ((struct cfs_rq___pelt *)cfs)->throttled_clock_pelt_time;
	return ((struct cfs_rq___task *)cfs)->throttled_clock_task_time;
}

static __always_inline __u32 cf_runnable(struct cfs_rq *cfs)
{
	if (bpf_core_field_exists(struct cfs_rq___runnable, h_nr_runnable))
		return ((struct cfs_rq___runnable *)cfs)->h_nr_runnable;
	return ((struct cfs_rq___running *)cfs)->h_nr_running;
}

static __always_inline __u32 cf_cpu_of(struct task_struct___sched *p)
{
	if (bpf_core_field_exists(struct thread_info___cpu, cpu))
		return p->thread_info.cpu;
	return ((struct task_struct___cpu *)p)->cpu;
}

#endif
