/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * Receipt by a device of the host, and the packet that the stack has in hand.
 */
#ifndef COFFERDAM_LATENCY_RECEIVE_H
#define COFFERDAM_LATENCY_RECEIVE_H

#include "arrive.h"
#include "merge.h"

/* The packet that the stack has in hand on this CPU; NULL if its skb has been reused since. */
static __always_inline struct lt_entry *lt_in_hand(const struct lt_cpu *cpu)
{
	struct lt_entry *e = lt_find(cpu->receiving);

	return e && e->claimed_ns == cpu->in_hand_ns ? e : NULL;
}

/* `e` is the entry of `skb` or NULL, `l3` its network header, `bytes` its length. */
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
		/* The host sees it again; a tunnel has removed its headers. */
		e->used_ns = bpf_ktime_get_ns();
		if (d->tunnel && lt_read(&p, l3))
			e->check = p.check;
		return e;
	}
	/* No container is measured in this direction. */
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
	/* A packet in several buffers is read in full; for most others this is enough. */
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

/* Ends the packet that the stack had in hand. If no socket raised an event, the device was the last
 * point. TCP puts packets on a backlog while a system call has the socket, and may merge them
 * there; since 6.18 another CPU may queue UDP for this one. */
static __always_inline void lt_end_receive(struct lt_cpu *cpu, __u64 next)
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
