/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * A second, independent clock for tests and `bench accounting`: the time of softirqs and device
 * hardirqs on each CPU, from their markers alone, without the accounting's code. The ledger must
 * add up to it. Hardirqs inside a softirq are subtracted from the softirq.
 */
#include "../include/kernel.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

struct cf_reference {
	__u64 softirq_start_ns;
	__u64 hardirq_start_ns;
	__u64 softirq_ns;
	__u64 hardirq_ns;
	__u64 hardirq_mark_ns; /* hardirq_ns when the softirq began */
	__u64 softirqs;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct cf_reference);
} reference_cpus SEC(".maps");

static __always_inline struct cf_reference *this_cpu(void)
{
	__u32 cpu = bpf_get_smp_processor_id();

	return bpf_map_lookup_elem(&reference_cpus, &cpu);
}

SEC("tp_btf/softirq_entry")
int BPF_PROG(reference_softirq_entry)
{
	struct cf_reference *r = this_cpu();

	if (!r)
		return 0;
	r->hardirq_mark_ns = r->hardirq_ns;
	r->softirq_start_ns = bpf_ktime_get_ns();
	return 0;
}

SEC("tp_btf/softirq_exit")
int BPF_PROG(reference_softirq_exit)
{
	struct cf_reference *r = this_cpu();

	if (!r || !r->softirq_start_ns)
		return 0;
	r->softirq_ns +=
		bpf_ktime_get_ns() - r->softirq_start_ns - (r->hardirq_ns - r->hardirq_mark_ns);
	r->softirq_start_ns = 0;
	r->softirqs++;
	return 0;
}

SEC("tp_btf/irq_handler_entry")
int BPF_PROG(reference_irq_entry)
{
	struct cf_reference *r = this_cpu();

	if (r)
		r->hardirq_start_ns = bpf_ktime_get_ns();
	return 0;
}

SEC("tp_btf/irq_handler_exit")
int BPF_PROG(reference_irq_exit)
{
	struct cf_reference *r = this_cpu();

	if (!r || !r->hardirq_start_ns)
		return 0;
	r->hardirq_ns += bpf_ktime_get_ns() - r->hardirq_start_ns;
	r->hardirq_start_ns = 0;
	return 0;
}

/* An empty program: the time in the kernel's run-time statistics is their own cost. */
SEC("tp_btf/netif_receive_skb")
int BPF_PROG(reference_empty)
{
	return 0;
}

char LICENSE[] __weak SEC("license") = "GPL";
