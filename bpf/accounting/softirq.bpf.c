/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * Softirqs bracket network work. `softirq_entry` and `softirq_exit` run with the softirq, in the
 * time slice of the interrupted task or in ksoftirqd; softirqs do not nest. Together with the
 * hardirq markers these are the only ones that always read the clock: once per softirq, not per
 * packet.
 *
 * No tracepoint brackets do_softirq itself, so Iron's do_softirq term is the sum of the
 * vectors here; the loop between two vectors is a few instructions.
 */
#include "../include/follows.h"
#include "../include/segment.h"

static __always_inline __u32 cf_reason_of_vector(__u32 vector)
{
	switch (vector) {
	case CF_HI_SOFTIRQ:
		return CF_ROW_SOFTIRQ_HI;
	case CF_TIMER_SOFTIRQ:
		return CF_ROW_SOFTIRQ_TIMER;
	case CF_BLOCK_SOFTIRQ:
		return CF_ROW_SOFTIRQ_BLOCK;
	case CF_IRQ_POLL_SOFTIRQ:
		return CF_ROW_SOFTIRQ_IRQ_POLL;
	case CF_TASKLET_SOFTIRQ:
		return CF_ROW_SOFTIRQ_TASKLET;
	case CF_SCHED_SOFTIRQ:
		return CF_ROW_SOFTIRQ_SCHED;
	case CF_HRTIMER_SOFTIRQ:
		return CF_ROW_SOFTIRQ_HRTIMER;
	default:
		return CF_ROW_SOFTIRQ_RCU;
	}
}

SEC("tp_btf/softirq_entry")
int BPF_PROG(softirq_entry, unsigned int vector)
{
	struct cf_cpu *s = cf_this_cpu();
	__u64 now;

	if (!s)
		return 0;
	now = bpf_ktime_get_ns();
	cf_leave_outer(s, now);
	if (!window_open) {
		s->watch = 0;
		s->queued = 0;
		s->napi_thread = 0;
		return 0;
	}
	cf_batch_reset(s);
	s->handed_row = CF_NO_ROW;
	s->vector = vector;
	s->totals.softirqs++;
	s->follows = cf_follows(now, s->softirq_end_ns);
	switch (vector) {
	case CF_NET_RX_SOFTIRQ:
		cf_segment_open(s, now, CF_OWNER_BATCH);
		s->batch_hardirq_ns = s->hardirq_pending_ns;
		s->hardirq_pending_ns = 0;
		s->mode = CF_RECEIVE;
		s->watch = CF_WATCH_RECEIVE;
		break;
	case CF_NET_TX_SOFTIRQ:
		cf_segment_open(s, now, CF_OWNER_BATCH);
		s->mode = CF_TRANSMIT;
		s->watch = 0;
		break;
	default:
		cf_segment_open(s, now, cf_reason_of_vector(vector));
		s->mode = CF_OTHER;
		s->watch = CF_WATCH_QUEUE;
	}
	cf_run_begin(s);
	return 0;
}

SEC("tp_btf/softirq_exit")
int BPF_PROG(softirq_exit, unsigned int vector)
{
	struct cf_cpu *s = cf_this_cpu();
	__u64 now;

	/* This softirq began before the programs were attached. */
	if (!s || s->vector != vector ||
	    (s->mode != CF_RECEIVE && s->mode != CF_TRANSMIT && s->mode != CF_OTHER))
		return 0;
	now = bpf_ktime_get_ns();
	cf_batch_end(s, now);
	cf_run_count_with(s, s->mode != CF_OTHER && !s->follows);
	if (s->mode == CF_RECEIVE)
		s->queued = 0;
	s->softirq_end_ns = now;
	s->watch = 0;
	s->mode = CF_IDLE;
	if (!window_open)
		s->napi_thread = 0;
	else if (s->napi_thread)
		cf_napi_thread_begin(s, now);
	return 0;
}

extern const void rps_trigger_softirq __ksym __weak;

/*
 * Between polls a receive softirq wakes the CPUs for which it has queued packets (RPS). On a
 * virtual machine each wake-up costs several microseconds, an exit to the hypervisor. The owner of
 * the answers or forwarded packets that made it necessary pays, not the packets that were near by
 * chance.
 *
 * A hardirq, in which segments must not be touched, never sends this interrupt; it does send
 * others. A raw tracepoint, because the verifier lets no typed one read a pointer to a function.
 */
SEC("raw_tp/csd_queue_cpu")
int BPF_PROG(csd_queue_cpu, unsigned int cpu, unsigned long callsite, void *function)
{
	struct cf_cpu *s;
	__u32 row, direction;

	if (!function || function != &rps_trigger_softirq)
		return 0;
	s = cf_this_cpu();
	if (!s || (s->mode != CF_RECEIVE && s->mode != CF_NAPI_THREAD))
		return 0;
	row = s->handed_row;
	direction = s->handed_direction;
	if (row == CF_NO_ROW || (!cf_is_head(s) && !cf_is_left_open(s)))
		return 0;
	s->handed_row = CF_NO_ROW;
	if (s->owner == row && s->direction == direction)
		return 0;
	cf_boundary_cut(s);
	cf_segment_switch(s, row, direction);
	return 0;
}

char LICENSE[] __weak SEC("license") = "GPL";
