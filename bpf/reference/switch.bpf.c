/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * An empty program at each context switch: the time in the kernel's run-time statistics is their
 * own cost, and that of calling a program at all.
 */
#include "../include/kernel.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

SEC("tp_btf/sched_switch")
int BPF_PROG(reference_empty_switch)
{
	return 0;
}

char LICENSE[] __weak SEC("license") = "GPL";
