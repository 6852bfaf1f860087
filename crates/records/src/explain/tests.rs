use super::made_up::{Scene, condition, container, managed, running, status};
use super::text::{COLUMNS, LINES, screen};
use super::*;
use crate::status::{DegradedRecord, LOSES, PAYS};

mod blame;

fn explained(readings: &[AccountingRecord], agent: &Agent) -> Explanation {
    explain(readings, agent, "2026-11-24T03:12:05.000Z".to_owned())
}

/// `web-3` floods CPU 0, where `db-1` computes.
fn flood() -> Scene {
    Scene::new(&[
        container(1, "web-3").caused(430).charged(100),
        container(2, "db-1").charged(310),
        container(3, "cache"),
    ])
}

/// Promise 11.
#[test]
fn a_finding_names_offender_victim_begin_and_command() {
    let mut watched = status();
    watched.conditions.push(condition(PAYS, 2, 760.0));
    let explanation = explained(&flood().lasting(), &running(watched));
    let finding = &explanation.findings[0];
    assert_eq!(finding.name, PAYS);
    assert_eq!(
        finding.sentence,
        "web-3 takes 0.31 CPUs from db-1 for its packets."
    );
    assert_eq!(explanation.summary, finding.sentence);
    assert_eq!(finding.offender.as_ref().unwrap().cgroup_id, 1);
    assert_eq!(finding.victim.as_ref().unwrap().cgroup_id, 2);
    assert!((finding.cpus.unwrap() - 0.31).abs() < 1e-9);
    assert_eq!(finding.for_s, Some(760.0));
    assert_eq!(finding.certainty, "certain");
    assert_eq!(
        finding.command.as_deref(),
        Some("sudo cofferdam rule set web-3 --network-cpu enforce")
    );
    assert_eq!(
        finding.reasons[0],
        "db-1 is billed 0.62 CPUs; 50% of that are packets of others"
    );
    assert_eq!(
        finding.reasons[1],
        "web-3 causes 0.43 CPUs of network work by 716,666 packets/s, mostly on CPU 0"
    );
    let text = screen(&explanation);
    assert!(
        text.starts_with(
            "web-3 takes 0.31 CPUs from db-1 for its packets, since 02:59:25 UTC (12m 40s).\n"
        ),
        "{text}"
    );
}

/// Promise 11.
#[test]
fn without_an_agent_the_command_starts_one() {
    let explanation = explained(&flood().lasting(), &Agent::NotRunning(Start::Service));
    let finding = &explanation.findings[0];
    assert_eq!((&finding.since, finding.for_s), (&None, None));
    assert_eq!(
        finding.command.as_deref(),
        Some(
            "sudo systemctl start cofferdam && sudo cofferdam rule set web-3 --network-cpu enforce"
        )
    );
    assert_eq!(explanation.agent, "not_running");
}

/// Promise 11.
#[test]
fn intermittent_harm_or_a_poor_ledger_lowers_the_certainty() {
    let calm = Scene::new(&[container(1, "web-3"), container(2, "db-1")]);
    let mut readings = flood().lasting();
    readings.push(calm.record());
    let certainty = |readings: &[AccountingRecord]| {
        let explanation = explained(readings, &Agent::NotRunning(Start::Service));
        (
            explanation.findings[0].certainty.clone(),
            explanation.findings[0].evidence.clone(),
        )
    };
    let (word, text) = certainty(&readings);
    assert_eq!(word, "likely");
    assert!(
        text.starts_with("true in 3 of 4 readings over 4.0 s"),
        "{text}"
    );
    readings.extend([calm.record(), calm.record(), calm.record()]);
    assert_eq!(certainty(&readings).0, "unclear");
    let mut poor = flood();
    poor.error_pct = 4.0;
    assert_eq!(certainty(&poor.lasting()).0, "likely");
    assert_eq!(
        certainty(&flood().lasting()[..1]).0,
        "likely",
        "one reading"
    );
    let mut lossy = flood().lasting();
    lossy[2].health.markers_missed = 7;
    assert_eq!(
        certainty(&lossy).0,
        "certain",
        "7 in two seconds are nothing"
    );
    lossy[2].health.markers_missed = 700;
    let (word, text) = certainty(&lossy);
    assert_eq!(word, "likely");
    assert!(
        text.ends_with("; 700 runs at tracepoints skipped by the kernel"),
        "{text}"
    );
}

/// Promise 11.
#[test]
fn losses_before_the_measurement_do_not_lower_the_certainty() {
    let mut readings = Scene::new(&[container(1, "a")]).lasting();
    for reading in &mut readings {
        reading.health.events_lost = 5;
    }
    assert!(
        explained(&readings, &Agent::NotRunning(Start::Service))
            .findings
            .is_empty()
    );
    readings[2].health.events_lost = 6;
    let explanation = explained(&readings, &Agent::NotRunning(Start::Service));
    assert_eq!(explanation.findings[0].name, "measurement_doubtful");
    assert_eq!(
        explanation.summary,
        "The measurement is incomplete: 1 kernel events lost."
    );
}

/// Promise 11.
#[test]
fn a_repaid_container_is_not_a_victim() {
    let mut before = status();
    before.containers = vec![
        managed(1, "web-3", "enforce", 0),
        managed(2, "db-1", "observe", 5000),
    ];
    let mut after = before.clone();
    // Three seconds of 310 ms each.
    after.containers[1].network.as_mut().unwrap().returned_ns += 930_000_000;
    let agent = Agent::Running(Box::new((before.clone(), after)));
    let explanation = explained(&flood().lasting(), &agent);
    assert!(explanation.findings.is_empty(), "{explanation:?}");
    // Nothing was returned: enforcement is requested and does not work.
    let explanation = explained(&flood().lasting(), &running(before));
    assert_eq!(
        explanation.findings[0].command.as_deref(),
        Some("sudo cofferdam status")
    );
    assert!(explanation.findings[0].effect.contains("enforced already"));
}

/// Promise 3.
/// Promise 11.
#[test]
fn the_sender_of_the_packets_and_further_offenders_are_named() {
    let scene = Scene::new(&[
        container(1, "sink").caused(300).from(4, 450_000),
        container(5, "other").caused(100),
        container(2, "db-1").charged(400),
        container(4, "flooder"),
    ]);
    let explanation = explained(&scene.lasting(), &running(status()));
    let finding = &explanation.findings[0];
    assert_eq!(
        finding.sentence,
        "sink takes 0.30 CPUs from db-1 for its packets."
    );
    assert!(
        finding.reasons[1].ends_with("; flooder sends them, 450,000 packets/s"),
        "{:?}",
        finding.reasons
    );
    let second = "other takes 0.10 CPUs from db-1 for its packets.";
    assert_eq!(explanation.findings[1].sentence, second);
}

/// Promise 11.
#[test]
fn packets_of_no_container_have_no_offender() {
    let scene = Scene::new(&[container(2, "db-1").charged(180)]);
    let explanation = explained(&scene.lasting(), &running(status()));
    let finding = &explanation.findings[0];
    assert_eq!(finding.offender, None);
    assert_eq!(
        finding.sentence,
        "db-1 pays 0.18 CPUs for packets that belong to no container."
    );
    assert_eq!(finding.command.as_deref(), Some("sudo cofferdam top"));
}

/// Promise 11.
#[test]
fn a_reservation_is_the_remedy_for_lost_cpu_time() {
    let scene = Scene::new(&[container(1, "batch"), container(2, "db-1")]).loss(
        (2, "db-1"),
        [1000, 600, 400, 0],
        Some("batch"),
    );
    let mut watched = status();
    watched.conditions.push(condition(LOSES, 2, 30.0));
    for (agent, certainty) in [
        (Agent::NotPermitted, "likely"),
        (running(watched), "certain"),
    ] {
        let explanation = explained(&scene.lasting(), &agent);
        let finding = &explanation.findings[0];
        assert_eq!(finding.name, LOSES);
        assert_eq!(
            finding.sentence,
            "batch keeps 0.40 CPUs from db-1, which waits for a CPU."
        );
        assert_eq!(finding.offender.as_ref().unwrap().cgroup_id, 1);
        assert_eq!(finding.certainty, certainty);
        assert_eq!(
            finding.command.as_deref(),
            Some("sudo cofferdam rule set db-1 --cpu strict --cpus 1")
        );
    }
}

/// Promise 11.
#[test]
fn a_container_throttled_by_its_own_quota_has_no_offender() {
    let mut api = container(1, "api");
    api.runtime = "podman".to_owned();
    let scene = Scene::new(&[api]).loss((1, "api"), [500, 480, 0, 300], None);
    let explanation = explained(&scene.lasting(), &Agent::NotRunning(Start::Service));
    let finding = &explanation.findings[0];
    assert_eq!(finding.name, "held_by_own_quota");
    assert_eq!(finding.offender, None);
    assert_eq!(
        finding.command.as_deref(),
        Some("sudo podman update --cpus 0.8 api")
    );
    let mut small = scene.clone();
    small.losses[0].throttled_ns = 50_000_000;
    assert!(
        explained(&small.lasting(), &Agent::NotRunning(Start::Service))
            .findings
            .is_empty()
    );
}

/// Promise 11.
#[test]
fn every_problem_that_the_agent_reports_has_a_command() {
    let page = include_str!("../../../../docs/src/reference/status.md");
    let (_, table) = page.split_once("## degraded").unwrap();
    // An item of the list on one line.
    let list = table.replace("\n  ", " ");
    let rows = list.lines().filter(|l| l.starts_with("- `"));
    let names: Vec<&str> = rows
        .flat_map(|row| {
            row.split(": ")
                .next()
                .unwrap()
                .split('`')
                .skip(1)
                .step_by(2)
        })
        .collect();
    assert!(names.len() > 15, "{names:?}");
    for name in names {
        let mut watched = status();
        watched.degraded.push(DegradedRecord {
            name: name.to_owned(),
            text: "what, on what, why".to_owned(),
        });
        let explanation = explained(&flood().lasting(), &running(watched));
        let finding = explanation.findings.last().unwrap();
        assert_eq!(finding.name, name);
        assert_eq!(finding.sentence, "The agent: what, on what, why.");
        assert!(finding.command.as_ref().unwrap().starts_with("sudo "));
        assert_eq!(explanation.findings[0].name, PAYS, "harm comes first");
    }
}

/// Promise 11.
#[test]
fn an_explanation_without_findings_has_its_figures() {
    let scene = Scene::new(&[
        container(1, "web").caused(40).charged(10),
        container(2, "db").charged(20),
    ]);
    let explanation = explained(&scene.lasting(), &running(status()));
    assert!(explanation.findings.is_empty());
    assert_eq!(
        explanation.summary,
        "Nothing is wrong: none of 2 containers pays or loses 0.05 CPUs to others."
    );
    assert_eq!(
        screen(&explanation),
        "Nothing is wrong: none of 2 containers pays or loses 0.05 CPUs to others.\n\n  \
         paid     at most 0.02 CPUs for others by db\n  \
         lost     not diagnosed\n  \
         network  0.04 CPUs, by 2 containers\n  \
         measured 3 readings over 3.0 s; the ledger adds up within 0.02%\n  \
         agent    running\n"
    );
    let empty = explained(&[], &Agent::NotRunning(Start::Service));
    assert_eq!(
        empty.summary,
        "Nothing is wrong: there is no container on this host."
    );
    screen(&empty);
}

/// Tries states over the whole range of the figures: no panic, no bad number, one screen.
/// Promise 11.
#[test]
fn thousands_of_states_each_fit_one_screen() {
    let names = [
        "web",
        "a-name-that-is-much-longer-than-any-column-of-a-terminal-would-be-wide",
        "evil\u{1b}[2J\n\"name\"<b>",
        "ünïcode-🦀",
        "",
    ];
    // A counter replaces random choices: each digit is one choice.
    for number in 0..4000_usize {
        let mut digits = number;
        let mut pick = |of: usize| {
            let digit = digits % of;
            digits /= of;
            digit
        };
        let amounts = [0, 40, 300, 1000];
        let (caused, charged) = (amounts[pick(4)], amounts[pick(4)]);
        let (offender, victim) = (names[pick(5)], names[pick(5)]);
        let count = [0, 1, 30][pick(3)];
        let agent = match pick(3) {
            0 => Agent::NotRunning(Start::Service),
            1 => Agent::NotPermitted,
            _ => running(status()),
        };
        let mut all = vec![
            container(1, offender).caused(caused).from(2, 1_000_000),
            container(2, victim).charged(charged),
        ];
        all.extend((0..count).map(|i| container(10 + i, victim).charged_on(&[0, charged])));
        let scene = Scene::new(&all).loss(
            (2, victim),
            [1000, 1000 - charged, charged, caused],
            Some(offender),
        );
        let explanation = explained(&scene.lasting(), &agent);
        serde_json::to_string(&explanation).unwrap();
        let harm = explanation.findings.iter().filter(|f| f.cpus.is_some());
        for finding in harm {
            let cpus = finding.cpus.unwrap();
            assert!(
                cpus.is_finite() && cpus >= SUFFERS_CPUS,
                "{number}: {finding:?}"
            );
            let has_figure = |text: &str| text.contains(|c: char| c.is_ascii_digit());
            assert!(has_figure(&finding.sentence), "{number}: {finding:?}");
            assert!(finding.reasons.iter().all(|r| has_figure(r)), "{finding:?}");
            assert!(has_figure(&finding.evidence), "{number}: {finding:?}");
            let command = finding.command.as_deref().unwrap_or_default();
            assert!(!command.contains(['\u{1b}', '\n', '"', '<']), "{command}");
        }
        let text = screen(&explanation);
        assert!(!text.contains('\u{1b}'), "{number}: {text}");
        let mut lines = 0;
        for line in text.lines() {
            let columns = line.chars().count();
            let is_command = line.starts_with("  sudo ");
            assert!(columns <= COLUMNS || is_command, "{number}: {line}");
            lines += columns.div_ceil(COLUMNS).max(1);
        }
        assert!(lines <= LINES, "{number}: {lines} lines\n{text}");
    }
}
