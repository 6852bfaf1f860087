use super::cri::{OciNames, annotations};
use super::nspawn::machine;
use super::*;
use crate::systemd::unescape;

#[test]
fn hostile_names_are_not_taken() {
    assert_eq!(plausible_name("/web-1").as_deref(), Some("web-1"));
    assert_eq!(plausible_name("größer").as_deref(), Some("größer"));
    for bad in ["", "/", "a\x1b[2Jb", "a\nb", &"x".repeat(256)] {
        assert_eq!(plausible_name(bad), None, "{bad:?}");
    }
    let path = Path::new("/tenants/we\x1bb");
    assert_eq!(fallback(Runtime::Plain, None, path), r"we\x1bb");
    assert_eq!(
        fallback(Runtime::Podman, Some("0123456789abcdef"), path),
        "podman-0123456789ab"
    );
}

#[test]
fn podman_lists() {
    let text = br#"[{"id":"aa","names":["web"],"image":"x"},{"id":"bb"},{"id":"cc","names":[]},
        {"id":"dd","names":["bad\u001bname"]}]"#;
    let names = podman::containers(text);
    assert_eq!(names.len(), 1);
    assert_eq!(names["aa"], "web");
    assert!(podman::containers(b"[{").is_empty());
    let conf = "[storage]\ndriver = \"overlay\"\n# graphroot = \"/no\"\ngraphroot = \"/data/c\"\n";
    assert_eq!(podman::graph_root(conf), Some("/data/c".into()));
}

#[test]
fn podman_lists_are_read_again_when_they_change() {
    let root = tempfile::tempdir().unwrap();
    let directory = root
        .path()
        .join("var/lib/containers/storage/vfs-containers");
    std::fs::create_dir_all(&directory).unwrap();
    let fs = HostFs::below(root.path());
    let mut cache = podman::Cache::default();
    assert_eq!(cache.name(&fs, "aa", None), None);
    let write = |text: &str| {
        std::fs::write(directory.join("new"), text).unwrap();
        std::fs::rename(directory.join("new"), directory.join("containers.json")).unwrap();
    };
    write(r#"[{"id":"aa","names":["one"]}]"#);
    assert_eq!(cache.name(&fs, "aa", None).as_deref(), Some("one"));
    let before = fs.operations();
    assert_eq!(cache.name(&fs, "aa", None).as_deref(), Some("one"));
    assert!(fs.operations() - before <= 5, "opened, but not read again");
    write(r#"[{"id":"aa","names":["renamed"]}]"#);
    assert_eq!(cache.name(&fs, "aa", None).as_deref(), Some("renamed"));
}

#[test]
fn docker_roots() {
    let root = tempfile::tempdir().unwrap();
    let state = root.path().join("data/containers/ab");
    std::fs::create_dir_all(&state).unwrap();
    std::fs::create_dir_all(root.path().join("etc/docker")).unwrap();
    std::fs::write(
        root.path().join("etc/docker/daemon.json"),
        r#"{"data-root":"/data"}"#,
    )
    .unwrap();
    std::fs::write(state.join("config.v2.json"), r#"{"Name":"/db","State":{}}"#).unwrap();
    let fs = HostFs::below(root.path());
    assert_eq!(docker::name(&fs, "ab", None).as_deref(), Some("db"));
    assert_eq!(docker::name(&fs, "cd", None), None);
    assert_eq!(docker::data_root(br#"{"data-root":"../x"}"#), None);
}

#[test]
fn annotations_of_all_three_kinds() {
    let crio = br#"{"annotations":{"io.kubernetes.cri-o.ContainerType":"sandbox",
        "io.kubernetes.pod.name":"web","io.kubernetes.pod.namespace":"shop"}}"#;
    let expected = OciNames {
        name: Some("pause".into()),
        pod: Some("shop/web".into()),
    };
    assert_eq!(annotations(crio), expected);
    let nerdctl = br#"{"annotations":{"nerdctl/name":"one"},"process":{}}"#;
    assert_eq!(
        annotations(nerdctl),
        OciNames {
            name: Some("one".into()),
            pod: None
        }
    );
    assert_eq!(
        annotations(br#"{"annotations":{"nerdctl/name":7}}"#),
        OciNames::default()
    );
    assert_eq!(annotations(b"{}"), OciNames::default());
}

#[test]
fn nspawn_units() {
    let text = "# made by machined\nNAME=deb\nSCOPE=machine-deb.scope\nLEADER=77\n";
    let found = machine(text);
    assert_eq!(found.unit.as_deref(), Some("machine-deb.scope"));
    assert_eq!(found.leader, Some(77));
    assert_eq!(unescape(r"old\x2dbox"), "old-box");
    for odd in [r"a\", r"a\x", r"a\x2", r"a\xzz", r"\xff"] {
        assert_eq!(unescape(odd), odd);
    }
}

/// A FIFO or a device in place of a file must not block a reader.
#[test]
fn only_regular_files_are_read() {
    let fs = HostFs::host();
    assert!(fs.read("/dev/zero", 1).is_err());
    assert!(fs.read("/proc", 1).is_err());
    assert!(
        fs.read("/proc/self/status", 1)
            .is_ok_and(|bytes| bytes.len() == 1)
    );
}
