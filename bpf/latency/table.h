/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * Packets in flight: a set-associative table in fixed memory. An entry is found by the address of
 * the skb and, for clones, by the address of its head. Addresses are reused (a head after 100 µs),
 * so an entry is removed when its skb is freed, and each end compares the content.
 *
 * A full bucket loses its oldest entry: most often a packet of the host that no container needs.
 * The loss of a container's packet is counted.
 */
#ifndef COFFERDAM_LATENCY_TABLE_H
#define COFFERDAM_LATENCY_TABLE_H

#include "report.h"

/* Key of an entry that is found by its head alone: its skb is freed, and a clone exists. */
#define LT_DETACHED 1

static __always_inline struct lt_bucket *lt_bucket(__u64 skb)
{
	__u32 key = lt_hash(skb) & bucket_mask;

	return bpf_map_lookup_elem(&buckets, &key);
}

static __always_inline struct lt_entry *lt_find(__u64 skb)
{
	struct lt_bucket *b = lt_bucket(skb);

	if (!b)
		return NULL;
	if (b->skb[0] == skb)
		return &b->way[0];
	if (b->skb[1] == skb)
		return &b->way[1];
	if (b->skb[2] == skb)
		return &b->way[2];
	if (b->skb[3] == skb)
		return &b->way[3];
	return NULL;
}

static __always_inline __u32 *lt_head_slot(__u64 head)
{
	__u32 key = lt_hash(head) & (bucket_mask * LT_WAYS + LT_WAYS - 1);

	return bpf_map_lookup_elem(&heads, &key);
}

static __always_inline struct lt_entry *lt_find_head(__u64 head)
{
	__u32 *slot = lt_head_slot(head), key, way;
	struct lt_bucket *b;

	if (!slot)
		return NULL;
	key = *slot / LT_WAYS;
	way = *slot % LT_WAYS;
	b = bpf_map_lookup_elem(&buckets, &key);
	if (!b || b->head[way & 3] != head || !b->skb[way & 3])
		return NULL;
	return &b->way[way & 3];
}

/* Only a clone has the head of another skb. By devices no freeing is seen: an entry under a clone's
 * address may be that of an earlier packet. */
static __always_inline struct lt_entry *lt_find_any(const struct sk_buff *skb)
{
	bool cloned = BPF_CORE_READ_BITFIELD(skb, cloned);
	struct lt_entry *e;

	if (by_devices && cloned) {
		e = lt_find_head(lt_head(skb));
		return e ? e : lt_find(lt_id(skb));
	}
	e = lt_find(lt_id(skb));
	return e || !cloned ? e : lt_find_head(lt_head(skb));
}

/* Whether the packet is for another device: a bridge without an entry for its address has flooded
 * it to this one as well. */
static __always_inline bool lt_for_another(const struct sk_buff *skb)
{
	return BPF_CORE_READ_BITFIELD(skb, pkt_type) == CF_PACKET_OTHERHOST;
}

static __always_inline void lt_set_key(struct lt_entry *e, __u64 skb)
{
	__u32 key = e->slot / LT_WAYS;
	struct lt_bucket *b = bpf_map_lookup_elem(&buckets, &key);

	if (b)
		b->skb[e->slot & 3] = skb;
}

static __always_inline struct lt_range_bucket *lt_range_bucket(__u32 check)
{
	__u32 key = lt_hash(check) & bucket_mask;

	return bpf_map_lookup_elem(&ranges, &key);
}

/* Makes `e` findable by its check. */
static __always_inline void lt_range_put(struct lt_entry *e)
{
	struct lt_range_bucket *b = lt_range_bucket(e->check);
	__u32 way;

	if (!b)
		return;
	way = b->next++;
	for (int i = 0; i < LT_WAYS; i++) {
		if (b->check[i] == e->check)
			way = i;
	}
	b->check[way & 3] = e->check;
	b->slot[way & 3] = e->slot;
}

static __always_inline struct lt_entry *lt_range_find(__u32 check)
{
	struct lt_range_bucket *r = lt_range_bucket(check);
	__u32 slot = ~0U, key, way;
	struct lt_bucket *b;

	if (!r)
		return NULL;
	for (int i = 0; i < LT_WAYS; i++) {
		if (r->check[i] == check)
			slot = r->slot[i];
	}
	if (slot == ~0U)
		return NULL;
	key = slot / LT_WAYS;
	way = slot & 3;
	b = bpf_map_lookup_elem(&buckets, &key);
	if (!b || !b->skb[way] || b->way[way].check != check)
		return NULL;
	return &b->way[way];
}

static __always_inline void lt_remove(struct lt_entry *e)
{
	lt_set_key(e, 0);
}

/* Reports or counts the entry as missed, in each direction that is pending. */
static __always_inline void lt_close(struct lt_entry *e, __u32 reason)
{
	if (e->row[LT_EGRESS])
		lt_count_miss(lt_take(e, LT_EGRESS), LT_EGRESS,
			      e->whole && reason != LT_MISS_DROPPED ? LT_MISS_SEGMENT : reason,
			      e->packet.segments);
	if (e->row[LT_INGRESS]) {
		if (e->stamp[LT_READY]) {
			lt_emit(e, LT_INGRESS, LT_END_READY);
		} else if (e->stamp[LT_RECV_IN] && reason != LT_MISS_DROPPED) {
			/* Freed without a tracepoint, as in TCP's handshake. */
			lt_emit(e, LT_INGRESS, LT_END_ARRIVED);
		} else {
			lt_count_miss(lt_take(e, LT_INGRESS), LT_INGRESS, reason,
				      e->packet.segments);
		}
	}
}

#endif
