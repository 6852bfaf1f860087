//! Text files of the kernel and of runtimes: nothing panics or takes memory without bound.
#![no_main]

use cofferdam_host::parse;
use libfuzzer_sys::fuzz_target;
use std::path::Path;

fuzz_target!(|text: &str| {
    let lines = text.lines().count();
    assert!(parse::mountinfo(text).len() <= lines);
    assert!(parse::procs(text).count() <= lines);
    parse::proc_cgroup_v2(text);
    parse::proc_cgroup_v1(text, "cpu");
    parse::netns_link(text);
    parse::cpu_list(text);
    parse::cpu_ticks(text).count();
    parse::cpu_stat_usage_us(text);
    parse::passwd_home(text, 1000);
    parse::nspawn_machine(text);
    parse::systemd_unescape(text);
    parse::podman_graph_root(text);
    parse::classify(Path::new(text));
});
