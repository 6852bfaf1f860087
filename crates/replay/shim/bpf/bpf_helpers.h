/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * Stands in for libbpf's header when the programs are compiled for the host: the helpers are
 * functions of the replaying machine (src/helpers.rs), and a map is known by its address.
 */
#ifndef COFFERDAM_REPLAY_HELPERS_H
#define COFFERDAM_REPLAY_HELPERS_H

#define SEC(name)
#define __always_inline inline __attribute__((always_inline))
#define __noinline __attribute__((noinline))
#define __weak __attribute__((weak))
#define __ksym

/* Encoding of libbpf: a number is the length of an array. */
#define __uint(name, value) int(*name)[value]
#define __type(name, value) typeof(value) *name

__u64 replay_clock(void);
__u32 replay_cpu(void);
__u64 replay_current_cgroup(void);
struct task_struct *replay_current_task(void);
void *replay_lookup(const void *map, __u32 map_type, const void *key, __u32 key_bytes,
		    __u32 value_bytes);
long replay_update(const void *map, const void *key, __u32 key_bytes, const void *value,
		   __u32 value_bytes, __u64 flags);
void *replay_reserve(__u64 bytes);
void replay_submit(void *record);
void replay_discard(void *record);

#define bpf_ktime_get_ns() replay_clock()
#define bpf_get_smp_processor_id() replay_cpu()
#define bpf_get_current_cgroup_id() replay_current_cgroup()
#define bpf_get_current_task_btf() replay_current_task()
#define bpf_get_current_pid_tgid() ((__u64)replay_current_task()->tgid << 32)
#define bpf_map_lookup_elem(map, k)                                                                \
	replay_lookup((map), sizeof(*(map)->type) / sizeof(int), (k), sizeof(*(map)->key),         \
		      sizeof(*(map)->value))
#define bpf_map_update_elem(map, k, v, flags)                                                      \
	replay_update((map), (k), sizeof(*(map)->key), (v), sizeof(*(map)->value), (flags))
/* Iterations of a loop; a callback that returns 1 ends it. */
#define bpf_loop(turns, turn, context, flags)                                                      \
	do {                                                                                       \
		for (__u64 turn_no = 0; turn_no < (turns); turn_no++)                              \
			if (turn(turn_no, context))                                                \
				break;                                                             \
	} while (0)
#define bpf_ringbuf_reserve(ring, bytes, flags) replay_reserve(bytes)
#define bpf_ringbuf_submit(record, flags) replay_submit(record)
#define bpf_ringbuf_discard(record, flags) replay_discard(record)

#endif
