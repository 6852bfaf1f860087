/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * Maps kernel objects (device, network namespace, cgroup) to rows of the ledger.
 *
 * An ifindex is unique only within its namespace, so the key is the object's address in a small
 * direct-mapped cache of the CPU. An entry is valid only for the generation of the identity maps in
 * which it was made, and while a second field of the object agrees. Otherwise a freed and reused
 * address would be mistaken. Only a miss costs a hash look-up.
 */
#ifndef COFFERDAM_IDENTITY_H
#define COFFERDAM_IDENTITY_H

#include "state.h"

/* A kernel thread that polls a device (threaded NAPI). */
static __always_inline bool cf_is_napi_thread(struct task_struct *task)
{
	return (task->flags & PF_KTHREAD) && task->comm[0] == 'n' && task->comm[1] == 'a' &&
	       task->comm[2] == 'p' && task->comm[3] == 'i' && task->comm[4] == '/';
}

static __always_inline struct cf_identity *cf_identity_slot(struct cf_cpu *s, __u64 object)
{
	__u32 low = (__u32)object;

#ifdef __bpf__
	/* An explicit move: the verifier lets no pointer be shifted, not even in its lower half. */
	asm volatile("%0 = %1" : "=w"(low) : "w"((__u32)object));
#endif
	return &s->identities[((low >> 6) ^ (low >> 14)) & (CF_IDENTITIES - 1)];
}

static __always_inline bool cf_identity_holds(const struct cf_identity *e, __u64 object,
					      __u32 check)
{
	return e->object == object && e->generation == identity_generation && e->check == check;
}

static __always_inline void cf_identity_set(struct cf_identity *e, __u64 object, __u32 check,
					    __u32 row, __u32 kind)
{
	e->object = object;
	e->generation = identity_generation;
	e->check = check;
	e->row = row;
	e->kind = kind;
	e->tunnel = CF_DEVICE_OTHER;
}

/* Reports a namespace that carries packets and has no row yet to the agent. */
static __always_inline void cf_report_unknown_netns(__u32 inum)
{
	struct cf_event *e = bpf_ringbuf_reserve(&events, sizeof(*e), 0);

	if (!e) {
		__sync_fetch_and_add(&events_lost, 1);
		return;
	}
	e->kind = CF_EVENT_UNKNOWN_NETNS;
	e->pid = 0;
	e->cgroup = 0;
	e->netns = inum;
	e->path_bytes = 0;
	bpf_ringbuf_submit(e, 0);
}

/* Reports a cgroup without a row that pays for packets or gets them: once per CPU and generation of
 * the identities. `pid` is one of its processes, or 0. Out of line: rare. */
static __noinline int cf_report_unknown_cgroup(struct cf_cpu *s, __u64 id, __u32 pid)
{
	/* No kernel address: their high bits are set. */
	__u64 object = id << 6;
	struct cf_identity *seen;
	struct cf_event *e;

	if (!s || !report_cgroups)
		return 0;
	seen = cf_identity_slot(s, object);
	if (cf_identity_holds(seen, object, (__u32)id))
		return 0;
	cf_identity_set(seen, object, (__u32)id, CF_NO_ROW, CF_OUTSIDE);
	e = bpf_ringbuf_reserve(&events, sizeof(*e), 0);
	if (!e) {
		__sync_fetch_and_add(&events_lost, 1);
		return 0;
	}
	e->kind = CF_EVENT_UNKNOWN_CGROUP;
	e->pid = pid;
	e->cgroup = id;
	e->netns = 0;
	e->path_bytes = 0;
	bpf_ringbuf_submit(e, 0);
	return 0;
}

static __always_inline struct cf_identity *cf_netns_identity(struct cf_cpu *s, struct net *net)
{
	struct cf_identity *e = cf_identity_slot(s, (__u64)net);
	struct cf_netns_value *value;
	__u32 inum = net->ns.inum;

	if (cf_identity_holds(e, (__u64)net, inum))
		return e;
	value = bpf_map_lookup_elem(&netns_rows, &inum);
	if (value) {
		cf_identity_set(e, (__u64)net, inum, value->row,
				value->shared ? CF_SHARED : CF_INSIDE);
	} else if (inum == host_netns) {
		cf_identity_set(e, (__u64)net, inum, CF_ROW_HOST_TRAFFIC, CF_OUTSIDE);
	} else {
		cf_identity_set(e, (__u64)net, inum, CF_ROW_UNKNOWN_NAMESPACE, CF_OUTSIDE);
		cf_report_unknown_netns(inum);
	}
	return e;
}

static __always_inline __u32 cf_link_row(struct net_device *dev, __u32 ifindex)
{
	struct cf_link_key key = { .netns = dev->nd_net.net->ns.inum, .ifindex = ifindex };
	__u32 *row = bpf_map_lookup_elem(&link_rows, &key);

	return row ? *row : CF_NO_ROW;
}

/* Row as of cf_link_row, from the cache: for each packet a hash look-up would cost more than all
 * other work on it. */
static __always_inline __u32 cf_iif_row(struct cf_cpu *s, struct net_device *dev, __u32 iif)
{
	__u32 netns = dev->nd_net.net->ns.inum;
	/* No kernel address: these begin with ones, and inodes of namespaces with 0xf0. */
	__u64 object = (__u64)netns << 32 | iif;
	struct cf_identity *e = &s->identities[(netns * 5 ^ iif * 37) & (CF_IDENTITIES - 1)];

	if (!cf_identity_holds(e, object, iif))
		cf_identity_set(e, object, iif, cf_link_row(dev, iif), CF_OUTSIDE);
	return e->row;
}

static __always_inline bool cf_is_kind(__u64 kind, const char name[8])
{
	__u64 word;

	__builtin_memcpy(&word, name, 8);
	return kind == word;
}

/* Kind of the tunnel of which `dev` is the end. */
static __always_inline __u32 cf_tunnel_device(struct net_device *dev)
{
	const struct rtnl_link_ops *ops = dev->rtnl_link_ops;
	__u64 kind = 0;

	if (!ops || bpf_probe_read_kernel_str(&kind, sizeof(kind), ops->kind) <= 0)
		return CF_DEVICE_OTHER;
	if (cf_is_kind(kind, "vxlan\0\0"))
		return CF_DEVICE_VXLAN;
	if (cf_is_kind(kind, "geneve\0"))
		return CF_DEVICE_GENEVE;
	if (cf_is_kind(kind, "ipip\0\0\0"))
		return CF_DEVICE_IP;
	return CF_DEVICE_OTHER;
}

static __noinline void cf_device_learn(struct cf_cpu *s, struct cf_identity *e,
				       struct net_device *dev, __u32 ifindex)
{
	struct cf_identity *net = cf_netns_identity(s, dev->nd_net.net);
	__u32 row = net->row, kind = net->kind;

	if (kind == CF_OUTSIDE) {
		__u32 link = cf_link_row(dev, ifindex);

		if (link != CF_NO_ROW) {
			row = link;
			kind = CF_HOST_SIDE;
		}
	}
	cf_identity_set(e, (__u64)dev, ifindex, row, kind);
	if (kind == CF_OUTSIDE)
		e->tunnel = cf_tunnel_device(dev);
}

static __always_inline struct cf_identity *cf_device_identity(struct cf_cpu *s,
							      struct net_device *dev)
{
	struct cf_identity *e = cf_identity_slot(s, (__u64)dev);
	__u32 ifindex = dev->ifindex;

	if (!cf_identity_holds(e, (__u64)dev, ifindex))
		cf_device_learn(s, e, dev, ifindex);
	return e;
}

/* Row of a v2 cgroup, CF_NO_ROW if it belongs to no container. */
static __always_inline __u32 cf_cgroup_row(struct cf_cpu *s, struct cgroup *cgroup)
{
	struct cf_identity *e;
	__u64 id;

	if (!cgroup)
		return CF_NO_ROW;
	id = cgroup->kn->id;
	e = cf_identity_slot(s, (__u64)cgroup);
	if (!cf_identity_holds(e, (__u64)cgroup, (__u32)id)) {
		__u32 *row = bpf_map_lookup_elem(&cgroup_rows, &id);

		cf_identity_set(e, (__u64)cgroup, (__u32)id, row ? *row : CF_NO_ROW, CF_INSIDE);
		if (!row)
			cf_report_unknown_cgroup(s, id, 0);
	}
	return e->row;
}

/* Row of a socket: by its namespace if that has one container, else by its cgroup. */
static __always_inline __u32 cf_socket_row(struct cf_cpu *s, struct sock *sk)
{
	struct cf_identity *net = cf_netns_identity(s, sk->__sk_common.skc_net.net);
	__u32 row = CF_NO_ROW, fallback = net->row, kind = net->kind;
	unsigned char state;

	if (kind == CF_INSIDE)
		return fallback;
	state = sk->__sk_common.skc_state;
	if (state != CF_TCP_TIME_WAIT && state != CF_TCP_NEW_SYN_RECV)
		row = cf_cgroup_row(s, sk->sk_cgrp_data.cgroup);
	return row != CF_NO_ROW ? row : fallback;
}

/* Owner of a packet on its way out, by the first that names one: the device's namespace, the
 * socket, the interface by which it came in, the container that it is bound for. */
static __always_inline __u32 cf_transmit_row(struct cf_cpu *s, struct sk_buff *skb)
{
	struct net_device *dev = skb->dev;
	struct cf_identity *e = cf_device_identity(s, dev);
	__u32 row = e->row, kind = e->kind, iif;
	struct sock *sk;

	if (kind == CF_INSIDE)
		return row;
	sk = skb->sk;
	if (sk) {
		__u32 owner = cf_socket_row(s, sk);

		if (owner >= CF_FIRST_CONTAINER_ROW)
			return owner;
	}
	iif = skb->skb_iif;
	if (iif && kind != CF_SHARED) {
		__u32 owner = cf_iif_row(s, dev, iif);

		if (owner != CF_NO_ROW)
			return owner;
	}
	if (kind == CF_OUTSIDE && !sk && iif)
		return CF_ROW_FORWARDING;
	return row;
}

/* Row of the v2 cgroup with this id; CF_NO_ROW if it has none. Caches the root's, in which the idle
 * task is, and the last other one: a CPU alternates between them. */
static __always_inline __u32 cf_paying_row(struct cf_cpu *s, __u64 id)
{
	struct cf_charge_cache *cache = &s->charged[id == CF_ROOT_CGROUP];

	if (cache->cgroup != id || cache->generation != identity_generation) {
		__u32 *row = bpf_map_lookup_elem(&cgroup_rows, &id);

		cache->cgroup = id;
		cache->generation = identity_generation;
		cache->row = row ? *row : CF_NO_ROW;
	}
	return cache->row;
}

/* Row that pays for the running task. */
static __always_inline __u32 cf_charged_row(struct cf_cpu *s)
{
	return cf_paying_row(s, bpf_get_current_cgroup_id());
}

/* Whether the running task loses nothing by network work: the idle task, or a thread that does this
 * work itself (ksoftirqd, a NAPI thread outside its container's cgroup). All of these are in the
 * root cgroup. */
static __always_inline bool cf_serves(struct task_struct *task)
{
	if (!task->pid)
		return true;
	if (!(task->flags & PF_KTHREAD))
		return false;
	if (task->comm[0] == 'k')
		return task->comm[1] == 's' && task->comm[2] == 'o' && task->comm[3] == 'f' &&
		       task->comm[4] == 't' && task->comm[5] == 'i' && task->comm[6] == 'r' &&
		       task->comm[7] == 'q' && task->comm[8] == 'd' && task->comm[9] == '/';
	return cf_is_napi_thread(task);
}

/* Charges time to the running cgroup, a container's or one of the host's. Called once per softirq
 * and poll, not per packet. `interruptions` is 1 at the end of a network softirq that followed no
 * other softirq. */
static __always_inline void cf_charge(struct cf_cpu *s, __u64 network_ns, __u64 other_ns,
				      __u32 interruptions)
{
	__u64 id = bpf_get_current_cgroup_id();
	__u32 index = cf_paying_row(s, id);
	struct cf_row *row;

	if (id == CF_ROOT_CGROUP && cf_serves(bpf_get_current_task_btf())) {
		s->totals.charged_nobody_ns += network_ns + other_ns;
		return;
	}
	s->totals.interruptions += interruptions;
	if (index == CF_NO_ROW) {
		s->totals.charged_nobody_ns += network_ns + other_ns;
		s->totals.charged_host_ns += network_ns;
		if (network_ns)
			cf_report_unknown_cgroup(s, id, bpf_get_current_pid_tgid() >> 32);
		return;
	}
	row = cf_ledger_row(index);
	if (!row)
		return;
	row->charged_network_ns += network_ns;
	row->charged_other_ns += other_ns;
	row->interruptions += interruptions;
}

#endif
