/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * Closes packets whose end was not seen: TCP frees some without a tracepoint. The reader calls it
 * now and then (a BPF_PROG_TYPE_SYSCALL program), never the data path; each call does a part of the
 * table. A packet that reached its container becomes a report that says so, any other a miss.
 */
#include "table.h"

struct lt_sweep_context {
	struct lt_sweep_args args;
	__u64 now;
};

static __always_inline void lt_sweep_entry(struct lt_entry *e, const struct lt_sweep_context *c)
{
	__u64 used = e->used_ns;
	__u64 age = c->now > used ? c->now - used : 0;

	if (!e->row[LT_EGRESS] && !e->row[LT_INGRESS])
		return;
	if (age < (e->queued ? c->args.queued_ns : c->args.older_ns))
		return;
	lt_close(e, LT_MISS_UNSEEN);
	lt_remove(e);
}

static long lt_sweep_bucket(__u64 index, struct lt_sweep_context *c)
{
	__u32 key = (c->args.first + (__u32)index) & bucket_mask;
	struct lt_bucket *b = bpf_map_lookup_elem(&buckets, &key);

	if (!b)
		return 0;
	for (int i = 0; i < LT_WAYS; i++) {
		if (b->skb[i])
			lt_sweep_entry(&b->way[i], c);
	}
	return 0;
}

SEC("syscall")
int lt_sweep(struct lt_sweep_args *args)
{
	struct lt_sweep_context c = { .args = *args, .now = bpf_ktime_get_ns() };

	bpf_loop(c.args.buckets, lt_sweep_bucket, &c, 0);
	return 0;
}

char LICENSE[] __weak SEC("license") = "GPL";
