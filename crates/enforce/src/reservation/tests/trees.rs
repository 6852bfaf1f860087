//! Random histories of random trees: each owner effectively has its CPUs and others lost only
//! those, or no container lost any.

use super::host::{Fake, cpus};
use super::*;
use crate::cpus::{read_list, spell};
use crate::journal::fake_kernel::FakeKernel;
use proptest::prelude::*;
use proptest::sample::Index;

const CPUS: u32 = 4;

/// Cgroup of the tree.
#[derive(Clone, Debug)]
struct Node {
    path: String,
    parent: Option<usize>,
    /// Container, or `None` for a slice, a pod, or a cgroup inside a container.
    container: Option<Arc<Container>>,
    /// List that its runtime or the administrator wrote.
    base: Option<Cpus>,
    amount: Option<&'static str>,
    /// All lists that its file has had. A program that writes one of ours again cannot be
    /// distinguished from us.
    had: Vec<String>,
}

/// Event on the host.
#[derive(Clone, Debug)]
enum Event {
    Rule(Index, Option<&'static str>),
    /// An administrator or a runtime writes a list of its own.
    Rewrite(Index, u32),
    /// The kernel refuses a cgroup these CPUs, for a reason that no file shows.
    Take(Index, u32),
    Release,
    Remove(Index),
    /// A cgroup is removed just before the next write to it.
    Vanish(Index),
    Killed,
}

fn any_event() -> impl Strategy<Value = Event> {
    let amount = prop::sample::select(vec!["0.5", "1", "1.5", "2", "3"]);
    let node = any::<Index>;
    prop_oneof![
        6 => (node(), prop::option::weighted(0.7, amount)).prop_map(|(n, a)| Event::Rule(n, a)),
        3 => (node(), 1u32..16).prop_map(|(n, mask)| Event::Rewrite(n, mask)),
        1 => (node(), 1u32..16).prop_map(|(n, mask)| Event::Take(n, mask)),
        1 => Just(Event::Release),
        1 => node().prop_map(Event::Remove),
        1 => node().prop_map(Event::Vanish),
        1 => Just(Event::Killed),
    ]
}

fn of_mask(mask: u32) -> Cpus {
    (0..CPUS)
        .filter(|cpu| mask >> cpu & 1 == 1)
        .map(CpuId)
        .collect()
}

struct Tree {
    fake: Fake,
    v1: bool,
    nodes: Vec<Node>,
    lending: bool,
}

impl Tree {
    fn new(v1: bool, lending: bool, shape: &[(Index, u32, bool)]) -> Tree {
        let fake = if v1 {
            Fake::hybrid(CPUS)
        } else {
            Fake::v2(CPUS)
        };
        fake.write("cpuset.cpus", "0-3");
        let mut nodes: Vec<Node> = Vec::new();
        for (i, (parent, mask, is_container)) in shape.iter().enumerate() {
            // The first nodes are at the top.
            let parent = Some(parent.index(i + 2)).filter(|p| *p < i);
            let (above, path) = match parent.map(|p| &nodes[p]) {
                Some(node) => (node.base.clone(), format!("{}/n{i}", node.path)),
                None => (None, format!("n{i}")),
            };
            let mask = of_mask(*mask);
            let base = if v1 {
                let above = above.unwrap_or_else(|| of_mask(15));
                let both: Cpus = mask.intersection(&above).copied().collect();
                Some(if both.is_empty() { above } else { both })
            } else {
                Some(mask).filter(|mask| !mask.is_empty())
            };
            let list = base.as_ref().map(spell).unwrap_or_default();
            let container = fake.container_at(i as u64 + 1, &path, &list);
            nodes.push(Node {
                path,
                parent,
                container: is_container.then_some(container),
                base,
                amount: None,
                had: vec![list],
            });
        }
        fake.write_effective();
        Tree {
            fake,
            v1,
            nodes,
            lending,
        }
    }

    fn exists(&self, i: usize) -> bool {
        self.fake.cpuset_folder(&self.nodes[i].path).exists()
    }

    fn is_leaf(&self, i: usize) -> bool {
        let below = |n: &Node| n.parent == Some(i) && self.fake.cpuset_folder(&n.path).exists();
        !self.nodes.iter().any(below)
    }

    fn options(&self) -> ReservationOptions {
        ReservationOptions {
            lending: self.lending,
            ..ReservationOptions::default()
        }
    }

    fn list(&self, i: usize) -> String {
        self.fake.cpuset_at(&self.nodes[i].path)
    }

    /// CPUs that each cgroup has with these lists, by the kernel's rules.
    fn effective_lists(&self, list: impl Fn(usize) -> Option<Cpus>) -> Vec<Cpus> {
        let mut lists: Vec<Cpus> = Vec::new();
        let all = of_mask(15);
        for (i, node) in self.nodes.iter().enumerate() {
            let above = node.parent.map_or(&all, |p| &lists[p]);
            let folder = self.fake.cpuset_folder(&node.path);
            let mut cpus = above.clone();
            FakeKernel::change(|kernel| cpus = kernel.effective_cpus(&folder, list(i), above));
            lists.push(cpus);
        }
        lists
    }

    fn apply_event(&mut self, event: &Event) {
        let at = |index: &Index| index.index(self.nodes.len());
        match event {
            Event::Rule(node, amount) => {
                let i = at(node);
                self.nodes[i].amount = *amount;
            }
            Event::Rewrite(node, mask) => {
                let (i, list) = (at(node), spell(&of_mask(*mask)));
                let file = self
                    .fake
                    .cpuset_folder(&self.nodes[i].path)
                    .join("cpuset.cpus");
                let is_new = !self.is_like_ours(i, &of_mask(*mask));
                let mut is_taken = false;
                // v1 would refuse a list beyond the cgroup above without us as well.
                let without_us = self.effective_lists(|i| self.nodes[i].base.clone());
                let above = self.nodes[i].parent.map(|p| &without_us[p]);
                let fits = !self.v1 || above.is_none_or(|above| of_mask(*mask).is_subset(above));
                if self.exists(i) && is_new && fits {
                    FakeKernel::change(|k| is_taken = k.verdict(&file, &list).is_ok());
                }
                if is_taken {
                    std::fs::write(file, &list).unwrap();
                    FakeKernel::change(|_| {});
                    self.nodes[i].had.push(list);
                    self.nodes[i].base = Some(of_mask(*mask));
                }
            }
            Event::Take(node, mask) => {
                let i = at(node);
                let mut taken = of_mask(*mask);
                if self.v1 && self.exists(i) {
                    // CPUs that the cgroup has or had are not taken.
                    let had = self.nodes[i].had.iter().filter_map(|list| read_list(list));
                    let now = read_list(&self.list(i));
                    had.chain(now)
                        .for_each(|had| taken.retain(|c| !had.contains(c)));
                }
                let folder = self.fake.cpuset_folder(&self.nodes[i].path);
                let is_strict = self.nodes[i].amount.is_some();
                if is_strict && self.nodes[i].container.is_some() {
                    FakeKernel::change(|k| drop(k.taken.insert(folder, taken)));
                }
            }
            Event::Release => FakeKernel::change(|k| k.taken.clear()),
            Event::Remove(node) => {
                let i = at(node);
                if self.exists(i) && self.is_leaf(i) {
                    std::fs::remove_dir_all(self.fake.cpuset_folder(&self.nodes[i].path)).unwrap();
                }
            }
            Event::Vanish(node) => {
                let i = at(node);
                let folder = self.fake.cpuset_folder(&self.nodes[i].path);
                if self.exists(i) && self.is_leaf(i) {
                    FakeKernel::change(|k| k.vanishes = Some(folder));
                }
            }
            Event::Killed => {}
        }
    }

    /// Containers that the inventory lists: strict and standard.
    fn lists(&self) -> (Vec<Request>, Vec<ReservationContainer>) {
        let (mut strict, mut standard) = (Vec::new(), Vec::new());
        for node in &self.nodes {
            let Some(container) = &node.container else {
                continue;
            };
            match node.amount {
                Some(amount) => strict.push((container.clone(), cpus(amount)).into()),
                None => standard.push(container.clone().into()),
            }
        }
        (strict, standard)
    }

    fn note_lists(&mut self) {
        let mut written = Vec::new();
        FakeKernel::change(|k| written = std::mem::take(&mut k.written));
        for node in &mut self.nodes {
            let file = self.fake.cpuset_folder(&node.path).join("cpuset.cpus");
            let ours = written.iter().filter(|(path, _)| *path == file);
            node.had.extend(ours.map(|(_, list)| list.clone()));
        }
    }

    /// Whether the list could be one of ours, or one that reverting leaves.
    fn is_like_ours(&self, i: usize, list: &Cpus) -> bool {
        let base = self.nodes[i].base.clone().unwrap_or_default();
        let had = self.nodes[i]
            .had
            .iter()
            .map(|had| read_list(had).unwrap_or_default());
        had.into_iter()
            .any(|had| had == *list || had.union(&base).eq(list))
    }

    fn ancestors(&self, i: usize) -> impl Iterator<Item = usize> {
        std::iter::successors(self.nodes[i].parent, |p| self.nodes[*p].parent)
    }

    fn is_inside_container(&self, i: usize) -> bool {
        let is_container = |i: usize| self.nodes[i].container.is_some();
        is_container(i) || self.ancestors(i).any(is_container)
    }

    /// Whether the kernel withholds CPUs from the cgroup or one above it.
    fn is_taken(&self, i: usize) -> bool {
        let mut is_taken = false;
        let path = |i: usize| self.fake.cpuset_folder(&self.nodes[i].path);
        let of: Vec<_> = std::iter::once(i)
            .chain(self.ancestors(i))
            .map(path)
            .collect();
        FakeKernel::change(|k| is_taken = of.iter().any(|f| k.taken.contains_key(f)));
        is_taken
    }

    fn check(&self, r: &Reservations) {
        let without_us = self.effective_lists(|i| self.nodes[i].base.clone());
        let texts: Vec<String> = (0..self.nodes.len())
            .map(|i| {
                if self.exists(i) {
                    self.list(i)
                } else {
                    String::new()
                }
            })
            .collect();
        let now = self.effective_lists(|i| read_list(&texts[i]));
        let mut owners: BTreeMap<usize, (Cpus, Cpus)> = BTreeMap::new();
        let mut conflicts = Vec::new();
        for (id, state, degraded) in r.states() {
            let i = usize::try_from(id.0).unwrap() - 1;
            let slice = state.slice.map(|(cpu, _)| cpu);
            let own: Cpus = state.own_cpus.iter().copied().chain(slice).collect();
            let has = |name: &str| degraded.iter().any(|d| d.name == name);
            if has("cpuset_conflict") {
                conflicts.push(i);
            }
            if !own.is_empty() {
                assert!(self.exists(i), "{i} is gone and has {own:?}");
                owners.insert(i, (own, state.lent_cpus.iter().copied().collect()));
            } else if self.nodes[i].amount.is_some() && self.exists(i) {
                assert!(
                    has("reservation_impossible") || has("cpuset_refused"),
                    "{i} gets nothing, and nobody says so: {degraded:?}"
                );
            }
        }
        let reserved: Cpus = owners.values().flat_map(|(own, _)| own.clone()).collect();
        for (i, (own, _)) in &owners {
            let below = owners
                .iter()
                .filter(|(o, _)| self.ancestors(**o).any(|a| a == *i));
            let all: Cpus = below
                .flat_map(|(_, (own, _))| own.clone())
                .chain(own.clone())
                .collect();
            assert_eq!(now[*i], all, "CPUs of owner {i} ({})", self.nodes[*i].path);
        }
        for (i, node) in self
            .nodes
            .iter()
            .enumerate()
            .filter(|(i, _)| self.exists(*i))
        {
            if owners.contains_key(&i) {
                continue;
            }
            let text = (node.base.as_ref().map(spell).unwrap_or_default(), &texts[i]);
            if !self.is_inside_container(i) {
                assert_eq!(&text.0, text.1, "{} is no container's", node.path);
                continue;
            }
            let is_around = |o: &usize| self.ancestors(*o).any(|a| a == i);
            let is_inside = |o: &usize| self.ancestors(i).any(|a| a == *o);
            assert!(!now[i].is_empty(), "{} has no CPU", node.path);
            // A container loses only CPUs of owners.
            if !owners.keys().any(is_inside) {
                let lost: Cpus = without_us[i].difference(&now[i]).copied().collect();
                assert!(lost.is_subset(&reserved), "{} lost {lost:?}", node.path);
                if without_us[i].is_disjoint(&reserved) && !owners.keys().any(is_around) {
                    assert_eq!(now[i], without_us[i], "{}", node.path);
                }
            }
            // Each container leaves those, except of the owners around and inside it: slices share
            // a CPU.
            let is_conflict = std::iter::once(i)
                .chain(self.ancestors(i))
                .any(|a| conflicts.contains(&a));
            let near = owners.iter().filter(|(o, _)| is_around(o) || is_inside(o));
            let near: Cpus = near.flat_map(|(_, (own, _))| own.clone()).collect();
            for (o, (own, lent)) in &owners {
                let both: Cpus = own.intersection(&now[i]).copied().collect();
                let both: Cpus = both.difference(&near).copied().collect();
                assert!(
                    is_conflict || self.is_taken(i) || both.is_subset(lent),
                    "{} runs on {both:?} of {}",
                    node.path,
                    self.nodes[*o].path
                );
            }
        }
    }

    /// Checks that every cgroup has the CPUs that it would have without us.
    fn check_reverted(&self) {
        FakeKernel::change(|k| {
            k.taken.clear();
            k.vanishes = None;
        });
        let without_us = self.effective_lists(|i| self.nodes[i].base.clone());
        let now = self.effective_lists(|i| {
            let list = self.exists(i).then(|| self.list(i));
            read_list(&list.unwrap_or_default())
        });
        for i in (0..self.nodes.len()).filter(|i| self.exists(*i)) {
            assert_eq!(
                now[i], without_us[i],
                "{} is not restored",
                self.nodes[i].path
            );
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    /// Promise 38.
    #[test]
    fn an_owner_has_its_cpus_or_no_container_lost_any(
        v1 in any::<bool>(),
        lending in any::<bool>(),
        shape in prop::collection::vec((any::<Index>(), 0u32..16, prop::bool::weighted(0.7)), 1..9),
        events in prop::collection::vec(any_event(), 1..14),
    ) {
        let mut tree = Tree::new(v1, lending, &shape);
        let mut now = Instant::now();
        let (mut journal, mut r) = tree.fake.start(tree.options());
        for event in &events {
            tree.apply_event(event);
            if matches!(event, Event::Killed) {
                drop((journal, r));
                (journal, r) = tree.fake.start(tree.options());
                tree.note_lists();
            }
            let (strict, standard) = tree.lists();
            r.reconcile(&mut journal, &strict, &standard);
            tree.note_lists();
            for _ in 0..3 {
                now += COMPARE_EVERY / 2;
                r.step(&mut journal, now);
                tree.note_lists();
            }
            tree.check(&r);
        }
        FakeKernel::change(|k| k.vanishes = None);
        r.reconcile(&mut journal, &[], &[]);
        let report = journal.revert_all();
        assert!(report.is_clean() && report.foreign.is_empty(), "{report:?}");
        tree.check_reverted();
    }
}
