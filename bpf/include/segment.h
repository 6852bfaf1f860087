/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * The segment clock. Time on a CPU is cut where the owner changes, and the clock is read only
 * there: a thousand consecutive packets of one container make one segment. That is exact (segments
 * are contiguous and each has one owner), and it makes a marker cheap. A clock reading per packet
 * was tried first and cost 20 ns each.
 *
 * Time that no packet owns is the batch: the poll's head before its first packet, its tail after
 * the last, the hardirq that started it, a whole transmit run. The packets of the batch share it by
 * count, as in Iron: batch / |P| each.
 *
 * A CPU is in one mode (enum cf_mode); `run` is the time since the mode began or was counted last.
 *
 *   mode          begins                                  ends
 *   IDLE          at the end of each other mode           with any of them
 *   RECEIVE       softirq_entry(NET_RX)                   softirq_exit
 *   TRANSMIT      softirq_entry(NET_TX)                   softirq_exit
 *   OTHER         softirq_entry(any other vector)         softirq_exit
 *   NAPI_THREAD   sched_switch to a NAPI thread, or the   sched_switch away from it, or the
 *                 end of a softirq that interrupted it    beginning of a softirq
 *   DRAIN         qdisc_dequeue in a system call of a     qdisc_dequeue of its own packet or of
 *                 packet of another container             none, sched_switch, softirq_entry
 *
 * A softirq whose end no tracepoint reported is ended by the next one (cf_leave_outer).
 *
 * In RECEIVE and NAPI_THREAD the open segment is in one of these states. The kernel may take the
 * packets of a list through its first steps one by one, and only then handle them: they are pending
 * together.
 *
 *   state       recognized by                 its time goes to
 *   HEAD        owner == CF_OWNER_BATCH       the batch
 *   OWNED       none of the others            its owner
 *   PENDING     watch & CF_WATCH_SOCKET       the container that its one packet turns out to be
 *                                             for; else a reason
 *   LISTED      watch & CF_WATCH_LIST         as OWNED; others of a list may name other owners
 *   DETOUR      draining                      the owner of the packets that leave a qdisc
 *   LEFT_OPEN   boundary_ns                   its owner up to the boundary; the next packet decides
 *                                             what follows
 *
 *   event                                 HEAD       OWNED      PENDING    DETOUR     LEFT_OPEN
 *   packet of the owner's device          -          OWNED      -          OWNED *    OWNED [1]
 *   packet of another container's device  OWNED *    OWNED *    OWNED *    OWNED *    OWNED * [2]
 *   packet of a host device               PENDING *  PENDING *  PENDING *  PENDING *  PENDING * [2]
 *   the same, a tunnel's to a container   OWNED *    OWNED *    OWNED *    OWNED *    OWNED [1]
 *   packet of a host device, to GRO       HEAD       HEAD *     HEAD *     HEAD *     HEAD [2]
 *   queued to a container's device        HEAD       OWNED      OWNED [3]  DETOUR     LEFT_OPEN
 *   taken by a socket                     HEAD       OWNED      OWNED [3]  DETOUR     LEFT_OPEN
 *   another's packet leaves a qdisc       DETOUR *   DETOUR *   PENDING    DETOUR *   DETOUR * [2]
 *   qdisc is empty                        HEAD       OWNED      PENDING    [4] *      LEFT_OPEN
 *   another CPU is woken (RPS)            OWNED *    OWNED      PENDING    DETOUR     OWNED * [2]
 *   napi_poll                             HEAD *     [5]        HEAD *     HEAD *     LEFT_OPEN [5]
 *   the mode ends: closed, and the batch is shared out
 *
 * A PENDING segment of several packets becomes LISTED instead of OWNED [3]. LISTED behaves as
 * OWNED, but for these events. Queued to another container's device, or taken by another's socket:
 * LISTED *. napi_poll: HEAD *. A PENDING packet's successor in its list leaves it PENDING, without
 * a cut.
 *
 *   *    the clock is read and the segment cut.
 *   [1]  cf_boundary_pass: the common time of the poll before is the owner's; nothing is cut.
 *   [2]  cf_boundary_cut: the poll before is closed where it ended, without a reading of the clock.
 *   [3]  the whole segment, the host's stage included, gets its owner: nothing is cut.
 *   [4]  as before the detour.
 *   [5]  LEFT_OPEN while the poll has had one owner and the run is shorter than
 *        CF_RUN_UNCOUNTED_NS (cf_poll_leave_open), else HEAD *.
 *
 * In TRANSMIT all packets of the run are one batch. In OTHER the segment belongs to a reason, or to
 * the sender from net_dev_queue on. In DRAIN it belongs to the container whose packets leave the
 * qdisc.
 */
#ifndef COFFERDAM_SEGMENT_H
#define COFFERDAM_SEGMENT_H

#include "pair.h"

#define CF_SEGMENT_MAX_NS (CF_SEGMENT_MAX_MS * 1000000ULL)

/* Predicates for those states of the open segment that a single field shows. */
static __always_inline bool cf_is_head(const struct cf_cpu *s)
{
	return s->owner == CF_OWNER_BATCH;
}

static __always_inline bool cf_is_pending(const struct cf_cpu *s)
{
	return s->watch & CF_WATCH_SOCKET;
}

static __always_inline bool cf_is_listed(const struct cf_cpu *s)
{
	return s->watch & CF_WATCH_LIST;
}

static __always_inline bool cf_is_left_open(const struct cf_cpu *s)
{
	return s->boundary_ns != 0;
}

static __always_inline void cf_give(__u32 index, __u32 direction, __u64 ns, __u64 hardirq_ns)
{
	struct cf_row *row = cf_ledger_row(index);

	if (!row)
		return;
	if (direction == CF_TX && index >= CF_FIRST_CONTAINER_ROW)
		row->tx_ns += ns;
	else
		row->rx_ns += ns;
	row->hardirq_ns += hardirq_ns;
}

/* Attributes a batch without packets. On the CPU of a sender whose packets are processed elsewhere
 * (RPS) the receive softirq only wakes that other CPU: this belongs to the transmit that raised it.
 * Otherwise the cause is unknown. */
static __always_inline void cf_batch_orphan(struct cf_cpu *s, __u64 ns, __u64 hardirq_ns)
{
	if (s->queued && s->mode == CF_RECEIVE)
		cf_give(s->queued_row, s->queued_direction, ns, hardirq_ns);
	else
		cf_give(CF_ROW_NO_PACKET, CF_RX, ns, hardirq_ns);
}

/* A batch that is being shared out. */
struct cf_share_out {
	struct cf_cpu *s;
	__u64 ns;
	__u64 hardirq_ns;
	__u64 rest_ns;
	__u64 rest_hardirq_ns;
	__u64 packets;
	__u64 used;
};

static long cf_share_next(__u64 i, struct cf_share_out *out)
{
	struct cf_share *share = &out->s->shares[i & (CF_BATCH_MAX - 1)];
	__u64 part_ns = out->rest_ns, part_hardirq_ns = out->rest_hardirq_ns;

	if (i + 1 < out->used) {
		part_ns = out->ns * share->packets / out->packets;
		part_hardirq_ns = out->hardirq_ns * share->packets / out->packets;
	}
	out->rest_ns -= part_ns;
	out->rest_hardirq_ns -= part_hardirq_ns;
	cf_give(share->row, share->direction, part_ns, part_hardirq_ns);
	return 0;
}

/* Shares the batch out over its packets. The last owner gets the rounding, so that nothing is lost.
 * The owners stay in the batch, because a tail may follow. A global function with bpf_loop, so that
 * the verifier walks a share once, and not CF_BATCH_MAX times at every call. */
__weak __noinline int cf_batch_share(struct cf_cpu *s)
{
	struct cf_share_out out;

	if (!s) /* never; the verifier of a global function needs the check */
		return 0;
	out.s = s;
	out.rest_ns = out.ns = s->batch_ns;
	out.rest_hardirq_ns = out.hardirq_ns = s->batch_hardirq_ns;
	out.packets = s->batch_packets;
	out.used = s->shares_used;
	s->batch_ns = 0;
	s->batch_hardirq_ns = 0;
	if (!out.ns && !out.hardirq_ns)
		return 0;
	if (!out.used || !out.packets) {
		cf_batch_orphan(s, out.ns, out.hardirq_ns);
		return 0;
	}
	bpf_loop(out.used, cf_share_next, &out, 0);
	return 0;
}

static __always_inline void cf_batch_reset(struct cf_cpu *s)
{
	s->shares_used = 0;
	s->batch_packets = 0;
	s->batch_closed = 0;
}

static __always_inline void cf_batch_add(struct cf_cpu *s, __u32 row, __u32 direction,
					 __u64 packets)
{
	struct cf_share *share;
	__u32 used;

	if (s->batch_closed)
		cf_batch_reset(s);
	used = s->shares_used;
	if (used && used <= CF_BATCH_MAX) {
		share = &s->shares[(used - 1) & (CF_BATCH_MAX - 1)];
		if (share->row == row && share->direction == direction) {
			share->packets += packets;
			s->batch_packets += packets;
			return;
		}
	}
	if (used >= CF_BATCH_MAX) { /* full: the common time so far is shared out now */
		cf_batch_share(s);
		cf_batch_reset(s);
		used = 0;
	}
	share = &s->shares[used & (CF_BATCH_MAX - 1)];
	share->row = row;
	share->direction = direction;
	share->packets = packets;
	s->shares_used = used + 1;
	s->batch_packets += packets;
}

/* Ends the open segment's time at `now` and begins the next one there. Returns its length without
 * interrupts. The clock and interrupt_ns are read one after the other: an interrupt between them is
 * subtracted from a segment that it came after. If that is shorter than the interrupt, the rest is
 * subtracted from the next one, so that the sum stays right. */
static __always_inline __u64 cf_segment_cut(struct cf_cpu *s, __u64 now, __u64 interrupt_ns)
{
	__u64 ns = now - s->start_ns - (interrupt_ns - s->interrupt_mark_ns);

	s->start_ns = now;
	s->interrupt_mark_ns = interrupt_ns;
	if (ns <= CF_SEGMENT_MAX_NS)
		return ns;
	if (-ns <= CF_SEGMENT_MAX_NS)
		s->interrupt_mark_ns += ns;
	else
		s->totals.segments_rejected++;
	return 0;
}

/* Ends the open segment at `now`, when interrupt_ns was `interrupt_ns`, and adds it to its owner;
 * the next one begins at once with the same owner. */
__weak __noinline int cf_segment_close(struct cf_cpu *s, __u64 now, __u64 interrupt_ns)
{
	__u64 ns;
	__u32 owner;

	if (!s)
		return 0;
	ns = cf_segment_cut(s, now, interrupt_ns);
	owner = s->owner;
	if (s->mode == CF_OTHER && s->owner >= CF_FIRST_CONTAINER_ROW)
		s->run_network_ns += ns;
	if (owner == CF_OWNER_BATCH) {
		s->batch_ns += ns;
	} else {
		struct cf_row *row = cf_ledger_row(owner);

		if (!row)
			return 0;
		if (s->direction == CF_TX) {
			if (owner >= CF_FIRST_CONTAINER_ROW)
				row->tx_ns += ns;
			else
				row->rx_ns += ns;
			row->tx_packets += s->packets;
			row->tx_bytes += s->bytes;
		} else {
			row->rx_ns += ns;
			row->rx_packets += s->packets;
			row->rx_bytes += s->bytes;
		}
		if (s->weight)
			cf_batch_add(s, owner, s->direction, s->weight);
	}
	s->packets = 0;
	s->bytes = 0;
	s->weight = 0;
	return 0;
}

static __always_inline void cf_segment_close_now(struct cf_cpu *s)
{
	__u64 now = bpf_ktime_get_ns();

	cf_segment_close(s, now, s->interrupt_ns);
}

/* Ends the time before a poll's first packet; a short form of cf_segment_close. */
static __always_inline void cf_head_close(struct cf_cpu *s)
{
	__u64 now = bpf_ktime_get_ns();

	s->batch_ns += cf_segment_cut(s, now, s->interrupt_ns);
}

/* Makes `owner` the owner of the time from now on. Does nothing if it already is. */
static __always_inline void cf_segment_switch(struct cf_cpu *s, __u32 owner, __u32 direction)
{
	if (s->owner == owner && s->direction == direction)
		return;
	if (cf_is_head(s))
		cf_head_close(s);
	else
		cf_segment_close_now(s);
	s->owner = owner;
	s->direction = direction;
	s->owner_dev = 0;
}

static __always_inline void cf_segment_open(struct cf_cpu *s, __u64 now, __u32 owner)
{
	s->start_ns = now;
	s->interrupt_mark_ns = s->interrupt_ns;
	s->owner = owner;
	s->direction = CF_RX;
	s->owner_dev = 0;
	s->draining = 0;
	s->boundary_ns = 0;
	s->packets = 0;
	s->bytes = 0;
	s->weight = 0;
}

/* Longest run that the end of a poll may leave uncounted: a reading of the ledger lacks at most
 * this much. */
#define CF_RUN_UNCOUNTED_NS 500000

/* Ends a poll that has had one owner so far, without cutting: the next poll mostly has the same
 * owner. False if the poll must be closed in full. */
static __always_inline bool cf_poll_leave_open(struct cf_cpu *s, __u64 now)
{
	if (cf_is_head(s) || s->draining || s->watch != CF_WATCH_RECEIVE ||
	    (s->shares_used && !s->batch_closed) || now - s->run_start_ns > CF_RUN_UNCOUNTED_NS)
		return false;
	s->boundary_ns = now;
	s->boundary_interrupt_ns = s->interrupt_ns;
	s->owner_dev = 0;
	return true;
}

/* Begins a run at the begin of the open segment. */
static __always_inline void cf_run_begin(struct cf_cpu *s)
{
	s->run_start_ns = s->start_ns;
	s->run_interrupt_mark_ns = s->interrupt_mark_ns;
	s->run_network_ns = 0;
}

/* Length of the run up to the open segment, without hardirqs, ns. */
static __always_inline __u64 cf_run_ns(struct cf_cpu *s)
{
	__u64 ns =
		s->start_ns - s->run_start_ns - (s->interrupt_mark_ns - s->run_interrupt_mark_ns);

	return ns > CF_SEGMENT_MAX_NS ? 0 : ns;
}

/* Ends the last segment of a batch. If the batch has had one owner only, the common time is that
 * owner's and need not be shared out. */
static __always_inline void cf_batch_end(struct cf_cpu *s, __u64 now)
{
	bool alone = (!s->shares_used || s->batch_closed) && s->weight && !cf_is_head(s);
	__u64 hardirq_ns = s->batch_hardirq_ns;

	s->boundary_ns = 0;
	/* No packet at all: on the CPU of a sender, for example, whose packets another one
	 * processes. */
	if (cf_is_head(s) && !s->shares_used && !s->weight) {
		cf_batch_orphan(s, s->batch_ns + cf_segment_cut(s, now, s->interrupt_ns),
				hardirq_ns);
		s->batch_ns = 0;
		s->batch_hardirq_ns = 0;
		return;
	}
	if (alone) {
		struct cf_row *row = hardirq_ns ? cf_ledger_row(s->owner) : NULL;

		s->start_ns -= s->batch_ns;
		s->batch_ns = 0;
		s->batch_hardirq_ns = 0;
		s->weight = 0;
		if (row)
			row->hardirq_ns += hardirq_ns;
	}
	cf_segment_close(s, now, s->interrupt_ns);
	if (!alone)
		cf_batch_share(s);
}

/* Ends a NAPI poll: shares the common time; the time that follows waits for its first packet. */
static __always_inline void cf_poll_close(struct cf_cpu *s, __u64 now, __u64 interrupt_ns)
{
	s->boundary_ns = 0;
	cf_segment_close(s, now, interrupt_ns);
	if (s->batch_closed) { /* this poll added no owner */
		cf_batch_orphan(s, s->batch_ns, s->batch_hardirq_ns);
		s->batch_ns = 0;
		s->batch_hardirq_ns = 0;
	} else {
		cf_batch_share(s);
	}
	s->batch_closed = 1;
	s->owner = CF_OWNER_BATCH;
	s->direction = CF_RX;
	s->owner_dev = 0;
	s->draining = 0;
}

/* Counts and charges the run up to the open segment. Called at each poll, and not only at the end
 * of a softirq or of a NAPI thread's slice, so that the charge is not late. `interruptions` is 1 at
 * the end of a network softirq that followed no other softirq. */
static __always_inline void cf_run_count_with(struct cf_cpu *s, __u32 interruptions)
{
	__u64 ns = cf_run_ns(s);
	__u32 vector = s->vector;

	if (s->pair_packets)
		cf_pair_flush(s);
	if (s->mode == CF_NAPI_THREAD)
		s->totals.napi_thread_ns += ns;
	else if (s->mode == CF_DRAIN)
		s->totals.drain_ns += ns;
	else if (vector < CF_SOFTIRQS)
		s->totals.softirq_ns[vector] += ns;
	if (s->mode == CF_OTHER)
		cf_charge(s, s->run_network_ns, ns - s->run_network_ns, interruptions);
	else
		cf_charge(s, ns, 0, interruptions);
	cf_run_begin(s);
}

static __always_inline void cf_run_count(struct cf_cpu *s)
{
	cf_run_count_with(s, 0);
}

/* Begins the time of a NAPI thread that got this CPU, or whose softirq interruption ended. */
static __always_inline void cf_napi_thread_begin(struct cf_cpu *s, __u64 now)
{
	cf_batch_reset(s);
	s->handed_row = CF_NO_ROW;
	cf_segment_open(s, now, CF_OWNER_BATCH);
	cf_run_begin(s);
	s->mode = CF_NAPI_THREAD;
	s->watch = CF_WATCH_RECEIVE;
}

/* Closes the poll that was left open where it ended, because another owner's follows. Interrupts
 * since then belong to the poll that follows. */
static __always_inline void cf_boundary_cut(struct cf_cpu *s)
{
	if (cf_is_left_open(s))
		cf_poll_close(s, s->boundary_ns, s->boundary_interrupt_ns);
}

/* Ends the poll that was left open, because the next one begins with the same owner. Its common
 * time is that owner's alone, even if the next poll has packets of others. */
static __always_inline void cf_boundary_pass(struct cf_cpu *s)
{
	if (!cf_is_left_open(s))
		return;
	s->boundary_ns = 0;
	s->weight = 0;
	if (s->batch_ns || s->batch_hardirq_ns)
		cf_give(s->owner, s->direction, s->batch_ns, s->batch_hardirq_ns);
	s->batch_ns = 0;
	s->batch_hardirq_ns = 0;
}

/* Leaves the mode that a softirq or another task finds: a NAPI thread between polls, or a drain
 * that gave up. If it is a softirq whose end was not reported, the time that was cut of it counts,
 * and the time since then is unknown. */
static __always_inline void cf_leave_outer(struct cf_cpu *s, __u64 now)
{
	switch (s->mode) {
	case CF_IDLE:
		return;
	case CF_NAPI_THREAD:
		cf_poll_close(s, now, s->interrupt_ns);
		break;
	case CF_DRAIN:
		cf_segment_close(s, now, s->interrupt_ns);
		break;
	default:
		cf_boundary_cut(s);
		cf_segment_close(s, s->start_ns, s->interrupt_mark_ns);
		cf_batch_share(s);
	}
	cf_run_count(s);
	s->mode = CF_IDLE;
}

#endif
