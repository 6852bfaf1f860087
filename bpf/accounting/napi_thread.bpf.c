/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * Threaded NAPI is not bracketed by softirq markers: the thread's time on the CPU is network
 * CPU. `sched_switch` runs with interrupts off, with `prev` still current. For every other
 * task it costs one test of the flags.
 */
#include "../include/segment.h"

SEC("tp_btf/sched_switch")
int BPF_PROG(sched_switch, bool preempt, struct task_struct *prev, struct task_struct *next)
{
	struct cf_cpu *s = cf_this_cpu();
	__u64 now;

	if (!s)
		return 0;
	s->napi_thread = 0;
	/* A drain that gave up also ends here. */
	if (s->mode != CF_IDLE) {
		now = bpf_ktime_get_ns();
		if (s->mode == CF_NAPI_THREAD) {
			cf_batch_end(s, now);
			cf_run_count(s);
			s->mode = CF_IDLE;
		} else {
			cf_leave_outer(s, now);
		}
		s->watch = 0;
	}
	if (!window_open || !cf_is_napi_thread(next))
		return 0;
	now = bpf_ktime_get_ns();
	s->napi_thread = 1;
	cf_napi_thread_begin(s, now);
	return 0;
}

char LICENSE[] __weak SEC("license") = "GPL";
