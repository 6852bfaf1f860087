//! Page around the sections.

use super::section::section;
use super::{environment, finding, verdicts};
use crate::evidence;
use crate::run::RunData;
use maud::{Markup, html};

/// Whole document: the result at a glance, its first sentence, a picture, and then the other
/// sentences.
pub fn document(
    run: &RunData,
    lead: Option<Markup>,
    finding: &[String],
    sections: &[Markup],
) -> String {
    let manifest = &run.manifest;
    let title = finding::title(run);
    let (first, rest) = match finding.split_first() {
        Some((first, rest)) => (first.as_str(), rest),
        None => ("", finding),
    };
    // Without a result at a glance, the first section is the picture.
    let before_words = usize::from(lead.is_none()).min(sections.len());
    let (pictures, sections) = sections.split_at(before_words);
    let header = html! {
        p.eyebrow { (title) }
        @if let Some(lead) = lead { (lead) }
        h1 { (first) }
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
        @for section in pictures { (section) }
        @if !rest.is_empty() { (in_words(rest)) }
        @if let Some(goals) = verdicts::table(&evidence::of(run), &finding::names(run)) { (goals) }
        @for section in sections { (section) }
        (environment::of(manifest))
        (vocabulary())
    };
    cofferdam_page::document(&title, header, main)
}

/// Section with every sentence but the first.
fn in_words(sentences: &[String]) -> Markup {
    let list = html! { ul.words { @for sentence in sentences { li { (sentence) } } } };
    section("In words", "", list)
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
