//! The kernel's tracepoints that the accounting attaches to. The loader and the doctor both read
//! these lists, so that they cannot disagree.

/// Tracepoints that the accounting needs, every one.
pub const REQUIRED_TRACEPOINTS: [&str; 15] = [
    "softirq_entry",
    "softirq_exit",
    "softirq_raise",
    "irq_handler_entry",
    "irq_handler_exit",
    "napi_poll",
    "netif_receive_skb",
    "napi_gro_receive_entry",
    "net_dev_queue",
    "qdisc_dequeue",
    "sched_switch",
    "cgroup_mkdir",
    "cgroup_rmdir",
    "cgroup_attach_task",
    "sched_process_exec",
];

/// Tracepoints that report the socket that takes a packet, where its device leaves the owner open.
pub const SOCKET_TRACEPOINTS: [&str; 3] = ["sk_data_ready", "tcp_probe", "udp_fail_queue_rcv_skb"];

/// Tracepoint that reports when a receive softirq wakes another CPU. Without it the packets
/// that arrive at about that time share the cost.
pub const WAKE_TRACEPOINT: &str = "csd_queue_cpu";
