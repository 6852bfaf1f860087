/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * The maps that all accounting programs share, and the definitions for the state of a CPU. Each
 * object file defines the maps weakly; the linker makes one of each.
 */
#ifndef COFFERDAM_STATE_H
#define COFFERDAM_STATE_H

#include "kernel.h"
#include "../abi/accounting_abi.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include <bpf/bpf_core_read.h>

/* Events that the markers must handle. Each marker first tests one bit: outside network work it
 * costs a look-up in an array and a test. */
#define CF_WATCH_RECEIVE 1 /* packets may be received: NET_RX softirq or NAPI thread */
#define CF_WATCH_QUEUE 2   /* the next transmit names an owner */
#define CF_WATCH_SOCKET 4  /* the socket that takes the packet names its owner */
#define CF_WATCH_ADDRESS 8 /* the owner's inner address is learned */
#define CF_WATCH_UPPER 16  /* the address of the owner's socket is learned, in another namespace */
#define CF_WATCH_LIST 32   /* the segment holds a list, and one of its packets named its owner */

#define CF_RX 0
#define CF_TX 1
#define CF_OWNER_BATCH 0xffffffffU /* not known yet: the packets of the batch share it */

enum cf_kind {
	CF_INSIDE = 1, /* in the namespace of one container */
	CF_SHARED,     /* in a namespace that several containers share */
	CF_HOST_SIDE,  /* the host's end of a container's veth */
	CF_OUTSIDE,    /* in no container's namespace */
};

/* Row of an identity that was never resolved. */
#define CF_NO_ROW 0xffffffffU

/* Set before load. */
const volatile __u32 rows_per_cpu __weak = CF_FIRST_CONTAINER_ROW + 1;
const volatile __u32 host_netns __weak = 0;

/* Raised by the agent after each change of the identity maps. */
__u32 identity_generation __weak = 1;
/* Whether cgroups without a row are reported when they are charged, or when one of their sockets
 * gets a packet. The agent clears it while it has no row for them. */
__u32 report_cgroups __weak = 1;
/* Whether work that begins now is measured. The agent clears it to end a measurement window. Work
 * in flight is measured to its end, so that each run counts in the window in which it began. Then
 * every CPU is idle (CF_IDLE), and the markers can be detached. */
__u32 window_open __weak = 1;
/* Events for which the ring was full. */
__u64 events_lost __weak = 0;
/* Never written: puts the types that no map names into the object's BTF, for the reader. */
struct cf_layout layout __weak = {};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1); /* possible CPUs, set before load */
	__type(key, __u32);
	__type(value, struct cf_cpu);
} cpus __weak SEC(".maps");

/* The reader maps it into memory: reading 1,000 containers costs no system call. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, CF_FIRST_CONTAINER_ROW + 1); /* CPUs × rows_per_cpu */
	__type(key, __u32);
	__type(value, struct cf_row);
} ledger __weak SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1);
	__type(key, __u32); /* inode of a network namespace */
	__type(value, struct cf_netns_value);
} netns_rows __weak SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1);
	__type(key, __u64);   /* v2 cgroup id */
	__type(value, __u32); /* row */
} cgroup_rows __weak SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1);
	__type(key, struct cf_link_key);
	__type(value, __u32); /* row */
} link_rows __weak SEC(".maps");

/* Packets by sending and receiving row. The least recently used pairs are evicted: a name is lost,
 * but no count of the ledger. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 1);
	__type(key, struct cf_pair);
	__type(value, __u64); /* packets, segments of a super-packet counted */
} pairs __weak SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 20);
} events __weak SEC(".maps");

static __always_inline struct cf_cpu *cf_this_cpu(void)
{
	__u32 cpu = bpf_get_smp_processor_id();

	return bpf_map_lookup_elem(&cpus, &cpu);
}

static __always_inline struct cf_row *cf_ledger_row(__u32 row)
{
	__u32 key;

	if (row >= rows_per_cpu)
		row = CF_ROW_NO_SLOT;
	key = bpf_get_smp_processor_id() * rows_per_cpu + row;
	return bpf_map_lookup_elem(&ledger, &key);
}

#endif
