/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * Writes a finished packet into the ring of this CPU. One atomic addition claims a position (an
 * interrupt may report in between). The oldest report is overwritten, and `published` shows the
 * reader which reports it has missed. No lock, no wake-up.
 */
#ifndef COFFERDAM_LATENCY_REPORT_H
#define COFFERDAM_LATENCY_REPORT_H

#include "state.h"

#define LT_BARRIER() __asm__ volatile("" ::: "memory")

static __always_inline __u32 lt_delta(__u64 at, __u64 base)
{
	if (at < base)
		return LT_ABSENT;
	at -= base;
	return at < LT_SATURATED ? (__u32)at : LT_SATURATED;
}

/* Claims the entry's pending report in this direction. Two CPUs may be about to report the same
 * packet (the one that received it and the one that reads its socket); only one of them does. */
static __always_inline __u32 lt_take(struct lt_entry *e, __u32 direction)
{
	return __sync_lock_test_and_set(&e->row[direction & 1], 0);
}

static __noinline void lt_emit(struct lt_entry *e, __u32 direction, __u32 end)
{
	struct lt_cpu *cpu = lt_this_cpu();
	struct lt_report *r;
	struct lt_counts *c;
	__u64 position, base;
	__u32 key, row, class;

	direction &= 1;
	row = lt_take(e, direction);
	class = e->packet.class & 3;
	c = bpf_map_lookup_elem(&counts, &row);
	if (!cpu || !c || !row)
		return;
	__sync_fetch_and_add(&c->way[direction].reports[class], e->packet.segments);
	position = __sync_fetch_and_add(&cpu->position, 1);
	key = bpf_get_smp_processor_id() * (ring_mask + 1) + ((__u32)position & ring_mask);
	r = bpf_map_lookup_elem(&reports, &key);
	if (!r)
		return;
	r->published = 0;
	LT_BARRIER();
	if (direction == LT_EGRESS) {
		base = e->stamp[LT_SEND] ? e->stamp[LT_SEND] : e->stamp[LT_QUEUE_IN];
		for (int i = 0; i < LT_POINTS; i++)
			r->delta_ns[i] = lt_delta(e->stamp[LT_QUEUE_IN + i], base);
		r->host_ifindex = e->last_host_ifindex;
	} else {
		base = e->stamp[LT_RECV_HOST];
		for (int i = 0; i < LT_POINTS; i++)
			r->delta_ns[i] = lt_delta(e->stamp[LT_QUEUE_HOST + i], base);
		r->host_ifindex = e->first_host_ifindex;
	}
	r->base_ns = base;
	r->cookie = e->cookie;
	r->hardware_ns = direction == LT_INGRESS ? e->hardware_ns : 0;
	r->row = row;
	r->netns = e->netns[direction];
	r->ordinal = e->ordinal[direction];
	r->container_ifindex = e->ifindex[direction];
	r->bytes = e->packet.bytes;
	r->sequence = e->packet.sequence;
	r->payload_bytes = e->packet.payload_bytes;
	r->source_port = e->packet.source_port;
	r->destination_port = e->packet.destination_port;
	r->segments = e->packet.segments;
	r->direction = direction;
	r->protocol = e->packet.protocol;
	r->version = e->packet.version;
	r->end = end;
	r->flags = e->packet.flags;
	__builtin_memcpy(r->source, e->packet.source, 16);
	__builtin_memcpy(r->destination, e->packet.destination, 16);
	LT_BARRIER();
	r->published = position + 1;
}

#endif
