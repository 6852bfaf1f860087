/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * Containers that come and go. Cgroups are made and removed, processes enter them and execute
 * programs: all in process context, all rare. Only the unified hierarchy counts (its
 * hierarchy_id is 0). The reader turns these events into identities.
 */
#include "../include/state.h"

static __always_inline bool cf_is_unified(struct cgroup *cgroup)
{
	return cgroup->root->hierarchy_id == 0;
}

/* False when the ring is full. */
static __always_inline bool cf_send(__u32 kind, __u64 cgroup, __u32 netns, __u32 pid)
{
	struct cf_event *e = bpf_ringbuf_reserve(&events, sizeof(*e), 0);

	if (!e) {
		__sync_fetch_and_add(&events_lost, 1);
		return false;
	}
	e->kind = kind;
	e->pid = pid;
	e->cgroup = cgroup;
	e->netns = netns;
	e->path_bytes = 0;
	bpf_ringbuf_submit(e, 0);
	return true;
}

SEC("tp_btf/cgroup_mkdir")
int BPF_PROG(cgroup_mkdir, struct cgroup *cgroup, const char *path)
{
	struct cf_path_event *e;
	long bytes;

	if (!cf_is_unified(cgroup))
		return 0;
	e = bpf_ringbuf_reserve(&events, sizeof(*e), 0);
	if (!e) {
		__sync_fetch_and_add(&events_lost, 1);
		return 0;
	}
	bytes = bpf_probe_read_kernel_str(e->path, sizeof(e->path), path);
	e->event.kind = CF_EVENT_CGROUP_CREATED;
	e->event.pid = 0;
	e->event.cgroup = cgroup->kn->id;
	e->event.netns = 0;
	e->event.path_bytes = bytes > 0 ? (__u32)bytes : 0;
	bpf_ringbuf_submit(e, 0);
	return 0;
}

SEC("tp_btf/cgroup_rmdir")
int BPF_PROG(cgroup_rmdir, struct cgroup *cgroup)
{
	if (cf_is_unified(cgroup))
		cf_send(CF_EVENT_CGROUP_REMOVED, cgroup->kn->id, 0, 0);
	return 0;
}

static __always_inline __u32 cf_netns_of(struct task_struct *task)
{
	struct nsproxy *proxy = task->nsproxy;

	return proxy ? proxy->net_ns->ns.inum : 0;
}

SEC("tp_btf/cgroup_attach_task")
int BPF_PROG(cgroup_attach_task, struct cgroup *cgroup, const char *path, struct task_struct *task)
{
	if (cf_is_unified(cgroup))
		cf_send(CF_EVENT_PROCESS_SEEN, cgroup->kn->id, cf_netns_of(task), task->tgid);
	return 0;
}

/* Cgroups that were seen in namespaces of another row. The map is LRU: a pair that was evicted is
 * reported again. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 4096);
	__type(key, struct cf_membership);
	__type(value, __u32);
} memberships SEC(".maps");

/* Whether the agent knows that `cgroup` is in `netns`. Two rows are not enough: the second
 * container of a pod starts in the host's namespace, and then joins the one that the first
 * container owns. */
static __always_inline bool cf_is_member(const struct cf_membership *pair)
{
	__u32 *row = bpf_map_lookup_elem(&cgroup_rows, &pair->cgroup);
	struct cf_netns_value *value;

	if (!row)
		return false;
	value = bpf_map_lookup_elem(&netns_rows, &pair->netns);
	if (!value)
		return false;
	if (*row == value->row && *row != CF_ROW_NO_SLOT)
		return true;
	return bpf_map_lookup_elem(&memberships, pair) != NULL;
}

/* Reports the namespace of a process at exec, when its namespaces exist. Skips processes in the
 * host's namespace and members that the agent knows. */
SEC("tp_btf/sched_process_exec")
int BPF_PROG(sched_process_exec, struct task_struct *task)
{
	struct cf_membership pair = { .netns = cf_netns_of(task) };
	__u32 reported = 1;

	if (!pair.netns || pair.netns == host_netns)
		return 0;
	pair.cgroup = task->cgroups->dfl_cgrp->kn->id;
	if (cf_is_member(&pair))
		return 0;
	if (cf_send(CF_EVENT_PROCESS_SEEN, pair.cgroup, pair.netns, task->tgid))
		bpf_map_update_elem(&memberships, &pair, &reported, 0);
	return 0;
}

char LICENSE[] __weak SEC("license") = "GPL";
