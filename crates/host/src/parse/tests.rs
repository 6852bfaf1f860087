use super::*;
use cofferdam_types::NetnsId;
use proptest::prelude::*;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

const HYBRID: &str = "\
31 23 0:28 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw,mode=755
32 31 0:29 / /sys/fs/cgroup/cpu rw,relatime - cgroup cgroup rw,cpu
38 31 0:31 / /sys/fs/cgroup/unified rw,relatime shared:4 master:1 - cgroup2 cgroup2 rw
99 31 0:99 /a\\040b /mnt/with\\040space\\134 rw - ext4 /dev/vda rw
nonsense
1 2 - x
";

#[test]
fn mountinfo_takes_optional_fields_and_escapes() {
    let mounts = mountinfo(HYBRID);
    assert_eq!(mounts.len(), 4);
    assert_eq!(mounts[2].fs_type, "cgroup2");
    assert_eq!(mounts[2].point, Path::new("/sys/fs/cgroup/unified"));
    assert_eq!(mounts[3].root, Path::new("/a b"));
    assert_eq!(mounts[3].point, Path::new("/mnt/with space\\"));
}

#[test]
fn proc_cgroup_finds_both_hierarchies() {
    let text = "9:name=systemd:/s\n4:cpu,cpuacct:/v1:with:colons\n0::/a/b (deleted)\n";
    assert_eq!(proc_cgroup_v2(text), Some("/a/b (deleted)".into()));
    let bytes = OsStr::from_bytes(b"/a\xff");
    assert_eq!(proc_cgroup_v2(b"0::/a\xff\n"), Some(bytes.into()));
    assert_eq!(
        proc_cgroup_v1(text, "cpuacct"),
        Some("/v1:with:colons".into())
    );
    assert_eq!(proc_cgroup_v1(text, "acct"), None);
    assert_eq!(proc_cgroup_v2("1:cpu:/x"), None);
}

#[test]
fn cpu_lists() {
    let ids = |text| cpu_list(text).map(|l| l.into_iter().map(|c| c.0).collect::<Vec<_>>());
    assert_eq!(ids("0-2,5,4\n"), Some(vec![0, 1, 2, 4, 5]));
    assert_eq!(ids("\n"), Some(vec![]));
    for bad in ["0-", "2-1", "a", "0,,1", "0-4294967295", "-1"] {
        assert_eq!(ids(bad), None, "{bad}");
    }
}

#[test]
fn small_files_are_parsed() {
    assert_eq!(netns_link("net:[4026531840]"), Some(NetnsId(4_026_531_840)));
    assert_eq!(netns_link("mnt:[1]"), None);
    assert_eq!(procs("12\n0\nx\n7\n").collect::<Vec<_>>(), [12, 7]);
    assert_eq!(cpu_stat_usage_us("usage_usec 42\nuser_usec 1\n"), Some(42));
    let stat = "cpu  9 9\ncpu0 1 2\ncpux 3\ncpu12 4 5 x 6\nintr 7\ncpu3 8\n";
    let ticks: Vec<_> = cpu_ticks(stat).map(|(cpu, ticks)| (cpu.0, ticks)).collect();
    assert_eq!(ticks, [(0, vec![1, 2]), (12, vec![4, 5])]);
    assert_eq!(
        passwd_home("a:x:5:5:,,:/home/a:/bin/sh", 5),
        Some("/home/a".into())
    );
    assert_eq!(passwd_home("a:x:5:5", 5), None);
}

proptest! {
    #[test]
    fn cpu_list_reads_what_is_written(cpus in prop::collection::btree_set(0u32..9000, 0..40)) {
        let text = cpus.iter().map(u32::to_string).collect::<Vec<_>>().join(",");
        let read: Vec<u32> = cpu_list(&text).unwrap().into_iter().map(|c| c.0).collect();
        prop_assert_eq!(read, cpus.into_iter().collect::<Vec<_>>());
    }

    /// No text makes a parser panic.
    ///
    /// Promise 76.
    #[test]
    fn nothing_panics_on_text(text in "\\PC*|[ -~\n\\\\:\\-,0-9=\\[\\]]{0,200}") {
        let _ = mountinfo(&text);
        let _ = proc_cgroup_v2(&text);
        let _ = proc_cgroup_v1(&text, "cpu");
        let _ = netns_link(&text);
        let _ = procs(&text).count();
        let _ = cpu_list(&text);
        let _ = cpu_stat_usage_us(&text);
        let _ = cpu_ticks(&text).count();
        let _ = passwd_home(&text, 0);
        let _ = podman_graph_root(&text);
        let _ = nspawn_machine(&text);
        let _ = systemd_unescape(&text);
        let _ = classify(Path::new(&text));
        let _ = docker_config(text.as_bytes());
        let _ = annotations(text.as_bytes());
        let _ = podman_containers(text.as_bytes());
    }

    /// Promise 76.
    #[test]
    fn nothing_panics_on_bytes(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        for message in netlink_messages(&bytes) {
            let _ = link_message(&message);
            let _ = nsid_message(&message);
        }
        for kind in [16, 17, 88, 89, 90] {
            let message = crate::netlink::Message { kind, flags: 0, sequence: 0, payload: &bytes };
            let _ = link_message(&message);
            let _ = nsid_message(&message);
        }
        let _ = docker_config(&bytes);
        let _ = docker_data_root(&bytes);
        let _ = annotations(&bytes);
        let _ = podman_containers(&bytes);
    }

    /// Files are cut off at any byte, as a concurrent reader may find them.
    ///
    /// Promise 76.
    #[test]
    fn truncated_state_is_harmless(cut in 0usize..300) {
        let podman = br#"[{"id":"ab","names":["web"],"metadata":"{}"},{"id":"cd","names":null}]"#;
        let _ = podman_containers(&podman[..cut.min(podman.len())]);
        let oci = br#"{"annotations":{"io.kubernetes.cri.container-name":"x","n":3}}"#;
        let _ = annotations(&oci[..cut.min(oci.len())]);
        let _ = mountinfo(&HYBRID[..cut.min(HYBRID.len())]);
    }
}
