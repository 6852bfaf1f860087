/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * Kernel objects as the programs see them: bpf/include/kernel.h's types, filled in. Each is
 * one allocation that the caller frees. And the programs' settings, as the loader sets them.
 */
#include "../../../bpf/include/kernel.h"
#include "../../../bpf/abi/accounting_abi.h"

void *calloc(__typeof__(sizeof(0)) count, __typeof__(sizeof(0)) bytes);

/* The programs declare these weak and constant; the loader's values win. */
__u32 rows_per_cpu = CF_FIRST_CONTAINER_ROW + 80;
__u32 host_netns = 1;
/* Function by which RPS wakes another CPU. */
char rps_trigger_softirq;

void *world_net(__u32 inum)
{
	struct net *net = calloc(1, sizeof(*net));

	net->ns.inum = inum;
	return net;
}

void *world_device(struct net *net, int ifindex)
{
	struct net_device *dev = calloc(1, sizeof(*dev));

	dev->ifindex = ifindex;
	dev->nd_net.net = net;
	return dev;
}

void *world_cgroup(__u64 id)
{
	struct {
		struct cgroup cgroup;
		struct kernfs_node node;
		struct cgroup_root root;
	} *c = calloc(1, sizeof(*c));

	c->node.id = id;
	c->cgroup.kn = &c->node;
	c->cgroup.root = &c->root;
	return c;
}

void *world_socket(struct net *net, struct cgroup *cgroup, unsigned char state)
{
	struct sock *sk = calloc(1, sizeof(*sk));

	sk->__sk_common.skc_state = state;
	sk->__sk_common.skc_net.net = net;
	sk->sk_cgrp_data.cgroup = cgroup;
	return sk;
}

/* `list`: 0 for a packet that came alone, 1 for the last of a list, 2 if more follow in it. */
void *world_packet(struct net_device *dev, struct sock *sk, struct sk_buff *next, __u32 bytes,
		   unsigned short segments, int iif, int list)
{
	static struct sk_buff last = { .next = &last };
	static struct sk_buff goes_on;
	struct {
		struct sk_buff skb;
		struct skb_shared_info info;
	} *p = calloc(1, sizeof(*p));

	p->skb.dev = dev;
	p->skb.sk = sk;
	p->skb.next = next;
	p->skb.prev = list == 2 ? &goes_on : list ? &last : NULL;
	p->skb.len = bytes;
	p->skb.skb_iif = iif;
	p->skb.head = (unsigned char *)&p->info;
	/* Only a packet in fragments has segments. */
	p->skb.data_len = segments ? bytes : 0;
	p->info.gso_segs = segments;
	return p;
}

void *world_task(_Bool napi)
{
	struct task_struct *task = calloc(1, sizeof(*task));

	if (napi) {
		task->flags = PF_KTHREAD;
		__builtin_memcpy(task->comm, "napi/eth0-1", 12);
	}
	return task;
}

/* Running task by its kind; see enum RunningTask in src/machine.rs. */
void *world_current(int what)
{
	static struct task_struct idle = { .comm = "swapper/0" };
	static struct task_struct process = { .pid = 42, .tgid = 42, .comm = "process" };
	static struct task_struct worker = {
		.flags = PF_KTHREAD, .pid = 7, .tgid = 7, .comm = "kworker/0:1"
	};
	static struct task_struct softirqd = {
		.flags = PF_KTHREAD, .pid = 8, .tgid = 8, .comm = "ksoftirqd/0"
	};
	static struct task_struct napi = {
		.flags = PF_KTHREAD, .pid = 9, .tgid = 9, .comm = "napi/eth0-1"
	};

	switch (what) {
	case 0:
		return &idle;
	case 1:
		return &process;
	case 2:
		return &worker;
	case 3:
		return &softirqd;
	default:
		return &napi;
	}
}
