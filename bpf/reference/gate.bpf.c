/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * A gate for tests and `bench accounting`. The kernel's test run of a program holds softirqs off on
 * its CPU; this program spins there until the gate is opened. Packets that were sent to that CPU in
 * the meantime are then handled in one softirq: a batch of known packets in a known order, however
 * busy the machine is. Without it the batches depend on the race of sender and receiver.
 */
#include "../include/kernel.h"
#include <bpf/bpf_helpers.h>

/* Longer than any batch takes to send; softirqs must not be held off for long. */
#define GATE_MAX_NS 20000000ULL
#define GATE_LOOKS (1 << 23)

/* Written by the sender. The program sets `gate_reached` when its CPU takes no softirqs. */
volatile __u32 gate_open = 0;
volatile __u32 gate_reached = 0;
/* Counts the times that the gate gave up before it was opened. */
volatile __u64 gate_timeouts = 0;

struct gate_wait {
	__u64 until_ns;
};

static long look(__u64 i, void *context)
{
	struct gate_wait *wait = context;

	if (gate_open)
		return 1;
	if (bpf_ktime_get_ns() > wait->until_ns) {
		gate_timeouts++;
		return 1;
	}
	return 0;
}

SEC("tc")
int gate_hold(void *skb)
{
	struct gate_wait wait = { .until_ns = bpf_ktime_get_ns() + GATE_MAX_NS };

	gate_reached = 1;
	bpf_loop(GATE_LOOKS, look, &wait, 0);
	return 0;
}
