//! Sections of isolation runs.

mod across;
mod blocks;
mod finding;
mod heat;
mod paper;
mod protection;
mod series;
mod table;

use super::goals::goals;
use crate::data::Judgement;
use crate::isolation::Experiment;
use crate::isolation::data::{
    DISTURBING_STEAL, GeneratorKind, IsolationResult, IsolationSamples, Resource,
};
use crate::report::error::ReportError;
use crate::report::format::{estimate, number, share};
use crate::report::section::{not_measured, section};
use crate::run::{Goals, Outcome, RunData};
use crate::table::{self as terminal, Table, optional};
use maud::{Markup, html};

impl Outcome for IsolationResult {
    fn place_of_goals(&self) -> Goals {
        Goals::Counted
    }

    fn is_measured(&self) -> bool {
        self.tables.iter().any(|t| !t.rows.is_empty())
    }

    fn goals(&self) -> Vec<Judgement> {
        goals(self)
    }

    fn finding(&self, run: &RunData) -> Vec<String> {
        finding::finding(run, self)
    }

    fn sections(&self, run: &RunData) -> Result<Vec<Markup>, ReportError> {
        sections(IsolationSamples::of(run), self)
    }

    fn tables(&self) -> Vec<Table> {
        let tables = self.tables.iter().map(|of| {
            let mut table = Table::new([
                of.title().as_str(),
                "utilisation %",
                "I_ulr",
                "I_plr",
                "loss of performance %",
                "p99′ ÷ p99",
            ]);
            let index = |value: Option<f64>| optional(value, |v| format!("{v:.2}"));
            for row in &of.rows {
                table.row([
                    format!("{:2} {}", row.id, row.scenario),
                    estimate(&row.utilisation_pct),
                    index(row.i_ulr),
                    index(row.i_plr),
                    terminal::estimate(row.performance_loss_pct.as_ref()),
                    terminal::estimate(row.p99_factor.as_ref()),
                ]);
            }
            table
        });
        tables.collect()
    }
}

/// All sections of the report.
fn sections(run: &IsolationSamples, result: &IsolationResult) -> Result<Vec<Markup>, ReportError> {
    let mut sections = Vec::new();
    let experiment = run.experiment.as_deref();
    let generator = experiment.map_or_else(GeneratorKind::default, |e| e.generator);
    sections.extend(across::runtimes(result));
    sections.extend(protection::comparison(result)?);
    for of in &result.tables {
        let lead = "Loss of tenant a's performance by its own level and its neighbour's. A dot \
            marks what may be noise: the 95% interval holds 0, or fewer than five blocks give \
            none. Levels: u undercommitted, s saturated, o overcommitted, f unrestricted.";
        let (blocks, over_time) = (blocks::of(run, of)?, series::of(run, of)?);
        let inside = html! {
            (heat::map(of))
            (over_time)
            details {
                summary { "The paper's table, with intervals" }
                (table::paper(of, generator))
            }
            details { summary { "Every block" } (blocks) }
        };
        sections.push(section(&of.title(), lead, inside));
    }
    sections.extend(across::with_the_paper(result));
    sections.extend(not_measured(
        result.unavailable.iter().chain(&result.failed),
    ));
    sections.push(method(run, result));
    Ok(sections)
}

/// Section about the method and the environment.
fn method(run: &IsolationSamples, result: &IsolationResult) -> Markup {
    let mut disk = run
        .samples
        .iter()
        .filter(|s| s.limit > 0.0 && s.key.resource.is_disk());
    let measured = disk.next().map(|s| s.limit);
    let setup = run.experiment.as_deref().map(|e| {
        let iops = e.limits.disk_iops.map(f64::from).or(measured);
        let iops = iops.map_or("a quarter of the disk's".to_owned(), number);
        format!(
            "Two tenants with equal limits; the load generator is {}. Each cell was measured {} \
             times for {} after a warm-up of {} that does not count; each block measured every \
             scenario once, in random order from seed {}, and repeated the scenarios that the \
             hypervisor disturbed (more than {} of the CPUs) at its end, at most {} times in \
             total; the calmest counts. A limit is {} CPUs, {} of memory, {} block operations a \
             second or {}/s of network, set while that resource is measured; the link that both \
             share carries {}/s.",
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
    let flood = run.experiment.as_deref().filter(with_flood).map(|e| {
        format!(
            "For network CPU, a computes, and b receives {} small datagrams a second at level s, a \
             fifth of that at u, twice that at o.",
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
            @for text in setup.iter().chain(&flood).chain(&cost) { p.lead { (text) } }
            p.lead {
                "I_plr is 100·|a − a′| ÷ a, I_ulr |a − a′| in points (half of it for CPU), as the \
                 paper's tables have them: without a sign. The losses next to them are signed, \
                 compared block by block."
            }
            dl { @for (name, value) in facts.chain(runtimes).chain(images) {
                div { dt { (name) } dd { (value) } }
            } }
        },
    )
}
