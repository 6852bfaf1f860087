use super::*;
use cofferdam_types::{Conservation, CpuId, CpuTime, Health, IfIndex, InterfacePair, Runtime};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::{Duration, SystemTime};

const UID: &str = "0f9d7a2e-1111-4222-8333-444455556666";
const NETNS: NetnsId = NetnsId(4026532999);

fn member(id: u64, path: &str, name: &str) -> Arc<Container> {
    Arc::new(Container {
        pod: Some("shop/web".into()),
        runtime: Runtime::Containerd,
        netns: Some(NETNS),
        interfaces: vec![InterfacePair {
            host_name: None,
            host_ifindex: None,
            host_netns: None,
            lower_netns: None,
            container_ifindex: IfIndex(2),
            container_name: None,
        }],
        ..Container::plain(CgroupId(id), path, name)
    })
}

fn of_kubelet(id: u64, name: &str) -> Arc<Container> {
    member(id, &format!("/kubepods/burstable/pod{UID}/c{id}"), name)
}

fn group(pods: &mut Pods, wanted: &[Arc<Container>]) -> Vec<Arc<Container>> {
    // Any number that differs for each path.
    let id = |path: &Path| {
        let mut hasher = DefaultHasher::new();
        path.hash(&mut hasher);
        Some(CgroupId(hasher.finish()))
    };
    pods.group(wanted, &HashSet::new(), id)
}

fn row(container: &Arc<Container>, caused: u64, charged: u64) -> ContainerLedger {
    let mut row = ContainerLedger {
        container: container.clone(),
        ledger: Default::default(),
        caused_by_cpu_ns: vec![caused, 1],
        charged_by_cpu_ns: vec![charged],
        interruptions_by_cpu: vec![2],
        received_from: BTreeMap::from([(CgroupId(9), 5)]),
    };
    row.ledger.caused_rx_ns = caused;
    row.ledger.charged_network_ns = charged;
    row
}

fn interval(rows: Vec<ContainerLedger>) -> Interval {
    Interval {
        time: SystemTime::UNIX_EPOCH,
        length: Duration::from_millis(20),
        cpus: vec![(CpuId(0), CpuTime::default())],
        containers: rows,
        unattributed_ns: BTreeMap::new(),
        health: Health::default(),
        conservation: Conservation {
            measured_ns: 0,
            attributed_ns: 0,
            worst_cpu_error_pct: 0.0,
        },
        sampling: None,
    }
}

/// Promise 31.
#[test]
fn a_pod_is_one_container_and_one_row() {
    let (pause, main, sidecar) = (
        of_kubelet(10, "pause"),
        of_kubelet(11, "main"),
        of_kubelet(12, "sidecar"),
    );
    let alone = Arc::new(Container {
        netns: Some(NetnsId(7)),
        ..Container::plain(CgroupId(3), "/alone", "alone")
    });
    let mut pods = Pods::default();
    // The sidecar has no rule and is still in the pod.
    let units = group(&mut pods, &[alone.clone(), pause.clone(), main.clone()]);
    assert_eq!(units.len(), 2);
    assert!(Arc::ptr_eq(&units[0], &alone));
    let pod = &units[1];
    assert_eq!(
        pod.cgroup_path,
        PathBuf::from(format!("/kubepods/burstable/pod{UID}"))
    );
    assert_eq!((pod.name.as_str(), pod.interfaces.len()), ("shop/web", 1));
    assert_eq!(pod.descendants, [CgroupId(10), CgroupId(11)]);
    assert_eq!(pods.enforced_as(main.cgroup), pod.cgroup);
    assert_eq!(pods.enforced_as(alone.cgroup), alone.cgroup);
    // Sums over all containers count a pod once: the container reports it, not the sandbox.
    let reporter = |c: &Container| pods.reported_by(c.cgroup).map(|lead| lead.name.as_str());
    assert_eq!(
        [&pause, &main, &alone].map(|c| reporter(c)),
        [Some("main"), None, None]
    );

    let rows = [
        (&pause, 100, 0),
        (&alone, 7, 7),
        (&main, 20, 40),
        (&sidecar, 3, 0),
    ];
    let interval = interval(
        rows.map(|(c, caused, charged)| row(c, caused, charged))
            .into(),
    );
    let folded = pods.fold(&interval);
    let sums: Vec<_> = folded
        .containers
        .iter()
        .map(|r| {
            (
                r.container.cgroup,
                r.caused_by_cpu_ns.clone(),
                r.ledger.caused_ns(),
            )
        })
        .collect();
    assert_eq!(
        sums,
        [
            (pod.cgroup, vec![123, 3], 123),
            (alone.cgroup, vec![7, 1], 7)
        ]
    );
    assert_eq!(folded.containers[0].charged_by_cpu_ns, [40]);
    assert_eq!(folded.containers[0].interruptions_by_cpu, [6]);
    assert_eq!(folded.containers[0].received_from[&CgroupId(9)], 15);

    let reserved = pods.reserved(&HashSet::from([main.cgroup]));
    assert!(reserved.contains(&pod.cgroup) && reserved.contains(&main.cgroup));

    // Without a change, the pod's container stays the same.
    let again = group(&mut pods, &[alone.clone(), pause.clone(), main.clone()]);
    assert!(Arc::ptr_eq(&again[1], pod));
    // A new sandbox in the same namespace.
    let again = group(&mut pods, &[alone, of_kubelet(20, "pause"), main.clone()]);
    assert_eq!(again[1].cgroup, pod.cgroup);
    assert!(pods.reported_by(main.cgroup).is_none());
}

/// Promise 31.
#[test]
fn one_container_represents_a_pod_without_a_cgroup() {
    let (a, b) = (member(1, "/docker/a", "a"), member(2, "/docker/b", "b"));
    let mut pods = Pods::default();
    let units = group(&mut pods, &[a.clone(), b.clone()]);
    assert_eq!(units.len(), 1);
    assert_eq!(
        (units[0].cgroup, &units[0].cgroup_path),
        (a.cgroup, &a.cgroup_path)
    );
    assert_eq!(pods.enforced_as(b.cgroup), a.cgroup);
    let folded = interval(vec![row(&a, 1, 0), row(&b, 2, 0)]);
    assert_eq!(pods.fold(&folded).containers.len(), 1);
    // The remaining container is enforced alone again.
    assert!(Arc::ptr_eq(
        &group(&mut pods, std::slice::from_ref(&b))[0],
        &b
    ));
    assert_eq!(pods.enforced_as(b.cgroup), b.cgroup);
}

/// Promise 31.
#[test]
fn cgroups_distinguish_pods_in_the_hosts_namespace() {
    let host = |id: u64, path: &str, pod: bool| {
        let mut container = Container::clone(&member(id, path, "main"));
        container.host_network = true;
        container.pod = pod.then(|| "kube-system/proxy".into());
        Arc::new(container)
    };
    let other = UID.replace('0', "1");
    let one = host(1, &format!("/kubepods/pod{UID}/a"), true);
    let two = host(2, &format!("/kubepods/pod{other}/b"), true);
    let service = host(3, "/system.slice/ssh.service", false);
    let mut pods = Pods::default();
    let units = group(&mut pods, &[one.clone(), two.clone(), service.clone()]);
    assert_eq!(units.len(), 3);
    assert!(
        pods.enforced_as(one.cgroup) != one.cgroup && pods.enforced_as(two.cgroup) != two.cgroup
    );
    assert_eq!(pods.enforced_as(service.cgroup), service.cgroup);
    let folded = interval(vec![row(&one, 1, 0), row(&two, 2, 0), row(&service, 4, 0)]);
    assert_eq!(pods.fold(&folded).containers.len(), 3);
}

#[test]
fn cgroups_of_pods() {
    let id = "aa8d3de7ca29ba78e68f56484cbdfe8e9ef08b41983d2d7f255209665d6278c5";
    let slice = UID.replace('-', "_");
    for (path, is_one) in [
        (format!("/kubepods/besteffort/pod{UID}"), true),
        (format!("/kubepods.slice/kubepods-pod{slice}.slice"), true),
        (
            "/kubepods/burstable/poda2bd11d99a4b76a2a4a1ad1b59a4d2ce".into(),
            true,
        ),
        (format!("/libpod_parent/{id}"), true),
        (
            format!("/machine.slice/machine-libpod_pod_{id}.slice"),
            true,
        ),
        ("/kubepods/besteffort".into(), false),
        ("/libpod_parent/conmon".into(), false),
        ("/k8s.io".into(), false),
        ("/docker".into(), false),
        (format!("/docker/{id}"), false),
        ("/".into(), false),
    ] {
        assert_eq!(is_pods(Path::new(&path)), is_one, "{path}");
    }
}
