/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * Packets and bytes of the sockets of one cgroup. Attached to a tenant's cgroup and not to a
 * tracepoint: packets of others cost nothing. Runs in the sender's context or in the receive
 * softirq. Stacks in user space (gVisor, a virtual machine) have no such sockets: what they
 * send the interface's counters tell.
 */
#include "../include/packet.h"
#include "state.h"

#define BPF_MAP_TYPE_CGROUP_STORAGE 19

/* UAPI: offsets are fixed. */
struct bpf_cgroup_storage_key {
	__u64 cgroup_inode_id;
	__u32 attach_type;
};

struct {
	__uint(type, BPF_MAP_TYPE_CGROUP_STORAGE);
	__type(key, struct bpf_cgroup_storage_key);
	__type(value, struct cf_tenant_packets);
} tenant_packets SEC(".maps");

static __always_inline int cf_moved(struct __sk_buff *skb)
{
	struct cf_tenant_packets *all = bpf_get_local_storage(&tenant_packets, 0);
	__u32 segments = skb->gso_segs;

	__sync_fetch_and_add(&all->packets, segments ? segments : 1);
	__sync_fetch_and_add(&all->bytes, skb->len);
	return 1;
}

SEC("cgroup_skb/egress")
int tenant_sent(struct __sk_buff *skb)
{
	return cf_moved(skb);
}

SEC("cgroup_skb/ingress")
int tenant_received(struct __sk_buff *skb)
{
	return cf_moved(skb);
}

char LICENSE[] __weak SEC("license") = "GPL";
