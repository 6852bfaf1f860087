/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * Puts a packet into the table, and counts it for its container.
 */
#ifndef COFFERDAM_LATENCY_CLAIM_H
#define COFFERDAM_LATENCY_CLAIM_H

#include "table.h"

/* Chooses a way: the skb's own, a free one, or the oldest. By devices a super-packet outlives its
 * skb, from which TCP makes the next packet while the segments are in flight: it keeps its place,
 * one per bucket. */
static __always_inline __u32 lt_choose(struct lt_bucket *b, __u64 skb)
{
	int way = 0, kept = LT_WAYS;
	__u64 oldest = ~0ULL;

	for (int i = 0; i < LT_WAYS; i++) {
		if (b->skb[i] != skb)
			continue;
		if (!by_devices || !b->way[i].whole)
			return i;
		b->skb[i] = LT_DETACHED;
		b->head[i] = 0;
		kept = i;
	}
	for (int i = 0; i < LT_WAYS; i++) {
		if (!b->skb[i] || (by_devices && b->skb[i] == LT_DETACHED && i != kept))
			return i;
	}
	for (int i = 0; i < LT_WAYS; i++) {
		if (i != kept && b->way[i].used_ns < oldest) {
			oldest = b->way[i].used_ns;
			way = i;
		}
	}
	return way;
}

/* An empty entry for `skb`; NULL when another CPU took the place at the same moment. */
static __noinline struct lt_entry *lt_claim(__u64 skb, __u64 head, __u64 now)
{
	struct lt_bucket *b = lt_bucket(skb);
	struct lt_entry *e;
	__u32 way, *slot;
	__u64 old;

	if (!b)
		return NULL;
	way = lt_choose(b, skb) & 3;
	old = b->skb[way];
	e = &b->way[way];
	if (old != skb && __sync_val_compare_and_swap(&b->skb[way], old, skb) != old)
		return NULL;
	/* The skb was reused: its last end was not seen. */
	if (old)
		lt_close(e, old == skb ? LT_MISS_LOCAL : LT_MISS_EVICTED);
	b->head[way] = head;
	for (int i = 0; i < LT_STAMPS; i++)
		e->stamp[i] = 0;
	e->used_ns = now;
	e->claimed_ns = now;
	e->whole = 0;
	e->left_bytes = 0;
	e->cookie = 0;
	e->hardware_ns = 0;
	e->row[0] = 0;
	e->row[1] = 0;
	e->first_host_ifindex = 0;
	e->last_host_ifindex = 0;
	e->consumed = 0;
	e->queued = 0;
	e->inner_passes = 0;
	e->slot = (lt_hash(skb) & bucket_mask) * LT_WAYS + way;
	slot = lt_head_slot(head);
	if (slot)
		*slot = e->slot;
	return e;
}

/* Whether `p` is wanted for the container `config` describes. */
static __always_inline bool lt_wanted(const struct lt_config *config, const struct lt_packet *p,
				      __u32 direction, __u32 ifindex)
{
	__u32 flow = 0;

	if (!(config->directions >> direction & 1) || !(config->classes >> p->class & 1))
		return false;
	if (config->ifindex && ifindex && config->ifindex != ifindex)
		return false;
	if (config->port && p->source_port != config->port && p->destination_port != config->port)
		return false;
	if (config->one_in <= 1)
		return true;
	/* Chooses flows by a sum that is equal for both directions. */
	for (int i = 0; i < 16; i += 4)
		flow += *(__u32 *)(p->source + i) + *(__u32 *)(p->destination + i);
	flow += p->class == LT_ICMP ? p->source_port : p->source_port + p->destination_port;
	return (lt_mix(flow, 0, p->protocol) >> 1) % config->one_in == 0;
}

/* Begins one direction of an entry for a container. */
static __always_inline void lt_count_in(struct lt_entry *e, const struct lt_packet *p, __u32 row,
					__u32 netns, __u32 ifindex, __u32 direction)
{
	struct lt_counts *c = bpf_map_lookup_elem(&counts, &row);

	if (!c)
		return;
	direction &= 1;
	e->ordinal[direction] =
		1 + __sync_fetch_and_add(&c->way[direction].packets[p->class & 3], p->segments);
	e->row[direction] = row;
	e->netns[direction] = netns;
	e->ifindex[direction] = ifindex;
	e->packet = *p;
}

static __always_inline void lt_count_missed(const struct lt_packet *p, __u32 row, __u32 direction,
					    __u32 reason)
{
	struct lt_counts *c = bpf_map_lookup_elem(&counts, &row);

	if (!c)
		return;
	direction &= 1;
	__sync_fetch_and_add(&c->way[direction].packets[p->class & 3], p->segments);
	__sync_fetch_and_add(&c->way[direction].misses[reason], p->segments);
}

#endif
