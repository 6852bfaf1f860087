//! Agent against a simulated runtime, on a real socket.

use crate::testing::{TestAgent, World, until};
use cofferdam_nri::api::{self, ContainerRequest, CreateContainerResponse};
use cofferdam_nri::simulated::{self, Runtime, container, pod};
use std::collections::BTreeMap;
use std::os::unix::net::UnixListener;
use std::path::Path;

struct Node {
    listener: UnixListener,
    agent: TestAgent,
}

impl Node {
    fn start(may_ask: &str, world: World) -> (Node, tempfile::TempDir) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("nri.sock");
        let listener = UnixListener::bind(&path).unwrap();
        let agent = TestAgent::start_with(&config(&path, may_ask), world);
        (Node { listener, agent }, folder)
    }

    fn accept(&self) -> Runtime {
        Runtime::new(self.listener.accept().unwrap().0)
    }
}

fn config(socket: &Path, may_ask: &str) -> String {
    format!(
        "[nri]\nsocket = \"{}\"\nmay_ask = [{may_ask}]\n",
        socket.display()
    )
}

fn asking(id: &str, namespace: &str, annotations: &[(&str, &str)]) -> api::PodSandbox {
    let own = |(k, v): &(&str, &str)| ((*k).to_owned(), (*v).to_owned());
    api::PodSandbox {
        annotations: annotations.iter().map(own).collect::<BTreeMap<_, _>>(),
        ..pod(id, namespace, "web")
    }
}

fn create(runtime: &mut Runtime, pod: &api::PodSandbox, id: &str) -> CreateContainerResponse {
    let request = ContainerRequest {
        pod: Some(pod.clone()),
        container: Some(container(id, &pod.id, "app", 1024)),
        linux_resources: None,
    };
    runtime.call("CreateContainer", &request).unwrap()
}

const STRICT: &[(&str, &str)] = &[("cofferdam.dev/cpu", "strict")];

/// Promise 37.
#[test]
fn a_strict_container_is_created_on_its_promised_cpus() {
    let (node, _folder) = Node::start("\"shop\"", World::default());
    let mut runtime = node.accept();
    let (name, updates) = runtime.greet(Vec::new(), Vec::new()).unwrap();
    assert_eq!((name.as_str(), updates.len()), ("cofferdam", 0));
    let response = create(&mut runtime, &asking("1", "shop", STRICT), "c1");
    let adjust = response.adjust.expect("it was promised CPUs");
    let cpu = adjust.linux.unwrap().resources.unwrap().cpu.unwrap();
    assert_eq!(cpu.cpus, "7");
    assert!(cpu.shares.is_none());
    assert_eq!(adjust.annotations["made-on.cofferdam.dev/cpus"], "7");
    // The neighbours must leave before it may run.
    until("the promise is applied", || {
        node.agent.world.promises_applied() == 1
    });
    assert_eq!(node.agent.world.promises(), ["c1"]);
    let removal = ContainerRequest {
        pod: Some(pod("1", "shop", "web")),
        container: Some(container("c1", "1", "app", 1024)),
        linux_resources: None,
    };
    let _: api::UpdateContainerResponse = runtime.call("RemoveContainer", &removal).unwrap();
    until("withdrawn", || node.agent.world.promises().is_empty());
}

/// Promise 39.
#[test]
fn a_namespace_that_may_not_ask_gets_nothing() {
    let (node, _folder) = Node::start("\"team-*\"", World::default());
    let mut runtime = node.accept();
    runtime.greet(Vec::new(), Vec::new()).unwrap();
    let response = create(&mut runtime, &asking("1", "shop", STRICT), "c1");
    assert_eq!(response, CreateContainerResponse::default());
    let response = create(&mut runtime, &asking("2", "team-a", STRICT), "c2");
    assert!(response.adjust.is_some());
    let garbage = [("cofferdam.dev/cpu", "yes please")];
    let response = create(&mut runtime, &asking("3", "team-a", &garbage), "c3");
    assert_eq!(response, CreateContainerResponse::default());
    let status = node.agent.client().status().unwrap();
    let nri = status.nri.unwrap();
    assert!(nri.connected);
    assert_eq!((nri.containers, nri.answers), (3, 4));
    assert_eq!(nri.runtime.as_deref(), Some("simulated"));
    assert_eq!(
        node.agent
            .world
            .opened
            .load(std::sync::atomic::Ordering::Relaxed),
        1
    );
}

/// Promise 39.
#[test]
fn containers_are_named_with_their_refusals() {
    let world = World::default();
    let (node, _folder) = Node::start("", world.clone());
    let mut runtime = node.accept();
    let asks = asking("1", "shop", STRICT);
    let there = vec![container("c1", "1", "app", 512)];
    runtime.greet(vec![asks], there).unwrap();
    until("introduced", || {
        world.introduced.lock().unwrap().iter().any(|i| {
            (i.id.as_str(), i.name.as_str(), i.pod.as_deref()) == ("c1", "app", Some("shop/web"))
        })
    });
    assert_eq!(*world.reads_files.lock().unwrap(), Some(false));
    world.add_with_id(5, "app", "c1");
    until("refused by name", || {
        let status = node.agent.client().status().unwrap();
        let degraded = status.containers.iter().flat_map(|c| &c.degraded);
        degraded
            .into_iter()
            .any(|d| d.name == "namespace_may_not_ask")
    });
    assert!(world.wanted().is_empty());
}

/// Promise 63.
#[test]
fn a_restarted_runtime_is_found_again() {
    let (node, folder) = Node::start("\"*\"", World::default());
    let mut runtime = node.accept();
    runtime.greet(Vec::new(), Vec::new()).unwrap();
    let response = create(&mut runtime, &asking("1", "shop", STRICT), "c1");
    assert!(response.adjust.is_some());
    drop(runtime);
    until("its absence is said", || {
        let status = node.agent.client().status().unwrap();
        status.degraded.iter().any(|d| d.name == "nri_unavailable")
    });
    assert_eq!(*node.agent.world.reads_files.lock().unwrap(), Some(true));
    let mut runtime = node.accept();
    // The container that was about to come never came.
    runtime.greet(Vec::new(), Vec::new()).unwrap();
    until("rebuilt", || node.agent.world.promises().is_empty());
    let status = node.agent.client().status().unwrap();
    assert_eq!(status.nri.unwrap().sessions, 2);
    // Switched off, and on again.
    node.agent.rewrite("");
    node.agent.client().reload().unwrap();
    assert!(node.agent.client().status().unwrap().nri.is_none());
    node.agent
        .rewrite(&config(&folder.path().join("nri.sock"), ""));
    node.agent.client().reload().unwrap();
    node.accept().greet(Vec::new(), Vec::new()).unwrap();
}

/// Promise 72.
#[test]
fn a_hostile_runtime_costs_its_connection_and_nothing_else() {
    use std::io::Write;
    let (node, _folder) = Node::start("\"*\"", World::default());
    for garbage in [
        &[0xff; 64][..],
        &[0, 0, 0, 1, 0, 0, 0, 10, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9],
    ] {
        let (mut stream, _) = node.listener.accept().unwrap();
        stream.write_all(garbage).unwrap();
        until("it is said", || {
            let status = node.agent.client().status().unwrap();
            let has_text = |d: &cofferdam_records::status::DegradedRecord| {
                d.text.contains("does not keep to the protocol")
            };
            status.degraded.iter().any(has_text)
        });
    }
    let mut runtime = node.accept();
    runtime.greet(Vec::new(), Vec::new()).unwrap();
    assert!(
        create(&mut runtime, &asking("1", "shop", STRICT), "c1")
            .adjust
            .is_some()
    );
    let strays = ContainerRequest {
        linux_resources: Some(simulated::shares_of(2048)),
        ..ContainerRequest::default()
    };
    let _: api::UpdateContainerResponse = runtime.call("UpdateContainer", &strays).unwrap();
}
