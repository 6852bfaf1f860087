//! Tests of blame: one scene for each way to blame the wrong container, and properties of all
//! scenes.

use super::*;
use crate::diagnosis::LossShareRecord;
use proptest::prelude::*;
use std::collections::BTreeMap;

const RESERVE: &str = "--cpu strict";
const ENFORCE: &str = "--network-cpu enforce";

/// Scene in which `web-3` is flooded on CPU 0, where `db-1` computes and `ksoftirqd` handles most
/// of the packets: `web-3` waits for its own packets.
fn own_packets() -> Scene {
    Scene::new(&[
        container(1, "web-3").caused(700),
        container(2, "db-1").charged(270),
    ])
    .loss((1, "web-3"), [500, 50, 440, 0], None)
    .share((1, None), 0, 390)
    .share((1, Some(2)), 0, 50)
    .unused(0, 0, 400)
}

/// Promise 12.
#[test]
fn a_flooded_container_is_bounded_and_not_given_a_reservation() {
    let explanation = explained(&own_packets().lasting(), &running(status()));
    let sentences: Vec<&str> = explanation
        .findings
        .iter()
        .map(|f| f.sentence.as_str())
        .collect();
    assert_eq!(
        sentences,
        ["web-3 takes 0.27 CPUs from db-1 for its packets."]
    );
    let command = explanation.findings[0].command.as_deref();
    assert_eq!(
        command,
        Some("sudo cofferdam rule set web-3 --network-cpu enforce")
    );
}

/// Promise 12.
#[test]
fn a_wait_for_ksoftirqd_is_harm_by_its_packets() {
    let scene = Scene::new(&[container(1, "web-3").caused(300), container(2, "db-1")])
        .loss((2, "db-1"), [1000, 600, 400, 0], None)
        .share((2, None), 0, 400)
        .unused(0, 0, 400);
    let explanation = explained(&scene.lasting(), &running(status()));
    let sentences: Vec<&str> = explanation
        .findings
        .iter()
        .map(|f| f.sentence.as_str())
        .collect();
    assert_eq!(
        sentences,
        [
            "web-3 takes 0.30 CPUs from db-1 for its packets.",
            "processes of the host keep 0.10 CPUs from db-1, which waits for a CPU."
        ]
    );
    let reason = "db-1 waits 0.30 CPUs while threads of the kernel handle them";
    assert!(explanation.findings[0].reasons.iter().any(|r| r == reason));
}

/// Promise 12.
#[test]
fn packets_handled_on_an_idle_cpu_are_no_harm() {
    let scene = Scene::new(&[container(1, "web-3").caused(150), container(2, "db-1")])
        .loss((2, "db-1"), [1000, 800, 200, 0], None)
        .share((2, None), 0, 200)
        .unused(0, 700, 300);
    let explanation = explained(&scene.lasting(), &running(status()));
    let worst = &explanation.findings[0];
    assert_eq!(
        worst.sentence,
        "processes of the host keep 0.17 CPUs from db-1, which waits for a CPU."
    );
    assert_eq!(worst.reasons.last().unwrap(), "besides: web-3 0.03 CPUs");
}

/// Promise 12.
#[test]
fn a_loss_is_divided_among_all_that_ran() {
    let scene = Scene::new(&[container(1, "a"), container(2, "db-1"), container(3, "b")])
        .loss((2, "db-1"), [1000, 600, 400, 0], Some("a"))
        .share((2, Some(1)), 0, 100)
        .share((2, Some(3)), 1, 300);
    let explanation = explained(&scene.lasting(), &running(status()));
    let sentences: Vec<&str> = explanation
        .findings
        .iter()
        .map(|f| f.sentence.as_str())
        .collect();
    assert_eq!(
        sentences,
        [
            "b keeps 0.30 CPUs from db-1, which waits for a CPU.",
            "a keeps 0.10 CPUs from db-1, which waits for a CPU."
        ]
    );
}

/// Promise 12.
#[test]
fn the_offender_that_harms_most_in_all_comes_first() {
    let scene = Scene::new(&[
        container(1, "flood").caused_on(&[300, 300]),
        container(2, "db-1").charged_on(&[300, 0]),
        container(3, "db-2").charged_on(&[0, 300]),
        container(4, "batch"),
        container(5, "api"),
    ])
    .loss((5, "api"), [1000, 500, 500, 0], None)
    .share((5, Some(4)), 1, 500);
    let explanation = explained(&scene.lasting(), &running(status()));
    let offenders: Vec<u64> = (explanation.findings.iter())
        .map(|f| f.offender.as_ref().unwrap().cgroup_id)
        .collect();
    assert_eq!(offenders, [1, 1, 4]);
}

/// The victim loses more to the offender's tasks than to its packets; still the packets are bounded
/// first.
/// Promise 12.
#[test]
fn packets_of_an_offender_are_bounded_before_its_tasks() {
    let scene = Scene::new(&[
        container(1, "web-3").caused(200),
        container(2, "db-1").charged(200),
    ])
    .loss((2, "db-1"), [1000, 700, 300, 0], None)
    .share((2, Some(1)), 0, 300);
    let explanation = explained(&scene.lasting(), &running(status()));
    let sentences: Vec<&str> = explanation
        .findings
        .iter()
        .map(|f| f.sentence.as_str())
        .collect();
    assert_eq!(
        sentences,
        [
            "web-3 takes 0.20 CPUs from db-1 for its packets.",
            "web-3 keeps 0.30 CPUs from db-1, which waits for a CPU."
        ]
    );
    for finding in &explanation.findings {
        let command = finding.command.as_deref();
        assert_eq!(
            command,
            Some("sudo cofferdam rule set web-3 --network-cpu enforce")
        );
    }
}

/// Promise 3.
#[test]
fn a_sender_charged_for_its_own_packets_has_no_offender() {
    let scene = Scene::new(&[
        container(1, "sink").caused(400).from(2, 660_000),
        container(2, "flooder").charged(400),
        container(3, "batch"),
        container(4, "api"),
    ])
    .loss((4, "api"), [1000, 900, 100, 0], Some("batch"));
    let explanation = explained(&scene.lasting(), &running(status()));
    let sentences: Vec<&str> = explanation
        .findings
        .iter()
        .map(|f| f.sentence.as_str())
        .collect();
    assert_eq!(
        sentences,
        [
            "batch keeps 0.10 CPUs from api, which waits for a CPU.",
            "flooder pays 0.40 CPUs for packets that it sends to sink itself."
        ]
    );
}

/// Promise 7.
#[test]
fn a_cgroup_of_the_host_is_named_by_its_unit() {
    let mut unit = container(7, "/system.slice/backup.service");
    unit.cgroup_path = unit.name.clone();
    unit.runtime = "host".to_owned();
    unit.cpu_usage_ns = 250_000_000;
    let scene = Scene::new(&[unit, container(2, "db-1")])
        .loss((2, "db-1"), [1000, 600, 400, 0], None)
        .share((2, Some(7)), 0, 300)
        .share((2, None), 0, 100);
    let explanation = explained(&scene.lasting(), &running(status()));
    assert_eq!(
        explanation.findings[0].sentence,
        "backup.service of the host keeps 0.30 CPUs from db-1, which waits for a CPU."
    );
    let reason = "the host's cgroups use: backup.service of the host 0.25 CPUs";
    assert!(explanation.findings[1].reasons.iter().any(|r| r == reason));
}

/// Promise 12.
#[test]
fn every_view_has_the_agents_answer() {
    let mut watched = status();
    watched.harm = Some(harm(&own_packets().lasting(), &running(status())));
    let text = serde_json::to_string(&watched).unwrap();
    let watched: StatusReport = serde_json::from_str(&text).unwrap();
    let calm = Scene::new(&[container(1, "web-3"), container(2, "db-1")]);
    let views = [
        own_packets().lasting(),
        calm.lasting(),
        flood().lasting(),
        Vec::new(),
    ];
    let first = explained(&views[0], &running(watched.clone()));
    assert_eq!(first.figures.measured_s, 3.0);
    for readings in &views {
        let view = explained(readings, &running(watched.clone()));
        assert_eq!(view.findings, first.findings);
        assert_eq!(view.figures, first.figures);
    }
}

/// Promise 11.
#[test]
fn a_command_works_with_and_without_a_unit() {
    let command = |name: &str, unit: Option<&str>| {
        let mut broken = status();
        broken.agent.unit = unit.map(str::to_owned);
        broken.configuration.path = "/etc/my agent.toml".to_owned();
        broken.degraded.push(DegradedRecord {
            name: name.to_owned(),
            text: "why".to_owned(),
        });
        let explanation = explained(&[], &running(broken));
        explanation.findings[0].command.clone().unwrap()
    };
    let unit = Some("my.service");
    assert_eq!(
        command("web_page", unit),
        "sudo systemctl reload my.service"
    );
    assert_eq!(command("web_page", None), "sudo kill -HUP 42");
    let check = "sudo cofferdam agent --check-config --config '/etc/my agent.toml'";
    let refused = command("configuration_refused", None);
    assert_eq!(refused, format!("{check} && sudo kill -HUP 42"));
    assert!(!command("restart_needed", None).contains("systemctl"));
    assert!(!command("not_taken_back", None).contains("systemctl"));
}

/// Promise 11.
#[test]
fn an_agent_is_started_the_way_that_works_here() {
    let by_hand = explained(&flood().lasting(), &Agent::NotRunning(Start::ByHand));
    let command = by_hand.findings[0].command.as_deref();
    let expected =
        "sudo cofferdam agent & sudo cofferdam rule set web-3 --network-cpu enforce --wait 1m";
    assert_eq!(command, Some(expected));
}

/// Arbitrary scenes on a host of two CPUs.
fn scenes() -> impl Strategy<Value = Scene> {
    let row = (0..5u64, 0..5u64, 0..5u64, 0..5u64, 0..5u64);
    let share = (0..5u64, prop::option::of(0..5u64), 0..2u32, 0..400u64);
    let rows = prop::collection::vec(row, 2..5);
    let shares = prop::collection::vec(share, 0..8);
    (rows, shares, 0..500u64, 0..500u64).prop_map(|(rows, shares, idle_ms, host_ms)| {
        let each = (1..).zip(&rows).map(|(id, (a, b, c, d, _))| {
            let record = container(id, &format!("c{id}"));
            record
                .caused_on(&[a * 100, b * 100])
                .charged_on(&[c * 100, d * 100])
        });
        let mut scene = Scene::new(&each.collect::<Vec<_>>());
        for (id, (.., lost)) in (1..).zip(&rows) {
            let neighbour = format!("c{}", id % rows.len() as u64 + 1);
            let loss = [1000, 1000 - lost * 100, lost * 100, 0];
            scene = scene.loss((id, &format!("c{id}")), loss, Some(&neighbour));
        }
        for (victim, neighbour, cpu, ms) in shares {
            scene = scene.share((victim, neighbour), cpu, ms);
        }
        scene
            .unused(0, idle_ms, host_ms)
            .unused(1, host_ms, idle_ms)
    })
}

fn reversed(scene: &Scene) -> Scene {
    let mut scene = scene.clone();
    scene.containers.reverse();
    scene.losses.reverse();
    scene.shares.reverse();
    scene.by_cpu.reverse();
    scene
}

/// Harm that each container does to others by its packets, according to the findings.
fn harm_by_packets(explanation: &Explanation) -> BTreeMap<u64, f64> {
    let mut harm: BTreeMap<u64, f64> = BTreeMap::new();
    let own = |f: &&Finding| f.name == PAYS && !f.sentence.ends_with("itself.");
    for finding in explanation.findings.iter().filter(own) {
        if let Some(offender) = &finding.offender {
            *harm.entry(offender.cgroup_id).or_default() += finding.cpus.unwrap();
        }
    }
    harm
}

proptest! {
    /// Promise 12.
    #[test]
    fn an_offender_is_never_offered_a_reservation(scene in scenes()) {
        let explanation = explained(&scene.lasting(), &running(status()));
        let harm = harm_by_packets(&explanation);
        for finding in &explanation.findings {
            let victim = finding.victim.as_ref().unwrap();
            let command = finding.command.as_deref().unwrap_or_default();
            let harm = harm.get(&victim.cgroup_id).copied().unwrap_or(0.0);
            prop_assert!(
                harm < SUFFERS_CPUS || !command.contains(RESERVE),
                "{victim:?} takes {harm} CPUs: {finding:?}"
            );
            let offender = finding.offender.as_ref().map(|o| o.name.as_str());
            if finding.name == PAYS && let Some(name) = offender {
                let expected = format!("rule set {name} {ENFORCE}");
                prop_assert!(command.contains(&expected), "{finding:?}");
            }
        }
    }

    /// Promise 12.
    #[test]
    fn nobody_is_blamed_for_more_than_was_lost(scene in scenes()) {
        let explanation = explained(&scene.lasting(), &running(status()));
        let mut blamed: BTreeMap<u64, f64> = BTreeMap::new();
        for finding in &explanation.findings {
            let victim = finding.victim.as_ref().unwrap().cgroup_id;
            *blamed.entry(victim).or_default() += finding.cpus.unwrap();
        }
        for (victim, cpus) in blamed {
            let container = scene.containers.iter().find(|c| c.cgroup_id == victim).unwrap();
            let loss = scene.losses.iter().find(|l| l.cgroup_id == victim).unwrap();
            let paid_ns = (-container.owed_ns).max(0) as f64;
            let lost = (paid_ns + loss.taken_ns() as f64) / 1e9;
            prop_assert!(cpus <= lost + 1e-9, "{victim}: {cpus} of {lost}");
        }
    }

    /// Promise 12.
    #[test]
    fn the_order_of_the_documents_changes_nothing(scene in scenes()) {
        let one = explained(&scene.lasting(), &running(status()));
        let other = explained(&reversed(&scene).lasting(), &running(status()));
        prop_assert_eq!(one, other);
    }

    /// Promise 12.
    #[test]
    fn harm_to_others_is_in_order(scene in scenes()) {
        let readings = scene.lasting();
        let agent = running(status());
        let all = transfer::transfers(&evidence::Evidence::new(&readings, &agent));
        let mut totals: BTreeMap<(bool, transfer::Offender), f64> = BTreeMap::new();
        for one in &all {
            *totals.entry((one.is_own, one.offender)).or_default() += one.cpus();
        }
        for (before, after) in all.iter().zip(all.iter().skip(1)) {
            let total = |t: &Transfer| totals[&(t.is_own, t.offender)];
            prop_assert!(before.is_own <= after.is_own);
            let is_less = total(before) + 1e-6 >= total(after);
            let is_sorted = (!before.is_own && after.is_own) || is_less;
            prop_assert!(is_sorted, "{before:?} {after:?}");
        }
    }

    /// A share of a container in its own loss is no harm, and neither is a wait for its own
    /// packets.
    /// Promise 12.
    #[test]
    fn a_container_is_not_the_victim_of_its_own_packets(
        caused in 0..900u64,
        lost in 0..900u64,
    ) {
        let mut scene = Scene::new(&[container(1, "web")
            .caused(caused)])
            .loss((1, "web"), [1000, 1000 - lost, lost, 0], None)
            .share((1, None), 0, lost)
            .unused(0, 0, caused);
        scene.shares.push(LossShareRecord { victim: 1, neighbour: Some(1), cpu: 1, ns: 7 });
        let explanation = explained(&scene.lasting(), &running(status()));
        prop_assert!(caused == 0 || explanation.findings.is_empty(), "{explanation:?}");
    }
}
