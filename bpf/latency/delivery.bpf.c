/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * The end of every packet on the way in, and of every buffer.
 *
 * `skb_copy_datagram_iovec` fires when a reader's copy begins: raw and ping sockets, and UDP in
 * pages. Linear UDP is copied without a tracepoint, and since 6.18 also freed without one: its end
 * is the socket, see ingress.bpf.c. A packet that is consumed while the stack still has it in hand
 * was for the kernel itself (an echo request), or a raw socket has a clone.
 */
#include "table.h"

SEC("tp_btf/skb_copy_datagram_iovec")
int BPF_PROG(lt_skb_copy, const struct sk_buff *skb, int length)
{
	struct lt_entry *e;

	if (!active)
		return 0;
	e = lt_find_any(skb);
	if (!e || !e->row[LT_INGRESS])
		return 0;
	e->stamp[LT_COPIED] = bpf_ktime_get_ns();
	lt_emit(e, LT_INGRESS, LT_END_COPIED);
	lt_remove(e);
	return 0;
}

/* Whether the reader has a clone of this skb. The stack frees the original after every socket was
 * served, as a drop if no ping socket wanted it. From here on the clone is found by its head. */
static __always_inline bool lt_clone_lives(struct lt_entry *e)
{
	if (!e->row[LT_INGRESS] || e->packet.class != LT_ICMP || !e->stamp[LT_READY] || e->consumed)
		return false;
	e->consumed = 1;
	lt_set_key(e, LT_DETACHED);
	return true;
}

SEC("tp_btf/consume_skb")
int BPF_PROG(lt_consume, struct sk_buff *skb)
{
	struct lt_entry *e;
	struct lt_cpu *cpu;
	bool in_hand;

	if (!active)
		return 0;
	e = lt_find(lt_id(skb));
	cpu = lt_this_cpu();
	if (!e || !cpu)
		return 0;
	if (e->whole) {
		/* The segments continue: see segments.h. */
		lt_set_key(e, LT_DETACHED);
		return 0;
	}
	if (lt_clone_lives(e))
		return 0;
	in_hand = cpu->receiving == lt_id(skb);
	if (e->row[LT_INGRESS]) {
		if (!e->stamp[LT_READY] && in_hand) {
			e->stamp[LT_READY] = bpf_ktime_get_ns();
			lt_emit(e, LT_INGRESS, LT_END_KERNEL);
		} else {
			e->stamp[LT_COPIED] = bpf_ktime_get_ns();
			lt_emit(e, LT_INGRESS, LT_END_COPIED);
		}
	}
	lt_close(e, LT_MISS_LOCAL);
	lt_remove(e);
	return 0;
}

SEC("tp_btf/kfree_skb")
int BPF_PROG(lt_kfree, struct sk_buff *skb)
{
	struct lt_entry *e;

	if (!active)
		return 0;
	e = lt_find(lt_id(skb));
	if (!e || lt_clone_lives(e))
		return 0;
	if (lt_for_another(skb) && BPF_CORE_READ_BITFIELD(skb, cloned)) {
		/* Flooded: the clone goes to the right device. */
		lt_set_key(e, LT_DETACHED);
		return 0;
	}
	lt_close(e, LT_MISS_DROPPED);
	lt_remove(e);
	return 0;
}

char LICENSE[] __weak SEC("license") = "GPL";
