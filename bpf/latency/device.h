/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * Role of a device: inside a measured container, on the host, or on the host and only passing
 * packets on (bridge, tunnel, bond). Learned once and cached by the CPU under the device's address;
 * an entry is valid while its index and the generation agree.
 */
#ifndef COFFERDAM_LATENCY_DEVICE_H
#define COFFERDAM_LATENCY_DEVICE_H

#include "state.h"

#define LT_KIND(a, b, c, d) ((__u32)(a) | (__u32)(b) << 8 | (__u32)(c) << 16 | (__u32)(d) << 24)

#define LT_LOOPBACK 8 /* IFF_LOOPBACK */

static __noinline void lt_device_learn(struct lt_device *d, const struct net_device *dev)
{
	const struct rtnl_link_ops *ops = dev->rtnl_link_ops;
	__u32 inum = dev->nd_net.net->ns.inum, kind = 0, *row;

	d->device = (__u64)dev;
	d->generation = generation;
	d->ifindex = dev->ifindex;
	d->netns = inum;
	row = bpf_map_lookup_elem(&rows, &inum);
	d->row = row ? *row : 0;
	if (dev->flags & LT_LOOPBACK) {
		/* Packets that a container sends to itself pass no device of the host. */
		d->row = 0;
		d->tunnel = 0;
		d->passes = 1;
		d->leaves = 0;
		return;
	}
	if (ops)
		bpf_probe_read_kernel(&kind, sizeof(kind), ops->kind);
	d->tunnel = kind == LT_KIND('v', 'x', 'l', 'a') || kind == LT_KIND('g', 'e', 'n', 'e') ||
		    kind == LT_KIND('g', 'r', 'e', 0) || kind == LT_KIND('g', 'r', 'e', 't') ||
		    kind == LT_KIND('i', 'p', '6', 'g') || kind == LT_KIND('i', 'p', 'i', 'p') ||
		    kind == LT_KIND('i', 'p', '6', 't') || kind == LT_KIND('s', 'i', 't', 0) ||
		    kind == LT_KIND('w', 'i', 'r', 'e');
	d->passes = d->tunnel || kind == LT_KIND('b', 'r', 'i', 'd') ||
		    kind == LT_KIND('b', 'o', 'n', 'd') || kind == LT_KIND('t', 'e', 'a', 'm') ||
		    kind == LT_KIND('v', 'l', 'a', 'n') || kind == LT_KIND('m', 'a', 'c', 'v') ||
		    kind == LT_KIND('i', 'p', 'v', 'l') || kind == LT_KIND('v', 'r', 'f', 0);
	d->leaves = !ops || kind == LT_KIND('t', 'u', 'n', 0);
}

static __always_inline struct lt_device *lt_device_slot(struct lt_cpu *cpu, const void *address)
{
	__u64 number = lt_number(address);

	return &cpu->devices[(__u32)(number >> 6 ^ number >> 14) & (LT_DEVICES - 1)];
}

static __always_inline struct lt_device *lt_device(struct lt_cpu *cpu, const struct net_device *dev)
{
	struct lt_device *d = lt_device_slot(cpu, dev);

	if (d->device != (__u64)dev || d->generation != generation ||
	    d->ifindex != (__u32)dev->ifindex)
		lt_device_learn(d, dev);
	return d;
}

/* Whether the device has no queue: a packet that is queued to it is transmitted at once. */
static __always_inline bool lt_no_queue(const struct net_device *dev)
{
	return !dev->qdisc->enqueue;
}

/* Row of the container of this namespace; in the same cache as devices. */
static __always_inline struct lt_device *lt_netns(struct lt_cpu *cpu, const struct net *net)
{
	struct lt_device *d = lt_device_slot(cpu, net);
	__u32 inum = net->ns.inum, *row;

	if (d->device == (__u64)net && d->generation == generation && d->netns == inum)
		return d;
	row = bpf_map_lookup_elem(&rows, &inum);
	d->device = (__u64)net;
	d->generation = generation;
	d->ifindex = 0;
	d->netns = inum;
	d->row = row ? *row : 0;
	d->passes = 0;
	d->tunnel = 0;
	d->leaves = 0;
	return d;
}

#endif
