use super::*;
use crate::data::{Estimate, Interval};
use crate::dataplane::data::DataplaneExperiment;
use crate::evidence;
use crate::penalty::data::PenaltySamples;
use crate::run::{RunData, RunResult, RunSamples};

mod layout;
pub(crate) mod sample;

fn directory(run: &RunData) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    sample::write(run, dir.path());
    dir
}

/// Writes the pages for inspection: `COFFERDAM_REPORT_SAMPLES=/tmp/x cargo test -p cofferdam-bench
/// report`.
/// Promise 45.
#[test]
fn every_kind_of_run_renders_to_the_same_bytes() {
    for run in sample::all() {
        let dir = directory(&run);
        let path = render(dir.path()).unwrap();
        let first = fs::read_to_string(&path).unwrap();
        render(dir.path()).unwrap();
        assert_eq!(first, fs::read_to_string(&path).unwrap());
        assert!(!dir.path().join("report.html.tmp").exists());
        if let Some(keep) = std::env::var_os("COFFERDAM_REPORT_SAMPLES") {
            let name = format!("{}.html", run.manifest.kind.label());
            fs::write(Path::new(&keep).join(name), &first).unwrap();
        }
    }
}

/// Promise 45.
#[test]
fn the_page_needs_nothing_but_itself() {
    for run in sample::all() {
        // The contents link to places of the page itself.
        let page = html(&run).unwrap().replace("href=\"#", "");
        assert!(page.starts_with("<!DOCTYPE html>"));
        for word in ["<script", "src=", "<link", "@import", "url(", "href="] {
            assert!(!page.contains(word), "{word}");
        }
        // The only address is the name space of SVG, which browsers do not fetch.
        let rest = page.replace("http://www.w3.org/2000/svg", "");
        assert!(!rest.contains("http://") && !rest.contains("https://"));
    }
}

/// A loss within the noise is not reported as a loss.
/// Promise 43.
/// Promise 45.
#[test]
fn isolation_reports_have_the_papers_rows_without_noise() {
    let run = sample::isolation();
    let page = html(&run).unwrap();
    for text in [
        "podman: network",
        "74.28",
        "The paper's podman and ours",
        "class=\"heat5\"",
        "Method",
    ] {
        assert!(page.contains(text), "{text}");
    }
    let findings = finding::of(&run);
    assert!(
        findings[0].contains("podman") && findings[0].contains("a_s_b_f"),
        "{findings:#?}"
    );
    assert!(
        findings[1].starts_with("In 1 of 2 contended cells a lost more than 5% of its performance"),
        "{findings:#?}"
    );
    // The block in which something else used the link is shown and named, not dropped.
    let apart = page
        .find("from their scenario's quartiles: a_s_b_u in block 4")
        .unwrap();
    assert!(page[..apart].contains("Every block"));
    // With Cofferdam it lost less next to b_f; nothing is reported if there is no difference.
    assert!(
        findings
            .iter()
            .any(|t| t.contains("better in 1 of 3 cells and worse in 0; inconclusive: 2")),
        "{findings:#?}"
    );
    // Steal time is reported, and not taken for the tenants' loss.
    let stolen = "In 2 of 30 measured cells the hypervisor took more than 5.0%";
    let stolen = findings.iter().find(|t| t.starts_with(stolen)).unwrap();
    assert!(stolen.contains("2 measurements that it disturbed were repeated"));
    let comparison = page.find("With Cofferdam and without").unwrap();
    assert!(page[comparison..].contains("inconclusive"));
    let unmeasured = page.find("Not measured").unwrap();
    assert!(page[unmeasured..].contains("&lt;ctr&gt;"));
}

#[test]
fn the_finding_comes_first_and_in_words() {
    let text = finding::of(&sample::penalty());
    assert_eq!(
        text[0],
        "The cpu job takes 5.60× as long next to a container that receives 3 flows of 200-byte \
         UDP over one veth pair as next to one that computes (95% interval 5.45 to 5.89)."
    );
    assert_eq!(
        text[1],
        "flood caused 82% of CPU 0 in network work; victim paid 57%."
    );
    assert!(
        text[2].contains("82% of CPU 0 went to softirq"),
        "{text:#?}"
    );
    assert_eq!(
        text[3],
        "Fair without Cofferdam (1.05× or below): 1 of 7 cells; not fair: 5; inconclusive: 1."
    );
    let text = finding::of(&sample::accounting());
    assert!(text[0].contains("keeps 0.969 ["), "{text:#?}");
    assert!(text[2].contains("(sampled)"), "{text:#?}");
    assert!(text[3].starts_with("With empty programs"), "{text:#?}");
    assert!(text[4].contains("at most 0.018%"), "{text:#?}");
}

#[test]
fn an_agent_report_names_the_goals_that_are_missed() {
    let run = sample::agent();
    let findings = finding::of(&run);
    assert!(
        findings[0].contains("enforces (one rule) takes 0.900 ["),
        "{findings:#?}"
    );
    assert!(
        findings[2].contains("enforces and keeps a history takes 0.980 ["),
        "{findings:#?}"
    );
    assert!(
        findings[3].starts_with("Where the diagnosis costs most, two containers, one CPU"),
        "{findings:#?}"
    );
    assert_eq!(
        findings[4],
        "A container runtime that makes 1000 containers waits 1.00 (n = 3) ms for 99 of 100 \
         answers."
    );
    assert_eq!(
        findings[5],
        "7 of 11 goals are reached; 2 are missed, 2 are inconclusive."
    );
    assert!(
        findings[6]
            .starts_with("Missed: CPU time of the agent, % of one CPU (enforces (1,000 rules)"),
        "{findings:#?}"
    );
    let page = html(&run).unwrap();
    for text in ["1,000 rules", "cf_sched_switch", "Cost of the diagnosis"] {
        assert!(page.contains(text), "{text}");
    }
}

#[test]
fn no_difference_is_reported_as_such() {
    let mut run = sample::demo();
    if let Some(RunResult::Demo(result)) = &mut run.result {
        result.cell.penalty = sample::estimate(&[0.97, 1.02, 1.0, 0.99, 1.03]);
    }
    assert!(finding::of(&run)[0].contains("no difference is shown"));
}

/// Promise 42.
#[test]
fn enforcement_is_described_and_shown_beside_vanilla() {
    let mut run = sample::penalty();
    let Some(RunResult::Penalty(result)) = &mut run.result else {
        panic!("a penalty run");
    };
    for (cell, penalty) in result.cells.iter_mut().zip([1.01, 1.02, 1.31]) {
        *cell = sample::enforced(cell.clone(), penalty);
    }
    let treated = result.cells.iter().flat_map(sample::samples);
    run.samples = RunSamples::Penalty(treated.collect::<Vec<_>>().into());
    let text = finding::of(&run).join(" ");
    assert!(
        text.contains("With Cofferdam enforcing, the worst of 3 cells is 1.31× (95% interval"),
        "{text}"
    );
    assert!(
        text.contains("0 of 9 goals are reached; one is missed, 8 are inconclusive."),
        "{text}"
    );
    let page = html(&run).unwrap();
    assert!(page.contains("With Cofferdam") && page.contains("next to traffic, enforced"));
    assert!(page.contains("✗ missed") && page.contains("? inconclusive"));
    if let Some(keep) = std::env::var_os("COFFERDAM_REPORT_SAMPLES") {
        fs::write(Path::new(&keep).join("enforced.html"), &page).unwrap();
    }
}

#[test]
fn ledgers_without_containers_blame_none() {
    let mut run = sample::demo();
    assert!(finding::of(&run)[1].starts_with("flood caused 81%"));
    for ledger in &mut run.ledgers {
        ledger.containers.clear();
    }
    assert!(finding::of(&run)[1].starts_with("The ledgers name no offender"));
    run.ledgers.clear();
    assert!(!finding::of(&run).join(" ").contains("ledger"));
}

/// Promise 45.
#[test]
fn foreign_text_stays_text() {
    const EVIL: &str = "<script>alert(1)</script>\"'><img src=x onerror=alert(1)>&";
    let mut run = sample::penalty();
    run.manifest.cpu_model = EVIL.to_owned();
    run.manifest.kernel = EVIL.to_owned();
    run.manifest.command = vec![EVIL.to_owned()];
    run.manifest.warnings = vec![EVIL.to_owned()];
    run.manifest
        .mitigations
        .insert(EVIL.to_owned(), EVIL.to_owned());
    for ledger in &mut run.ledgers {
        for container in &mut ledger.containers {
            container.name = EVIL.to_owned();
        }
    }
    if let Some(RunResult::Penalty(result)) = &mut run.result {
        result.failed.insert(EVIL.to_owned(), EVIL.to_owned());
    }
    let page = html(&run).unwrap();
    assert!(page.contains("&lt;script&gt;"));
    assert!(!page.contains("<script") && !page.contains("<img"));
}

#[test]
fn a_run_without_a_result_shows_what_there_is() {
    let mut run = sample::penalty();
    run.result = None;
    run.manifest.interrupted = true;
    run.manifest.finished = None;
    let page = html(&run).unwrap();
    assert!(page.contains("The run was interrupted") && page.contains("<svg"));
    run.samples = RunSamples::Penalty(PenaltySamples::default());
    assert!(html(&run).unwrap().contains("No sample was completed."));
}

/// Five blocks of `value`, with the widest possible interval around it.
fn odd(value: f64) -> Estimate {
    let interval = Interval::new(value.min(-1e300), value.max(1e300));
    Estimate::new(value, interval, vec![value; 5])
}

/// Promise 45.
#[test]
fn no_number_breaks_a_chart() {
    for value in [0.0, -1.0, 1e-300, 1e300, f64::INFINITY, f64::NAN] {
        let mut run = sample::penalty();
        if let Some(RunResult::Penalty(result)) = &mut run.result {
            for cell in &mut result.cells {
                cell.penalty = odd(value);
                cell.predicted = Some(value);
            }
        }
        if let RunSamples::Penalty(samples) = &mut run.samples {
            samples.samples.iter_mut().for_each(|s| s.elapsed_s = value);
        }
        assert!(html(&run).is_ok(), "{value}");
        let mut run = sample::accounting();
        if let Some(RunResult::Accounting(result)) = &mut run.result {
            result.overhead[0].ratio = odd(value);
            result.programs[0].ns_per_run = value;
        }
        assert!(html(&run).is_ok(), "{value}");
    }
}

#[test]
fn bad_directories_are_one_clear_line() {
    let error_text = |dir: &Path| {
        let text = render(dir).unwrap_err().to_string();
        assert!(!text.contains('\n'), "{text}");
        text
    };
    let empty = tempfile::tempdir().unwrap();
    assert!(error_text(empty.path()).contains("manifest.json"));
    assert!(error_text(Path::new("/nowhere")).contains("/nowhere/manifest.json"));

    let dir = directory(&sample::penalty());
    let manifest = dir.path().join("manifest.json");
    let whole = fs::read_to_string(&manifest).unwrap();
    fs::write(&manifest, &whole[..whole.len() / 2]).unwrap();
    assert!(error_text(dir.path()).contains("damaged"));
    fs::write(
        &manifest,
        whole.replacen("\"schema\":2", "\"schema\":99", 1),
    )
    .unwrap();
    assert!(error_text(dir.path()).contains("newer"));
    fs::write(&manifest, b"\xff\xfe").unwrap();
    error_text(dir.path());

    let dir = directory(&sample::penalty());
    fs::write(dir.path().join("samples.jsonl"), "{\"schema\":1}\n").unwrap();
    assert!(error_text(dir.path()).contains("samples.jsonl, line 1"));
    assert!(!dir.path().join(FILE_NAME).exists());
}

#[test]
fn mixed_documents_are_refused() {
    let mut run = sample::penalty();
    run.result = sample::accounting().result;
    let text = html(&run).unwrap_err().to_string();
    assert!(
        text.contains("of a penalty run") && text.contains("of a accounting run"),
        "{text}"
    );
}

#[test]
fn a_reservation_run_says_which_goals_are_reached() {
    let run = sample::reservation();
    let text = finding::of(&run).join(" ");
    assert!(text.contains("1.60× ["), "{text}");
    assert!(text.contains("as alone; strict 1.01× ["), "{text}");
    assert!(
        text.contains("2 of 3 goals are reached; one is inconclusive."),
        "{text}"
    );
    assert!(
        text.contains("(the interval holds the goal): with lending, the owner's CPU ÷ its"),
        "{text}"
    );
    assert!(
        html(&run)
            .unwrap()
            .contains("memcached/cpu/capped: not installed")
    );
}

/// Names of all fields in `value`, without the keys of maps whose keys are data.
fn fields(value: &serde_json::Value, found: &mut std::collections::BTreeSet<String>) {
    const MAPS: [&str; 8] = [
        "misses",
        "mitigations",
        "unattributed_ns",
        "failed",
        "unavailable",
        "host",
        "runtimes",
        "images",
    ];
    match value {
        serde_json::Value::Object(map) => {
            for (name, inside) in map {
                found.insert(name.clone());
                if !MAPS.contains(&name.as_str()) {
                    fields(inside, found);
                }
            }
        }
        serde_json::Value::Array(items) => items.iter().for_each(|v| fields(v, found)),
        _ => {}
    }
}

#[test]
fn every_field_of_a_run_directory_is_documented() {
    let page =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/src/reference/run-directory.md");
    let page = fs::read_to_string(page).unwrap();
    let mut found = std::collections::BTreeSet::new();
    for run in sample::all() {
        let dir = directory(&run);
        for name in [
            "manifest.json",
            "result.json",
            "samples.jsonl",
            "ledger.jsonl",
        ] {
            let text = fs::read_to_string(dir.path().join(name)).unwrap();
            for line in text.lines() {
                fields(&serde_json::from_str(line).unwrap(), &mut found);
            }
        }
    }
    for field in found {
        assert!(page.contains(&format!("`{field}`")), "no `{field}`");
    }
}

/// Promise 41.
#[test]
fn a_dataplane_run_says_which_goals_are_reached() {
    let run = sample::dataplane();
    let text = finding::of(&run).join("\n");
    for words in [
        "26 of 28 goals are reached; 2 are missed.",
        "Missed: with 10,000 connections the share of the peak kept (connections) is 0.500 [0.495, \
         0.505]; the goal is at least 0.900.",
        "The code for 2 cores, on one CPU, keeps 0.950 [0.941, 0.959] of one core's",
        "at 90% of its peak, the highest p99 of pkey in any round, ms (load) is 12",
        "dataplane, inline answers 100 k requests a second with a p99 of at most 500 µs, 2.00× \
         [1.98, 2.02] what",
    ] {
        assert!(text.contains(words), "{words}: {text}");
    }
    assert_eq!(text.matches("the goal is").count(), 2);
    let page = html(&run).unwrap();
    for words in [
        "Batch bound",
        "NetPIPE",
        "Multicore",
        "With 2 cores the server has the load generator",
        "2 cores, dataplane, process, CPU shared",
        "so that the server may carry more: 1 core, Linux, blocking epoll; 1 core, dataplane, \
         process.",
        "at most 0.450</td>",
        // The worst of the low loads is judged.
        "10000/s, dataplane, inline",
        "<td>0.800",
        "✓ reached",
        "✗ missed",
        "Cost of the code for several cores",
        "Where the time of a packet goes",
        "<td>0.950",
        "packets an answer",
        "it ended",
    ] {
        assert!(page.contains(words), "{words}");
    }
}

/// Promise 41.
#[test]
fn an_unmeasured_goal_is_neither_reached_nor_missed() {
    let mut run = sample::dataplane();
    let Some(RunResult::Dataplane(result)) = &mut run.result else {
        panic!("{:?}", run.result)
    };
    result
        .rows
        .retain(|r| r.cell.experiment == DataplaneExperiment::Unloaded);
    result.service.clear();
    let text = finding::of(&run).join("\n");
    assert_eq!(text, "6 of 6 goals are reached; 22 were not measured.");
    let page = html(&run).unwrap();
    assert_eq!(page.matches("– not measured</span>").count(), 22);
}

/// Regression: one sample reached two goals.
/// Promise 41.
#[test]
fn one_sample_reaches_nothing() {
    let mut run = sample::dataplane();
    let Some(RunResult::Dataplane(result)) = &mut run.result else {
        panic!("{:?}", run.result)
    };
    for row in &mut result.rows {
        for e in [&mut row.p50_to_blocking, &mut row.p50_to_busy] {
            *e = e.take().map(|e| sample::estimate(&e.values[..1]));
        }
    }
    let unloaded = |r: &crate::dataplane::data::DataplaneRow| {
        r.cell.experiment == DataplaneExperiment::Unloaded
    };
    result.rows.retain(unloaded);
    result.service.clear();
    let text = finding::of(&run).join("\n");
    assert!(
        text.starts_with("0 of 6 goals are reached; 6 are inconclusive, 22 were not measured."),
        "{text}"
    );
    assert!(
        text.contains("(fewer than 5 blocks give no interval): unloaded, the inline echo's p50"),
        "{text}"
    );
}

/// Promise 41.
#[test]
fn a_run_without_a_cell_claims_nothing() {
    for mut run in sample::all() {
        run.result = match run.result {
            Some(RunResult::Isolation(mut result)) => {
                result.tables.clear();
                Some(RunResult::Isolation(result))
            }
            Some(RunResult::Penalty(mut result)) => {
                result.cells.clear();
                Some(RunResult::Penalty(result))
            }
            _ => continue,
        };
        run.manifest.is_busy = true;
        let text = finding::of(&run);
        assert_eq!(text, ["No measurement was completed."], "{text:?}");
        assert!(!html(&run).unwrap().contains("No tenant"));
    }
}

/// A large loss is a headline even while it is inconclusive.
/// Promise 41.
#[test]
fn inconclusive_losses_and_slower_p99s_are_headlines() {
    let mut run = sample::isolation();
    let Some(RunResult::Isolation(result)) = &mut run.result else {
        panic!("{:?}", run.result)
    };
    result
        .tables
        .retain(|t| t.protection == crate::isolation::data::Protection::Vanilla);
    let row = result.tables[0].rows.iter_mut();
    let row = row.max_by_key(|r| r.scenario).unwrap();
    let wide = Interval::new(-4.0, 75.0);
    row.performance_loss_pct = Some(Estimate::new(57.0, wide, vec![57.0; 5]));
    row.p99_factor = Some(Estimate::new(1.67, Interval::new(1.5, 1.8), vec![1.67; 5]));
    let text = finding::of(&run);
    assert!(
        text[0].starts_with("Inconclusive, and the largest: Under podman")
            && text[0].contains("lost 57.0%")
            && text[0].contains("95% interval -4.00 to 75.0"),
        "{text:#?}"
    );
    assert!(
        text[2].contains("99th percentile") && text[2].contains("1.67×"),
        "{text:#?}"
    );
    assert!(!text.join(" ").contains("No tenant"), "{text:#?}");
}

/// Promise 41.
#[test]
fn a_busy_host_is_reported_and_reaches_no_goal() {
    for mut run in sample::all() {
        run.manifest.is_busy = true;
        let text = finding::of(&run);
        assert!(
            text[0].starts_with("Inconclusive: the host was busy before the run"),
            "{text:?}"
        );
        assert!(
            !text.iter().any(|line| line.contains("contended cells")),
            "{text:?}"
        );
        let sampled = evidence::of(&run)
            .into_iter()
            .filter(|g| g.blocks.is_some());
        for goal in sampled {
            assert_eq!(goal.verdict, crate::data::Verdict::Inconclusive, "{goal:?}");
        }
    }
}
