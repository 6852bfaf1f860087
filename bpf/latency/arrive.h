/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * A packet reaches its container.
 */
#ifndef COFFERDAM_LATENCY_ARRIVE_H
#define COFFERDAM_LATENCY_ARRIVE_H

#include "device.h"
#include "packet.h"
#include "claim.h"

/* Counts the packet inside, after a tunnel of the container's own has removed its headers. */
static __always_inline void lt_arrive_inner(struct lt_entry *e, struct lt_packet *p)
{
	__u32 row = e->row[LT_INGRESS];
	struct lt_counts *c = bpf_map_lookup_elem(&counts, &row);

	if (!c)
		return;
	__sync_fetch_and_add(&c->way[LT_INGRESS].packets[e->packet.class & 3],
			     -(__u64)e->packet.segments);
	lt_count_in(e, p, row, e->netns[LT_INGRESS], e->ifindex[LT_INGRESS], LT_INGRESS);
	e->check = p->check;
}

static __noinline void lt_arrive(struct lt_device *d, struct lt_entry *e, const __u8 *l3,
				 const struct sk_buff *skb, __u64 now)
{
	__u32 row = d->row;
	struct lt_config *config = bpf_map_lookup_elem(&configs, &row);
	struct lt_packet p;

	if (!config || !lt_read(&p, l3))
		return;
	p.segments = skb ? lt_segments(skb, p.payload_bytes) : 1;
	if (e && e->row[LT_INGRESS] == row && d->tunnel) {
		lt_arrive_inner(e, &p);
		return;
	}
	/* Seen before: the container's bridge or VLAN passes it on. */
	if (e && e->row[LT_INGRESS] == row && e->stamp[LT_RECV_IN] && e->check == p.check)
		return;
	if (!lt_wanted(config, &p, LT_INGRESS, d->ifindex))
		return;
	if (!e || !e->stamp[LT_RECV_HOST]) {
		lt_count_missed(&p, row, LT_INGRESS, LT_MISS_NO_START);
		return;
	}
	if (e->check != p.check) {
		lt_count_missed(&p, row, LT_INGRESS, LT_MISS_CONTENT);
		lt_close(e, LT_MISS_LOCAL);
		lt_remove(e);
		return;
	}
	e->used_ns = now;
	e->whole = 0;
	if (d->ifindex)
		e->stamp[LT_RECV_IN] = now;
	lt_count_in(e, &p, row, d->netns, d->ifindex, LT_INGRESS);
}

/* No device names the owner (macvlan): the socket that takes the packet does. Here the packet is
 * identified by its address alone. */
static __always_inline void lt_arrive_at_socket(struct lt_cpu *cpu, struct lt_entry *e,
						const struct sock *sk, __u64 address)
{
	struct lt_device *d = lt_netns(cpu, sk->__sk_common.skc_net.net);
	struct sk_buff *skb = (struct sk_buff *)address;

	if (d->row)
		lt_arrive(d, e, BPF_CORE_READ(skb, head) + BPF_CORE_READ(skb, network_header), NULL,
			  bpf_ktime_get_ns());
}

#endif
