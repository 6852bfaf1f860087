/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * Resident memory of a tenant, by the tracepoint that fires when an address space's counters change
 * (kmem:rss_stat). Runs in the page fault, in reclaim, and when an address space is torn down,
 * which happens without its task. Therefore the program learns an address space (the tracepoint's
 * mm_id) from a task of a tenant that changes its own, and keeps it by its address until it is
 * empty.
 *
 * The kernel keeps these counters in a part per CPU and a sum that is updated every `batch` pages
 * (percpu_counter). Only the sum is read: it lacks less than slack_pages per address space. The
 * tracepoint's own `size` adds up all CPUs at each of a fault's 256 events per MiB; this program
 * returns early unless the sum has changed.
 */
#include "state.h"

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)
struct percpu_counter {
	s64 count;
};
struct mm_struct___counters {
	struct percpu_counter rss_stat[4];
};
/* Until 6.1; counters per CPU came with 6.2 (commit f1a7941243c1). */
struct mm_rss_stat {
	atomic64_t count[4];
};
struct mm_struct___atomic {
	struct mm_rss_stat rss_stat;
};
struct task_struct___mm {
	struct mm_struct *mm;
};
#pragma clang attribute pop

/* Kinds of pages; enum in linux/mm_types_task.h, unchanged since 4.5. */
enum { CF_MM_FILEPAGES = 0, CF_MM_ANONPAGES, CF_MM_SWAPENTS, CF_MM_SHMEMPAGES };

#define BPF_MAP_TYPE_PERCPU_ARRAY 6

/* Most pages that the sums may lack, all kinds together; set before load. */
const volatile __s64 slack_pages = 0;

struct cf_last {
	__u64 mm;
	__s64 count;
};
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 4); /* kinds */
	__type(key, __u32);
	__type(value, struct cf_last);
} tenant_last SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 4096);
	__type(key, __u64); /* address of the mm_struct */
	__type(value, struct cf_tenant_mm);
} tenant_mms SEC(".maps");

static __always_inline __s64 cf_count(__u64 mm, __u32 kind)
{
	__u64 at = mm;
	__s64 count = 0;

	if (bpf_core_type_exists(struct mm_rss_stat)) {
		at += bpf_core_field_offset(struct mm_struct___atomic, rss_stat);
		at += kind * sizeof(__s64);
	} else {
		at += bpf_core_field_offset(struct mm_struct___counters, rss_stat);
		at += kind * bpf_core_type_size(struct percpu_counter);
		at += bpf_core_field_offset(struct percpu_counter, count);
	}
	bpf_probe_read_kernel(&count, sizeof(count), (const void *)at);
	return count;
}

static __always_inline __s64 cf_rss(__u64 mm)
{
	__s64 pages = cf_count(mm, CF_MM_FILEPAGES) + cf_count(mm, CF_MM_ANONPAGES) +
		      cf_count(mm, CF_MM_SHMEMPAGES);

	return pages > 0 ? pages : 0;
}

static __always_inline void cf_add(__u32 row, __s64 pages)
{
	struct cf_tenant *tenant = cf_tenant(row);

	if (tenant && pages)
		__sync_fetch_and_add(&tenant->rss_pages, pages);
}

/* Adds an unknown address space, which a task of row `row` changed as its own. */
static __always_inline void cf_learn(__u64 mm, __u32 row)
{
	struct cf_tenant_mm entry = { .pages = cf_rss(mm), .row = row };

	if (bpf_map_update_elem(&tenant_mms, &mm, &entry, BPF_NOEXIST)) {
		struct cf_tenant *tenant = cf_tenant(row);

		if (tenant)
			__sync_fetch_and_add(&tenant->untracked_mms, 1);
		return;
	}
	cf_add(row, entry.pages);
}

SEC("tp_btf/rss_stat")
int BPF_PROG(tenant_rss, struct mm_struct *changed, int member)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct task_struct___mm *with_mm = (void *)task;
	__u64 mm = (__u64)changed;
	__u32 kind = member, *row = NULL;
	struct cf_tenant_mm *entry;
	struct cf_last *last;
	bool own;
	__s64 pages, before;

	if (kind == CF_MM_SWAPENTS)
		return 0;
	last = bpf_map_lookup_elem(&tenant_last, &kind);
	if (!last)
		return 0;
	own = (__u64)BPF_CORE_READ(with_mm, mm) == mm;
	if (own) {
		__s64 count = cf_count(mm, kind);

		if (last->mm == mm && last->count == count)
			return 0;
		last->mm = mm;
		last->count = count;
	}
	entry = bpf_map_lookup_elem(&tenant_mms, &mm);
	if (own) {
		__u64 id = task->cgroups->dfl_cgrp->kn->id;

		row = bpf_map_lookup_elem(&tenant_tasks, &id);
	}
	if (entry && row && entry->row != *row) {
		/* The address was reused. */
		cf_add(entry->row, -entry->pages);
		bpf_map_delete_elem(&tenant_mms, &mm);
		entry = NULL;
	}
	if (!entry) {
		if (row)
			cf_learn(mm, *row);
		return 0;
	}
	pages = cf_rss(mm);
	if (!own && pages <= slack_pages)
		pages = 0; /* torn down: only parts of other CPUs are left */
	before = __sync_lock_test_and_set(&entry->pages, pages);
	cf_add(entry->row, pages - before);
	if (!pages)
		bpf_map_delete_elem(&tenant_mms, &mm);
	return 0;
}

char LICENSE[] __weak SEC("license") = "GPL";
