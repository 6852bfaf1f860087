/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * Empty programs at the tracepoints of the accounting's markers, for `bench accounting`: their cost
 * is that of any program at these tracepoints on this kernel.
 */
#include "../include/kernel.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

#define CF_NOTHING(tracepoint)                                                                     \
	SEC("tp_btf/" #tracepoint)                                                                 \
	int BPF_PROG(reference_marker_##tracepoint)                                                \
	{                                                                                          \
		return 0;                                                                          \
	}

CF_NOTHING(irq_handler_entry)
CF_NOTHING(irq_handler_exit)
CF_NOTHING(softirq_raise)
CF_NOTHING(softirq_entry)
CF_NOTHING(softirq_exit)
CF_NOTHING(sched_switch)
CF_NOTHING(netif_receive_skb)
CF_NOTHING(napi_gro_receive_entry)
CF_NOTHING(napi_poll)
CF_NOTHING(net_dev_queue)
CF_NOTHING(qdisc_dequeue)

SEC("raw_tp/csd_queue_cpu")
int reference_marker_csd_queue_cpu(void *context)
{
	return 0;
}

char LICENSE[] __weak SEC("license") = "GPL";
