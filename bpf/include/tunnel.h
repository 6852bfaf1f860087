/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * Tunnels that end on this host. A tunnel's driver puts the inner packet into its own queue, so the
 * work on the outer packet ends before any event names the receiver of the inner one. The inner
 * address names it. The programs learn the ports of tunnels and the owners of addresses from
 * packets that were delivered: from one in CF_TUNNEL_LEARNS that leave a tunnel's device.
 *
 * They also learn the addresses of containers whose devices are stacked on the host's (macvlan).
 *
 * VXLAN (RFC 7348), Geneve (RFC 8926) at its own port, and IP in IP (RFC 2003).
 */
#ifndef COFFERDAM_TUNNEL_H
#define COFFERDAM_TUNNEL_H

#include "identity.h"
#include "packet.h"

#define CF_TUNNEL_LEARNS 16
#define CF_UPPER_LEARNS 16
#define CF_GENEVE_PORT 6081
#define CF_AF_INET 2
#define CF_AF_INET6 10

/* Whether a tunnel was seen: until then no packet is parsed. */
__u32 tunnels_seen __weak = 0;
/* Whether a container was seen whose device is stacked on one of the host's (macvlan, ipvlan). A
 * socket that is locked by its program takes packets without an event. */
__u32 uppers_seen __weak = 0;

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, CF_TUNNEL_ENDS);
	__type(key, struct cf_tunnel_end);
	__type(value, __u32); /* enum cf_tunnel_device */
} tunnel_ends __weak SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, CF_TUNNEL_ADDRESSES);
	__type(key, struct cf_inner_address);
	__type(value, struct cf_inner_row);
} inner_addresses __weak SEC(".maps");

struct cf_udp_overlay {
	struct cf_ports ports;
	__be16 length;
	__u16 checksum;
	struct cf_overlay overlay;
} __attribute__((packed));

/* Contiguous bytes of a packet. */
struct cf_piece {
	void *at;
	__u32 bytes;
};

static __always_inline bool cf_read(struct cf_piece *piece, void *to, __u32 bytes)
{
	return piece->bytes >= bytes && !bpf_probe_read_kernel(to, bytes, piece->at);
}

static __always_inline void cf_skip(struct cf_piece *piece, __u32 bytes)
{
	piece->at += bytes;
	piece->bytes = piece->bytes > bytes ? piece->bytes - bytes : 0;
}

/* Reads an IP header and moves behind it. False for anything else, and for a later fragment. */
static __always_inline bool cf_read_ip(struct cf_piece *piece, __u8 to[16], __u8 *protocol)
{
	__u8 version;

	if (!cf_read(piece, &version, 1))
		return false;
	if (version >> 4 == 4) {
		struct cf_ipv4 ip;

		if (!cf_read(piece, &ip, sizeof(ip)) || ip.fragment & cf_htons(0x1fff))
			return false;
		__builtin_memset(to, 0, 10);
		to[10] = to[11] = 0xff;
		__builtin_memcpy(to + 12, &ip.to, 4);
		*protocol = ip.protocol;
		cf_skip(piece, (ip.version_ihl & 15) * 4);
	} else if (version >> 4 == 6) {
		struct cf_ipv6 ip;

		if (!cf_read(piece, &ip, sizeof(ip)))
			return false;
		__builtin_memcpy(to, ip.to, 16);
		*protocol = ip.protocol;
		cf_skip(piece, sizeof(ip));
	} else {
		return false;
	}
	return true;
}

/* Row of the container for which an address was learned; CF_NO_ROW if there is none. */
static __always_inline __u32 cf_row_at(const struct cf_inner_address *at)
{
	struct cf_inner_row *row = bpf_map_lookup_elem(&inner_addresses, at);

	return row && row->generation == identity_generation ? row->row : CF_NO_ROW;
}

static __always_inline void cf_learn_at(const struct cf_inner_address *at, __u32 row)
{
	struct cf_inner_row value = { .row = row, .generation = identity_generation };

	bpf_map_update_elem(&inner_addresses, at, &value, 0);
}

/* Row of the container that gets the packet inside this one; CF_NO_ROW if there is none. The packet
 * has just been received: its data begin with the network header. */
static __noinline __attribute__((unused)) __u32 cf_carried_row(struct sk_buff *skb)
{
	struct cf_piece piece = { .at = skb->data, .bytes = skb->len - skb->data_len };
	struct cf_tunnel_end end = { .netns = skb->dev->nd_net.net->ns.inum };
	struct cf_inner_address inner = { .netns = end.netns };
	__u8 protocol = 0;
	__u32 *kind;

	if (!cf_read_ip(&piece, inner.to, &protocol))
		return CF_NO_ROW;
	end.protocol = protocol;
	if (protocol == IP_UDP) {
		struct cf_udp_overlay udp;

		if (!cf_read(&piece, &udp, sizeof(udp)))
			return CF_NO_ROW;
		end.port = udp.ports.to;
		kind = bpf_map_lookup_elem(&tunnel_ends, &end);
		if (!kind)
			return CF_NO_ROW;
		cf_skip(&piece, sizeof(udp));
		if (*kind == CF_DEVICE_GENEVE)
			cf_skip(&piece, (udp.overlay.first & 63) * 4);
		cf_skip(&piece, sizeof(struct cf_eth));
	} else if (protocol == IP_IPV4) {
		if (!bpf_map_lookup_elem(&tunnel_ends, &end))
			return CF_NO_ROW;
	} else {
		return CF_NO_ROW;
	}
	if (!cf_read_ip(&piece, inner.to, &protocol))
		return CF_NO_ROW;
	return cf_row_at(&inner);
}

/* Learns the destination of a tunnel from a packet that has left the tunnel's device. The outer
 * headers are still in front of it. */
static __noinline __attribute__((unused)) int cf_tunnel_learn(struct sk_buff *skb, __u32 kind)
{
	struct cf_tunnel_end end = { .netns = skb->dev->nd_net.net->ns.inum, .protocol = IP_UDP };
	struct cf_udp_overlay udp;
	__u32 before = sizeof(udp) + sizeof(struct cf_eth);

	switch (kind) {
	case CF_DEVICE_VXLAN:
		if (skb->data - skb->head < before)
			return 0;
		if (bpf_probe_read_kernel(&udp, sizeof(udp), skb->data - before))
			return 0;
		if (!(udp.overlay.first & VXLAN_HAS_ID))
			return 0;
		end.port = udp.ports.to;
		break;
	case CF_DEVICE_GENEVE:
		end.port = cf_htons(CF_GENEVE_PORT);
		break;
	default:
		end.protocol = IP_IPV4;
	}
	bpf_map_update_elem(&tunnel_ends, &end, &kind, 0);
	tunnels_seen = 1;
	return 0;
}

/* Learns an address of the container `row`, whose device is stacked on another namespace's: the
 * address of the socket that takes a packet from that device. */
static __noinline __attribute__((unused)) int cf_upper_learn(struct cf_cpu *s, struct sock *sk,
							     __u32 row)
{
	struct cf_inner_address upper = { .netns = s->pended_netns };
	unsigned short family = sk->__sk_common.skc_family;
	__u32 to;

	if (row < CF_FIRST_CONTAINER_ROW || sk->__sk_common.skc_net.net->ns.inum == upper.netns)
		return 0;
	if (family == CF_AF_INET) {
		to = sk->__sk_common.skc_rcv_saddr;
		if (!to)
			return 0;
		upper.to[10] = upper.to[11] = 0xff;
		__builtin_memcpy(upper.to + 12, &to, 4);
	} else if (family != CF_AF_INET6 ||
		   !bpf_core_field_exists(sk->__sk_common.skc_v6_rcv_saddr) ||
		   bpf_probe_read_kernel(upper.to, 16, &sk->__sk_common.skc_v6_rcv_saddr)) {
		return 0;
	}
	cf_learn_at(&upper, row);
	uppers_seen = 1;
	return 0;
}

/* Row of the container whose device is stacked on the packet's device and has the packet's address;
 * CF_NO_ROW if there is none. Reads the packet in the same way as `cf_carried_row`. */
static __noinline __attribute__((unused)) __u32 cf_upper_row(struct sk_buff *skb)
{
	struct cf_piece piece = { .at = skb->data, .bytes = skb->len - skb->data_len };
	struct cf_inner_address upper = { .netns = skb->dev->nd_net.net->ns.inum };
	__u8 protocol;

	if (!cf_read_ip(&piece, upper.to, &protocol))
		return CF_NO_ROW;
	return cf_row_at(&upper);
}

/* Learns the address of a packet that is queued to a container as the container's. */
static __noinline __attribute__((unused)) int cf_inner_learn(struct sk_buff *skb, __u32 row)
{
	struct cf_inner_address inner = { .netns = skb->dev->nd_net.net->ns.inum };
	struct cf_piece piece = { .at = skb->head + skb->network_header, .bytes = 40 };
	__u8 protocol;

	if (cf_read_ip(&piece, inner.to, &protocol))
		cf_learn_at(&inner, row);
	return 0;
}

#endif
