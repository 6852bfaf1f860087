/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * Measurement by devices: programs where packets enter and leave the devices of the measured
 * containers and of the host, in place of the host's tracepoints (tcx, Linux 6.6). A round trip
 * passes six of them instead of 16 tracepoints. They do not see queues, drops, and the copy to the
 * reader.
 */
#include "../include/packet.h"
#include "depart.h"
#include "receive.h"

extern void *bpf_cast_to_kern_ctx(void *context) __ksym __weak;

/* Entry of a packet that a device receives. A super-packet may have been cut on its way here: its
 * segments are new, and their buffers may still have the entries of earlier packets. */
static __always_inline struct lt_entry *
lt_find_received(struct lt_cpu *cpu, const struct lt_device *d, struct sk_buff *skb)
{
	struct lt_entry *e = lt_find_any(skb), *part;

	if (d->leaves || !wholes_seen || (e && lt_same(e, skb)))
		return e;
	part = lt_segment(cpu, skb, lt_id(skb), bpf_ktime_get_ns());
	return part ? part : e;
}

SEC("tcx/ingress")
int lt_hook_ingress(struct __sk_buff *context)
{
	struct sk_buff *skb = bpf_cast_to_kern_ctx(context);
	struct lt_device *d;
	struct lt_entry *e;
	struct lt_cpu *cpu;

	if (!active)
		return TC_NEXT;
	cpu = lt_this_cpu();
	if (!cpu)
		return TC_NEXT;
	lt_end_receive(cpu, lt_id(skb));
	d = lt_device(cpu, skb->dev);
	cpu->receiving = lt_id(skb);
	cpu->receiving_skb = (__u64)skb;
	if (d->row && lt_for_another(skb)) {
		e = NULL;
	} else if (d->row) {
		e = lt_find_received(cpu, d, skb);
		lt_arrive(d, e, lt_sent_l3(skb), skb, bpf_ktime_get_ns());
		cpu->arrived = 1;
	} else {
		/* The length includes the header of the link here. */
		e = lt_find_received(cpu, d, skb);
		e = lt_receive_host(d, e, skb, lt_sent_l3(skb), skb->len - skb->mac_len);
	}
	cpu->in_hand_ns = e ? e->claimed_ns : 0;
	return TC_NEXT;
}

/* Ends a packet that is handed to the last device of the host. */
static __always_inline void lt_leave(struct lt_entry *e, struct lt_device *d, struct sk_buff *skb)
{
	e->whole = 0;
	if (lt_same(e, skb)) {
		lt_emit(e, LT_EGRESS, LT_END_DEVICE);
	} else {
		lt_count_miss(lt_take(e, LT_EGRESS), LT_EGRESS, LT_MISS_CONTENT,
			      e->packet.segments);
	}
	if (d->leaves && !e->row[LT_INGRESS])
		lt_remove(e);
}

SEC("tcx/egress")
int lt_hook_egress(struct __sk_buff *context)
{
	struct sk_buff *skb = bpf_cast_to_kern_ctx(context);
	struct lt_device *d;
	struct lt_entry *e;
	struct lt_cpu *cpu;

	if (!active)
		return TC_NEXT;
	cpu = lt_this_cpu();
	if (!cpu)
		return TC_NEXT;
	d = lt_device(cpu, skb->dev);
	if (d->row) {
		lt_begin(cpu, d, skb, bpf_ktime_get_ns());
		return TC_NEXT;
	}
	e = lt_find_any(skb);
	if (!e)
		return TC_NEXT;
	if (skb->sk && !e->row[LT_EGRESS]) {
		/* The host's own packet, in a buffer whose freeing was not seen. */
		lt_close(e, LT_MISS_LOCAL);
		lt_remove(e);
		return TC_NEXT;
	}
	/* Already delivered: another clone of a flooded packet, or a new packet in its buffer. */
	if (e->stamp[LT_RECV_IN])
		return TC_NEXT;
	e->used_ns = bpf_ktime_get_ns();
	e->stamp[LT_QUEUE_HOST] = e->used_ns;
	if (lt_no_queue(skb->dev))
		e->stamp[LT_XMIT_HOST] = e->used_ns;
	e->last_host_ifindex = d->ifindex;
	if (e->row[LT_EGRESS] && !d->passes)
		lt_leave(e, d, skb);
	else
		lt_whole(cpu, e);
	return TC_NEXT;
}

char LICENSE[] __weak SEC("license") = "GPL";
