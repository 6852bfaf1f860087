/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * A device of the host receives a packet; and which packet the stack has in hand.
 */
#ifndef COFFERDAM_LATENCY_RECEIVE_H
#define COFFERDAM_LATENCY_RECEIVE_H

#include "arrive.h"
#include "merge.h"

/* The packet that the stack has in hand on this CPU; NULL when its skb is another's by now. */
static __always_inline struct lt_entry *lt_in_hand(const struct lt_cpu *cpu)
{
	struct lt_entry *e = lt_find(cpu->receiving);

	return e && e->claimed_ns == cpu->in_hand_ns ? e : NULL;
}

/* `e` is what is known of `skb`, `l3` its network header, `bytes` what there is of it. */
static __always_inline struct lt_entry *lt_receive_host(struct lt_device *d, struct lt_entry *e,
							struct sk_buff *skb, const __u8 *l3,
							__u32 bytes)
{
	__u32 class, check;
	struct lt_packet p;
	__u64 now;

	if (d->passes) {
		if (!e)
			return NULL;
		/* A second look by the same host; a tunnel took its headers off. */
		e->used_ns = bpf_ktime_get_ns();
		if (d->tunnel && lt_read(&p, l3))
			e->check = p.check;
		return e;
	}
	/* Nobody waits for what comes. */
	if (!e && !ingress_classes)
		return NULL;
	now = bpf_ktime_get_ns();
	if (e && e->row[LT_EGRESS] && (by_devices ? !d->leaves : !!e->stamp[LT_XMIT_IN]) &&
	    !e->stamp[LT_RECV_HOST]) {
		e->stamp[LT_RECV_HOST] = now;
		e->first_host_ifindex = d->ifindex;
		e->used_ns = now;
		if (e->packet.class == LT_TCP && bytes > e->packet.bytes)
			lt_merged(e, bytes - e->packet.bytes);
		return e;
	}
	if (!ingress_classes)
		return NULL;
	/* Of a packet in pieces all is asked for, of most others this is enough. */
	if (skb->data_len || !lt_glance(&class, &check, l3)) {
		if (!lt_read(&p, l3))
			return NULL;
		class = p.class;
		check = p.check;
	}
	/* UDP and others may be a tunnel's, with anything inside. */
	if ((class == LT_ICMP || class == LT_TCP) && !(ingress_classes >> class & 1))
		return NULL;
	e = lt_claim(lt_id(skb), lt_head(skb), now);
	if (!e)
		return NULL;
	e->stamp[LT_RECV_HOST] = now;
	e->check = check;
	if (hardware_stamps)
		e->hardware_ns = lt_hardware_stamp(skb);
	e->first_host_ifindex = d->ifindex;
	if (skb->data_len) {
		e->packet = p;
		e->packet.segments = lt_segments(skb, p.payload_bytes);
	} else {
		e->packet.segments = 1;
	}
	return e;
}

/* The stack is done with the packet it had in hand. When no socket told, the device was the last
 * point seen: TCP puts packets on a backlog while a system call has the socket, and may merge
 * them there; since 6.18 another CPU may queue UDP for this one. */
static __always_inline void lt_let_go(struct lt_cpu *cpu, __u64 next)
{
	struct lt_entry *e;

	if (!cpu->arrived || cpu->receiving == next)
		return;
	cpu->arrived = 0;
	if (!cpu->receiving)
		return;
	e = lt_in_hand(cpu);
	if (e && e->row[LT_INGRESS] && !e->stamp[LT_READY] &&
	    (by_devices || e->packet.class == LT_UDP || e->packet.class == LT_TCP)) {
		lt_emit(e, LT_INGRESS, LT_END_ARRIVED);
		lt_remove(e);
	}
}

#endif
