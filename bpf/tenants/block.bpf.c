/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * Block requests by the cgroup that their I/O is charged to, when the device has completed them.
 * Runs in the device's interrupt or softirq. Requests without data (flushes) have no cgroup and are
 * not counted.
 */
#include "state.h"

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)
struct cgroup_subsys_state {
	struct cgroup *cgroup;
};
struct blkcg {
	struct cgroup_subsys_state css;
};
struct blkcg_gq {
	struct blkcg *blkcg;
};
struct bio {
	struct blkcg_gq *bi_blkg;
};
struct request {
	struct bio *bio;
	unsigned int __data_len;
};
#pragma clang attribute pop

SEC("tp_btf/block_rq_complete")
int BPF_PROG(tenant_block, struct request *request, int error, unsigned int bytes)
{
	struct cf_tenant *tenant;
	__u32 *row;
	__u64 id;

	if (!request->bio || !request->bio->bi_blkg)
		return 0;
	id = request->bio->bi_blkg->blkcg->css.cgroup->kn->id;
	row = bpf_map_lookup_elem(&tenant_blocks, &id);
	if (!row)
		return 0;
	tenant = cf_tenant(*row);
	if (!tenant)
		return 0;
	__sync_fetch_and_add(&tenant->device_bytes, bytes);
	/* A request that is completed in parts counts with its last part. */
	if (request->__data_len <= bytes)
		__sync_fetch_and_add(&tenant->device_ops, 1);
	return 0;
}

char LICENSE[] __weak SEC("license") = "GPL";
