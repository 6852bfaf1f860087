/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * A packet leaves its container, and this host.
 */
#ifndef COFFERDAM_LATENCY_DEPART_H
#define COFFERDAM_LATENCY_DEPART_H

#include "device.h"
#include "segments.h"
#include "send.h"

/* Stamps the transmission at the time of queueing, if the device has no queue. */
static __always_inline void lt_stamp_transmit(struct lt_cpu *cpu, struct lt_entry *e,
					      const struct lt_device *d, struct sk_buff *skb)
{
	if (e->whole || !lt_no_queue(skb->dev))
		return;
	if (d->row) {
		e->stamp[LT_XMIT_IN] = e->used_ns;
	} else {
		if (e->row[LT_EGRESS])
			return;
		e->stamp[LT_XMIT_HOST] = e->used_ns;
		e->last_host_ifindex = d->ifindex;
	}
	e->queued = 0;
	cpu->handed = lt_id(skb);
}

static __always_inline void lt_begin(struct lt_cpu *cpu, struct lt_device *d, struct sk_buff *skb,
				     __u64 now)
{
	struct lt_entry *e = lt_find(lt_id(skb));
	struct lt_config *config;
	__u32 row = d->row;
	struct lt_packet p;
	struct sock *sk;

	/* From the container's own tunnel to its outer device. */
	if (e && e->row[LT_EGRESS] == row && e->inner_passes && !e->stamp[LT_RECV_HOST]) {
		e->inner_passes = d->passes;
		e->queued = 1;
		return;
	}
	config = bpf_map_lookup_elem(&configs, &row);
	if (!config || !lt_read(&p, lt_sent_l3(skb)) ||
	    !lt_wanted(config, &p, LT_EGRESS, d->ifindex))
		return;
	p.segments = lt_segments(skb, p.payload_bytes);
	e = lt_claim(lt_id(skb), lt_head(skb), now);
	if (!e) {
		lt_count_missed(&p, row, LT_EGRESS, LT_MISS_EVICTED);
		return;
	}
	sk = skb->sk;
	if (sk) {
		e->cookie = lt_cookie(sk);
		if (p.class == LT_TCP && lt_sent_before(sk, &p))
			p.flags |= LT_RETRANSMIT;
		e->stamp[LT_SEND] = lt_send_begun(cpu);
	}
	e->stamp[LT_QUEUE_IN] = now;
	e->check = p.check;
	e->inner_passes = d->passes;
	e->queued = 1;
	lt_count_in(e, &p, row, d->netns, d->ifindex, LT_EGRESS);
	if (p.class == LT_TCP && p.payload_bytes)
		lt_range_put(e);
	lt_whole(cpu, e);
	lt_stamp_transmit(cpu, e, d, skb);
}

/* Whether the packet is the one that began: compares its content, inside a tunnel as well. */
static __always_inline bool lt_same(struct lt_entry *e, const struct sk_buff *skb)
{
	__u32 class, check;
	struct lt_packet p;

	if (lt_glance(&class, &check, lt_sent_l3(skb)) && check == e->check)
		return true;
	if (lt_read(&p, lt_sent_l3(skb)) && p.check == e->check)
		return true;
	/* The skb's encapsulation bit does not help: it is cleared if no checksum is offloaded. */
	if (!skb->inner_network_header || !lt_read(&p, lt_inner_l3(skb)) || p.check != e->check)
		return false;
	e->packet.flags |= LT_ENCAPSULATED;
	return true;
}

#endif
