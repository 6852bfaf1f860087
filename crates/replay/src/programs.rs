//! Declarations of the programs, and of the other definitions in the C sources.

use std::ffi::{c_int, c_uint, c_ulong, c_void};

pub(crate) type Object = *mut c_void;

// The names are those of the C sources.
#[allow(non_upper_case_globals)]
unsafe extern "C" {
    pub(crate) static cpus: u8;
    pub(crate) static ledger: u8;
    pub(crate) static pairs: u8;
    pub(crate) static netns_rows: u8;
    pub(crate) static cgroup_rows: u8;
    pub(crate) static link_rows: u8;
    pub(crate) static rps_trigger_softirq: u8;
    pub(crate) static rows_per_cpu: u32;
    pub(crate) static mut identity_generation: u32;
    pub(crate) static mut report_cgroups: u32;
    pub(crate) static mut window_open: u32;
    pub(crate) static sched_cpu_map: u8;
    pub(crate) static sched_cell_map: u8;
    pub(crate) static sched_window_map: u8;
    pub(crate) static sched_cgroup_rows: u8;
    pub(crate) static sched_rows: u32;
    pub(crate) static mut sched_generation: u32;

    pub(crate) fn replay_schedule_switch(preempt: bool, prev: Object, next: Object) -> c_int;
    pub(crate) fn schedule_begin(context: Object) -> c_int;
    pub(crate) fn replay_schedule_migrate(task: Object, to: c_int) -> c_int;

    pub(crate) fn replay_softirq_entry(vector: c_uint) -> c_int;
    pub(crate) fn replay_softirq_exit(vector: c_uint) -> c_int;
    pub(crate) fn replay_softirq_raise(vector: c_uint) -> c_int;
    pub(crate) fn replay_irq_handler_entry() -> c_int;
    pub(crate) fn replay_irq_handler_exit() -> c_int;
    pub(crate) fn replay_netif_receive_skb(skb: Object) -> c_int;
    pub(crate) fn replay_napi_gro_receive_entry(skb: Object) -> c_int;
    pub(crate) fn replay_napi_poll() -> c_int;
    pub(crate) fn replay_sk_data_ready(sk: Object) -> c_int;
    pub(crate) fn replay_tcp_probe(sk: Object) -> c_int;
    pub(crate) fn replay_udp_fail_queue_rcv_skb(rc: c_int, sk: Object) -> c_int;
    pub(crate) fn replay_net_dev_queue(skb: Object) -> c_int;
    pub(crate) fn replay_qdisc_dequeue(
        qdisc: Object,
        queue: Object,
        packets: c_int,
        skb: Object,
    ) -> c_int;
    pub(crate) fn replay_csd_queue_cpu(
        cpu: c_uint,
        callsite: c_ulong,
        function: *const c_void,
    ) -> c_int;
    pub(crate) fn replay_sched_switch(preempt: bool, prev: Object, next: Object) -> c_int;

    pub(crate) fn world_net(inum: u32) -> Object;
    pub(crate) fn world_device(net: Object, ifindex: c_int) -> Object;
    pub(crate) fn world_cgroup(id: u64) -> Object;
    pub(crate) fn world_socket(net: Object, cgroup: Object, state: u8) -> Object;
    pub(crate) fn world_packet(
        dev: Object,
        sk: Object,
        next: Object,
        bytes: u32,
        segments: u16,
        iif: c_int,
        list: c_int,
    ) -> Object;
    pub(crate) fn world_task(napi: bool) -> Object;
    pub(crate) fn world_current(what: c_int) -> Object;
    pub(crate) fn world_runqueue() -> Object;
    pub(crate) fn world_clock(rq: Object, now: u64);
    pub(crate) fn world_group(rq: Object) -> Object;
    pub(crate) fn world_group_set(cfs: Object, runnable: u32, throttled: c_int, throttled_ns: u64);
    pub(crate) fn world_css_set(cgroup: Object) -> Object;
    pub(crate) fn world_thread(pid: c_int, set: Object, mask: c_ulong) -> Object;
    pub(crate) fn world_thread_set(
        task: Object,
        cfs: Object,
        cpu: c_uint,
        on_rq: c_int,
        last_queued: u64,
    );
}
