/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * Transmit. In process context a transmit is the sender's own and already on its bill: the
 * markers test one word and return. In softirq the owner of each packet pays.
 *
 * `net_dev_queue` names the container that a pending packet is bound for, and the owner of what TSQ
 * and TCP timers send. `qdisc_dequeue` (not fired for veth's noqueue) names the owner of each
 * packet that leaves a qdisc, whichever task or softirq drains it: NET_TX after HTB's watchdog, a
 * receive softirq, or another container's system call.
 */
#include "../include/segment.h"
#include "../include/tunnel.h"

/* Remembers the sender of a packet that is queued in process context, for a receive softirq that it
 * may raise. The packet itself is already on its sender's bill. */
static __always_inline void cf_note_queued(struct cf_cpu *s, struct net_device *dev)
{
	struct cf_identity *e;

	s->queued = 1;
	if (s->queued_dev == (__u64)dev && s->queued_generation == identity_generation)
		return;
	e = cf_device_identity(s, dev);
	s->queued_dev = (__u64)dev;
	s->queued_generation = identity_generation;
	s->queued_row = e->row;
	s->queued_direction = e->kind == CF_HOST_SIDE ? CF_RX : CF_TX;
}

/* Remembers the owner of the open segment in a softirq: its first packet for another CPU causes the
 * wake-up of that CPU. */
static __always_inline void cf_note_handed(struct cf_cpu *s)
{
	if (s->handed_row == CF_NO_ROW) {
		s->handed_row = s->owner;
		s->handed_direction = s->direction;
	}
}

/* A pending packet is queued to the container of `row`, which now owns the segment; or one more
 * packet of a list is, and each of the list has the same weight. They are counted when the
 * container receives them. */
static __always_inline void cf_own_queued(struct cf_cpu *s, __u32 row)
{
	if (cf_is_listed(s)) {
		cf_segment_switch(s, row, CF_RX);
		s->weight += s->list_each;
		return;
	}
	s->owner = row;
	s->watch = CF_WATCH_RECEIVE;
	s->packets = 0;
	s->bytes = 0;
	if (s->list_packets > 1) {
		s->list_each = s->weight / s->list_packets;
		s->weight = s->list_each;
		s->watch |= CF_WATCH_QUEUE | CF_WATCH_LIST;
	}
}

SEC("tp_btf/net_dev_queue")
int BPF_PROG(net_dev_queue, struct sk_buff *skb)
{
	struct cf_cpu *s = cf_this_cpu();
	struct cf_identity *e;

	if (!s)
		return 0;
	if (!(s->watch & CF_WATCH_QUEUE)) {
		if (s->mode == CF_IDLE) {
			if (window_open)
				cf_note_queued(s, skb->dev);
		} else {
			cf_note_handed(s);
			cf_pair_count(s, skb);
		}
		return 0;
	}
	if (s->mode == CF_OTHER) {
		cf_segment_switch(s, cf_transmit_row(s, skb), CF_TX);
		return 0;
	}
	e = cf_device_identity(s, skb->dev);
	if (e->kind == CF_OUTSIDE) {
		/* A bridge or tunnel may come before the container's veth: the packet stays
		 * pending. */
		if (cf_is_pending(s))
			s->owner = CF_ROW_FORWARDING;
		return 0;
	}
	if (s->watch & CF_WATCH_ADDRESS)
		cf_inner_learn(skb, e->row);
	cf_own_queued(s, e->row);
	cf_note_handed(s);
	return 0;
}

/* Counts one packet of a transmit run. */
static __always_inline void cf_transmit_add(struct cf_cpu *s, __u32 index, __u32 bytes)
{
	struct cf_row *row;

	cf_batch_add(s, index, CF_TX, 1);
	row = cf_ledger_row(index);
	if (row) {
		row->tx_packets++;
		row->tx_bytes += bytes;
	}
}

struct cf_transmit_run {
	struct cf_cpu *s;
	struct sk_buff *skb;
};

static long cf_transmit_next(__u64 i, struct cf_transmit_run *run)
{
	struct sk_buff *skb = run->skb;

	if (!skb)
		return 1;
	cf_transmit_add(run->s, cf_transmit_row(run->s, skb), skb->len);
	run->skb = skb->next;
	return 0;
}

/* NET_TX: the run is one batch, in which all packets have equal weight. With bpf_loop the verifier
 * walks the body once and not CF_BATCH_MAX times, which took nine tenths of the loading time. */
static __always_inline void cf_transmit_batch(struct cf_cpu *s, struct sk_buff *skb)
{
	struct cf_transmit_run run = { .s = s, .skb = skb };

	bpf_loop(CF_BATCH_MAX, cf_transmit_next, &run, 0);
}

/* Inside another softirq or a NAPI thread: a detour, after which the former owner returns. */
static __always_inline void cf_detour(struct cf_cpu *s, struct sk_buff *skb)
{
	__u32 row;

	if (!skb) {
		if (s->draining) {
			__u64 dev = s->outer_dev;

			cf_segment_switch(s, s->outer_owner, s->outer_direction);
			s->owner_dev = dev;
			s->draining = 0;
		}
		return;
	}
	/* net_dev_queue names the owner of a pending packet. */
	if (cf_is_pending(s))
		return;
	row = cf_transmit_row(s, skb);
	if (row == s->owner)
		return;
	cf_boundary_cut(s);
	if (!s->draining) {
		s->outer_owner = s->owner;
		s->outer_direction = s->direction;
		s->outer_dev = s->owner_dev;
		s->draining = 1;
	}
	cf_segment_switch(s, row, CF_TX);
}

/* In a system call: the ledger needs only the packets of another container. */
static __always_inline void cf_drain(struct cf_cpu *s, struct sk_buff *skb)
{
	__u32 row = CF_NO_ROW;
	__u64 now;

	if (skb) {
		row = cf_transmit_row(s, skb);
		if (row < CF_FIRST_CONTAINER_ROW || row == cf_charged_row(s))
			row = CF_NO_ROW;
	}
	if (s->mode != CF_DRAIN) {
		if (row == CF_NO_ROW || !window_open)
			return;
		now = bpf_ktime_get_ns();
		cf_batch_reset(s);
		cf_segment_open(s, now, row);
		cf_run_begin(s);
		s->direction = CF_TX;
		s->mode = CF_DRAIN;
	} else if (row != s->owner) {
		cf_segment_close_now(s);
		cf_run_count(s);
		s->owner = row;
		if (row == CF_NO_ROW) {
			s->mode = CF_IDLE;
			return;
		}
	}
	s->packets++;
	s->bytes += skb ? skb->len : 0;
}

SEC("tp_btf/qdisc_dequeue")
int BPF_PROG(qdisc_dequeue, struct Qdisc *qdisc, struct netdev_queue *queue, int packets,
	     struct sk_buff *skb)
{
	struct cf_cpu *s = cf_this_cpu();

	if (!s)
		return 0;
	switch (s->mode) {
	case CF_TRANSMIT:
		cf_transmit_batch(s, skb);
		break;
	case CF_RECEIVE:
	case CF_OTHER:
	case CF_NAPI_THREAD:
		cf_detour(s, skb);
		break;
	default:
		cf_drain(s, skb);
	}
	return 0;
}

char LICENSE[] __weak SEC("license") = "GPL";
