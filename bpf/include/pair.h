/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * Counts which container sends to which. The ledger charges the receiver for its packets; between
 * two containers of one host the origin is the sender, and the receiver's rows do not name it.
 *
 * Both are known in one place only: at the queue of the receiver's host end, inside the softirq
 * that processes the sender's packet. The open segment is then the sender's (CF_TX), and the device
 * is the receiver's. Inside the receiver it is too late: the veth has scrubbed skb_iif by then.
 *
 * Consecutive packets of the same pair are counted in the CPU's state. The map is brought up to
 * date when the pair changes or the run is counted (at the latest when the softirq ends).
 */
#ifndef COFFERDAM_PAIR_H
#define COFFERDAM_PAIR_H

#include "identity.h"

/* Number of packets in a GRO super-packet. Small packets are linear: no look is needed. */
static __always_inline __u64 cf_packets_in(struct sk_buff *skb)
{
	struct skb_shared_info *info;
	__u16 segments = 0;

	if (!skb->data_len)
		return 1;
	info = (struct skb_shared_info *)(skb->head + skb->end);
	bpf_core_read(&segments, sizeof(segments), &info->gso_segs);
	return segments ? segments : 1;
}

/* Adds the pending packets to the map. A global function, so that the verifier walks it once. */
__weak __noinline int cf_pair_flush(struct cf_cpu *s)
{
	struct cf_pair key = {};
	__u64 packets, *count;

	if (!s)
		return 0;
	packets = s->pair_packets;
	s->pair_packets = 0;
	key.sender = s->pair_sender;
	key.receiver = s->pair_receiver;
	count = bpf_map_lookup_elem(&pairs, &key);
	if (!count) {
		if (!bpf_map_update_elem(&pairs, &key, &packets, BPF_NOEXIST))
			return 0;
		count = bpf_map_lookup_elem(&pairs, &key); /* another CPU was faster */
		if (!count)
			return 0;
	}
	__sync_fetch_and_add(count, packets);
	return 0;
}

static __noinline void cf_pair_learn(struct cf_cpu *s, struct net_device *dev)
{
	struct cf_identity *e;

	if (s->pair_packets)
		cf_pair_flush(s);
	e = cf_device_identity(s, dev);
	s->pair_dev = (__u64)dev;
	s->pair_generation = identity_generation;
	s->pair_receiver = e->kind == CF_HOST_SIDE ? e->row : CF_NO_ROW;
	s->pair_sender = s->owner;
}

/* Counts a packet of the open segment that is queued to a device. */
static __always_inline void cf_pair_count(struct cf_cpu *s, struct sk_buff *skb)
{
	if (s->direction != CF_TX || s->owner < CF_FIRST_CONTAINER_ROW ||
	    s->owner == CF_OWNER_BATCH)
		return;
	if (s->pair_dev != (__u64)skb->dev || s->pair_sender != s->owner ||
	    s->pair_generation != identity_generation)
		cf_pair_learn(s, skb->dev);
	if (s->pair_receiver == CF_NO_ROW || s->pair_receiver == s->pair_sender)
		return;
	s->pair_packets += cf_packets_in(skb);
}

#endif
