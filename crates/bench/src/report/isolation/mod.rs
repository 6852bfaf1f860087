//! Sections of isolation runs.

mod across;
mod blocks;
mod care;
mod heat;
mod paper;
mod series;
mod table;

use super::ReportError;
use super::format::{estimate, number, share};
use super::page::{not_measured, section};
use crate::data::{
    Care, DISTURBING_STEAL, Estimate, GeneratorKind, IsolationResult, IsolationTable, Resource,
    RunData,
};
use crate::isolation::Experiment;
use maud::{Markup, html};

/// All sections.
pub fn sections(run: &RunData, result: &IsolationResult) -> Result<Vec<Markup>, ReportError> {
    let mut sections = Vec::new();
    let experiment = run.experiment.as_ref();
    let generator = experiment.map_or_else(GeneratorKind::default, |e| e.generator);
    sections.extend(across::runtimes(result));
    sections.extend(care::comparison(result)?);
    for of in &result.tables {
        let lead = "Loss of tenant a's performance by its own level and its neighbour's. A dot \
                    marks what may be noise: the 95% interval holds 0, or there are fewer than three \
                    blocks. Levels: u undercommitted, s saturated, o overcommitted, f unrestricted.";
        let blocks = blocks::of(run, of)?;
        let inside = html! {
            (heat::map(of))
            (series::of(run, of))
            details {
                summary { "The paper's table, with intervals" }
                (table::paper(of, generator))
            }
            details { summary { "Every block" } (blocks) }
        };
        sections.push(section(&title(of), lead, inside));
    }
    sections.extend(across::with_the_paper(result));
    sections.extend(not_measured(
        result.unavailable.iter().chain(&result.failed),
    ));
    sections.push(method(run, result));
    Ok(sections)
}

/// `podman: network`, and whether Cofferdam was at work.
pub fn title(of: &IsolationTable) -> String {
    match of.care {
        Care::Vanilla => format!("{}: {}", of.runtime, of.resource),
        Care::Cofferdam => format!("{}: {}, with Cofferdam", of.runtime, of.resource),
    }
}

/// Blocks below which an interval says nothing: one value has no width.
const FEWEST: usize = 3;

/// Whether a loss is one beyond the noise.
fn is_loss(loss: &Estimate) -> bool {
    loss.values.len() >= FEWEST && loss.low > 0.0
}

/// How many cells the hypervisor disturbed, and how many measurements were made again for it;
/// `None`: none.
fn stolen(run: &RunData, result: &IsolationResult) -> Option<String> {
    let disturbed = run.isolation.iter().filter(|s| s.disturbed()).count();
    if disturbed == 0 && result.repeated == 0 {
        return None;
    }
    let still = match disturbed {
        0 => format!(
            "No cell has more than {} of steal time.",
            share(DISTURBING_STEAL)
        ),
        _ => format!(
            "In {disturbed} of {} measured cells the hypervisor took more than {} of the CPUs \
             (steal time): their losses may be its own. Measure again when the host is calm.",
            run.isolation.len(),
            share(DISTURBING_STEAL)
        ),
    };
    Some(match result.repeated {
        0 => still,
        n => format!(
            "{still} {n} measurements that it disturbed were made again and do not count; they are \
             in the data."
        ),
    })
}

/// The worst loss that is no noise, how many there are, and what is missing.
pub fn finding(run: &RunData, result: &IsolationResult) -> Vec<String> {
    let mut text = Vec::new();
    // With Cofferdam at work a runtime is no longer judged for itself.
    let of = |care| result.tables.iter().filter(move |t| t.care == care);
    let judged = match of(Care::Vanilla).next() {
        Some(_) => Care::Vanilla,
        None => Care::Cofferdam,
    };
    let rows = of(judged).flat_map(|t| t.rows.iter().map(move |row| (t, row)));
    let contended: Vec<_> = rows
        .filter_map(|(t, row)| Some((t, row, row.performance_loss_pct.as_ref()?)))
        .collect();
    let lost = contended.iter().filter(|(_, _, loss)| is_loss(loss));
    let worst = lost
        .clone()
        .max_by(|a, b| a.2.median.total_cmp(&b.2.median));
    text.push(match worst {
        None => "No tenant lost performance to its neighbour beyond the noise.".to_owned(),
        Some((t, row, loss)) => format!(
            "Under {}, tenant a lost {}% of its {} performance in {} (95% interval {} to {}).",
            t.runtime,
            number(loss.median),
            t.resource,
            row.scenario,
            number(loss.low),
            number(loss.high)
        ),
    });
    if !contended.is_empty() {
        text.push(format!(
            "In {} of {} contended cells a lost performance beyond the noise.",
            lost.count(),
            contended.len()
        ));
    }
    text.extend(care::finding(result));
    text.extend(stolen(run, result));
    let [done, total] = result.done;
    if done < total {
        text.push(format!(
            "{done} of {total} cells are measured: run it again with the same --output to go on."
        ));
    }
    text
}

/// The method and the environment in plain words.
fn method(run: &RunData, result: &IsolationResult) -> Markup {
    let mut disk = run
        .isolation
        .iter()
        .filter(|s| s.limit > 0.0 && s.key.resource.is_disk());
    let measured = disk.next().map(|s| s.limit);
    let told = run.experiment.as_ref().map(|e| {
        let iops = e.limits.disk_iops.map(f64::from).or(measured);
        let iops = iops.map_or("a quarter of the disk's".to_owned(), number);
        format!(
            "Two tenants with equal limits; their load is made by {}. Each cell was measured {} \
             times for {} after a warm-up of {} that does not count; in each block every scenario \
             came once, in an order drawn at random from seed {}, and those that the hypervisor \
             disturbed (more than {} of the CPUs) again at its end, at most {} times in all; the \
             calmest counts. A limit is {} CPUs, {} of memory, {} block \
             operations a second or {}/s of network, set while that resource is measured; the \
             link that both share carries {}/s.",
            e.generator,
            e.repetitions,
            e.measure,
            e.warmup,
            e.seed,
            share(DISTURBING_STEAL),
            e.attempts,
            number(e.cpus()),
            e.memory(),
            iops,
            e.limits.network,
            e.link
        )
    });
    let with_flood = |e: &&Experiment| e.resources.contains(&Resource::NetworkCpu);
    let flood = run.experiment.as_ref().filter(with_flood).map(|e| {
        format!(
            "Where network CPU is measured a computes, and b is sent {} small datagrams a second at \
             level s, a fifth of that at u, twice that at o.",
            e.limits.datagrams
        )
    });
    let cost = result.acquisition_cpu_pct.as_ref().map(|e| {
        format!(
            "Reading what the tenants used took {}% of one CPU for each.",
            estimate(e)
        )
    });
    let environment = &result.environment;
    let facts = environment.host.iter().map(|(k, v)| (k.clone(), v));
    let runtimes = environment
        .runtimes
        .iter()
        .map(|(k, v)| (format!("runtime {k}"), v));
    let images = environment
        .images
        .iter()
        .map(|(k, v)| (format!("image {k}"), v));
    section(
        "Method",
        "",
        html! {
            @for text in told.iter().chain(&flood).chain(&cost) { p.lead { (text) } }
            p.lead {
                "I_plr is 100·|a − a′| ÷ a, I_ulr |a − a′| in points (half of it for CPU), as the \
                 paper's tables have them: without a sign. The losses beside them are signed, \
                 compared block by block."
            }
            dl { @for (name, value) in facts.chain(runtimes).chain(images) {
                div { dt { (name) } dd { (value) } }
            } }
        },
    )
}
