/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * Reads a packet from its network header. The check covers only fields that neither address
 * translation nor a tunnel nor the kernel's own rewriting changes (an ICMP identifier, a TTL, a
 * checksum): lengths, sequence numbers and the first bytes of the payload.
 */
#ifndef COFFERDAM_LATENCY_PACKET_H
#define COFFERDAM_LATENCY_PACKET_H

#include "state.h"

#define LT_IPPROTO_ICMP 1
#define LT_IPPROTO_TCP 6
#define LT_IPPROTO_UDP 17
#define LT_IPPROTO_ICMPV6 58

/* Bytes for an IPv6 header, a TCP header and four bytes more. */
struct lt_bytes {
	union {
		__u8 b[64];
		__u64 word[8];
	};
};

/* Copies the bytes at `from`, which may not be mapped. */
static __always_inline bool lt_copy(struct lt_bytes *to, const __u8 *from)
{
	if (!bpf_ksym_exists(bpf_rdonly_cast))
		return !bpf_probe_read_kernel(to, sizeof(*to), from);
	for (int i = 0; i < 4; i++) {
		const struct timespec64 *part = LT_SIXTEEN(from + 16 * i);

		to->word[2 * i] = part->tv_sec;
		to->word[2 * i + 1] = part->tv_nsec;
	}
	return true;
}

static __always_inline __u16 lt_be16(const __u8 *p)
{
	return (__u16)(p[0] << 8 | p[1]);
}

static __always_inline __u32 lt_be32(const __u8 *p)
{
	return __builtin_bswap32(*(const __u32 *)p);
}

/* Check of a TCP segment: its sequence number and whether it has bytes, but not its length. Cutting
 * and merging keep the acknowledgement (the kernel merges only segments that agree in it). */
static __always_inline __u32 lt_tcp_check(__u32 sequence, __u32 acknowledged, bool bytes)
{
	return lt_mix(sequence, acknowledged, LT_IPPROTO_TCP | (__u32)bytes << 16);
}

/* Check of a transport header and payload, of which `room` bytes are at `l4`. */
static __always_inline __u32 lt_check_l4(__u8 protocol, const __u8 *l4, __u32 room)
{
	__u32 a = 0, b = 0;

	switch (protocol) {
	case LT_IPPROTO_TCP:
		return lt_tcp_check(lt_be32(l4 + 4), lt_be32(l4 + 8), room > (l4[12] >> 4) * 4);
	case LT_IPPROTO_UDP:
		if (room >= 16) {
			a = *(__u32 *)(l4 + 8);
			b = *(__u32 *)(l4 + 12);
		}
		break;
	case LT_IPPROTO_ICMP:
	case LT_IPPROTO_ICMPV6:
		a = lt_be16(l4 + 6) << 16 | lt_be16(l4);
		if (room >= 16)
			b = *(__u32 *)(l4 + 8) ^ *(__u32 *)(l4 + 12);
		break;
	}
	return lt_mix(a, b, protocol << 16 | (room & 0xffff));
}

static __always_inline __u8 lt_class_of(__u8 protocol)
{
	switch (protocol) {
	case LT_IPPROTO_TCP:
		return LT_TCP;
	case LT_IPPROTO_UDP:
		return LT_UDP;
	case LT_IPPROTO_ICMP:
	case LT_IPPROTO_ICMPV6:
		return LT_ICMP;
	}
	return LT_OTHER;
}

/* `l4` points to 24 readable bytes; `room` is the packet's length from there. */
static __always_inline void lt_read_l4(struct lt_packet *p, const __u8 *l4, __u32 room)
{
	__u32 header = 8;

	p->class = lt_class_of(p->protocol);
	p->check = lt_check_l4(p->protocol, l4, room);
	switch (p->class) {
	case LT_TCP:
		p->sequence = lt_be32(l4 + 4);
		p->acknowledged = lt_be32(l4 + 8);
		header = (l4[12] >> 4) * 4;
		/* fall through */
	case LT_UDP:
		p->source_port = lt_be16(l4);
		p->destination_port = lt_be16(l4 + 2);
		break;
	case LT_ICMP:
		p->destination_port = lt_be16(l4);
		p->source_port = lt_be16(l4 + 4);
		p->sequence = lt_be16(l4 + 6);
		break;
	default:
		return;
	}
	p->payload_bytes = room > header ? room - header : 0;
}

/* False if it is no IP packet. A function of its own, for its 64 bytes of stack. Inlined, the chain
 * lt_netif_receive_skb, lt_arrive, lt_emit would need more than the 512 bytes that kernels before
 * 6.8 allow, whose verifier rounds each frame up to 32 bytes. */
static __noinline __attribute__((unused)) bool lt_read(struct lt_packet *p, const __u8 *l3)
{
	struct lt_bytes h;
	__u32 offset, room;

	__builtin_memset(p, 0, sizeof(*p));
	if (!lt_copy(&h, l3))
		return false;
	p->version = h.b[0] >> 4;
	p->segments = 1;
	if (p->version == 4) {
		__u16 fragment = lt_be16(h.b + 6) & 0x3fff;

		offset = (h.b[0] & 15) * 4;
		p->bytes = lt_be16(h.b + 2);
		p->protocol = h.b[9];
		*(__u32 *)p->source = *(__u32 *)(h.b + 12);
		*(__u32 *)p->destination = *(__u32 *)(h.b + 16);
		room = p->bytes > offset ? p->bytes - offset : 0;
		if (fragment) {
			/* The identifier and the offset tell fragments apart. */
			p->flags = LT_FRAGMENT;
			p->class = LT_OTHER;
			p->check = lt_mix(*(__u32 *)(h.b + 4), room, p->protocol);
			return true;
		}
		if (offset == 20) {
			lt_read_l4(p, h.b + 20, room);
			return true;
		}
	} else if (p->version == 6) {
		offset = 40;
		p->protocol = h.b[6];
		room = lt_be16(h.b + 4);
		p->bytes = room + 40;
		__builtin_memcpy(p->source, h.b + 8, 16);
		__builtin_memcpy(p->destination, h.b + 24, 16);
		if (p->protocol == 44) { /* a fragment */
			p->flags = LT_FRAGMENT;
			p->class = LT_OTHER;
			p->protocol = h.b[40];
			p->check = lt_mix(lt_be16(h.b + 42), *(__u32 *)(h.b + 44), room);
			return true;
		}
		if (p->protocol != 0) {
			lt_read_l4(p, h.b + 40, room);
			return true;
		}
		/* Hop-by-hop options (multicast listener reports). */
		p->protocol = h.b[40];
		offset += (h.b[41] + 1) * 8;
		room -= (h.b[41] + 1) * 8;
	} else {
		return false;
	}
	if (bpf_probe_read_kernel(&h, 24, l3 + offset))
		return false;
	lt_read_l4(p, h.b, room);
	return true;
}

/* Reads only the class and the check, which is enough for most packets (IPv4, whole, without
 * options); false for others. */
static __always_inline bool lt_glance(__u32 *class, __u32 *check, const __u8 *l3)
{
	struct lt_bytes h;

	if (!lt_copy(&h, l3) || h.b[0] != 0x45 || lt_be16(h.b + 6) & 0x3fff)
		return false;
	*class = lt_class_of(h.b[9]);
	*check = lt_check_l4(h.b[9], h.b + 20, lt_be16(h.b + 2) - 20);
	return true;
}

/* Number of packets in one skb. Small packets are linear: no look is needed. A packet from a
 * virtual machine has the size of its segments, not their number. */
static __always_inline __u32 lt_segments(const struct sk_buff *skb, __u32 payload_bytes)
{
	struct skb_shared_info *info;
	__u16 segments, size;

	if (!skb->data_len)
		return 1;
	info = (struct skb_shared_info *)(skb->head + skb->end);
	segments = (__u16)lt_word(LT_FIELD(info->gso_segs));
	if (segments)
		return segments;
	size = (__u16)lt_word(LT_FIELD(info->gso_size));
	if (!size || payload_bytes <= size)
		return 1;
	return (payload_bytes + size - 1) / size;
}

#define LT_STAMP_IN_DEVICE (1 << 5) /* SKBTX_HW_TSTAMP_NETDEV: a pointer in place of the stamp */

/* Time of receipt by the device's own clock, ns; 0 if the device has none. */
static __always_inline __u64 lt_hardware_stamp(const struct sk_buff *skb)
{
	struct skb_shared_info *info = (struct skb_shared_info *)(skb->head + skb->end);
	__s64 stamp = 0;
	__u8 flags = 0;

	bpf_core_read(&flags, sizeof(flags), &info->tx_flags);
	if (!(flags & LT_STAMP_IN_DEVICE))
		bpf_core_read(&stamp, sizeof(stamp), &info->hwtstamps.hwtstamp);
	return stamp > 0 ? stamp : 0;
}

static __always_inline const __u8 *lt_sent_l3(const struct sk_buff *skb)
{
	return skb->head + skb->network_header;
}

/* The container's own packet inside a tunnel's. */
static __always_inline const __u8 *lt_inner_l3(const struct sk_buff *skb)
{
	return skb->head + skb->inner_network_header;
}

#endif
