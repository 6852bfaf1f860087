/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * Notes when a task of a measured container enters a system call that sends. Every other system
 * call of such a task deletes the note: a packet that close() sends is not from the write before
 * it.
 */
#include "device.h"
#include "send.h"

/* Numbers for x86-64 and arm64. Sends by io_uring are missing: its workers make no system calls. */
static __always_inline bool lt_sends(long id)
{
#if defined(__TARGET_ARCH_arm64)
	return id == 64 || id == 66 || id == 206 || id == 211 || id == 269 || id == 71;
#else
	return id == 44 || id == 46 || id == 307 || id == 1 || id == 20 || id == 40;
#endif
}

SEC("tp_btf/sys_enter")
int BPF_PROG(lt_sys_enter, struct pt_regs *regs, long id)
{
	struct task_struct *task;
	__u64 key;
	struct lt_cpu *cpu;
	struct lt_send *s;

	if (!active)
		return 0;
	cpu = lt_this_cpu();
	if (!cpu)
		return 0;
	task = bpf_get_current_task_btf();
	if (!lt_netns(cpu, task->nsproxy->net_ns)->row)
		return 0;
	key = (__u64)bpf_get_current_task();
	s = lt_send_slot(key);
	if (!s)
		return 0;
	s->task = key;
	s->ns = lt_sends(id) ? bpf_ktime_get_ns() : 0;
	return 0;
}

/* A packet that a softirq sends is not the interrupted task's. (The preemption count would show
 * that as well, but its address is not known on every kernel.) */
SEC("tp_btf/softirq_entry")
int BPF_PROG(lt_softirq_entry)
{
	struct lt_cpu *cpu = lt_this_cpu();

	if (cpu)
		cpu->softirq = 1;
	return 0;
}

SEC("tp_btf/softirq_exit")
int BPF_PROG(lt_softirq_exit)
{
	struct lt_cpu *cpu = lt_this_cpu();

	if (cpu)
		cpu->softirq = 0;
	return 0;
}

char LICENSE[] __weak SEC("license") = "GPL";
