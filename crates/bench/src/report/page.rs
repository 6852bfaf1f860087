//! The page around the sections.

use super::format::{instead, number};
use super::{environment, finding, verdicts};
use crate::data::{Estimate, RunData};
use crate::evidence;
use maud::{DOCTYPE, Markup, PreEscaped, html};

const STYLE: &str = include_str!("style.css");

/// The whole document.
pub fn document(run: &RunData, finding: &[String], sections: &[Markup]) -> String {
    let manifest = &run.manifest;
    let title = finding::title(run);
    let markup = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                // A report opened from anywhere must not load or run anything.
                meta http-equiv="Content-Security-Policy"
                    content="default-src 'none'; style-src 'unsafe-inline'";
                title { (title) }
                style { (PreEscaped(STYLE)) }
            }
            body {
                header {
                    p.eyebrow { (title) }
                    @for (i, sentence) in finding.iter().enumerate() {
                        @if i == 0 { h1 { (sentence) } } @else { p.finding { (sentence) } }
                    }
                    p.meta {
                        (manifest.cpu_model) ", " (manifest.cpus) " CPUs · Linux "
                        (manifest.kernel.split_whitespace().next().unwrap_or("")) " · "
                        (manifest.started)
                    }
                }
                main {
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
                }
            }
        }
    };
    markup.into_string()
}

/// A section with a heading and, where there is one, a line that says how to read it.
pub fn section(title: &str, lead: &str, inside: Markup) -> Markup {
    html! {
        section {
            h2 { (title) }
            @if !lead.is_empty() { p.lead { (lead) } }
            (inside)
        }
    }
}

/// What could not be measured, with the reason; nothing where all was.
pub fn not_measured<'a>(
    failed: impl IntoIterator<Item = (&'a String, &'a String)>,
) -> Option<Markup> {
    let mut failed = failed.into_iter().peekable();
    failed.peek()?;
    let list = html! { ul { @for (what, why) in failed { li { (what) ": " (why) } } } };
    Some(section("Not measured", "", list))
}

/// Median, and below it its interval, or what there is instead; a dash without a figure.
pub fn spread(value: Option<&Estimate>) -> Markup {
    spread_as(value, number)
}

/// The same with every number in the form that `show` gives it.
pub fn spread_as(value: Option<&Estimate>, show: fn(f64) -> String) -> Markup {
    let Some(e) = value else {
        return html! { "–" };
    };
    let below = match e.interval() {
        Some(i) => format!("[{}, {}]", show(i.low()), show(i.high())),
        None => instead(e),
    };
    html! { (show(e.median)) small { (below) } }
}

/// A chart with its title. `svg` comes from [`super::chart::Chart::svg`], which escapes.
pub fn figure(title: &str, svg: &str) -> Markup {
    html! { figure { figcaption { (title) } (PreEscaped(svg)) } }
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
