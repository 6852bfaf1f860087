/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * Measures the softirqs and device interrupts that interrupt one thread: the part of an
 * interruption that the accounting sees. The rest of what the thread loses is the way into the
 * kernel and out again. Attached for milliseconds, while that thread watches its clock.
 */
#include "../include/follows.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

struct bpf_pidns_info {
	__u32 pid;
	__u32 tgid;
};

/* The thread: its id in its process namespace, and that namespace. It stays on one CPU. */
volatile __u32 thread = 0;
volatile __u64 namespace_device = 0;
volatile __u64 namespace_inode = 0;

volatile __u64 seen_ns = 0; /* in softirqs, and in device interrupts outside of them */
/* By network softirqs; one that follows another softirq does not count. */
volatile __u64 interruptions = 0;

volatile __u64 softirq_start_ns = 0;
volatile __u64 softirq_end_ns = 0; /* of the last softirq that interrupted it */
volatile __u64 hardirq_start_ns = 0;

static __always_inline bool in_is_thread(void)
{
	struct bpf_pidns_info id = {};

	return thread &&
	       !bpf_get_ns_current_pid_tgid(namespace_device, namespace_inode, &id, sizeof(id)) &&
	       id.pid == thread;
}

SEC("tp_btf/softirq_entry")
int BPF_PROG(interruption_softirq_entry)
{
	if (in_is_thread())
		softirq_start_ns = bpf_ktime_get_ns();
	return 0;
}

SEC("tp_btf/softirq_exit")
int BPF_PROG(interruption_softirq_exit, unsigned int vector)
{
	__u64 now;

	if (!softirq_start_ns || !in_is_thread())
		return 0;
	now = bpf_ktime_get_ns();
	seen_ns += now - softirq_start_ns;
	if ((vector == CF_NET_RX_SOFTIRQ || vector == CF_NET_TX_SOFTIRQ) &&
	    !cf_follows(softirq_start_ns, softirq_end_ns))
		interruptions++;
	softirq_end_ns = now;
	softirq_start_ns = 0;
	return 0;
}

SEC("tp_btf/irq_handler_entry")
int BPF_PROG(interruption_irq_entry)
{
	if (!softirq_start_ns && in_is_thread())
		hardirq_start_ns = bpf_ktime_get_ns();
	return 0;
}

SEC("tp_btf/irq_handler_exit")
int BPF_PROG(interruption_irq_exit)
{
	if (!hardirq_start_ns || !in_is_thread())
		return 0;
	seen_ns += bpf_ktime_get_ns() - hardirq_start_ns;
	hardirq_start_ns = 0;
	return 0;
}

char LICENSE[] SEC("license") = "GPL";
