/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * The few kernel types that we read, reduced to the fields that we use. Offsets come from the
 * running kernel's BTF at load (CO-RE), so the order here has no meaning. A full vmlinux.h would
 * add 130,000 lines that hide our dependencies.
 */
#ifndef COFFERDAM_KERNEL_H
#define COFFERDAM_KERNEL_H

typedef unsigned char __u8;
typedef unsigned short __u16;
typedef unsigned int __u32;
typedef unsigned long long __u64;
typedef signed int __s32;
typedef signed long long __s64;
typedef __u16 __be16;
typedef __u32 __be32;
typedef __u32 __wsum;
typedef __u8 u8;
typedef __u16 u16;
typedef __u32 u32;
typedef __u64 u64;
typedef __s64 s64;
typedef _Bool bool;
enum { false = 0, true = 1 };

#define NULL ((void *)0)

enum bpf_map_type {
	BPF_MAP_TYPE_HASH = 1,
	BPF_MAP_TYPE_ARRAY = 2,
	BPF_MAP_TYPE_LRU_HASH = 9,
	BPF_MAP_TYPE_CGROUP_STORAGE = 19,
	BPF_MAP_TYPE_RINGBUF = 27,
};
enum {
	BPF_NOEXIST = 1,
	BPF_F_MMAPABLE = 1U << 10,
};
#define PF_KTHREAD 0x00200000

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct ns_common {
	unsigned int inum;
};
struct net {
	struct ns_common ns;
};
typedef struct {
	struct net *net;
} possible_net_t;

struct Qdisc {
	void *enqueue; /* NULL: `noqueue` */
};
struct rtnl_link_ops {
	const char *kind;
};
struct net_device {
	int ifindex;
	unsigned int flags;
	possible_net_t nd_net;
	const struct rtnl_link_ops *rtnl_link_ops;
	struct Qdisc *qdisc;
};

struct kernfs_node {
	u64 id;
};
struct cgroup_root {
	int hierarchy_id;
};
struct cgroup {
	struct kernfs_node *kn;
	struct cgroup_root *root;
};
struct css_set {
	struct cgroup *dfl_cgrp;
};
struct nsproxy {
	struct net *net_ns;
};
struct task_struct {
	unsigned int flags;
	int pid;
	int tgid;
	char comm[16];
	struct css_set *cgroups;
	struct nsproxy *nsproxy;
};

struct sock_cgroup_data {
	struct cgroup *cgroup; /* since 5.15 (commit 8520e224f547); before, a tagged integer */
};
typedef struct {
	s64 counter;
} atomic64_t;
struct in6_addr {
	union {
		u8 u6_addr8[16];
	} in6_u;
};
struct timespec64 {
	s64 tv_sec;
	long tv_nsec;
};
struct sock_common {
	volatile unsigned char skc_state;
	unsigned short skc_family;
	u32 skc_rcv_saddr; /* big-endian */
	struct in6_addr skc_v6_rcv_saddr;
	possible_net_t skc_net;
	u16 skc_num; /* local port, host order */
	atomic64_t skc_cookie;
};
struct sock {
	struct sock_common __sk_common;
	u16 sk_protocol;
	struct sock_cgroup_data sk_cgrp_data;
};

struct sk_buff {
	struct sk_buff *next;
	struct sk_buff *prev;
	struct sock *sk;
	struct net_device *dev;
	unsigned int len;
	unsigned int data_len;
	u8 cloned : 1;
	u8 pkt_type : 3;
	int skb_iif;
	u16 inner_network_header; /* offsets from head */
	u16 network_header;
	u16 mac_len;
	unsigned int end; /* offset from head: sk_buff_data_t on 64-bit kernels */
	unsigned char *head;
	unsigned char *data;
};
struct skb_shared_hwtstamps {
	s64 hwtstamp;
};
struct skb_shared_info {
	u8 tx_flags;
	unsigned short gso_size;
	unsigned short gso_segs;
	struct skb_shared_hwtstamps hwtstamps;
};

struct tcp_sock {
	u32 snd_nxt;
};

struct pt_regs;
struct napi_struct;
struct irqaction;
struct netdev_queue;
struct linux_binprm;

#pragma clang attribute pop

/* skb->pkt_type: addressed to another host's link-layer address (uapi/linux/if_packet.h). */
#define CF_PACKET_OTHERHOST 3

/* Softirq vectors; enum in linux/interrupt.h, unchanged since 2.6.39 but for BLOCK_IOPOLL's
 * renaming. */
enum {
	CF_HI_SOFTIRQ = 0,
	CF_TIMER_SOFTIRQ,
	CF_NET_TX_SOFTIRQ,
	CF_NET_RX_SOFTIRQ,
	CF_BLOCK_SOFTIRQ,
	CF_IRQ_POLL_SOFTIRQ,
	CF_TASKLET_SOFTIRQ,
	CF_SCHED_SOFTIRQ,
	CF_HRTIMER_SOFTIRQ,
	CF_RCU_SOFTIRQ,
};

/* Socket states in which the object is not a full socket. */
#define CF_TCP_TIME_WAIT 6
#define CF_TCP_NEW_SYN_RECV 12

#endif
