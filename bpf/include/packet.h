/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * Packets as a device delivers them, and the contexts of the programs that get them. Wire formats:
 * IEEE 802.3, RFC 791, RFC 8200, RFC 9293.
 */
#ifndef COFFERDAM_PACKET_H
#define COFFERDAM_PACKET_H

#include "kernel.h"
#include <bpf/bpf_helpers.h>

struct xdp_md {
	__u32 data;
	__u32 data_end;
	__u32 data_meta;
	__u32 ingress_ifindex;
	__u32 rx_queue_index;
	__u32 egress_ifindex;
};
/* linux/bpf.h; the verifier maps these offsets, so the order is the kernel's. */
struct __sk_buff {
	__u32 len;
	__u32 pkt_type;
	__u32 mark;
	__u32 queue_mapping;
	__u32 protocol;
	__u32 vlan_present;
	__u32 vlan_tci;
	__u32 vlan_proto;
	__u32 priority;
	__u32 ingress_ifindex;
	__u32 ifindex;
	__u32 tc_index;
	__u32 cb[5];
	__u32 hash;
	__u32 tc_classid;
	__u32 data;
	__u32 data_end;
	__u32 napi_id;
	__u32 family;
	__u32 remote_ip4;
	__u32 local_ip4;
	__u32 remote_ip6[4];
	__u32 local_ip6[4];
	__u32 remote_port;
	__u32 local_port;
	__u32 data_meta;
	__u64 flow_keys;
	__u64 tstamp;
	__u32 wire_len;
	__u32 gso_segs;
};
enum { XDP_DROP = 1, XDP_PASS = 2 };
enum { TC_NEXT = -1, TC_DROP = 2 };
enum { CGROUP_DROP = 0, CGROUP_PASS = 1 };

#define ETH_TYPE_IPV4 0x0800
#define ETH_TYPE_IPV6 0x86dd
#define ETH_TYPE_VLAN 0x8100
#define IP_TCP 6
#define IP_UDP 17
#define IP_IPV4 4
#define IP_IPV6 41

#define cf_ntohs(x) ((__u16)__builtin_bswap16(x))
#define cf_htons(x) cf_ntohs(x)

struct cf_eth {
	__u8 to[6];
	__u8 from[6];
	__be16 type;
} __attribute__((packed));
struct cf_vlan {
	__be16 tci;
	__be16 type;
} __attribute__((packed));
struct cf_ipv4 {
	__u8 version_ihl;
	__u8 tos;
	__be16 length;
	__be16 id;
	__be16 fragment;
	__u8 ttl;
	__u8 protocol;
	__u16 checksum;
	__be32 from;
	__be32 to;
} __attribute__((packed));
struct cf_ipv6 {
	__be32 version;
	__be16 length;
	__u8 protocol;
	__u8 hops;
	__u8 from[16];
	__u8 to[16];
} __attribute__((packed));
/* The part of a UDP and of a TCP header that they share, and TCP's flags. */
struct cf_ports {
	__be16 from;
	__be16 to;
} __attribute__((packed));
struct cf_tcp {
	struct cf_ports ports;
	__be32 sequence;
	__be32 acknowledgement;
	__u8 offset; /* in words, upper half */
	__u8 flags;
} __attribute__((packed));
#define TCP_FIN 1
#define TCP_SYN 2
#define TCP_RST 4

/* First bytes of VXLAN (RFC 7348, section 5) and Geneve (RFC 8926, section 3.1). */
struct cf_overlay {
	__u8 first; /* flags of VXLAN; length of Geneve's options in words, lower six bits */
	__u8 flags;
	__be16 geneve_type;
	__be32 network;
} __attribute__((packed));
#define VXLAN_HAS_ID 8
/* RFC 8926, section 3.4: an Ethernet frame follows. */
#define GENEVE_ETHERNET 0x6558

/* Fields that the programs need of a packet. */
struct cf_packet {
	__u8 to[16];
	__be32 from4, to4; /* IPv4 only */
	__u16 family;	   /* 4, 6; 0 for anything else */
	__u8 protocol;
	__u8 control; /* TCP that carries no data: opens, acknowledges, ends */
	struct cf_ports ports;
	__u8 fragment;		   /* a part of an IPv4 packet; for IPv6 the protocol says so */
	__u8 link_bytes, ip_bytes; /* headers; ip_bytes is 0 if nothing can follow */
};

/* Reads the IP and transport headers between next and end. Only a first fragment has ports. */
static __always_inline void cf_parse_ip(void *next, void *end, __u16 type, struct cf_packet *p)
{
	void *transport = NULL;
	__u32 payload = 0;

	if (type == ETH_TYPE_IPV4) {
		struct cf_ipv4 *ip = next;
		__u32 header;

		if ((void *)(ip + 1) > end)
			return;
		p->to[10] = p->to[11] = 0xff;
		__builtin_memcpy(p->to + 12, &ip->to, 4);
		p->from4 = ip->from;
		p->to4 = ip->to;
		p->protocol = ip->protocol;
		p->family = 4;
		/* RFC 791: the offset, and the flag that more follow. */
		p->fragment = (ip->fragment & __builtin_bswap16(0x3fff)) != 0;
		header = (ip->version_ihl & 15) * 4;
		if (header < sizeof(*ip) || (ip->fragment & __builtin_bswap16(0x1fff)))
			return;
		transport = next + header;
		p->ip_bytes = header;
		payload = cf_ntohs(ip->length) - header;
	} else if (type == ETH_TYPE_IPV6) {
		struct cf_ipv6 *ip = next;

		if ((void *)(ip + 1) > end)
			return;
		__builtin_memcpy(p->to, ip->to, 16);
		p->protocol = ip->protocol;
		p->family = 6;
		transport = ip + 1;
		p->ip_bytes = sizeof(*ip);
		payload = cf_ntohs(ip->length);
	} else {
		return;
	}
	if (p->protocol == IP_UDP || p->protocol == IP_TCP) {
		struct cf_ports *ports = transport;

		if ((void *)(ports + 1) > end)
			return;
		p->ports = *ports;
	}
	if (p->protocol == IP_TCP) {
		struct cf_tcp *tcp = transport;

		if ((void *)(tcp + 1) > end)
			return;
		p->control = (tcp->flags & (TCP_SYN | TCP_FIN | TCP_RST)) ||
			     payload <= (__u32)(tcp->offset >> 4) * 4;
	}
}

/* Reads the headers of a frame. p is zeroed. */
static __always_inline void cf_parse(void *data, void *end, struct cf_packet *p)
{
	struct cf_eth *eth = data;
	void *next = eth + 1;
	__u16 type;

	if (next > end)
		return;
	p->link_bytes = sizeof(*eth);
	type = cf_ntohs(eth->type);
	if (type == ETH_TYPE_VLAN) {
		struct cf_vlan *vlan = next;

		next = vlan + 1;
		if (next > end)
			return;
		p->link_bytes += sizeof(*vlan);
		type = cf_ntohs(vlan->type);
	}
	cf_parse_ip(next, end, type, p);
}

#endif
