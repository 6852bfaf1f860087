use super::*;

fn hybrid() -> CgroupLayout {
    let at = |name: &str| PathBuf::from("/sys/fs/cgroup").join(name);
    let both = at("cpu,cpuacct");
    CgroupLayout {
        v2_mount: at("unified"),
        v2_controllers: Vec::new(),
        v1_mounts: [
            ("cpu", &both),
            ("cpuacct", &both),
            ("memory", &at("memory")),
        ]
        .map(|(name, mount)| (name.to_owned(), mount.clone()))
        .into(),
        v1_named: vec![at("systemd")],
    }
}

fn pure_v2(mount: &Path) -> CgroupLayout {
    CgroupLayout {
        v2_mount: mount.to_owned(),
        v2_controllers: vec!["cpu".to_owned(), "io".to_owned()],
        v1_mounts: Default::default(),
        v1_named: Vec::new(),
    }
}

/// Promise 43.
#[test]
fn hybrid_has_a_directory_in_each_hierarchy_once() {
    let layout = hybrid();
    let names = |mounts: Vec<PathBuf>| {
        let names = mounts.iter().map(|m| m.file_name().unwrap().to_owned());
        names.collect::<Vec<_>>()
    };
    assert_eq!(names(mounts(&layout, &CPU)), ["unified", "cpu,cpuacct"]);
    assert_eq!(
        names(mounts(&layout, &["memory", "blkio"])),
        ["unified", "memory"]
    );
    assert_eq!(
        names(all_mounts(&layout)),
        ["unified", "cpu,cpuacct", "memory", "systemd"]
    );
}

#[test]
fn pure_v2_has_one_directory() {
    let mount = Path::new("/sys/fs/cgroup");
    let layout = pure_v2(mount);
    assert_eq!(mounts(&layout, &CPU), [mount]);
    assert_eq!(all_mounts(&layout), [mount]);
}

#[test]
fn only_v2_controllers_are_enabled_and_later_disabled() {
    let root = tempfile::tempdir().unwrap();
    let file = root.path().join("cgroup.subtree_control");
    fs::write(&file, "cpu memory").unwrap();
    let mut undo = UndoStack::default();
    let layout = pure_v2(root.path());
    enable(&layout, &["cpu"], root.path(), Some(&mut undo)).unwrap();
    assert_eq!(fs::read_to_string(&file).unwrap(), "cpu memory");
    enable(&layout, &["io"], root.path(), Some(&mut undo)).unwrap();
    assert_eq!(fs::read_to_string(&file).unwrap(), "+io");
    drop(undo);
    assert_eq!(fs::read_to_string(&file).unwrap(), "-io");
    // v1 has the controller: nothing to enable in v2.
    fs::write(&file, "").unwrap();
    enable(&hybrid(), &["cpu", "memory"], root.path(), None).unwrap();
    assert_eq!(fs::read_to_string(&file).unwrap(), "");
}

/// Plain directories are made and removed like cgroups: one by one, when they are empty.
#[test]
fn a_cgroup_exists_in_all_hierarchies_until_its_removal() {
    let root = tempfile::tempdir().unwrap();
    let mounts = ["v2", "cpu"].map(|name| root.path().join(name));
    mounts.iter().for_each(|m| fs::create_dir(m).unwrap());
    let mut undo = UndoStack::default();
    let group = Cgroup::make(&mounts, Path::new("/a"), &mut undo).unwrap();
    let child = group.child("b", &mut undo).unwrap();
    assert_eq!(child.path(), Path::new("/a/b"));
    assert_eq!(child.dirs(), mounts.clone().map(|m| m.join("a/b")));
    fs::create_dir_all(child.dir().join("inner/most")).unwrap();
    remove_below(child.dir()).unwrap();
    drop(undo);
    assert!(mounts.iter().all(|m| m.exists() && !m.join("a").exists()));
    remove_below(&mounts[0].join("never-made")).unwrap();
}

#[test]
fn a_process_is_in_the_hierarchies_that_the_host_has() {
    let layout = hybrid();
    let membership = Membership {
        layout: &layout,
        text: "4:memory:/m\n3:cpu,cpuacct:/c\n1:name=systemd:/s\n0::/u\n".to_owned(),
    };
    assert_eq!(membership.path(), Path::new("/u"));
    assert_eq!(membership.v2(), Path::new("/sys/fs/cgroup/unified/u"));
    assert_eq!(
        membership.v1("cpuacct"),
        Some("/sys/fs/cgroup/cpu,cpuacct/c".into())
    );
    assert_eq!(membership.v1("blkio"), None);
}
