use super::*;
use std::path::Path;
use tempfile::TempDir;

fn host(v1: bool) -> (TempDir, HostFs, CgroupLayout) {
    let root = tempfile::tempdir().unwrap();
    let fs = HostFs::below(root.path());
    let mut layout = CgroupLayout {
        v2_mount: "/v2".into(),
        v2_controllers: vec![],
        v1_mounts: Default::default(),
        v1_named: Vec::new(),
    };
    if v1 {
        layout.v1_mounts.insert("cpuacct".into(), "/v1".into());
    }
    (root, fs, layout)
}

fn write(root: &TempDir, path: &str, text: &str) {
    let path = root.path().join(path);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, text).unwrap();
}

fn container(n: u64) -> Container {
    Container {
        pid: Some(9),
        ..Container::plain(
            CgroupId(n),
            Path::new("/").join(n.to_string()),
            n.to_string(),
        )
    }
}

#[test]
fn v2_is_read_through_an_open_file() {
    let (root, fs, layout) = host(false);
    write(&root, "v2/1/cpu.stat", "usage_usec 5\nuser_usec 1\n");
    let mut usage = Usage::new();
    assert_eq!(usage.read_ns(&fs, &layout, &container(1)).unwrap(), 5_000);
    let before = fs.operations();
    write(&root, "v2/1/cpu.stat", "usage_usec 7\n");
    assert_eq!(usage.read_ns(&fs, &layout, &container(1)).unwrap(), 7_000);
    assert_eq!(fs.operations(), before, "nothing is opened again");
    usage.forget(CgroupId(1));
    std::fs::remove_dir_all(root.path().join("v2/1")).unwrap();
    let error = usage.read_ns(&fs, &layout, &container(1)).unwrap_err();
    assert!(
        error.to_string().starts_with("cannot read /v2/1/cpu.stat"),
        "{error}"
    );
}

#[test]
fn v1_stands_in_where_v2_counts_nothing() {
    let (root, fs, layout) = host(true);
    write(&root, "v2/1/cpu.stat", "nr_periods 0\n");
    write(&root, "proc/9/cgroup", "2:cpuacct:/one\n0::/1\n");
    write(&root, "v1/one/cpuacct.usage", "123456\n");
    assert_eq!(
        Usage::new().read_ns(&fs, &layout, &container(1)).unwrap(),
        123_456
    );
}

#[test]
fn the_roots_own_count_is_never_a_containers() {
    let (root, fs, layout) = host(true);
    write(&root, "proc/9/cgroup", "2:cpuacct:/\n0::/1\n");
    write(&root, "v1/cpuacct.usage", "123456\n");
    assert!(Usage::new().read_ns(&fs, &layout, &container(1)).is_err());
}

/// Promise 8.
#[test]
fn few_descriptors_are_enough() {
    let (root, fs, layout) = host(false);
    let mut usage = Usage {
        sources: HashMap::new(),
        limit: 2,
    };
    for n in 0..5 {
        write(&root, &format!("v2/{n}/cpu.stat"), "usage_usec 1\n");
        assert_eq!(usage.read_ns(&fs, &layout, &container(n)).unwrap(), 1_000);
    }
    assert_eq!(usage.sources.len(), 2);
}
