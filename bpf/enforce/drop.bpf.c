/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * Stop (Iron): drops the packets of a container that has used up its share, before the stack
 * works on them.
 *
 * Ingress: attached to the devices by which packets enter the host, as XDP or at tc ingress. The
 * destination names the container: its own address; behind port forwarding, the address in
 * conntrack's entry; at the end of a tunnel, the inner address. A packet for no address in
 * `addresses` passes at the price of one look-up, and of a second one if it may be a tunnel's.
 * Egress: attached at tc ingress of the host's ends of the containers' interfaces, where their
 * packets enter the host stage; the device names the container. Sockets: a container in the host's
 * namespace has no address of its own. For it the program is attached to its cgroup, where a packet
 * has found its socket and is not yet in its queue. The stack's work until then is spent, but
 * waking and reading are saved.
 *
 * A container has a token bucket in nanoseconds of network CPU, one for both directions. The agent
 * writes the rate (what the container may still cause) and the cost of one of its packets, from the
 * ledger. A packet takes its cost out. TCP segments with data are dropped with a probability that
 * grows as the lower half of the bucket empties, and further down to one burst below zero, where
 * none passes. A sender that loses one segment now and then slows down; one that loses everything
 * falls silent for its retransmission timeout, hundreds of its round trips. The bucket first repays
 * what passed on credit. Segments that open, acknowledge or end a connection pass on credit down to
 * two bursts.
 *
 * The bucket is filled once per millisecond for anything but TCP. A datagram that passes alone
 * raises its own interrupt on the CPU that handles it. That costs the CPU the same time again, and
 * the time is unattributed. Datagrams that pass together share a few interrupts.
 *
 * Maps: `addresses`, `tunnels`, `devices`, `sockets`, `limits` (agent -> programs), `buckets`
 * (programs -> agent). One set of maps per network namespace: addresses and indices have no meaning
 * across namespaces.
 */
#include "../include/packet.h"
#include "../abi/enforce_abi.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>

struct cf_drop_layout layout = {};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, CF_DROP_ADDRESSES);
	__type(key, struct cf_address);
	__type(value, __u32);
} addresses SEC(".maps");

/* Tunnels that end in this namespace. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, CF_DROP_TUNNELS);
	__type(key, struct cf_tunnel);
	__type(value, __u32); /* enum cf_tunnel_kind */
} tunnels SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, CF_DROP_SLOTS);
	__type(key, __u32); /* ifindex of a host's end */
	__type(value, __u32);
} devices SEC(".maps");

/* One word for each cgroup to which the program is attached: its slot plus 1. */
struct {
	__uint(type, BPF_MAP_TYPE_CGROUP_STORAGE);
	__type(key, __u64); /* v2 cgroup id */
	__type(value, __u32);
} sockets SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, CF_DROP_SLOTS);
	__type(key, __u32);
	__type(value, struct cf_limit);
} limits SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, CF_DROP_SLOTS);
	__type(key, __u32);
	__type(value, struct cf_bucket);
} buckets SEC(".maps");

/* Conntrack, if the kernel offers it to BPF (since 5.19, commit 88dbe3c94e89). */
struct bpf_sock_tuple {
	__be32 saddr;
	__be32 daddr;
	__be16 sport;
	__be16 dport;
};
/* The size that kernels before 6.10 know; later ones take it as well. */
struct bpf_ct_opts {
	__s32 netns_id;
	__s32 error;
	__u8 l4proto;
	__u8 dir;
	__u8 reserved[2];
};
#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)
union nf_inet_addr {
	__u32 all[4];
};
struct nf_conntrack_man {
	union nf_inet_addr u3;
};
struct nf_conntrack_tuple {
	struct nf_conntrack_man src;
};
struct nf_conntrack_tuple_hash {
	struct nf_conntrack_tuple tuple;
};
struct nf_conn {
	struct nf_conntrack_tuple_hash tuplehash[2];
};
#pragma clang attribute pop
extern struct nf_conn *bpf_xdp_ct_lookup(struct xdp_md *, struct bpf_sock_tuple *, __u32,
					 struct bpf_ct_opts *, __u32)
__weak __ksym;
extern struct nf_conn *bpf_skb_ct_lookup(struct __sk_buff *, struct bpf_sock_tuple *, __u32,
					 struct bpf_ct_opts *, __u32)
__weak __ksym;
extern void bpf_ct_release(struct nf_conn *) __weak __ksym;

#define UDP_BYTES 8
#define CT_CURRENT_NETNS (-1)
/* Most TCP segments of 1024 to drop before the bucket is empty: congestion control halves its rate
 * for one loss. */
#define EARLY_OF_1024 16
/* Intervals between refills. TCP is paced by what passes, and would lose whole windows. */
#define REFILL_NS 1000000
#define REFILL_TCP_NS 20000

static __always_inline bool cf_has_ports(const struct cf_packet *p)
{
	return p->family == 4 && p->ports.to && (p->protocol == IP_UDP || p->protocol == IP_TCP);
}

static __always_inline void cf_tuple(const struct cf_packet *p, struct bpf_sock_tuple *tuple,
				     struct bpf_ct_opts *opts)
{
	tuple->saddr = p->from4;
	tuple->daddr = p->to4;
	tuple->sport = p->ports.from;
	tuple->dport = p->ports.to;
	opts->netns_id = CT_CURRENT_NETNS;
	opts->l4proto = p->protocol;
}

/* Replaces the destination by the source of the reply: that is the real receiver. */
static __always_inline void cf_real_destination(struct nf_conn *ct, struct cf_packet *p)
{
	__u32 to = ct->tuplehash[1].tuple.src.u3.all[0];

	__builtin_memcpy(p->to + 12, &to, 4);
}

/* Reads the packet that `outer` carries; false if it is no tunnel's. A first fragment is read up to
 * its end, later ones have no ports. */
static __always_inline bool cf_unwrap(void *data, void *end, const struct cf_packet *outer,
				      struct cf_packet *inner)
{
	struct cf_tunnel key = { .protocol = outer->protocol, .port = outer->ports.to };
	void *at = data + outer->link_bytes + outer->ip_bytes;
	__u32 *kind;

	if (outer->protocol != IP_UDP && outer->protocol != IP_IPV4 && outer->protocol != IP_IPV6)
		return false;
	kind = bpf_map_lookup_elem(&tunnels, &key);
	if (!kind || !outer->ip_bytes)
		return false;
	if (*kind == CF_TUNNEL_IP) {
		cf_parse_ip(at, end, outer->protocol == IP_IPV4 ? ETH_TYPE_IPV4 : ETH_TYPE_IPV6,
			    inner);
	} else {
		struct cf_overlay *overlay = at + UDP_BYTES;
		__u32 options = 0;

		if ((void *)(overlay + 1) > end)
			return false;
		if (*kind == CF_TUNNEL_GENEVE) {
			if (overlay->geneve_type != cf_htons(GENEVE_ETHERNET))
				return false;
			options = (overlay->first & 63) * 4;
		}
		cf_parse((void *)(overlay + 1) + options, end, inner);
	}
	return inner->family;
}

/* Slot of the container that a packet, or the packet inside it, is for; or NULL. */
static __always_inline __u32 *cf_slot_of(void *data, void *end, struct cf_packet *p)
{
	__u32 *slot = bpf_map_lookup_elem(&addresses, p->to);
	struct cf_packet inner = {};

	if (slot || !cf_unwrap(data, end, p, &inner))
		return slot;
	slot = bpf_map_lookup_elem(&addresses, inner.to);
	if (slot)
		*p = inner;
	return slot;
}

static __always_inline void cf_refill(struct cf_bucket *b, const struct cf_limit *limit,
				      __u64 every_ns)
{
	__u64 now = bpf_ktime_get_ns(), then = b->refilled_ns, elapsed = now - then;
	__s64 tokens;

	/* A race between CPUs loses a refill of some microseconds at most. */
	if (now <= then || elapsed < every_ns)
		return;
	if (__sync_val_compare_and_swap(&b->refilled_ns, then, now) != then)
		return;
	if (elapsed > 1000000000)
		elapsed = 1000000000;
	tokens = b->tokens_ns + (__s64)(elapsed * (limit->rate_ns_per_s / 1000) / 1000000);
	if (tokens > (__s64)limit->burst_ns)
		tokens = limit->burst_ns;
	b->tokens_ns = tokens;
}

/* Number of 1024 TCP segments with data to drop at `tokens`: from 0 at half of a burst to
 * EARLY_OF_1024 at 0, then faster, to all at one burst below zero. */
static __always_inline __u64 cf_tcp_drops(__s64 tokens, __s64 burst)
{
	__s64 half = (burst >> 1) + 1;
	__u64 part;

	if (tokens >= half)
		return 0;
	if (tokens >= 0)
		return (__u64)(half - tokens) * EARLY_OF_1024 / (__u64)half;
	if (tokens <= -burst)
		return 1024;
	part = (__u64)-tokens * 1024 / (__u64)(burst + 1);
	return EARLY_OF_1024 + part * part * (1024 - EARLY_OF_1024) / (1024 * 1024);
}

/* Whether the packet, or the `packets` in a super-packet, may pass. */
static __always_inline bool cf_may_pass(__u32 *slot, const struct cf_packet *p, __u32 packets,
					bool sent)
{
	struct cf_limit *limit = bpf_map_lookup_elem(&limits, slot);
	struct cf_bucket *b = bpf_map_lookup_elem(&buckets, slot);
	bool tcp = p->protocol == IP_TCP;
	__s64 tokens, burst, floor = 0;

	if (!limit || !b || !limit->rate_ns_per_s)
		return true;
	burst = limit->burst_ns;
	cf_refill(b, limit, tcp ? REFILL_TCP_NS : REFILL_NS);
	tokens = b->tokens_ns;
	if (p->control)
		floor = -2 * burst;
	else if (tcp)
		floor = bpf_get_prandom_u32() % 1024 < cf_tcp_drops(tokens, burst) ? tokens
										   : -burst;
	if (tokens <= floor) {
		__sync_fetch_and_add(sent ? &b->tx_dropped : &b->rx_dropped, packets);
		return false;
	}
	__sync_fetch_and_add(&b->tokens_ns,
			     -(__s64)((sent ? limit->tx_cost_ns : limit->rx_cost_ns) * packets));
	__sync_fetch_and_add(sent ? &b->tx_passed : &b->rx_passed, packets);
	return true;
}

/* Number of segments in a super-packet. */
static __always_inline __u32 cf_packets(const struct __sk_buff *ctx)
{
	return ctx->gso_segs ? ctx->gso_segs : 1;
}

SEC("xdp")
int drop_xdp(struct xdp_md *ctx)
{
	void *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
	struct cf_packet p = {};
	__u32 *slot;

	cf_parse(data, end, &p);
	if (!p.family)
		return XDP_PASS;
	slot = cf_slot_of(data, end, &p);
	if (!slot && cf_has_ports(&p) && bpf_ksym_exists(bpf_xdp_ct_lookup)) {
		struct bpf_sock_tuple tuple = {};
		struct bpf_ct_opts opts = {};
		struct nf_conn *ct;

		cf_tuple(&p, &tuple, &opts);
		ct = bpf_xdp_ct_lookup(ctx, &tuple, sizeof(tuple), &opts, sizeof(opts));
		if (!ct)
			return XDP_PASS;
		cf_real_destination(ct, &p);
		bpf_ct_release(ct);
		slot = bpf_map_lookup_elem(&addresses, p.to);
	}
	return !slot || cf_may_pass(slot, &p, 1, false) ? XDP_PASS : XDP_DROP;
}

static __always_inline int cf_at_tc(struct __sk_buff *ctx, bool ethernet)
{
	void *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
	struct cf_packet p = {};
	__u32 *slot;

	if (ethernet)
		cf_parse(data, end, &p);
	else
		cf_parse_ip(data, end, cf_ntohs(ctx->protocol), &p);
	if (!p.family)
		return TC_NEXT;
	slot = cf_slot_of(data, end, &p);
	if (!slot && cf_has_ports(&p) && bpf_ksym_exists(bpf_skb_ct_lookup)) {
		struct bpf_sock_tuple tuple = {};
		struct bpf_ct_opts opts = {};
		struct nf_conn *ct;

		cf_tuple(&p, &tuple, &opts);
		ct = bpf_skb_ct_lookup(ctx, &tuple, sizeof(tuple), &opts, sizeof(opts));
		if (!ct)
			return TC_NEXT;
		cf_real_destination(ct, &p);
		bpf_ct_release(ct);
		slot = bpf_map_lookup_elem(&addresses, p.to);
	}
	return !slot || cf_may_pass(slot, &p, cf_packets(ctx), false) ? TC_NEXT : TC_DROP;
}

SEC("tcx/ingress")
int drop_tc(struct __sk_buff *ctx)
{
	return cf_at_tc(ctx, true);
}

/* For a device whose packets begin with IP: a tunnel that hides them outside, such as WireGuard. */
SEC("tcx/ingress")
int drop_tc_ip(struct __sk_buff *ctx)
{
	return cf_at_tc(ctx, false);
}

SEC("tcx/ingress")
int drop_sent(struct __sk_buff *ctx)
{
	struct cf_packet p = {};
	__u32 device = ctx->ifindex, *slot;

	slot = bpf_map_lookup_elem(&devices, &device);
	if (!slot)
		return TC_NEXT;
	cf_parse((void *)(long)ctx->data, (void *)(long)ctx->data_end, &p);
	/* ARP and the like keep the container reachable. */
	return !p.family || cf_may_pass(slot, &p, cf_packets(ctx), true) ? TC_NEXT : TC_DROP;
}

SEC("cgroup_skb/ingress")
int drop_received(struct __sk_buff *ctx)
{
	__u32 *owner = bpf_get_local_storage(&sockets, 0), slot;
	struct cf_packet p = {};

	/* 0 until the agent has written it. */
	slot = *owner;
	if (!slot)
		return CGROUP_PASS;
	slot--;
	cf_parse_ip((void *)(long)ctx->data, (void *)(long)ctx->data_end, cf_ntohs(ctx->protocol),
		    &p);
	if (!p.family)
		return CGROUP_PASS;
	return cf_may_pass(&slot, &p, cf_packets(ctx), false) ? CGROUP_PASS : CGROUP_DROP;
}

char LICENSE[] SEC("license") = "GPL";
