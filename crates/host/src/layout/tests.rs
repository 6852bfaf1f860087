use super::*;

fn read(mountinfo: &str, controllers: &str) -> Result<CgroupLayout, HostError> {
    let root = tempfile::tempdir().unwrap();
    let write = |path: &str, text: &str| {
        let path = root.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    };
    write("proc/self/mountinfo", mountinfo);
    write("sys/fs/cgroup/cgroup.controllers", controllers);
    CgroupLayout::read(&HostFs::below(root.path()))
}

/// Promise 7.
#[test]
fn pure_v2() {
    let layout = read(
        "1 2 0:1 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw,nsdelegate\n",
        "cpuset cpu memory\n",
    )
    .unwrap();
    assert!(!layout.is_hybrid());
    let mount = Path::new("/sys/fs/cgroup");
    assert_eq!(layout.controller("cpuset"), Some(Controller::V2(mount)));
    assert_eq!(layout.controller("rdma"), None);
    assert_eq!(
        layout.v2_directory(Path::new("/a/b")),
        Path::new("/sys/fs/cgroup/a/b")
    );
    assert_eq!(layout.v2_directory(Path::new("/")), mount);
    assert_eq!(
        layout.to_string(),
        "v2 at /sys/fs/cgroup (cpuset cpu memory)"
    );
}

/// Promise 7.
#[test]
fn hybrid() {
    let layout = read(
        "32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n\
         37 31 0:30 / /sys/fs/cgroup/systemd rw - cgroup cgroup rw,xattr,name=systemd\n\
         40 31 0:31 /sub /mnt/inner rw - cgroup2 cgroup2 rw\n\
         38 31 0:31 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n",
        "",
    )
    .unwrap();
    assert!(layout.is_hybrid());
    assert_eq!(layout.v2_mount, Path::new("/sys/fs/cgroup/unified"));
    let mount = Path::new("/sys/fs/cgroup/cpu,cpuacct");
    assert_eq!(layout.controller("cpuacct"), Some(Controller::V1(mount)));
    assert_eq!(
        layout.v1_directory("cpu", Path::new("/x")),
        Some(mount.join("x"))
    );
    assert_eq!(layout.v1_named, [Path::new("/sys/fs/cgroup/systemd")]);
    assert!(
        !layout.v1_mounts.contains_key("xattr"),
        "{:?}",
        layout.v1_mounts
    );
}

#[test]
fn without_v2_the_remedy_is_named() {
    let error = read(
        "32 31 0:29 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n",
        "",
    )
    .unwrap_err();
    assert!(error.to_string().contains("mount -t cgroup2"), "{error}");
}
