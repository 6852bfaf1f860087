/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * What the dropping programs and the enforcement share: plain integers, explicit padding.
 */
#ifndef COFFERDAM_ENFORCE_ABI_H
#define COFFERDAM_ENFORCE_ABI_H

/* An IPv6 address in network order; IPv4 as ::ffff:a.b.c.d. */
struct cf_address {
	__u8 bytes[16];
};

/* What one container may still cost. The agent writes the first four fields, the programs the
 * others. */
struct cf_bucket {
	__u64 rate_ns_per_s; /* network CPU that it may cause in a second, ns; 0: no limit */
	__u64 cost_ns;	     /* what one of its packets costs, ns */
	__u64 burst_ns;	     /* what it may save up, ns */
	__u64 reserved;
	__s64 tokens_ns;   /* what is left, ns; down to -burst_ns */
	__u64 refilled_ns; /* when it was filled last, CLOCK_MONOTONIC */
	__u64 passed_packets;
	__u64 dropped_packets;
};

_Static_assert(sizeof(struct cf_address) == 16, "cf_address");
_Static_assert(sizeof(struct cf_bucket) == 64, "cf_bucket: one cache line");

#endif
