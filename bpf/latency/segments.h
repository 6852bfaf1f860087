/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * TCP by byte ranges.
 *
 * Super-packets that the kernel cuts before a device that takes none. The segments are new skbs
 * with new heads, and the super-packet ("whole") is freed first. Cutting and transmitting happen on
 * one CPU right after the whole was queued or dequeued, so each CPU remembers its last wholes. A
 * segment is found by its bytes and inherits the stamps of its whole. By devices, segments are seen
 * only when they are received, perhaps on another CPU: their acknowledgement number chooses the CPU
 * whose list has the whole. The segment with the last byte takes the rest of the whole's count, in
 * case the kernel has cut in another way than it announced.
 */
#ifndef COFFERDAM_LATENCY_SEGMENTS_H
#define COFFERDAM_LATENCY_SEGMENTS_H

#include "claim.h"
#include "packet.h"

/* CPU whose list has the wholes with this acknowledgement number. */
static __always_inline struct lt_cpu *lt_home(struct lt_cpu *cpu, __u32 acknowledged)
{
	__u32 key = acknowledged % cpu_count;
	struct lt_cpu *home;

	if (!by_devices)
		return cpu;
	home = bpf_map_lookup_elem(&cpus, &key);
	return home ? home : cpu;
}

/* Remembers `e`, which may be cut from here on. */
static __always_inline void lt_whole(struct lt_cpu *cpu, struct lt_entry *e)
{
	struct lt_parent *p;

	if (e->packet.class != LT_TCP || e->packet.segments <= 1)
		return;
	e->whole = 1;
	e->left_bytes = e->packet.payload_bytes;
	if (!wholes_seen)
		wholes_seen = 1;
	cpu = lt_home(cpu, e->packet.acknowledged);
	p = &cpu->parents[__sync_fetch_and_add(&cpu->next_parent, 1) & (LT_PARENTS - 1)];
	p->claimed_ns = e->claimed_ns;
	p->slot = e->slot;
	p->sequence = e->packet.sequence;
	p->bytes = e->packet.payload_bytes;
	p->acknowledged = e->packet.acknowledged;
}

/* Searches the newest first: a retransmission may be cut in another way. */
static __always_inline struct lt_entry *lt_parent_of(struct lt_cpu *cpu, const struct lt_packet *s)
{
	for (int i = 1; i <= (by_devices ? LT_PARENTS : LT_CUT); i++) {
		struct lt_parent *p = &cpu->parents[(cpu->next_parent - i) & (LT_PARENTS - 1)];
		__u32 bucket, way;
		struct lt_bucket *b;

		if (s->sequence - p->sequence >= p->bytes || s->acknowledged != p->acknowledged)
			continue;
		bucket = p->slot / LT_WAYS;
		way = p->slot & 3;
		b = bpf_map_lookup_elem(&buckets, &bucket);
		if (b && b->skb[way] && b->way[way].claimed_ns == p->claimed_ns &&
		    b->way[way].whole)
			return &b->way[way];
		/* By devices another CPU may be writing it. */
		if (!by_devices)
			p->bytes = 0;
	}
	return NULL;
}

/* Entry of a segment, made from that of its whole; NULL if it is no segment. */
static __noinline struct lt_entry *lt_segment(struct lt_cpu *cpu, const struct sk_buff *skb,
					      __u64 id, __u64 now)
{
	struct lt_entry *whole, *e;
	struct lt_packet p;
	__u64 claimed;
	bool last;

	if (!lt_read(&p, lt_sent_l3(skb)) || p.class != LT_TCP || !p.payload_bytes)
		return NULL;
	whole = lt_parent_of(lt_home(cpu, p.acknowledged), &p);
	/* The packet was not cut on its way here. */
	if (!whole || whole == lt_find(id))
		return whole;
	claimed = whole->claimed_ns;
	e = lt_claim(id, lt_head(skb), now);
	if (!e)
		return NULL;
	if (whole->claimed_ns != claimed || whole == e) {
		lt_remove(e);
		return NULL;
	}
	for (int i = 0; i < LT_STAMPS; i++)
		e->stamp[i] = whole->stamp[i];
	e->cookie = whole->cookie;
	e->hardware_ns = whole->hardware_ns;
	e->check = p.check;
	e->first_host_ifindex = whole->first_host_ifindex;
	e->last_host_ifindex = whole->last_host_ifindex;
	e->inner_passes = whole->inner_passes;
	e->queued = 1;
	e->packet = whole->packet;
	e->packet.sequence = p.sequence;
	e->packet.bytes = p.bytes;
	e->packet.payload_bytes = p.payload_bytes;
	last = p.payload_bytes >= whole->left_bytes;
	e->packet.segments = last ? whole->packet.segments : whole->packet.segments > 1;
	whole->packet.segments -= e->packet.segments;
	whole->left_bytes -= last ? whole->left_bytes : p.payload_bytes;
	e->netns[LT_EGRESS] = whole->netns[LT_EGRESS];
	e->ifindex[LT_EGRESS] = whole->ifindex[LT_EGRESS];
	e->ordinal[LT_EGRESS] = whole->ordinal[LT_EGRESS];
	whole->ordinal[LT_EGRESS] += e->packet.segments;
	if (last) {
		e->row[LT_EGRESS] = lt_take(whole, LT_EGRESS);
		lt_remove(whole);
	} else {
		e->row[LT_EGRESS] = whole->row[LT_EGRESS];
	}
	if (e->row[LT_EGRESS])
		lt_range_put(e);
	return e;
}

#endif
