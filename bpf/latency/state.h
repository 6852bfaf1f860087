/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * The maps that all latency programs share. Each object file defines them weakly; the linker
 * makes one of each. Nothing here allocates or locks once loaded.
 */
#ifndef COFFERDAM_LATENCY_STATE_H
#define COFFERDAM_LATENCY_STATE_H

#include "../include/kernel.h"
#include "../abi/latency_abi.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include <bpf/bpf_core_read.h>

/* Content of the packet, as the container sees it. */
struct lt_packet {
	__u32 check; /* of fields that neither NAT nor a tunnel changes */
	__u32 bytes;
	__u32 sequence;
	__u32 acknowledged;
	__u32 payload_bytes;
	__u16 source_port;
	__u16 destination_port;
	__u16 segments;
	__u8 protocol;
	__u8 version;
	__u8 class;
	__u8 flags;
	__u8 reserved[2];
	__u8 source[16];
	__u8 destination[16];
};

/* A packet in flight. */
struct lt_entry {
	__u64 stamp[LT_STAMPS];
	__u64 used_ns;	  /* last time anything was written: the oldest is evicted first */
	__u64 claimed_ns; /* distinguishes it from a later packet in the same place */
	__u64 cookie;
	__u64 hardware_ns;
	__u32 check;
	__u32 row[LT_DIRECTIONS]; /* 0: not in that direction, or reported */
	__u32 netns[LT_DIRECTIONS];
	__u32 ordinal[LT_DIRECTIONS];
	__u32 ifindex[LT_DIRECTIONS];
	__u32 first_host_ifindex;
	__u32 last_host_ifindex;
	__u32 slot;	    /* its own place: bucket * LT_WAYS + way */
	__u32 consumed;	    /* detached from its skb */
	__u32 whole;	    /* may be cut into segments: remembered as a parent */
	__u32 left_bytes;   /* of a whole's payload: not yet seen in a segment */
	__u32 queued;	    /* to a device, and not yet transmitted */
	__u32 inner_passes; /* the container's device so far passes its packets on */
	struct lt_packet packet;
};

/* Keys are apart from the entries: a look-up that finds nothing touches one cache line. */
struct lt_bucket {
	__u64 skb[LT_WAYS];
	__u64 head[LT_WAYS];
	struct lt_entry way[LT_WAYS];
};

struct lt_device {
	__u64 device;
	__u32 generation;
	__u32 ifindex;
	__u32 netns;
	__u32 row;   /* 0: not inside a measured container */
	__u8 passes; /* hands its packets to another device of the same host */
	__u8 tunnel; /* passes them on with other headers */
	__u8 leaves; /* its packets come back by no other device of this host */
	__u8 reserved[5];
};

/* A TCP super-packet that a device may have cut into segments. */
struct lt_parent {
	__u64 claimed_ns;
	__u32 slot;
	__u32 sequence;
	__u32 bytes;
	__u32 acknowledged;
};

/* Places of the packets with these checks: four of them, the oldest is overwritten. */
struct lt_range_bucket {
	__u32 check[LT_WAYS];
	__u32 slot[LT_WAYS];
	__u32 next;
	__u32 reserved;
};

struct lt_cpu {
	__u64 receiving;     /* id of the packet that the stack has in hand on this CPU, */
	__u64 receiving_skb; /* its address, */
	__u64 in_hand_ns; /* and its time of entry into the table, which a later one does not have
			   */
	__u64 position;	  /* of the ring, in reports */
	__u64 softirq;	  /* one is running; valid only while `sys_enter` is attached */
	__u64 handed;	  /* id of the packet whose start of transmission needs no look */
	__u32 next_parent;
	__u32 arrived; /* the packet in hand is a container's, and no socket has named its owner */
	struct lt_parent parents[LT_PARENTS];
	struct lt_device devices[LT_DEVICES];
};

struct lt_send {
	__u64 task;
	__u64 ns; /* 0: not in a system call that sends */
};

/* Set before load; powers of two less one. */
const volatile __u32 bucket_mask __weak = 0;
const volatile __u32 ring_mask __weak = 0;

/* Whether `sys_enter` is attached. */
const volatile __u32 watch_sends __weak = 0;

/* Whether packets are seen only where they enter and leave devices. */
const volatile __u32 by_devices __weak = 0;

/* Elements of `cpus`. */
const volatile __u32 cpu_count __weak = 1;

/* Whether a device of the host stamps its received packets in hardware. */
const volatile __u32 hardware_stamps __weak = 0;

/* Raised after each change of `rows` and `configs`. */
__u32 generation __weak = 1;
/* Containers that are measured now. */
__u32 active __weak = 0;
/* Classes whose incoming packets are measured: bit per lt_class. */
__u32 ingress_classes __weak = 0;
/* Whether a packet was seen that may be cut into segments. */
__u32 wholes_seen __weak = 0;
/* Reference point of packet ids: see lt_id. */
__u64 anchor __weak = 0;
/* Never written: puts the types that no map names into the object's BTF, for the reader. */
struct lt_layout layout __weak = {};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1); /* bucket_mask + 1 */
	__type(key, __u32);
	__type(value, struct lt_bucket);
} buckets __weak SEC(".maps");

/* Place of the entry with this head, which clones share. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1); /* (bucket_mask + 1) * LT_WAYS */
	__type(key, __u32);
	__type(value, __u32); /* bucket * LT_WAYS + way */
} heads __weak SEC(".maps");

/* TCP segments that a container sends, by sequence and acknowledgement: merged segments are found
 * by their bytes. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1); /* bucket_mask + 1 */
	__type(key, __u32);
	__type(value, struct lt_range_bucket);
} ranges __weak SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1); /* possible CPUs */
	__type(key, __u32);
	__type(value, struct lt_cpu);
} cpus __weak SEC(".maps");

/* The reader maps it into memory; each CPU has its part. No program waits for a reader. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1); /* CPUs * (ring_mask + 1) */
	__type(key, __u32);
	__type(value, struct lt_report);
} reports __weak SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1);
	__type(key, __u32);   /* inode of a network namespace */
	__type(value, __u32); /* row, from 1 */
} rows __weak SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct lt_config);
} configs __weak SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct lt_counts);
} counts __weak SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, LT_SENDS);
	__type(key, __u32);
	__type(value, struct lt_send);
} sends __weak SEC(".maps");

static __always_inline struct lt_cpu *lt_this_cpu(void)
{
	__u32 cpu = bpf_get_smp_processor_id();

	return bpf_map_lookup_elem(&cpus, &cpu);
}

/* An address as a number: its distance to a fixed one. With a trusted pointer the verifier allows
 * only subtraction from another pointer. */
static __always_inline __u64 lt_number(const void *address)
{
	__u64 number = (__u64)address;

	__asm__ volatile("%0 -= %1" : "+r"(number) : "r"(&anchor));
	return number;
}

static __always_inline __u64 lt_id(const struct sk_buff *skb)
{
	return lt_number(skb);
}

/* Since 6.2 (commit a35b9af4ec2c): kernel memory as a struct that plain loads may read. The helper
 * takes some 60 ns for 64 bytes. */
extern void *bpf_rdonly_cast(const void *from, __u32 type) __ksym __weak;

/* Sixteen bytes, by the plainest struct of that size that every kernel has. */
#define LT_SIXTEEN(from)                                                                           \
	((const struct timespec64 *)bpf_rdonly_cast(from,                                          \
						    bpf_core_type_id_kernel(struct timespec64)))

/* The eight bytes at the kernel's `field`, which may not be mapped. */
static __always_inline __u64 lt_word(const void *field)
{
	__u64 word = 0;

	if (bpf_ksym_exists(bpf_rdonly_cast))
		return LT_SIXTEEN(field)->tv_sec;
	bpf_probe_read_kernel(&word, sizeof(word), field);
	return word;
}

#define LT_FIELD(field) ((const __u8 *)__builtin_preserve_access_index(&(field)))

/* The address of its head, as a number. Not by its name: since 6.17 (commit f2362a57aeff) the
 * verifier treats the field as a pointer, before as a number. */
static __always_inline __u64 lt_head(const struct sk_buff *skb)
{
	return lt_word(LT_FIELD(skb->head));
}

/* Cookie of a socket; 0 until a program asks for it (SO_COOKIE), as a tool that matches its
 * requests does. The helper that would make one refuses the socket of an skb since 6.x. */
static __always_inline __u64 lt_cookie(const struct sock *sk)
{
	return sk->__sk_common.skc_cookie.counter;
}

static __always_inline __u32 lt_hash(__u64 address)
{
	return (__u32)((address * 0x9e3779b97f4a7c15ULL) >> 32);
}

static __always_inline __u32 lt_mix(__u32 a, __u32 b, __u32 c)
{
	__u64 h = ((__u64)a << 32 | b) * 0x9e3779b97f4a7c15ULL;

	h ^= h >> 29;
	h = (h + c) * 0xbf58476d1ce4e5b9ULL;
	return (__u32)(h >> 32) | 1;
}

static __always_inline void lt_count_miss(__u32 row, __u32 direction, __u32 reason, __u32 packets)
{
	struct lt_counts *c = bpf_map_lookup_elem(&counts, &row);

	if (c && row)
		__sync_fetch_and_add(&c->way[direction & 1].misses[reason], packets);
}

#endif
