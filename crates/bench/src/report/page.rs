//! The page around the sections.

use super::section::section;
use super::{environment, finding, verdicts};
use crate::evidence;
use crate::run::RunData;
use maud::{Markup, html};

/// The whole document.
pub fn document(run: &RunData, finding: &[String], sections: &[Markup]) -> String {
    let manifest = &run.manifest;
    let title = finding::title(run);
    let header = html! {
        p.eyebrow { (title) }
        @for (i, sentence) in finding.iter().enumerate() {
            @if i == 0 { h1 { (sentence) } } @else { p.finding { (sentence) } }
        }
        p.meta {
            (manifest.cpu_model) ", " (manifest.cpus) " CPUs · Linux "
            (manifest.kernel.split_whitespace().next().unwrap_or("")) " · "
            (manifest.started)
        }
    };
    let main = html! {
        @if !manifest.warnings.is_empty() {
            section.warnings {
                h2 { "Take care" }
                ul { @for warning in &manifest.warnings { li { (warning) } } }
            }
        }
        @if let Some(goals) = verdicts::table(&evidence::of(run)) { (goals) }
        @for section in sections { (section) }
        (environment::of(manifest))
        (vocabulary())
    };
    cofferdam_page::document(&title, header, main)
}

fn vocabulary() -> Markup {
    let words = [
        (
            "network work",
            "time the kernel spends on packets outside the task that wanted them: \
          hardirq and softirq of network devices, NAPI threads",
        ),
        ("caused", "network work that a container's packets required"),
        (
            "paid, charged",
            "network work that ran inside a container's time slices, whatever its cause",
        ),
        (
            "owed",
            "caused − charged: positive if others paid, negative if it paid for others",
        ),
        (
            "penalty factor",
            "time a victim takes next to traffic ÷ time it takes next to an equally entitled \
          compute job",
        ),
    ];
    section(
        "Words",
        "",
        html! { dl { @for (word, meaning) in words { div { dt { (word) } dd { (meaning) } } } } },
    )
}
