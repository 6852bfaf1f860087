/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * Types that the redirecting program and the dataplane share: plain integers, explicit padding.
 */
#ifndef COFFERDAM_REDIRECT_ABI_H
#define COFFERDAM_REDIRECT_ABI_H

/* An address of the dataplane in network order; IPv4 as ::ffff:a.b.c.d. */
struct rd_address {
	__u8 bytes[16];
};

/* Packets to one address that the dataplane takes from Linux: all, or those to a range of ports. */
struct rd_claim {
	__u32 whole;	  /* 1: everything for it, ARP and NDP too; 0: only the ports below */
	__u16 first_port; /* range for connections that the dataplane opens; host order */
	__u16 last_port;
};

/* A port of a shared address. */
struct rd_port {
	struct rd_address address;
	__u8 protocol; /* 6 TCP, 17 UDP */
	__u8 reserved;
	__u16 port; /* host order */
};

/* Number of packets by destination; one set per CPU. */
struct rd_counts {
	__u64 redirected_packets;
	__u64 passed_packets;	/* for Linux */
	__u64 unserved_packets; /* for the dataplane, but no socket serves the queue: Linux gets
				   them */
};

_Static_assert(sizeof(struct rd_address) == 16, "rd_address");
_Static_assert(sizeof(struct rd_claim) == 8, "rd_claim");
_Static_assert(sizeof(struct rd_port) == 20, "rd_port");
_Static_assert(sizeof(struct rd_counts) == 24, "rd_counts");

#endif
