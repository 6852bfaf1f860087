/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * Hands the dataplane's packets to its AF_XDP sockets and leaves all others to Linux.
 *
 * Attached as XDP to a device that the dataplane shares with the host. The destination address
 * decides: it is looked up in `claims`, and a packet to any other address passes at the price of
 * that one look-up. The dataplane may have an address as a whole (then with its ARP and neighbour
 * solicitations), or only some of its ports (then Linux answers for the address). All fragments of
 * a packet go the same way, because only the first has ports: to the dataplane if it has the whole
 * address, to Linux if it has only ports. VLAN tags, broadcast and multicast pass, except for
 * solicitations.
 *
 * The packet goes to the socket in `sockets` at the index of its receive queue: an AF_XDP socket
 * receives only from the queue that it is bound to. A queue without a socket passes to Linux.
 *
 * Maps: `claims`, `ports`, `sockets` (control plane -> program), `counts` (program -> metrics).
 */
#include "../include/packet.h"
#include "../abi/redirect_abi.h"
#include <bpf/bpf_helpers.h>

#define BPF_MAP_TYPE_PERCPU_ARRAY 6
#define BPF_MAP_TYPE_XSKMAP 17
#define XDP_REDIRECT 4
#define ETH_TYPE_ARP 0x0806
#define IP_ICMPV6 58
#define ND_SOLICIT 135

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 256);
	__type(key, struct rd_address);
	__type(value, struct rd_claim);
} claims SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 4096);
	__type(key, struct rd_port);
	__type(value, __u32);
} ports SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_XSKMAP);
	__uint(max_entries, 64);
	__type(key, __u32);
	__type(value, __u32);
} sockets SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct rd_counts);
} counts SEC(".maps");

/* ARP for IPv4 over Ethernet (RFC 826), from the hardware type on. */
struct rd_arp {
	__be16 hardware, protocol;
	__u8 hardware_length, protocol_length;
	__be16 operation;
	__u8 from_mac[6];
	__be32 from;
	__u8 to_mac[6];
	__be32 to;
} __attribute__((packed));

/* Neighbour solicitation (RFC 4861 section 4.3). */
struct rd_solicit {
	__u8 type, code;
	__u16 checksum;
	__u32 reserved;
	__u8 target[16];
} __attribute__((packed));

static __always_inline bool rd_whole(const void *address)
{
	struct rd_claim *claim = bpf_map_lookup_elem(&claims, address);

	return claim && claim->whole;
}

static __always_inline bool rd_arp_is_ours(void *data, void *end)
{
	struct rd_arp *arp = data + sizeof(struct cf_eth);
	struct rd_address to = {};

	if ((void *)(arp + 1) > end)
		return false;
	to.bytes[10] = to.bytes[11] = 0xff;
	__builtin_memcpy(to.bytes + 12, &arp->to, 4);
	return rd_whole(&to);
}

static __always_inline bool rd_solicits_us(void *data, void *end)
{
	struct cf_ipv6 *ip = data + sizeof(struct cf_eth);
	struct rd_solicit *nd = (void *)(ip + 1);
	struct rd_address to;

	if ((void *)(nd + 1) > end || nd->type != ND_SOLICIT)
		return false;
	__builtin_memcpy(to.bytes, nd->target, 16);
	return rd_whole(&to);
}

static __always_inline bool rd_port_is_ours(const struct cf_packet *p, const struct rd_claim *claim)
{
	struct rd_port key = {};
	__u16 port = cf_ntohs(p->ports.to);

	if (p->fragment || (p->protocol != IP_TCP && p->protocol != IP_UDP))
		return false;
	if (port && port >= claim->first_port && port <= claim->last_port)
		return true;
	__builtin_memcpy(key.address.bytes, p->to, 16);
	key.protocol = p->protocol;
	key.port = port;
	return bpf_map_lookup_elem(&ports, &key) != NULL;
}

static __always_inline bool rd_is_ours(void *data, void *end)
{
	struct cf_packet p = {};
	struct cf_eth *eth = data;
	struct rd_claim *claim;

	if ((void *)(eth + 1) > end)
		return false;
	if (cf_ntohs(eth->type) == ETH_TYPE_ARP)
		return rd_arp_is_ours(data, end);
	/* Tagged frames belong to another network. */
	if (cf_ntohs(eth->type) == ETH_TYPE_VLAN)
		return false;
	cf_parse(data, end, &p);
	if (!p.family)
		return false;
	claim = bpf_map_lookup_elem(&claims, p.to);
	if (claim)
		return claim->whole || rd_port_is_ours(&p, claim);
	return p.protocol == IP_ICMPV6 && p.family == 6 && p.to[0] == 0xff &&
	       rd_solicits_us(data, end);
}

/* Looks only at the first of several buffers: the headers are there. */
SEC("xdp.frags")
int redirect(struct xdp_md *ctx)
{
	__u32 zero = 0, queue = ctx->rx_queue_index;
	struct rd_counts *c = bpf_map_lookup_elem(&counts, &zero);

	if (!c)
		return XDP_PASS;
	if (!rd_is_ours((void *)(long)ctx->data, (void *)(long)ctx->data_end)) {
		c->passed_packets++;
		return XDP_PASS;
	}
	if (!bpf_map_lookup_elem(&sockets, &queue)) {
		c->unserved_packets++;
		return XDP_PASS;
	}
	c->redirected_packets++;
	return bpf_redirect_map(&sockets, queue, XDP_PASS);
}

char LICENSE[] SEC("license") = "GPL";
