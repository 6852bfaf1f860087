/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * Delays each packet that one device receives by a known time. `bench latency` shows with it that a
 * delay inside the measured path is in the reports. It is attached after the latency programs and
 * runs after them, so that the delay follows their stamp.
 */
#include "../include/kernel.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

volatile __u32 target_ifindex = 0;
volatile __u32 target_netns = 0;
volatile __u64 delay_ns = 0;
volatile __u64 runs = 0;
volatile __u64 held_ns = 0;

struct cf_hold {
	__u64 start;
	__u64 until;
};

static long cf_spin(__u64 index, void *context)
{
	struct cf_hold *hold = context;

	return bpf_ktime_get_ns() >= hold->until;
}

SEC("tp_btf/netif_receive_skb")
int BPF_PROG(delay_receive, struct sk_buff *skb)
{
	struct cf_hold hold = {};

	if (!delay_ns || (__u32)skb->dev->ifindex != target_ifindex ||
	    skb->dev->nd_net.net->ns.inum != target_netns)
		return 0;
	hold.start = bpf_ktime_get_ns();
	hold.until = hold.start + delay_ns;
	bpf_loop(1 << 20, cf_spin, &hold, 0);
	held_ns += bpf_ktime_get_ns() - hold.start;
	runs++;
	return 0;
}

char LICENSE[] SEC("license") = "GPL";
