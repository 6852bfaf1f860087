use super::*;
use crate::isolation::data::Level;

const WHOLE: &str = "\
name: mine
runtimes: [process, podman]
resources: [cpu, network]
scenarios: [a_s_b_f, a_u]
repetitions: 3
warmup: 500ms
measure: 2s
seed: 7
limits:
  cpus: 0.5
  memory: 128MiB
link: 1Gbit
";

fn refusal(text: &str) -> String {
    Experiment::parse(text, "x.yaml").unwrap_err().to_string()
}

#[test]
fn a_file_is_the_experiment() {
    let experiment = Experiment::parse(WHOLE, "x.yaml").unwrap();
    assert_eq!(
        experiment.runtimes,
        [RuntimeKind::Process, RuntimeKind::Podman]
    );
    // The baseline of a_s_b_f has been added.
    let names: Vec<String> = experiment
        .scenarios
        .iter()
        .map(Scenario::to_string)
        .collect();
    assert_eq!(names, ["a_u", "a_s", "a_s_b_f"]);
    assert_eq!(experiment.memory().0, 128 << 20);
    assert_eq!(experiment.limits.disk_iops, None);
    assert_eq!(experiment.cells().len(), 2 * 2 * 3 * 3);
}

/// Promise 44.
#[test]
fn one_seed_draws_one_order_block_by_block() {
    let experiment = Experiment::quick();
    let cells = experiment.cells();
    assert_eq!(cells, experiment.cells());
    assert_eq!(cells.len(), 4 * 16 * 5);
    let mut seen = HashSet::new();
    assert!(cells.iter().all(|c| seen.insert(c.clone())));
    let order = |rep: u32| -> Vec<Scenario> {
        let of = cells
            .iter()
            .filter(|c| c.resource == Resource::Cpu && c.repetition == rep);
        of.map(|c| c.scenario).collect()
    };
    assert_ne!(order(0), order(1));
    // A block is complete: each scenario comes once before any comes again.
    let block: HashSet<Scenario> = cells[..16].iter().map(|c| c.scenario).collect();
    assert_eq!(block.len(), 16);
    let other = Experiment {
        seed: 2,
        ..Experiment::quick()
    };
    assert_ne!(other.cells(), cells);
}

/// Promise 75.
#[test]
fn mistakes_are_reported_with_line_and_column() {
    let typo = WHOLE.replace("repetitions", "repetition");
    assert!(
        refusal(&typo).starts_with("x.yaml:5:1: "),
        "{}",
        refusal(&typo)
    );
    assert!(
        refusal(&typo).contains("unknown field"),
        "{}",
        refusal(&typo)
    );
    let runtime = WHOLE.replace("podman", "podmann");
    assert!(
        refusal(&runtime).starts_with("x.yaml:2:21: "),
        "{}",
        refusal(&runtime)
    );
    assert!(
        refusal(&runtime).contains("podmann"),
        "{}",
        refusal(&runtime)
    );
    let unit = WHOLE.replace("128MiB", "128");
    assert!(
        refusal(&unit).starts_with("x.yaml:11:11: "),
        "{}",
        refusal(&unit)
    );
    assert!(refusal(&unit).contains("128"), "{}", refusal(&unit));
    let syntax = WHOLE.replace("[cpu, network]", "[cpu, network");
    assert!(
        refusal(&syntax).starts_with("x.yaml:"),
        "{}",
        refusal(&syntax)
    );
    for (from, to, word) in [
        ("repetitions: 3", "repetitions: 0", "repetitions"),
        ("[process, podman]", "[process, process]", "twice"),
        ("[process, podman]", "[]", "at least one"),
        ("measure: 2s", "measure: 1ms", "200ms"),
        ("cpus: 0.5", "cpus: 4097", "limits.cpus"),
        ("cpus: 0.5", "cpus: .nan", "limits.cpus"),
        ("memory: 128MiB", "memory: 1MiB", "limits.memory"),
        ("link: 1Gbit", "link: 1Mbit", "link"),
        ("seed: 7", "attempts: 0", "attempts"),
        (
            "seed: 7",
            "generator: fio",
            "has no load for 'cpu': set 'resources' to disk",
        ),
    ] {
        let text = refusal(&WHOLE.replace(from, to));
        assert!(text.contains(word), "{to}: {text}");
        assert!(!text.contains('\n'), "{text}");
    }
}

/// Promise 46.
#[test]
fn a_generator_of_the_host_is_used_where_it_works() {
    let text = WHOLE
        .replace("[cpu, network]", "[cpu]")
        .replace("seed: 7", "generator: stress-ng");
    let reason = refusal(&text);
    assert!(
        reason.contains("which tenants of 'podman' do not have"),
        "{reason}"
    );
    let text = text.replace("[process, podman]", "[process]");
    let experiment = Experiment::parse(&text, "x.yaml").unwrap();
    assert_eq!(experiment.generator, GeneratorKind::StressNg);
    let reason = refusal(&text.replace("warmup: 500ms", "warmup: 499ms"));
    assert!(reason.contains("may take to start"), "{reason}");
    let reason = refusal(&text.replace("stress-ng", "stress"));
    assert!(reason.starts_with("x.yaml:8:12: "), "{reason}");
}

/// Cells with and without protection are neighbours, each first in every other block. The blocks of
/// a cell are spread over the whole run.
/// Promise 44.
#[test]
fn blocks_are_spread_and_protection_alternates() {
    let mut experiment = Experiment::quick();
    experiment.cofferdam = true;
    experiment.repetitions = 4;
    let cells = experiment.cells();
    assert_eq!(cells.len(), 4 * 4 * 2 * 16);
    let groups: Vec<(u32, Resource, Protection)> = cells
        .chunks(16)
        .map(|c| (c[0].repetition, c[0].resource, c[0].protection))
        .collect();
    for (i, pair) in groups.chunks(2).enumerate() {
        assert_eq!(pair[0].0 as usize, i / 4, "{pair:?}");
        assert_eq!(pair[0].1, pair[1].1, "{pair:?}");
        assert_ne!(pair[0].2, pair[1].2, "{pair:?}");
        let first = if i / 4 % 2 == 0 {
            Protection::Vanilla
        } else {
            Protection::Cofferdam
        };
        assert_eq!(pair[0].2, first, "{pair:?}");
    }
}

/// Time of the quick matrix of one runtime: the window, and the measured overhead of each resource
/// in seconds. The overhead is 0.13; for memory of 1 GiB, of which three are filled, 1.3 on
/// average. A start of the tenants takes up to 5 for each resource and block.
/// Promise 44.
#[test]
fn the_quick_matrix_takes_about_ten_minutes() {
    let quick = Experiment::quick();
    let cells = quick.cells();
    let window = (quick.warmup.0 + quick.measure.0).as_secs_f64();
    let overhead_s = |c: &CellKey| match c.resource {
        Resource::Memory => 1.3,
        _ => 0.13,
    };
    let measured: f64 = cells.iter().map(|c| window + overhead_s(c)).sum();
    let starts = f64::from(quick.repetitions) * quick.resources.len() as f64 * 5.0;
    let minutes = (measured + starts) / 60.0;
    assert!(minutes > 6.0 && minutes < 11.0, "{minutes}");
    assert!(quick.memory().0 <= 1 << 30);
}

#[test]
fn presets_are_sound_and_written_as_they_are_read() {
    for preset in [Experiment::quick(), Experiment::paper()] {
        preset.check().unwrap();
        // JSON is YAML: the experiment file of a run can be run again.
        let text = serde_json::to_string_pretty(&preset).unwrap();
        assert_eq!(Experiment::parse(&text, "kept").unwrap(), preset);
    }
    let seconds: f64 = Experiment::paper().cells().len() as f64 / 4.0 * 1800.0;
    assert_eq!(seconds / 3600.0, 80.0, "hours a resource, as FACTS has it");
    assert!(
        Experiment::quick()
            .scenarios
            .iter()
            .all(|s| s.b.is_none() || s.a != Level::Unrestricted)
    );
}

/// Promise 75.
#[test]
fn any_bytes_are_read_or_refused() {
    let mut random = fastrand::Rng::with_seed(11);
    for _ in 0..2_000 {
        let mut bytes = WHOLE.as_bytes().to_vec();
        for _ in 0..random.usize(1..6) {
            let at = random.usize(..bytes.len());
            match random.u8(..4) {
                0 => bytes[at] = random.u8(..),
                1 => bytes.truncate(at.max(1)),
                2 => bytes.insert(at, b"{}[]&*!|>'\"\n\t:-#"[random.usize(..16)]),
                _ => {
                    let part = bytes[at..].to_vec();
                    bytes.extend(part);
                }
            }
        }
        let text = String::from_utf8_lossy(&bytes);
        if let Err(e) = Experiment::parse(&text, "x.yaml") {
            assert_eq!(e.exit_code(), 2);
        }
    }
    // Aliases that would grow without bound are refused, not expanded.
    let mut bomb = String::from("a: &a [x, x, x, x, x, x, x, x, x]\n");
    for (new, old) in ["b", "c", "d", "e", "f", "g", "h", "i", "j"]
        .iter()
        .zip("abcdefghi".chars())
    {
        bomb += &format!(
            "{new}: &{new} [*{old}, *{old}, *{old}, *{old}, *{old}, *{old}, *{old}, *{old}, \
             *{old}]\n"
        );
    }
    assert!(Experiment::parse(&bomb, "x.yaml").is_err());
}
