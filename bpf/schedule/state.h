/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/* The maps of the diagnosis, and the owners of tasks. */
#ifndef COFFERDAM_SCHEDULE_STATE_H
#define COFFERDAM_SCHEDULE_STATE_H

#include "kernel.h"
#include "../abi/schedule_abi.h"

/* Set before load. */
const volatile __u32 sched_rows __weak = CF_SCHED_FIRST_CONTAINER + 1;
const volatile __u32 sched_cpus __weak = 1;

/* Raised by the reader after each change of the identities. */
__u32 sched_generation __weak = 1;
/* Never written: puts types that no map names into the object's BTF, for the reader. */
struct cf_sched_layout sched_layout __weak = {};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1); /* possible CPUs, set before load */
	__type(key, __u32);
	__type(value, struct cf_sched_cpu);
} sched_cpu_map __weak SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, CF_SCHED_FIRST_CONTAINER + 1); /* CPUs × sched_rows */
	__type(key, __u32);
	__type(value, struct cf_sched_cell);
} sched_cell_map __weak SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, CF_SCHED_FIRST_CONTAINER + 1); /* sched_rows */
	__type(key, __u32);
	__type(value, struct cf_sched_window);
} sched_window_map __weak SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1);
	__type(key, __u64);   /* v2 cgroup id */
	__type(value, __u32); /* row */
} sched_cgroup_rows __weak SEC(".maps");

static __always_inline struct cf_sched_cpu *cf_sched_cpu(__u32 cpu)
{
	return bpf_map_lookup_elem(&sched_cpu_map, &cpu);
}

static __always_inline struct cf_sched_cell *cf_sched_cell(__u32 cpu, __u32 row)
{
	__u32 key = cpu * sched_rows + row;

	return bpf_map_lookup_elem(&sched_cell_map, &key);
}

/* Row of a v2 cgroup. An address belongs to one cgroup while the generation is valid: the reader
 * raises it when a container comes or goes. */
static __always_inline __u32 cf_sched_row(struct cf_sched_cpu *s, struct cgroup *cgroup)
{
	__u64 object = (__u64)cgroup, id;
	__u32 slot = (__u32)(object >> 6) ^ (__u32)(object >> 13);
	struct cf_sched_identity *e = &s->identities[slot & (CF_SCHED_IDENTITIES - 1)];
	__u32 *row;

	if (e->cgroup == object && e->generation == sched_generation)
		return e->row;
	id = cgroup->kn->id;
	row = bpf_map_lookup_elem(&sched_cgroup_rows, &id);
	e->row = row && *row < sched_rows ? *row : CF_SCHED_HOST;
	e->generation = sched_generation;
	e->cgroup = object;
	return e->row;
}

/* Whether the container left this CPU before counting began: it may have run, slept and been queued
 * again since. */
static __always_inline bool cf_sched_is_stale(const struct cf_sched_cpu *s,
					      const struct cf_sched_cell *cell)
{
	return cell->stopped_at_ns < s->counting_at_ns;
}

/* Remembers the segment that ends. */
static __always_inline void cf_run_ended(struct cf_sched_cpu *s)
{
	struct cf_sched_run *run = &s->runs[s->next_run++ & (CF_SCHED_RUNS - 1)];

	run->began_at_ns = s->began_at_ns;
	run->row = s->row;
}

#endif
