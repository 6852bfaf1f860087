/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * Receive. `netif_receive_skb` fires once for each packet in the core, on the backlog, after
 * GRO and for each packet of a list. In the common case (the same device as the packet
 * before) it adds two counters and returns.
 *
 * On a device in a container's namespace the owner is known at once; on the host's end of a veth
 * too (the container is sending). On a host device it is not: the packet is *pending*, in a segment
 * of its own, until it is queued to a container's veth or reaches a socket. The whole segment then
 * goes to that owner, the host stage included. Two kinds of packets need neither, because an
 * address names their owner: a packet in a tunnel by its inner address, and a packet to a container
 * whose device is stacked on the host's (macvlan). The socket of the latter raises no event while
 * its program has it locked.
 */
#include "../include/segment.h"
#include "../include/tunnel.h"

static __always_inline void cf_count(struct cf_cpu *s, struct sk_buff *skb)
{
	__u64 packets = cf_packets_in(skb);

	s->packets += packets;
	s->weight += packets;
	s->bytes += skb->len;
}

/* Whether more packets follow in the list from which this one was just taken. `prev` is then the
 * list's head, which begins as a packet does, with a pointer to the next one. */
static __always_inline bool cf_has_list_successor(struct sk_buff *skb)
{
	struct sk_buff *head = skb->prev;

	return head && (__u64)head->next != (__u64)head;
}

/* Opens a segment for a packet whose owner is not known yet; until then it belongs to `row`. If
 * earlier packets of the same list are pending, this one joins their segment. */
static __always_inline void cf_pend(struct cf_cpu *s, struct sk_buff *skb, __u32 row)
{
	__u64 dev = (__u64)skb->dev;

	if (cf_is_pending(s) && s->list_dev == dev && s->owner == row) {
		s->list_packets++;
	} else {
		cf_boundary_cut(s);
		cf_segment_close_now(s);
		s->owner = row;
		s->direction = CF_RX;
		s->owner_dev = 0;
		s->watch = CF_WATCH_RECEIVE | CF_WATCH_QUEUE | CF_WATCH_SOCKET;
		s->list_packets = 1;
	}
	s->list_dev = cf_has_list_successor(skb) ? dev : 0;
	cf_count(s, skb);
}

static __always_inline void cf_own(struct cf_cpu *s, struct net_device *dev, __u32 row,
				   __u32 direction)
{
	if (s->owner != row || s->direction != direction)
		cf_boundary_cut(s);
	else
		cf_boundary_pass(s);
	cf_segment_switch(s, row, direction);
	s->watch = CF_WATCH_RECEIVE;
	s->owner_dev = (__u64)dev;
	s->generation = identity_generation;
}

/* A packet that carries another one to a container. It is counted when the inner packet is
 * received, but it has weight in the batch. */
static __always_inline void cf_carry(struct cf_cpu *s, struct sk_buff *skb, __u32 row)
{
	cf_own(s, NULL, row, CF_RX);
	s->weight += cf_packets_in(skb);
}

static __always_inline void cf_receive(struct cf_cpu *s, struct sk_buff *skb)
{
	struct net_device *dev = skb->dev;
	struct cf_identity *e = cf_device_identity(s, dev);
	__u32 row = e->row, iif;

	s->draining = 0;
	switch (e->kind) {
	case CF_INSIDE:
		cf_own(s, dev, row, CF_RX);
		cf_count(s, skb);
		return;
	case CF_HOST_SIDE:
		cf_own(s, dev, row, CF_TX);
		cf_count(s, skb);
		return;
	case CF_OUTSIDE:
		/* A container's packet that passes another host device (a bridge, a tunnel). */
		iif = skb->skb_iif;
		if (iif) {
			__u32 sender = cf_iif_row(s, dev, iif);

			if (sender != CF_NO_ROW) {
				cf_boundary_cut(s);
				cf_segment_switch(s, sender, CF_TX);
				s->watch = CF_WATCH_RECEIVE;
				return;
			}
		}
		if (e->tunnel)
			break;
		if (tunnels_seen) {
			__u32 receiver = cf_carried_row(skb);

			if (receiver != CF_NO_ROW) {
				cf_carry(s, skb, receiver);
				return;
			}
		}
		if (uppers_seen) {
			__u32 upper = cf_upper_row(skb);

			if (upper != CF_NO_ROW)
				row = upper;
		}
	}
	cf_pend(s, skb, row);
	if (e->tunnel) {
		if (s->tunnelled++ % CF_TUNNEL_LEARNS == 0) {
			cf_tunnel_learn(skb, e->tunnel);
			s->watch |= CF_WATCH_ADDRESS;
		}
	} else if (e->kind == CF_OUTSIDE && s->pended++ % CF_UPPER_LEARNS == 0) {
		s->pended_netns = dev->nd_net.net->ns.inum;
		s->watch |= CF_WATCH_UPPER;
	}
}

SEC("tp_btf/netif_receive_skb")
int BPF_PROG(netif_receive_skb, struct sk_buff *skb)
{
	struct cf_cpu *s = cf_this_cpu();

	if (!s || !(s->watch & CF_WATCH_RECEIVE))
		return 0;
	if ((__u64)skb->dev == s->owner_dev && s->generation == identity_generation)
		cf_count(s, skb);
	else
		cf_receive(s, skb);
	return 0;
}

/* A driver hands a packet to GRO: the stack has finished the packets before. On a host device the
 * following time is the driver's, and common to the batch. */
SEC("tp_btf/napi_gro_receive_entry")
int BPF_PROG(napi_gro_receive_entry, struct sk_buff *skb)
{
	struct cf_cpu *s = cf_this_cpu();
	struct net_device *dev;
	struct cf_identity *e;

	if (!s || !(s->watch & CF_WATCH_RECEIVE))
		return 0;
	dev = skb->dev;
	if ((__u64)dev == s->owner_dev && s->generation == identity_generation)
		return 0;
	e = cf_device_identity(s, dev);
	if (e->kind == CF_INSIDE) {
		cf_own(s, dev, e->row, CF_RX);
	} else if (e->kind == CF_HOST_SIDE) {
		cf_own(s, dev, e->row, CF_TX);
	} else {
		cf_boundary_cut(s);
		cf_segment_switch(s, CF_OWNER_BATCH, CF_RX);
		s->watch = CF_WATCH_RECEIVE;
	}
	return 0;
}

/* Starts measuring a NAPI thread that already has the CPU, when a measurement window begins between
 * two of its polls. In the middle of a window this happens only if the kernel hid the switch to the
 * thread (that of its supervisor). The work of that poll is then in no ledger, and polls_unseen
 * reports it. */
static __always_inline void cf_napi_thread_join(struct cf_cpu *s)
{
	if (s->mode != CF_IDLE || !window_open || !cf_is_napi_thread(bpf_get_current_task_btf()))
		return;
	s->napi_thread = 1;
	s->totals.polls_unseen++;
	cf_napi_thread_begin(s, bpf_ktime_get_ns());
}

static __always_inline void cf_napi_thread_leave(struct cf_cpu *s)
{
	s->napi_thread = 0;
	s->watch = 0;
	s->mode = CF_IDLE;
}

SEC("tp_btf/napi_poll")
int BPF_PROG(napi_poll)
{
	struct cf_cpu *s = cf_this_cpu();
	__u64 now;

	if (!s)
		return 0;
	if (!(s->watch & CF_WATCH_RECEIVE)) {
		cf_napi_thread_join(s);
		return 0;
	}
	now = bpf_ktime_get_ns();
	if (window_open && cf_poll_leave_open(s, now))
		return 0;
	cf_poll_close(s, now, s->interrupt_ns);
	s->watch = CF_WATCH_RECEIVE;
	cf_run_count(s);
	if (!window_open && s->mode == CF_NAPI_THREAD)
		cf_napi_thread_leave(s);
	return 0;
}

/* The pending packet reached a socket: the socket's container owns the segment, until a packet of
 * the same list reaches another container's socket. The share of each is not known: the first gets
 * the whole segment. */
static __always_inline void cf_assign_owner(struct sock *sk)
{
	struct cf_cpu *s = cf_this_cpu();
	__u32 row;

	if (!s || !(s->watch & (CF_WATCH_SOCKET | CF_WATCH_LIST)) || !sk)
		return;
	row = cf_socket_row(s, sk);
	if (cf_is_listed(s)) {
		cf_segment_switch(s, row, CF_RX);
		return;
	}
	if (s->watch & CF_WATCH_UPPER)
		cf_upper_learn(s, sk, row);
	s->owner = row;
	s->watch = CF_WATCH_RECEIVE;
	if (s->list_packets > 1)
		s->watch |= CF_WATCH_LIST;
}

SEC("tp_btf/sk_data_ready")
int BPF_PROG(sk_data_ready, struct sock *sk)
{
	cf_assign_owner(sk);
	return 0;
}

SEC("tp_btf/tcp_probe")
int BPF_PROG(tcp_probe, struct sock *sk)
{
	cf_assign_owner(sk);
	return 0;
}

SEC("tp_btf/udp_fail_queue_rcv_skb")
int BPF_PROG(udp_fail_queue_rcv_skb, int rc, struct sock *sk)
{
	cf_assign_owner(sk);
	return 0;
}

char LICENSE[] __weak SEC("license") = "GPL";
