/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * Which receive softirqs interrupt a task anew. While packets come, the kernel handles softirqs
 * again before it returns: up to ten times after one interrupt.
 */
#ifndef COFFERDAM_FOLLOWS_H
#define COFFERDAM_FOLLOWS_H

#include "kernel.h"
#include <bpf/bpf_helpers.h>

/* Less than the way out of the kernel and in again takes, more than that loop. */
enum { CF_FOLLOWS_NS = 2000 };

/* Whether a receive softirq that begins at `start_ns` follows the one that ended at `received_ns`.
 */
static __always_inline bool cf_follows(__u64 start_ns, __u64 received_ns)
{
	return start_ns - received_ns < CF_FOLLOWS_NS;
}

#endif
