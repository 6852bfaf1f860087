/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * Distinguishes network softirqs that interrupt a task from softirqs that follow another one. After
 * an interrupt the kernel handles all pending softirqs, in the order of their vectors, and while
 * more come up to ten times.
 */
#ifndef COFFERDAM_FOLLOWS_H
#define COFFERDAM_FOLLOWS_H

#include "kernel.h"
#include <bpf/bpf_helpers.h>

/* Less than the way out of the kernel and into it again takes, and more than that loop. */
enum { CF_FOLLOWS_NS = 2000 };

/* Whether a softirq that begins at `start_ns` follows the one that ended at `end_ns`. */
static __always_inline bool cf_follows(__u64 start_ns, __u64 end_ns)
{
	return start_ns - end_ns < CF_FOLLOWS_NS;
}

#endif
