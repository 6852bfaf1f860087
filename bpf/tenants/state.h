/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * Tenants of the isolation benchmark by their cgroups. All maps are filled by the benchmark
 * before a cell and read by it each 100 ms; nothing else in Cofferdam uses these programs.
 */
#ifndef COFFERDAM_TENANTS_STATE_H
#define COFFERDAM_TENANTS_STATE_H

#include "../include/kernel.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include <bpf/bpf_core_read.h>
#include "../abi/tenants_abi.h"

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1); /* rows, set before load */
	__type(key, __u32);
	__type(value, struct cf_tenant);
} tenant_totals __weak SEC(".maps");

/* Cgroups of the unified tree: owners of tasks. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 64);
	__type(key, __u64);   /* v2 cgroup id */
	__type(value, __u32); /* row */
} tenant_tasks __weak SEC(".maps");

/* Cgroups of the tree that has the I/O controller: v1's blkio, or the unified one. A table of its
 * own, because ids of two trees may be equal. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 64);
	__type(key, __u64);   /* cgroup id */
	__type(value, __u32); /* row */
} tenant_blocks __weak SEC(".maps");

static __always_inline struct cf_tenant *cf_tenant(__u32 row)
{
	return bpf_map_lookup_elem(&tenant_totals, &row);
}

#endif
