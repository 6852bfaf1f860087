use super::*;

const ID: &str = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

fn runtime(path: &str) -> Option<Runtime> {
    match classify(Path::new(path)) {
        Class::Container(named) => Some(named.runtime),
        _ => None,
    }
}

#[test]
fn paths_of_known_runtimes() {
    for (path, expected) in [
        (format!("/machine.slice/libpod-{ID}.scope"), Runtime::Podman),
        (format!("/libpod_parent/libpod-{ID}"), Runtime::Podman),
        (format!("/libpod_parent/{ID}/libpod-{ID}"), Runtime::Podman),
        (format!("/system.slice/docker-{ID}.scope"), Runtime::Docker),
        (format!("/docker/{ID}"), Runtime::Docker),
        (format!("/docker/{ID}/docker/{ID}"), Runtime::Docker),
        (
            format!("/system.slice/nerdctl-{ID}.scope"),
            Runtime::Containerd,
        ),
        (
            format!("/kubepods.slice/x-pod.slice:cri-containerd:{ID}"),
            Runtime::Containerd,
        ),
        (
            format!("/kubelet.slice/kubelet-kubepods.slice/cri-containerd-{ID}.scope"),
            Runtime::Containerd,
        ),
        (
            format!("/kubepods/besteffort/pod0e3f6f6c-1111-2222-3333-444455556666/{ID}"),
            Runtime::Containerd,
        ),
        (
            format!("/kubepods/besteffort/pod0e3f6f6c111122223333444455556666/crio-{ID}"),
            Runtime::Crio,
        ),
        (
            "/machine.slice/machine-web.scope".to_owned(),
            Runtime::Nspawn,
        ),
        ("/machine.slice/web.service".to_owned(), Runtime::Nspawn),
        ("/lxc/web".to_owned(), Runtime::Plain),
        ("/garden/4f2".to_owned(), Runtime::Plain),
    ] {
        assert_eq!(runtime(&path), Some(expected), "{path}");
    }
}

#[test]
fn paths_of_everything_else() {
    for path in [
        "/".to_owned(),
        "relative".to_owned(),
        "/system.slice/docker.service".to_owned(),
        "/docker/buildkit".to_owned(),
        "/docker".to_owned(),
        format!("/machine.slice/libpod-{ID}.scope/container"),
        format!("/other/{ID}"),
        "/system.slice/docker-XYZ.scope".to_owned(),
        "/kubepods.slice/kubepods-pod0e3f6f6c_1111_2222_3333_444455556666.slice".to_owned(),
        r"/machine.slice/machine-qemu\x2d1\x2dvm.scope".to_owned(),
        "/machine.slice".to_owned(),
    ] {
        assert_eq!(classify(Path::new(&path)), Class::Other, "{path}");
    }
    for path in [
        format!("/machine.slice/libpod-conmon-{ID}.scope"),
        format!("/x/crio-conmon-{ID}.scope"),
    ] {
        assert_eq!(classify(Path::new(&path)), Class::Helper, "{path}");
    }
}

#[test]
fn pods_are_named_by_uid() {
    let uid = "0e3f6f6c-1111-2222-3333-444455556666";
    let under = uid.replace('-', "_");
    for path in [
        format!("/kubepods/pod{uid}/{ID}"),
        format!("/kubepods.slice/kubepods-pod{under}.slice/cri-containerd-{ID}.scope"),
        format!(
            "/kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-pod{under}.slice/crio-{ID}.scope"
        ),
    ] {
        let Class::Container(named) = classify(Path::new(&path)) else {
            panic!("{path}")
        };
        assert_eq!(named.pod_uid.as_deref(), Some(uid), "{path}");
        assert_eq!(named.id.as_deref(), Some(ID));
    }
}
