/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * TCP segments that GRO merges on the host's end of the pair. The first one's skb continues and has
 * the bytes of the others. The others are found by their sequence numbers, and the first takes over
 * their count.
 */
#ifndef COFFERDAM_LATENCY_MERGE_H
#define COFFERDAM_LATENCY_MERGE_H

#include "packet.h"
#include "table.h"

/* Moves the count of `part` to `whole`. */
static __always_inline void lt_join(struct lt_entry *whole, struct lt_entry *part)
{
	if (!lt_take(part, LT_EGRESS))
		return;
	whole->packet.segments += part->packet.segments;
	whole->packet.flags |= part->packet.flags;
	lt_remove(part);
}

/* Merges the entries of the segments whose `extra` bytes of payload now follow those of `e`. */
static __noinline void lt_merged(struct lt_entry *e, __u32 extra)
{
	__u32 next = e->packet.sequence + e->packet.payload_bytes, end = next + extra;
	__u32 step = e->packet.payload_bytes;

	for (int i = 0; i < LT_PARTS && (__s32)(end - next) > 0; i++) {
		__u32 check = lt_tcp_check(next, e->packet.acknowledged, true);
		struct lt_entry *part = lt_range_find(check);

		if (part && part != e && part->row[LT_EGRESS] == e->row[LT_EGRESS] &&
		    part->packet.sequence == next && part->packet.payload_bytes) {
			next += part->packet.payload_bytes;
			lt_join(e, part);
		} else {
			next += step;
		}
	}
	e->packet.payload_bytes += extra;
	e->packet.bytes += extra;
	e->packet.flags |= LT_MERGED;
}

#endif
