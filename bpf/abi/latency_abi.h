/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * Types that the latency programs and their reader share: plain integers, explicit padding. Rust
 * gets these types from the object's BTF; nothing mirrors them by hand.
 */
#ifndef COFFERDAM_LATENCY_ABI_H
#define COFFERDAM_LATENCY_ABI_H

/* Points on a packet's way, in order. A packet that leaves one container for another passes
 * all of them and makes two reports. */
enum lt_stamp {
	LT_SEND = 0,   /* the system call that sends */
	LT_QUEUE_IN,   /* queued to the container's device */
	LT_XMIT_IN,    /* left the queue of the container's device */
	LT_RECV_HOST,  /* received on the host's side of that device, or on the first host device */
	LT_QUEUE_HOST, /* queued to the last host device so far */
	LT_XMIT_HOST,  /* left the queue of the last host device so far */
	LT_RECV_IN,    /* received on the container's device */
	LT_READY,      /* in the socket, its reader woken */
	LT_COPIED,     /* copied to the reader */
	LT_STAMPS,
};

enum lt_direction {
	LT_EGRESS = 0,
	LT_INGRESS,
	LT_DIRECTIONS,
};

/* Classes by which packets are counted. */
enum lt_class {
	LT_ICMP = 0,
	LT_UDP,
	LT_TCP,
	LT_OTHER, /* other protocols, and fragments after the first */
	LT_CLASSES,
};

/* Last point of a report. */
enum lt_end {
	LT_END_DEVICE = 0, /* egress: handed to the last host device */
	LT_END_COPIED,	   /* ingress: copied to the reader */
	LT_END_READY,	   /* ingress: in the socket; the copy was not seen */
	LT_END_KERNEL,	   /* ingress: the container's kernel was the receiver */
	LT_END_ARRIVED,	   /* ingress: on the container's device; no later point was seen */
};

/* Reason why a packet has no report. */
enum lt_miss {
	LT_MISS_DROPPED = 0, /* the kernel dropped it on the way */
	LT_MISS_LOCAL,	     /* it never reached a device of the host */
	LT_MISS_NO_START,    /* ingress: no host device received it; the host itself sent it */
	LT_MISS_CONTENT,     /* another packet arrived than left: the buffer was reused */
	LT_MISS_EVICTED,     /* the table was full */
	LT_MISS_SEGMENT,     /* a TCP segment whose super-packet was not found */
	LT_MISS_UNSEEN,	     /* its end was not seen in time: see lt_sweep */
	LT_MISSES,
};

enum lt_flag {
	LT_RETRANSMIT = 1,   /* TCP: (part of) this range was sent before */
	LT_ENCAPSULATED = 2, /* left the host inside a tunnel */
	LT_FRAGMENT = 4,
	LT_MERGED = 8, /* TCP: merged from several on the way; its first point is the first one's */
};

/* Stands in place of the time of a point. */
enum lt_delta {
	LT_SATURATED = 0xfffffffeU, /* 4.29 s or more */
	LT_ABSENT = 0xffffffffU,    /* the packet did not pass it, or no hook shows it */
};

#define LT_POINTS 5

/* One packet in one direction. */
struct lt_report {
	__u64 published;   /* position in its CPU's ring, plus one; written last */
	__u64 base_ns;	   /* CLOCK_MONOTONIC of the first point */
	__u64 cookie;	   /* of the socket; 0 when none was seen */
	__u64 hardware_ns; /* ingress: receipt by the first device's own clock; 0: absent */
	/* Points after the first, ns after base. Egress: LT_QUEUE_IN … LT_XMIT_HOST; ingress:
	 * LT_QUEUE_HOST … LT_COPIED. */
	__u32 delta_ns[LT_POINTS];
	__u32 row;
	__u32 netns;	/* of the container */
	__u32 ordinal;	/* number of this packet in its row, direction and class */
	__u32 bytes;	/* network layer and above */
	__u32 sequence; /* TCP: sequence number; ICMP: the echo's; else 0 */
	__u32 payload_bytes;
	__u32 container_ifindex; /* 0: macvlan receive, where no hook names it */
	__u32 host_ifindex;	 /* egress: last host device; ingress: first */
	__u16 source_port;	 /* host order; ICMP: the echo's identifier */
	__u16 destination_port;	 /* ICMP: type << 8 | code */
	__u16 segments;		 /* packets that this one stands for (GSO, GRO) */
	__u8 direction;
	__u8 protocol;
	__u8 version; /* 4 or 6 */
	__u8 end;
	__u8 flags;
	__u8 reserved[5];
	__u8 source[16];
	__u8 destination[16];
};
_Static_assert(sizeof(struct lt_report) == 136, "lt_report is part of the ABI");

/* Choice of the packets that are measured for one container. */
struct lt_config {
	__u32 directions; /* bit per lt_direction; 0 is off */
	__u32 classes;	  /* bit per lt_class */
	__u32 ifindex;	  /* the container's device; 0 is all */
	__u32 one_in;	  /* one flow of this many; 0 and 1 are all */
	__u16 port;	  /* either end of the packet; 0 is all */
	__u16 reserved;
	__u32 reserved2;
};
_Static_assert(sizeof(struct lt_config) == 24, "lt_config is part of the ABI");

/* Counts of one direction, in its own cache lines: most often another CPU counts the other one. */
struct lt_way_counts {
	__u64 packets[LT_CLASSES];
	__u64 reports[LT_CLASSES]; /* in packets: segments counted */
	__u64 misses[LT_MISSES];
	__u64 reserved;
};
_Static_assert(sizeof(struct lt_way_counts) == 128, "two cache lines");

struct lt_counts {
	struct lt_way_counts way[LT_DIRECTIONS];
};

/* Arguments of `lt_sweep`. */
struct lt_sweep_args {
	__u64 older_ns;	 /* age after which a packet without news is closed */
	__u64 queued_ns; /* the same for a packet in a queue */
	__u32 first;	 /* bucket to begin with */
	__u32 buckets;	 /* number of buckets to look at */
};
_Static_assert(sizeof(struct lt_sweep_args) == 24, "lt_sweep_args is part of the ABI");

enum lt_limits {
	LT_WAYS = 4,	  /* packets in one bucket of the table */
	LT_DEVICES = 256, /* direct-mapped cache of devices, a CPU */
	LT_SENDS = 4096,  /* direct-mapped table of tasks inside a sending system call */
	LT_CUT = 16, /* TCP super-packets that a CPU remembers while they are cut into segments */
	LT_PARENTS = 64, /* the same by devices, until they are received: a backlog has 22 */
	LT_PARTS = 64,	 /* TCP segments that one poll can merge into one packet */
};

struct lt_layout {
	enum lt_stamp stamp;
	enum lt_direction direction;
	enum lt_class class;
	enum lt_end end;
	enum lt_miss miss;
	enum lt_flag flag;
	enum lt_delta delta;
	enum lt_limits limit;
	struct lt_report report;
	struct lt_config config;
	struct lt_counts counts;
	struct lt_way_counts way_counts;
	struct lt_sweep_args sweep;
};

#endif
