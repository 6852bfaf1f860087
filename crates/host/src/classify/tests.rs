use super::*;

const ID: &str = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

const UID: &str = "0e3f6f6c-1111-2222-3333-444455556666";

/// Returns runtime, name and pod of the container at `path`, by its form.
fn form(path: &str) -> Option<(Runtime, Option<String>, Option<String>)> {
    match classify(Path::new(path)) {
        Class::Container(named) => {
            let is_numbered = path.contains(ID);
            assert_eq!(named.id.as_deref(), is_numbered.then_some(ID), "{path}");
            Some((named.runtime, named.name, named.pod_uid))
        }
        _ => None,
    }
}

/// Covers every known layout, by runtime and driver.
///
/// Promise 7.
#[test]
fn paths_of_known_runtimes_are_classified() {
    let slice = UID.replace('-', "_");
    let static_pod = "0e3f6f6c111122223333444455556666";
    for (path, runtime, pod) in [
        // podman: systemd, cgroupfs, split, pods, rootless.
        (
            format!("/machine.slice/libpod-{ID}.scope"),
            Runtime::Podman,
            None,
        ),
        (format!("/libpod_parent/libpod-{ID}"), Runtime::Podman, None),
        (
            format!("/libpod_parent/{ID}/libpod-{ID}"),
            Runtime::Podman,
            None,
        ),
        (
            format!("/system.slice/a.service/libpod-payload-{ID}"),
            Runtime::Podman,
            None,
        ),
        (
            format!("/machine.slice/machine-libpod_pod_{ID}.slice/libpod-{ID}.scope"),
            Runtime::Podman,
            None,
        ),
        (
            format!("/user.slice/user-1000.slice/user@1000.service/user.slice/libpod-{ID}.scope"),
            Runtime::Podman,
            None,
        ),
        // docker: systemd, cgroupfs, nested, and any value of --cgroup-parent.
        (
            format!("/system.slice/docker-{ID}.scope"),
            Runtime::Docker,
            None,
        ),
        (format!("/docker/{ID}"), Runtime::Docker, None),
        (format!("/docker/{ID}/docker/{ID}"), Runtime::Docker, None),
        (
            format!("/lxc.payload.box/docker/{ID}"),
            Runtime::Docker,
            None,
        ),
        (format!("/tenants/{ID}"), Runtime::Docker, None),
        (
            format!("/ecs/0123456789abcdef0123456789abcdef/{ID}"),
            Runtime::Docker,
            None,
        ),
        (
            format!("/ecstasks-0123456789abcdef.slice/docker-{ID}.scope"),
            Runtime::Docker,
            None,
        ),
        (format!("/actions_job/{ID}"), Runtime::Docker, None),
        (
            format!("/tenants/system.slice:docker:{ID}"),
            Runtime::Docker,
            None,
        ),
        // nerdctl.
        (
            format!("/system.slice/nerdctl-{ID}.scope"),
            Runtime::Containerd,
            None,
        ),
        // Kubernetes: containerd and CRI-O, systemd and cgroupfs, and one under the other.
        (
            format!("/kubepods.slice/kubepods-pod{slice}.slice/cri-containerd-{ID}.scope"),
            Runtime::Containerd,
            Some(UID),
        ),
        (
            format!(
                "/docker/{ID}/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-pod{slice}.slice/cri-containerd-{ID}.scope"
            ),
            Runtime::Containerd,
            Some(UID),
        ),
        (
            format!("/kubepods/besteffort/pod{UID}/{ID}"),
            Runtime::Containerd,
            Some(UID),
        ),
        (
            format!("/kubepods/burstable/pod{static_pod}/{ID}"),
            Runtime::Containerd,
            Some(static_pod),
        ),
        (
            format!(
                "/system.slice/containerd.service/kubepods-burstable-pod{slice}.slice:cri-containerd:{ID}"
            ),
            Runtime::Containerd,
            Some(UID),
        ),
        (
            format!(
                "/kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-pod{slice}.slice/crio-{ID}.scope"
            ),
            Runtime::Crio,
            Some(UID),
        ),
        (
            format!("/kubepods/besteffort/pod{static_pod}/crio-{ID}"),
            Runtime::Crio,
            Some(static_pod),
        ),
        (
            format!("/system.slice/kubepods-pod{slice}.slice:crio:{ID}"),
            Runtime::Crio,
            Some(UID),
        ),
        (
            format!("/kubepods.slice/kubepods-pod{slice}.slice/docker-{ID}.scope"),
            Runtime::Docker,
            Some(UID),
        ),
    ] {
        let pod = pod.map(str::to_owned);
        assert_eq!(form(&path), Some((runtime, None, pod)), "{path}");
    }
    for (path, runtime, name) in [
        ("/machine.slice/machine-web.scope", Runtime::Nspawn, "web"),
        (
            r"/machine.slice/machine-kube\x2dspawn\x2d0.scope",
            Runtime::Nspawn,
            "kube-spawn-0",
        ),
        ("/machine.slice/web.service", Runtime::Nspawn, "web"),
        (
            "/machine.slice/systemd-nspawn@web-1.service",
            Runtime::Nspawn,
            "web-1",
        ),
        (
            r"/machine.slice/machine-lxc\x2d2213\x2dmail.scope",
            Runtime::Plain,
            "mail",
        ),
        ("/lxc/web", Runtime::Plain, "web"),
        ("/lxc.payload/web", Runtime::Plain, "web"),
        ("/lxc.payload.prod_mail-1", Runtime::Plain, "prod_mail-1"),
        ("/garden/4f2", Runtime::Plain, "4f2"),
    ] {
        assert_eq!(
            form(path),
            Some((runtime, Some(name.to_owned()), None)),
            "{path}"
        );
    }
}

/// Promise 7.
#[test]
fn paths_of_everything_else_are_other() {
    for path in [
        "/".to_owned(),
        "relative".to_owned(),
        "/system.slice/docker.service".to_owned(),
        "/docker/buildkit".to_owned(),
        "/docker".to_owned(),
        format!("/machine.slice/libpod-{ID}.scope/container"),
        // Only the virtual machine's own threads, a job, a build.
        format!("/kata_overhead/{ID}"),
        "/nomad.slice/share.slice/5bb9fbf7-5a3c-c3ba-d2e1-2d3f5a1a6d54.web.scope".to_owned(),
        "/docker/buildkit/4jqx0b5s2zvcm1k7y3p9d8rte".to_owned(),
        "/hadoop-yarn/container_e01_1700000000000_0001_01_000002".to_owned(),
        "/other/0123456789abcdef".to_owned(),
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
