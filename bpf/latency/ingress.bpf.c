/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * The way in. `netif_receive_skb` on a device of the host begins a packet, or continues one that a
 * container sent. On a container's device it names the container. `sk_data_ready` and `tcp_probe`
 * report that a socket has the packet.
 *
 * `sk_data_ready` does not name the packet for which the socket was woken: it is the one that the
 * stack has in hand on this CPU.
 */
#include "receive.h"

SEC("tp_btf/netif_receive_skb")
int BPF_PROG(lt_netif_receive_skb, struct sk_buff *skb)
{
	struct lt_device *d;
	struct lt_entry *e;
	struct lt_cpu *cpu;

	if (!active)
		return 0;
	cpu = lt_this_cpu();
	if (!cpu)
		return 0;
	lt_end_receive(cpu, lt_id(skb));
	d = lt_device(cpu, skb->dev);
	cpu->receiving = lt_id(skb);
	cpu->receiving_skb = (__u64)skb;
	if (d->row && lt_for_another(skb)) {
		e = NULL;
	} else if (d->row) {
		e = lt_find_any(skb);
		lt_arrive(d, e, skb->data, skb, bpf_ktime_get_ns());
		cpu->arrived = 1;
	} else {
		e = lt_receive_host(d, lt_find(lt_id(skb)), skb, skb->data, skb->len);
	}
	cpu->in_hand_ns = e ? e->claimed_ns : 0;
	return 0;
}

SEC("tp_btf/sk_data_ready")
int BPF_PROG(lt_sk_data_ready, const struct sock *sk)
{
	struct lt_entry *e;
	struct lt_cpu *cpu;

	/* TCP has a tracepoint that names the packet; Unix and tun have no protocol. */
	if (!active || !sk->sk_protocol || sk->sk_protocol == LT_IPPROTO_TCP)
		return 0;
	cpu = lt_this_cpu();
	if (!cpu || !cpu->receiving)
		return 0;
	e = lt_in_hand(cpu);
	if (!e || e->stamp[LT_READY])
		return 0;
	if (!e->row[LT_INGRESS] && !e->stamp[LT_QUEUE_HOST])
		lt_arrive_at_socket(cpu, e, sk, cpu->receiving_skb);
	/* A Unix socket may be woken as well while the packet is in hand. */
	if (!e->row[LT_INGRESS] || e->packet.protocol != sk->sk_protocol)
		return 0;
	/* A packet that passes no hook is unknown to the CPU: the packet in hand is an older one.
	 * */
	if (by_devices &&
	    (e->netns[LT_INGRESS] != sk->__sk_common.skc_net.net->ns.inum ||
	     (e->packet.class == LT_UDP && e->packet.destination_port != sk->__sk_common.skc_num)))
		return 0;
	e->used_ns = bpf_ktime_get_ns();
	e->stamp[LT_READY] = e->used_ns;
	e->cookie = lt_cookie(sk);
	cpu->receiving = 0;
	/* Most UDP is copied to its reader without a tracepoint: the socket is its end. */
	if (by_devices || e->packet.class != LT_ICMP) {
		lt_emit(e, LT_INGRESS, LT_END_READY);
		lt_remove(e);
	}
	return 0;
}

SEC("tp_btf/tcp_probe")
int BPF_PROG(lt_tcp_probe, struct sock *sk, const struct sk_buff *skb)
{
	struct lt_entry *e;
	struct lt_cpu *cpu;

	if (!active)
		return 0;
	e = lt_find(lt_id(skb));
	cpu = lt_this_cpu();
	if (!e || !cpu)
		return 0;
	if (!e->row[LT_INGRESS] && !e->stamp[LT_QUEUE_HOST])
		lt_arrive_at_socket(cpu, e, sk, (__u64)skb);
	if (!e->row[LT_INGRESS])
		return 0;
	e->stamp[LT_READY] = bpf_ktime_get_ns();
	e->cookie = lt_cookie(sk);
	lt_emit(e, LT_INGRESS, LT_END_READY);
	lt_remove(e);
	return 0;
}

/* Opening and closing connections: tcp_probe fires for established ones only. */
SEC("tp_btf/inet_sock_set_state")
int BPF_PROG(lt_inet_sock_set_state, const struct sock *sk, int from, int to)
{
	struct lt_entry *e;
	struct lt_cpu *cpu;

	if (!active)
		return 0;
	cpu = lt_this_cpu();
	if (!cpu || !cpu->receiving)
		return 0;
	e = lt_in_hand(cpu);
	if (!e || !e->row[LT_INGRESS] || e->packet.class != LT_TCP || e->stamp[LT_READY] ||
	    sk->__sk_common.skc_num != e->packet.destination_port)
		return 0;
	e->stamp[LT_READY] = bpf_ktime_get_ns();
	e->cookie = lt_cookie(sk);
	lt_emit(e, LT_INGRESS, LT_END_READY);
	lt_remove(e);
	return 0;
}

char LICENSE[] __weak SEC("license") = "GPL";
