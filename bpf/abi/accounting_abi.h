/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * Types that the accounting programs and their reader share: plain integers, explicit padding.
 * Rust gets these types from the object's BTF; nothing mirrors them by hand.
 */
#ifndef COFFERDAM_ACCOUNTING_ABI_H
#define COFFERDAM_ACCOUNTING_ABI_H

/* Rows of the ledger. The first ones are reasons for time that belongs to no container, in
 * the order of cofferdam_types::Reason; containers begin at CF_FIRST_CONTAINER_ROW. */
enum cf_row_index {
	CF_ROW_HOST_TRAFFIC = 0,
	CF_ROW_FORWARDING,
	CF_ROW_UNKNOWN_NAMESPACE,
	CF_ROW_NO_SLOT,
	CF_ROW_NO_PACKET,
	CF_ROW_OTHER_HARDIRQ,
	CF_ROW_SOFTIRQ_HI,
	CF_ROW_SOFTIRQ_TIMER,
	CF_ROW_SOFTIRQ_BLOCK,
	CF_ROW_SOFTIRQ_IRQ_POLL,
	CF_ROW_SOFTIRQ_TASKLET,
	CF_ROW_SOFTIRQ_SCHED,
	CF_ROW_SOFTIRQ_HRTIMER,
	CF_ROW_SOFTIRQ_RCU,
	CF_FIRST_CONTAINER_ROW = 16,
};

/* One row of the ledger on one CPU. Index in the map: cpu * rows_per_cpu + row. */
struct cf_row {
	__u64 rx_ns;	  /* network CPU caused by received packets, ns */
	__u64 tx_ns;	  /* network CPU caused by transmitted packets, ns; reasons use rx_ns */
	__u64 hardirq_ns; /* share of network hardirqs, ns */
	__u64 rx_packets; /* packets, GRO segments counted */
	__u64 rx_bytes;	  /* bytes, link-layer header left out */
	__u64 tx_packets; /* packets handled by softirq on the way out */
	__u64 tx_bytes;	  /* bytes of those */
	__u64 charged_network_ns; /* network CPU inside the container's time slices, ns */
	__u64 charged_other_ns;	  /* other interrupt time inside its time slices, ns */
	__u64 interruptions;	  /* of its tasks, by network softirqs */
};
_Static_assert(sizeof(struct cf_row) == 80, "cf_row is part of the ABI");

enum cf_limits {
	CF_SOFTIRQS = 10,	    /* vectors of enum { HI_SOFTIRQ … RCU_SOFTIRQ } */
	CF_BATCH_MAX = 64,	    /* distinct owners in one batch before it is shared out */
	CF_IDENTITIES = 256,	    /* direct-mapped identity cache of a CPU; a power of two */
	CF_PATH_MAX = 512,	    /* bytes of a cgroup path in an event, NUL included */
	CF_SEGMENT_MAX_MS = 10000,  /* no segment and no run lasts longer */
	CF_TUNNEL_ENDS = 64,	    /* tunnels that end on this host */
	CF_TUNNEL_ADDRESSES = 8192, /* container addresses behind them */
	CF_ROOT_CGROUP = 1,	    /* id of the root of the unified hierarchy (kernfs) */
};

/* Time measured on one CPU, independent of its owner. */
struct cf_totals {
	__u64 softirq_ns[CF_SOFTIRQS]; /* by vector, without nested hardirqs, ns */
	__u64 hardirq_network_ns;      /* device hardirqs that raised NET_RX or NET_TX, ns */
	__u64 hardirq_other_ns;	       /* other device hardirqs, ns */
	__u64 napi_thread_ns;	       /* NAPI threads, without nested interrupts, ns */
	__u64 drain_ns;		 /* draining another container's packets in a system call, ns */
	__u64 charged_nobody_ns; /* ran in time slices of tasks without a row, ns */
	__u64 charged_host_ns;	 /* of that, network CPU in a task: neither idle nor serving, ns */
	__u64 segments_rejected; /* segments with an impossible length */
	__u64 softirqs;		 /* softirqs that began, to compare with /proc/softirqs */
	__u64 polls_unseen;	 /* of NAPI threads whose switch to the CPU was hidden */
	__u64 interruptions;	 /* of tasks, neither idle nor serving, by network softirqs */
};
_Static_assert(sizeof(struct cf_totals) == 160, "cf_totals is part of the ABI");

/* Kind of work that a CPU does, from the network's point of view. */
enum cf_mode {
	CF_IDLE = 0,	/* ordinary process context or idle */
	CF_RECEIVE,	/* NET_RX softirq */
	CF_TRANSMIT,	/* NET_TX softirq */
	CF_OTHER,	/* another softirq, in which TSQ or a TCP timer may transmit */
	CF_NAPI_THREAD, /* a NAPI kernel thread */
	CF_DRAIN,	/* a system call that dequeues another container's packets */
};

/* An owner in the open batch and its weight in packets. */
struct cf_share {
	__u32 row;
	__u16 direction; /* CF_RX or CF_TX */
	__u16 pad;
	__u64 packets;
};
_Static_assert(sizeof(struct cf_share) == 16, "cf_share is part of the ABI");

/* Meaning of a kernel object (device, network namespace, cgroup) to the ledger. */
struct cf_identity {
	__u64 object;	  /* kernel address; 0 = empty */
	__u32 generation; /* of the identity maps when this was looked up */
	__u32 check;	  /* ifindex, namespace inode or low cgroup id: guards against reuse */
	__u32 row;
	__u16 kind;   /* enum cf_kind */
	__u16 tunnel; /* enum cf_tunnel_device, of a device outside */
};
_Static_assert(sizeof(struct cf_identity) == 24, "cf_identity is part of the ABI");

/* The row of a cgroup that was charged. */
struct cf_charge_cache {
	__u64 cgroup;	  /* v2 id */
	__u32 row;	  /* or CF_NO_ROW */
	__u32 generation; /* of the identity maps when this was looked up */
};
_Static_assert(sizeof(struct cf_charge_cache) == 16, "cf_charge_cache is part of the ABI");

/* The state of one CPU. Written by programs that run on that CPU only. */
struct cf_cpu {
	/* hot: one cache line decides the common case */
	__u32 watch;		 /* CF_WATCH_*: which markers matter now */
	__u32 generation;	 /* of the identity that owner_dev stands for */
	__u64 owner_dev;	 /* device whose packets the open segment belongs to, or 0 */
	__u64 packets;		 /* counted in the open segment */
	__u64 bytes;		 /* counted in the open segment */
	__u64 weight;		 /* packets that take part in the batch share */
	__u64 start_ns;		 /* the open segment began, ktime */
	__u64 interrupt_ns;	 /* hardirq time on this CPU so far, ns */
	__u64 interrupt_mark_ns; /* interrupt_ns when the open segment began */

	__u32 mode;	   /* enum cf_mode */
	__u32 vector;	   /* softirq vector that runs */
	__u32 owner;	   /* row of the open segment, or CF_OWNER_BATCH */
	__u32 direction;   /* CF_RX or CF_TX */
	__u32 outer_owner; /* owner to return to after a drain */
	__u32 outer_direction;
	__u64 outer_dev;
	__u32 draining;	   /* packets of another owner are being dequeued */
	__u32 napi_thread; /* a NAPI thread is on this CPU */

	__u64 run_start_ns; /* softirq entry, or the NAPI thread's last count */
	__u64 run_interrupt_mark_ns;
	__u64 run_network_ns; /* network time inside a softirq that is not NET_* */

	__u64 hardirq_start_ns;
	__u32 in_hardirq;
	__u32 hardirq_network;
	__u64 hardirq_pending_ns; /* network hardirq time that waits for its packets */

	__u64 boundary_ns;	     /* a poll of one owner ended here; not cut yet, or 0 */
	__u64 boundary_interrupt_ns; /* interrupt_ns at that time */

	__u64 queued_dev;	 /* device of the last packet queued in process context … */
	__u32 queued_generation; /* … the identity generation it was looked up in … */
	__u32 queued_row;	 /* … and its owner */
	__u32 queued_direction;
	__u32 queued; /* one was queued since the last receive softirq */

	__u32 handed_row; /* owner of the first packet queued in this softirq; or CF_NO_ROW */
	__u32 handed_direction;

	__u64 pair_dev;	       /* host end of the receiver's veth that pair_packets went to … */
	__u32 pair_generation; /* … the identity generation it was looked up in … */
	__u32 pair_receiver;   /* … and its row, or CF_NO_ROW if it belongs to no container */
	__u32 pair_sender;     /* row of the container that sends them */
	__u32 tunnelled;       /* packets that left a tunnel's device */
	__u64 pair_packets;    /* not yet in the map `pairs` */

	__u32 pended;	    /* packets on the host's devices whose socket names the owner */
	__u32 pended_netns; /* inode of the device's namespace, for the last learning packet */

	__u64 list_dev;	    /* device of the pending packet while more of its list follow, or 0 */
	__u32 list_packets; /* packets of a list in the pending segment */
	__u32 follows;	    /* the running softirq began right after another */
	__u64 list_each;    /* weight of one of them, once the first has an owner */

	__u64 softirq_end_ns; /* end of the last softirq */

	struct cf_charge_cache charged[2]; /* the last charged cgroup, and the root */

	__u64 batch_ns;		/* common to the packets of this batch */
	__u64 batch_hardirq_ns; /* the hardirq part, shared out apart */
	__u64 batch_packets;	/* sum of shares[].packets */
	__u32 shares_used;
	__u32 batch_closed; /* shares[] was shared out; kept for what still follows */
	struct cf_share shares[CF_BATCH_MAX];

	struct cf_totals totals;
	struct cf_identity identities[CF_IDENTITIES];
};
_Static_assert(sizeof(struct cf_cpu) % 8 == 0, "cf_cpu is part of the ABI");

/* Identity maps, written by the agent. */
struct cf_netns_value {
	__u32 row;
	__u32 shared; /* several containers live in it: the socket's cgroup decides */
};
struct cf_link_key {
	__u32 netns; /* inode of the namespace that holds the device */
	__u32 ifindex;
};
/* A cgroup whose process was seen in a namespace. */
struct cf_membership {
	__u64 cgroup; /* v2 id */
	__u32 netns;  /* inode */
	__u32 pad;
};

/* Drivers of tunnels whose packets are parsed. */
enum cf_tunnel_device {
	CF_DEVICE_OTHER = 0,
	CF_DEVICE_VXLAN,
	CF_DEVICE_GENEVE,
	CF_DEVICE_IP,
};

/* Destination of a tunnel's packets. */
struct cf_tunnel_end {
	__u32 netns;	/* inode */
	__u16 protocol; /* of the outer IP header */
	__be16 port;	/* UDP; 0 for other protocols */
};
/* Receiver of a packet that is inside a tunnel, or that comes from a device on which a container's
 * device is stacked. IPv4 as ::ffff:a.b.c.d. */
struct cf_inner_address {
	__u32 netns; /* inode of the namespace that the tunnel ends in, or that has the device */
	__u8 to[16];
};
struct cf_inner_row {
	__u32 row;
	__u32 generation; /* of the identity maps when it was learned */
};

enum cf_event_kind {
	CF_EVENT_CGROUP_CREATED = 1,
	CF_EVENT_CGROUP_REMOVED = 2,
	CF_EVENT_PROCESS_SEEN = 3,
	CF_EVENT_UNKNOWN_NETNS = 4,
	CF_EVENT_UNKNOWN_CGROUP = 5,
};

/* Packets that one container sent to another on this host: key of the map `pairs`, whose value
 * is their number (__u64). */
struct cf_pair {
	__u32 sender;	/* row */
	__u32 receiver; /* row */
};

/* Begin of every event; CF_EVENT_CGROUP_CREATED is followed by the path. */
struct cf_event {
	__u32 kind;
	__u32 pid;
	__u64 cgroup;
	__u32 netns;
	__u32 path_bytes; /* NUL included; CF_PATH_MAX means cut off */
};
_Static_assert(sizeof(struct cf_event) == 24, "cf_event is part of the ABI");

struct cf_path_event {
	struct cf_event event;
	char path[CF_PATH_MAX];
};

struct cf_layout {
	enum cf_row_index row;
	enum cf_event_kind event;
	enum cf_limits limit;
	enum cf_mode mode;
	struct cf_path_event path_event;
	struct cf_pair pair;
};

#endif
