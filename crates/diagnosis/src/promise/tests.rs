use super::*;
use proptest::prelude::*;

fn close(a: f64, b: f64) -> bool {
    (a - b).abs() < 1e-9
}

#[test]
fn the_seeds_example_is_one_cpu_of_three() {
    // T asks for one CPU, its neighbour for two and wants all three.
    assert!(close(share(3.0, 1024, &[(2048, 3.0)]), 1.0));
}

#[test]
fn a_container_that_wants_little_leaves_the_rest() {
    assert!(close(share(2.0, 100, &[(100, 0.25)]), 1.75));
    assert!(close(share(2.0, 100, &[(100, 0.1), (200, 5.0)]), 1.9 / 3.0));
    assert!(close(share(2.0, 100, &[]), 2.0));
}

fn group(name: &str, weight: u64, usage_s: f64) -> Group {
    Group {
        name: name.into(),
        weight,
        quota_cpus: None,
        cpuset_cpus: None,
        usage_ns: (usage_s * 1e9) as u64,
    }
}

fn levels(t: Group, n: Group, host_s: f64) -> Levels {
    let usage_ns = t.usage_ns + n.usage_ns + (host_s * 1e9) as u64;
    let level = Level {
        usage_ns: Some(usage_ns),
        task_weight: 1024,
        children: vec![t, n],
    };
    Levels::from([(PathBuf::from("/"), level)])
}

#[test]
fn quota_and_cpuset_cut_the_share() {
    let before = levels(group("t", 1024, 0.0), group("n", 1024, 0.0), 0.0);
    let mut t = group("t", 1024, 0.4);
    let after = levels(t.clone(), group("n", 1024, 3.6), 0.0);
    let all = promise(Path::new("/t"), &before, &after, 2.0, 2);
    assert!(
        close(all.cpus, 1.0) && all.by == Entitlement::Weight,
        "{all:?}"
    );
    t.cpuset_cpus = Some(2);
    t.quota_cpus = Some(0.5);
    let after = levels(t, group("n", 1024, 3.6), 0.0);
    let cut = promise(Path::new("/t"), &before, &after, 2.0, 2);
    assert!(
        close(cut.cpus, 0.5) && cut.by == Entitlement::Quota,
        "{cut:?}"
    );
}

#[test]
fn tasks_of_the_root_compete_too() {
    let before = levels(group("t", 1024, 0.0), group("n", 1024, 0.0), 0.0);
    let after = levels(group("t", 1024, 0.5), group("n", 1024, 0.0), 1.5);
    let got = promise(Path::new("/t"), &before, &after, 1.0, 2);
    assert!(close(got.cpus, 1.0), "{got:?}");
    // A group that is not there is not competed with: the host's CPUs.
    let none = promise(Path::new("/x"), &before, &after, 1.0, 2);
    assert!(close(none.cpus, 2.0));
}

proptest! {
    /// Never more than available, never less than the share when all want everything.
    #[test]
    fn shares_stay_in_bounds(capacity in 0.1..64.0f64, weight in 1..10_000u64,
                             others in prop::collection::vec((1..10_000u64, 0.0..64.0f64), 0..12)) {
        let got = share(capacity, weight, &others);
        let sum: u64 = weight + others.iter().map(|o| o.0).sum::<u64>();
        prop_assert!(got <= capacity + 1e-9);
        prop_assert!(got >= capacity * weight as f64 / sum as f64 - 1e-9);
    }
}
