/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * Types that the dropping programs and the enforcement share: plain integers, explicit padding.
 */
#ifndef COFFERDAM_ENFORCE_ABI_H
#define COFFERDAM_ENFORCE_ABI_H

enum cf_drop_limits {
	CF_DROP_SLOTS = 1024,	  /* containers that are limited at the same time */
	CF_DROP_ADDRESSES = 4096, /* of all of them */
	CF_DROP_TUNNELS = 64,	  /* kinds and ports of a namespace */
};

/* Tunnel headers of a container's packets where they enter the host. */
enum cf_tunnel_kind {
	CF_TUNNEL_IP = 1, /* RFC 2003, RFC 4213 */
	CF_TUNNEL_VXLAN,  /* RFC 7348 */
	CF_TUNNEL_GENEVE, /* RFC 8926 */
};

/* Mark of a wrapped packet. */
struct cf_tunnel {
	__u16 protocol; /* of the outer IP header */
	__be16 port;	/* UDP destination; 0 for other protocols */
};

/* An IPv6 address in network order; IPv4 as ::ffff:a.b.c.d. */
struct cf_address {
	__u8 bytes[16];
};

/* Limit of one container; written by the agent. */
struct cf_limit {
	__u64 rate_ns_per_s; /* network CPU that it may cause per second, ns; 0: no limit */
	__u64 rx_cost_ns;    /* cost of a packet to it, ns */
	__u64 tx_cost_ns;    /* cost of a packet from it, ns */
	__u64 burst_ns;	     /* most that it may save up, ns */
};

/* Token bucket of one container, and its packets; written by the programs. */
struct cf_bucket {
	__s64 tokens_ns;   /* tokens left, ns; down to -2 burst_ns */
	__u64 refilled_ns; /* time of the last refill, CLOCK_MONOTONIC */
	__u64 rx_passed;   /* packets */
	__u64 rx_dropped;
	__u64 tx_passed;
	__u64 tx_dropped;
	__u64 reserved[2];
};

/* Never written: puts the constants into the object's BTF, for the agent. */
struct cf_drop_layout {
	enum cf_drop_limits limit;
	enum cf_tunnel_kind kind;
	struct cf_tunnel tunnel;
};

_Static_assert(sizeof(struct cf_address) == 16, "cf_address");
_Static_assert(sizeof(struct cf_tunnel) == 4, "cf_tunnel");
_Static_assert(sizeof(struct cf_limit) == 32, "cf_limit");
_Static_assert(sizeof(struct cf_bucket) == 64, "cf_bucket: one cache line");

#endif
