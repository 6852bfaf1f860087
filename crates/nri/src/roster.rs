//! Current pods and containers, from the events of a session.

use crate::pods::{Container, Pod, Resources};
use std::collections::HashMap;
use std::sync::Arc;

/// Most memory for all descriptions of pods and containers, bytes.
pub const MOST_STORED_BYTES: usize = 64 << 20;

/// Current pods and containers.
#[derive(Debug, Default)]
pub struct Roster {
    pods: HashMap<String, Arc<Pod>>,
    containers: HashMap<String, Arc<Container>>,
    /// Number of containers of each pod.
    of_pod: HashMap<String, usize>,
    bytes: usize,
    left_out: u64,
}

impl Roster {
    /// Replaces all pods and containers.
    pub fn replace(&mut self, pods: Vec<Arc<Pod>>, containers: Vec<Container>) {
        self.pods.clear();
        self.containers.clear();
        self.of_pod.clear();
        self.bytes = 0;
        for pod in pods {
            self.add_pod(pod);
        }
        for container in containers {
            self.add(container);
        }
    }

    /// Adds a pod.
    pub fn add_pod(&mut self, pod: Arc<Pod>) {
        self.remove_pod(&pod.id.clone());
        if self.reserve_bytes(pod.size_bytes()) {
            self.pods.insert(pod.id.clone(), pod);
        }
    }

    /// Adds or replaces a container. `None` if it exceeds the memory bound.
    pub fn add(&mut self, container: Container) -> Option<Arc<Container>> {
        self.remove(&container.id);
        let container = Arc::new(container);
        self.reserve_bytes(container.size_bytes()).then(|| {
            *self.of_pod.entry(container.pod.id.clone()).or_default() += 1;
            self.containers
                .insert(container.id.clone(), container.clone());
            container
        })
    }

    /// Changes the resources of a container.
    pub fn set_resources(&mut self, id: &str, resources: Resources) -> Option<Arc<Container>> {
        let mut changed = Container::clone(self.containers.get(id)?);
        changed.resources = resources;
        self.add(changed)
    }

    /// Removes a pod.
    pub fn remove_pod(&mut self, id: &str) -> Option<Arc<Pod>> {
        let pod = self.pods.remove(id)?;
        self.bytes -= pod.size_bytes();
        Some(pod)
    }

    /// Removes a container.
    pub fn remove(&mut self, id: &str) -> Option<Arc<Container>> {
        let container = self.containers.remove(id)?;
        self.bytes -= container.size_bytes();
        if let Some(left) = self.of_pod.get_mut(&container.pod.id) {
            *left -= 1;
            if *left == 0 {
                self.of_pod.remove(&container.pod.id);
            }
        }
        Some(container)
    }

    /// Container with this ID.
    pub fn container(&self, id: &str) -> Option<&Arc<Container>> {
        self.containers.get(id)
    }

    /// Pod whose sandbox has this ID.
    pub fn pod(&self, id: &str) -> Option<&Arc<Pod>> {
        self.pods.get(id)
    }

    /// Whether a pod has a container.
    pub fn has_containers(&self, pod: &str) -> bool {
        self.of_pod.contains_key(pod)
    }

    /// All containers, in no order.
    pub fn containers(&self) -> impl Iterator<Item = &Arc<Container>> {
        self.containers.values()
    }

    /// All pods, in no order.
    pub fn pods(&self) -> impl Iterator<Item = &Arc<Pod>> {
        self.pods.values()
    }

    /// Number of pods and containers that were left out because of [`MOST_STORED_BYTES`].
    pub fn left_out(&self) -> u64 {
        self.left_out
    }

    fn reserve_bytes(&mut self, bytes: usize) -> bool {
        let fits = self.bytes + bytes <= MOST_STORED_BYTES;
        match fits {
            true => self.bytes += bytes,
            false => self.left_out += 1,
        }
        fits
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simulated;

    #[test]
    fn removed_containers_leave_nothing() {
        let mut roster = Roster::default();
        let pod = Arc::new(Pod::new(simulated::pod("p1", "shop", "web")));
        roster.add_pod(pod.clone());
        for _ in 0..3 {
            let raw = simulated::container("c1", "p1", "app", 512);
            roster.add(Container::new(raw, pod.clone())).unwrap();
        }
        let resources = Resources {
            request_milli_cpus: Some(750),
            ..Resources::default()
        };
        roster.set_resources("c1", resources.clone()).unwrap();
        assert_eq!(roster.container("c1").unwrap().resources, resources);
        assert!(roster.set_resources("c2", resources).is_none());
        roster
            .add(Container::new(
                simulated::container("c2", "p1", "sidecar", 2),
                pod,
            ))
            .unwrap();
        assert!(roster.remove("c1").is_some() && roster.remove("c1").is_none());
        assert!(roster.has_containers("p1"));
        roster.remove("c2").unwrap();
        assert!(!roster.has_containers("p1") && roster.of_pod.is_empty());
        assert!(roster.remove_pod("p1").is_some());
        assert_eq!((roster.bytes, roster.left_out()), (0, 0));
    }

    /// Promise 72.
    #[test]
    fn ten_thousand_annotations_on_every_pod_end_at_the_bound() {
        let mut roster = Roster::default();
        for number in 0..200 {
            let mut raw = simulated::pod(&number.to_string(), "shop", "web");
            let many = (0..10_000).map(|i| (format!("a{i}"), "x".repeat(20)));
            raw.annotations = many.collect();
            roster.add_pod(Arc::new(Pod::new(raw)));
        }
        assert!(roster.bytes <= MOST_STORED_BYTES);
        assert!(roster.left_out() > 0);
        assert_eq!(roster.pods().count() as u64, 200 - roster.left_out());
    }
}
