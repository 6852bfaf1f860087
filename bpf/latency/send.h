/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * Begin of the system call that sends the packet in hand. `sock_send_length` fires when the call
 * ends, and cgroup hooks on sendmsg see only unconnected UDP: `sys_enter` is the earliest
 * tracepoint. It slows every system call of the host by some 50 ns, so it is attached only on
 * request. A packet without it begins at `net_dev_queue`.
 */
#ifndef COFFERDAM_LATENCY_SEND_H
#define COFFERDAM_LATENCY_SEND_H

#include "packet.h"

static __always_inline struct lt_send *lt_send_slot(__u64 task)
{
	__u32 key = lt_hash(task) & (LT_SENDS - 1);

	return bpf_map_lookup_elem(&sends, &key);
}

/* 0 if it is unknown: another task had the slot, or a softirq sends. */
static __always_inline __u64 lt_send_begun(const struct lt_cpu *cpu)
{
	__u64 task;
	struct lt_send *s;

	if (!watch_sends || cpu->softirq)
		return 0;
	task = (__u64)bpf_get_current_task();
	s = lt_send_slot(task);
	return s && s->task == task ? s->ns : 0;
}

/* Whether the data begin before snd_nxt: new data begin at snd_nxt until they are sent. */
static __always_inline bool lt_sent_before(struct sock *sk, const struct lt_packet *p)
{
	unsigned char state = sk->__sk_common.skc_state;
	__u32 next;

	if (!p->payload_bytes || state == CF_TCP_TIME_WAIT || state == CF_TCP_NEW_SYN_RECV)
		return false;
	next = (__u32)lt_word(LT_FIELD(((struct tcp_sock *)sk)->snd_nxt));
	return (__s32)(p->sequence - next) < 0;
}

#endif
