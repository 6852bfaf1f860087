/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * The way out. `net_dev_queue` on a device inside a measured container begins a packet. Each queue
 * and transmission that follows adds its time to the entry. The transmission on the first device of
 * the host that does not pass packets on ends it. (`net_dev_xmit` would be too late: by then a
 * reader on another CPU may have the packet.)
 *
 * A device without a queue transmits a packet at once when it is queued, so both have one stamp.
 * The start of the transmission needs no look then, unless it ends the packet or may be a
 * segment's.
 */
#include "depart.h"

SEC("tp_btf/net_dev_queue")
int BPF_PROG(lt_net_dev_queue, struct sk_buff *skb)
{
	struct lt_device *d;
	struct lt_entry *e;
	struct lt_cpu *cpu;

	if (!active)
		return 0;
	cpu = lt_this_cpu();
	if (!cpu)
		return 0;
	cpu->handed = 0;
	d = lt_device(cpu, skb->dev);
	if (d->row) {
		lt_begin(cpu, d, skb, bpf_ktime_get_ns());
		return 0;
	}
	e = lt_find_any(skb);
	if (!e)
		return 0;
	if (skb->sk && !e->row[LT_EGRESS]) {
		/* The host's own packet, in a buffer whose freeing was not seen. */
		lt_close(e, LT_MISS_LOCAL);
		lt_remove(e);
		return 0;
	}
	e->used_ns = bpf_ktime_get_ns();
	e->stamp[LT_QUEUE_HOST] = e->used_ns;
	e->stamp[LT_XMIT_HOST] = 0;
	e->queued = 1;
	lt_whole(cpu, e);
	lt_stamp_transmit(cpu, e, d, skb);
	return 0;
}

SEC("tp_btf/net_dev_start_xmit")
int BPF_PROG(lt_net_dev_start_xmit, const struct sk_buff *skb, const struct net_device *dev)
{
	struct lt_device *d;
	struct lt_entry *e;
	struct lt_cpu *cpu;
	__u64 now;

	if (!active)
		return 0;
	cpu = lt_this_cpu();
	if (!cpu)
		return 0;
	if (cpu->handed == lt_id(skb)) {
		cpu->handed = 0;
		return 0;
	}
	e = lt_find_any(skb);
	/* This packet was not queued: its skb was freed and reused without a trace. */
	if (e && !e->queued)
		e = NULL;
	if (!e && !cpu->next_parent)
		return 0;
	now = bpf_ktime_get_ns();
	if (!e) {
		e = lt_segment(cpu, skb, lt_id(skb), now);
		if (!e)
			return 0;
	}
	e->queued = 0;
	d = lt_device(cpu, dev);
	e->used_ns = now;
	if (d->row) {
		e->stamp[LT_XMIT_IN] = e->used_ns;
		return 0;
	}
	e->stamp[LT_XMIT_HOST] = e->used_ns;
	e->last_host_ifindex = d->ifindex;
	if (d->passes || !e->row[LT_EGRESS])
		return 0;
	e->whole = 0;
	if (lt_same(e, skb)) {
		lt_emit(e, LT_EGRESS, LT_END_DEVICE);
	} else {
		lt_count_miss(lt_take(e, LT_EGRESS), LT_EGRESS, LT_MISS_CONTENT,
			      e->packet.segments);
	}
	/* No look-up follows: another CPU that frees the packet finds nothing. */
	if (d->leaves && !e->row[LT_INGRESS])
		lt_remove(e);
	return 0;
}

/* Packets leave a qdisc. This CPU now remembers the super-packets among them, which may be cut. */
SEC("tp_btf/qdisc_dequeue")
int BPF_PROG(lt_qdisc_dequeue, struct Qdisc *qdisc, struct netdev_queue *queue, int packets,
	     struct sk_buff *skb)
{
	struct lt_cpu *cpu;

	if (!active || !skb)
		return 0;
	cpu = lt_this_cpu();
	if (!cpu)
		return 0;
	cpu->handed = 0;
	for (int i = 0; i < LT_CUT && skb; i++) {
		struct lt_entry *e = lt_find(lt_id(skb));

		if (e) {
			e->queued = 1;
			lt_whole(cpu, e);
		}
		skb = skb->next;
	}
	return 0;
}

char LICENSE[] __weak SEC("license") = "GPL";
