/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * Device hardirqs. One that raises NET_RX or NET_TX is a network hardirq; its time waits for
 * the packets of the receive softirq that it started and is shared among them. Handlers run
 * with interrupts off and do not nest. They interrupt anything, so they touch only fields of
 * their own and interrupt_ns, which every open segment subtracts.
 */
#include "../include/segment.h"

SEC("tp_btf/irq_handler_entry")
int BPF_PROG(irq_handler_entry)
{
	struct cf_cpu *s = cf_this_cpu();

	if (!s || !window_open)
		return 0;
	s->in_hardirq = 1;
	s->hardirq_network = 0;
	s->hardirq_start_ns = bpf_ktime_get_ns();
	return 0;
}

SEC("tp_btf/softirq_raise")
int BPF_PROG(softirq_raise, unsigned int vector)
{
	struct cf_cpu *s = cf_this_cpu();

	if (s && s->in_hardirq && (vector == CF_NET_RX_SOFTIRQ || vector == CF_NET_TX_SOFTIRQ))
		s->hardirq_network = 1;
	return 0;
}

SEC("tp_btf/irq_handler_exit")
int BPF_PROG(irq_handler_exit)
{
	struct cf_cpu *s = cf_this_cpu();
	__u64 ns;

	if (!s || !s->in_hardirq)
		return 0;
	s->in_hardirq = 0;
	ns = bpf_ktime_get_ns() - s->hardirq_start_ns;
	if (ns > CF_SEGMENT_MAX_NS) {
		s->totals.segments_rejected++;
		return 0;
	}
	s->interrupt_ns += ns;
	if (s->hardirq_network) {
		s->totals.hardirq_network_ns += ns;
		s->hardirq_pending_ns += ns;
		cf_charge(s, ns, 0, 0);
	} else {
		s->totals.hardirq_other_ns += ns;
		cf_give(CF_ROW_OTHER_HARDIRQ, CF_RX, ns, 0);
		cf_charge(s, 0, ns, 0);
	}
	return 0;
}

char LICENSE[] __weak SEC("license") = "GPL";
