use super::*;
use proptest::prelude::*;

fn close(a: f64, b: f64) -> bool {
    (a - b).abs() < 1e-9
}

/// Promise 10.
#[test]
fn the_seeds_example_is_one_cpu_of_three() {
    // T asks for one CPU, its neighbour for two and wants all three.
    assert!(close(share(3.0, 1024, &[(2048, 3.0)]), 1.0));
}

/// Promise 10.
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

/// Promise 10.
#[test]
fn quota_and_cpuset_cut_the_share() {
    let before = levels(group("t", 1024, 0.0), group("n", 1024, 0.0), 0.0);
    let mut t = group("t", 1024, 0.4);
    let after = levels(t.clone(), group("n", 1024, 3.6), 0.0);
    let all = Promises::new(&before, &after, 2.0, 2).of(Path::new("/t"));
    assert!(
        close(all.cpus, 1.0) && all.by == Entitlement::Weight,
        "{all:?}"
    );
    t.cpuset_cpus = Some(2);
    t.quota_cpus = Some(0.5);
    let after = levels(t, group("n", 1024, 3.6), 0.0);
    let cut = Promises::new(&before, &after, 2.0, 2).of(Path::new("/t"));
    assert!(
        close(cut.cpus, 0.5) && cut.by == Entitlement::Quota,
        "{cut:?}"
    );
}

#[test]
fn tasks_of_the_root_compete_too() {
    let before = levels(group("t", 1024, 0.0), group("n", 1024, 0.0), 0.0);
    let after = levels(group("t", 1024, 0.5), group("n", 1024, 0.0), 1.5);
    let got = Promises::new(&before, &after, 1.0, 2).of(Path::new("/t"));
    assert!(close(got.cpus, 1.0), "{got:?}");
    // A group that does not exist has no competitors: it is promised all CPUs.
    let none = Promises::new(&before, &after, 1.0, 2).of(Path::new("/x"));
    assert!(close(none.cpus, 2.0));
}

proptest! {
    /// A level's promises equal those computed for each group alone. Of the earlier reading only
    /// usage counts.
    #[test]
    fn promises_of_a_level_are_those_of_each_alone(
        groups in prop::collection::vec((1..10_000u64, 0.0..4.0f64), 1..12),
        host_s in 0.01..2.0f64,
    ) {
        let name = |i: usize| format!("c{i}");
        let level = |weights: bool, seconds: f64| {
            let children = groups.iter().enumerate().map(|(i, (weight, used))| Group {
                usage_ns: (used * seconds * 1e9) as u64,
                weight: if weights { *weight } else { 0 },
                ..Group::named(name(i).into())
            });
            let children: Vec<Group> = children.collect();
            let used: u64 = children.iter().map(|c| c.usage_ns).sum();
            let usage_ns = Some(used + (host_s * seconds * 1e9) as u64);
            Levels::from([(
                PathBuf::from("/"),
                Level {
                    usage_ns,
                    task_weight: 1024,
                    children,
                },
            )])
        };
        let (before, after) = (level(false, 1.0), level(true, 2.0));
        let promises = Promises::new(&before, &after, 1.0, 4);
        for (own, (weight, _)) in groups.iter().enumerate() {
            let others = groups.iter().enumerate().filter(|(i, _)| *i != own);
            let mut others: Vec<_> = others.map(|(_, group)| *group).collect();
            others.push((1024, host_s));
            let got = promises.of(Path::new(&format!("/{}", name(own))));
            prop_assert!(
                (got.cpus - share(4.0, *weight, &others)).abs() < 1e-6,
                "{got:?}"
            );
        }
    }

    /// A share never exceeds the capacity and never falls below the share at full demand of all.
    /// Promise 10.
    #[test]
    fn shares_stay_in_bounds(
        capacity in 0.1..64.0f64,
        weight in 1..10_000u64,
        others in prop::collection::vec((1..10_000u64, 0.0..64.0f64), 0..12),
    ) {
        let got = share(capacity, weight, &others);
        let sum: u64 = weight + others.iter().map(|o| o.0).sum::<u64>();
        prop_assert!(got <= capacity + 1e-9);
        prop_assert!(got >= capacity * weight as f64 / sum as f64 - 1e-9);
    }
}
