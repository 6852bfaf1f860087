//! Page of the figures: one HTML file.

mod strip;
mod tables;
mod unit;

use crate::census::Census;
use crate::error::FleetError;
use crate::figures::Figures;
use crate::model::{self, LEAST_SHARE};
use cofferdam_page::format::{number, share, short};
use cofferdam_page::section::section;
use maud::{Markup, html};
use std::path::{Path, PathBuf};
use unit::{Unit, count, date};

/// Longest name on the page, letters; longer ones are cut.
const NAME: usize = 64;
/// Limit on the files named in one warning.
const MAX_NAMED_FILES: usize = 5;

/// Renders the whole document.
///
/// # Errors
/// A chart cannot be drawn.
pub fn html(figures: &Figures, census: &Census, cut_off: &[PathBuf]) -> Result<String, FleetError> {
    let unit = Unit::of(figures.all.billed_s);
    let main = html! {
        @let warnings = warnings(census, cut_off, figures);
        @if !warnings.is_empty() {
            section.warnings {
                h2 { "Take care" }
                ul { @for warning in &warnings { li { (warning) } } }
            }
        }
        (tables::flows(figures)?)
        (tables::bill(figures, unit))
        (tables::noisiest(figures, unit)?)
        (tables::hosts(figures))
        (strip::hours(figures, census))
        (tables::gaps(figures, census))
        (model_section())
        (files())
        (vocabulary())
    };
    Ok(cofferdam_page::document(
        "Cofferdam · Fleet",
        header(figures, census),
        main,
    ))
}

fn header(figures: &Figures, census: &Census) -> Markup {
    let (harm, billed) = (figures.flows.harm_s, figures.all.billed_s);
    let unit = Unit::of(harm);
    let part = if billed > 0.0 { harm / billed } else { 0.0 };
    html! {
        p.eyebrow { "Cofferdam · Fleet" }
        @if harm > 0.0 {
            h1 {
                "Containers were billed " (unit.show(harm)) ", " (share(part))
                " of all bills, for packets of other containers"
            }
        } @else {
            h1 { "No container was billed for packets of another one" }
        }
        @if let Some(worst) = figures.top_transfers.first() {
            p.finding {
                "The largest part between two: on " b { (short(&worst.host, NAME)) } ", "
                b { (short(&worst.offender, NAME)) } " cost " b { (short(&worst.victim, NAME)) } " "
                (Unit::of(worst.cpu_s).show(worst.cpu_s)) "."
            }
        }
        p.finding { (returned_sentence(figures)) }
        p.meta {
            (count(census.hosts.len() as f64, "host")) " · "
            (count(figures.all.containers, "container")) " · "
            (count(census.hosts.values().map(|f| f.records as f64).sum(), "record")) " · "
            (date(census.period.from_ms)) " to " (date(census.period.to_ms)) " UTC"
        }
    }
}

/// Sentence about the time that enforcement would return.
fn returned_sentence(figures: &Figures) -> String {
    let returned = figures.all.returned_s;
    if returned <= 0.0 {
        return format!(
            "Enforcement would return nothing worth its cost: \
             nobody was billed {} or more for others.",
            share(LEAST_SHARE)
        );
    }
    format!(
        "Enforced, about {} of it would return to the victims, on {}.",
        Unit::of(returned).show(returned),
        count(figures.hosts_worth as f64, "host"),
    )
}

fn warnings(census: &Census, cut_off: &[PathBuf], figures: &Figures) -> Vec<String> {
    let mut all = Vec::new();
    if !census.copies.is_empty() {
        let copies: Vec<&Path> = census
            .copies
            .iter()
            .map(|(copy, _)| copy.as_path())
            .collect();
        let (first, of) = &census.copies[0];
        all.push(format!(
            "{} the same records as another one, as {} those of {}, and counted once: {}.",
            some(copies.len(), "ledger holds", "ledgers hold"),
            name(first),
            name(of),
            file_list(&copies)
        ));
    }
    if !cut_off.is_empty() {
        let files: Vec<&Path> = cut_off.iter().map(PathBuf::as_path).collect();
        all.push(format!(
            "The last line of {} was cut off and left out: {}.",
            some(files.len(), "ledger", "ledgers"),
            file_list(&files)
        ));
    }
    let hosts = |is: fn(&crate::census::Facts) -> bool| -> Vec<&str> {
        let found = census.hosts.iter().filter(|(_, facts)| is(facts));
        found.map(|(host, _)| host.as_str()).collect()
    };
    let steps = hosts(|f| f.clock_steps > 0);
    if !steps.is_empty() {
        all.push(format!(
            "Clocks were set back, so hours overlap: {}.",
            short_list(&steps)
        ));
    }
    let failures = hosts(|f| f.failures > 0);
    if !failures.is_empty() {
        all.push(format!(
            "The accounting lost events or markers: {}.",
            short_list(&failures)
        ));
    }
    if !figures.missing.is_empty() {
        all.push(format!(
            "{} hours of the period: see Gaps. Sums hold what was recorded only.",
            some(figures.missing.len(), "host lacks", "hosts lack")
        ));
    }
    let error = figures.conservation_error_s();
    if error > figures.all.billed_s * CONSERVED_WITHIN + 1e-6 {
        all.push(format!(
            "Bills and flows differ by {} s: ledgers that were filtered by --container, or written \
             by another program, do not add up.",
            number(error)
        ));
    }
    all
}

/// Share of all bills that rounding may move. Ledgers have whole nanoseconds; their sums do not.
pub const CONSERVED_WITHIN: f64 = 1e-9;

fn some(count: usize, one: &str, many: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { many })
}

fn name(path: &Path) -> String {
    short(&path.display().to_string(), NAME)
}

fn file_list(files: &[&Path]) -> String {
    let names: Vec<String> = files.iter().map(|path| name(path)).collect();
    short_list(&names.iter().map(String::as_str).collect::<Vec<_>>())
}

fn short_list(names: &[&str]) -> String {
    let first: Vec<String> = names
        .iter()
        .take(MAX_NAMED_FILES)
        .map(|n| short(n, NAME))
        .collect();
    match names.len() - first.len() {
        0 => first.join(", "),
        more => format!("{} and {more} more", first.join(", ")),
    }
}

/// Section about the model and its check.
fn model_section() -> Markup {
    let pairs = model::recorded();
    let check = model::check(pairs);
    let lead = format!(
        "Enforced, a container gets back what it was billed for other containers' packets, if that \
         is at least {} of its bill over the period; nothing otherwise.",
        share(LEAST_SHARE)
    );
    section(
        "How returned time is estimated",
        &lead,
        html! {
            @if let Some(check) = check {
                @let [least, middle, most] = check.factor;
                p.said {
                    "Checked against " (pairs.len())
                    " jobs of fixed work, each measured with the same traffic with and without \
                     enforcement. In " (check.confirmed) " of the " (check.pairs)
                    " pairs where the model returns something, at least that came back, and "
                    (number(middle)) " times that in the median (at most " (number(most))
                    "): an interruption costs its victim more than the packets' own time. So an \
                     estimate is rather too low than too high."
                    @if !check.exceptions.is_empty() {
                        " In the other " (check.pairs - check.confirmed)
                        " (" (check.exceptions.join(", ")) ") the bill rose, by up to "
                        (number(-least))
                        " times the estimate: on a bridge with NAT most of the work is the host's \
                         stage, which enforcement does not move."
                    }
                }
                p.said {
                    "In the " (check.small_pairs) " pairs below " (share(LEAST_SHARE))
                    ", the bill changed by " (share(-check.small[2]))
                    " to +" (share(-check.small[0]))
                    ": there enforcement can cost more than it returns. The traffic that \
                     enforcement drops is not counted."
                }
            }
            p.said {
                "To check it on a host of yours: "
                code { "cofferdam bench penalty --with enforced --output DIR" } ", then "
                code { "cofferdam-fleet check-model DIR" } "."
            }
        },
    )
}

fn files() -> Markup {
    let files = [
        (
            crate::stages::FLOWS,
            "who caused what who was billed, for each pair on each host",
        ),
        (
            crate::stages::CONTAINERS,
            "bill, harm done and harm suffered of each container",
        ),
        (crate::stages::TENANTS, "the bill: the same for each tenant"),
        (
            crate::stages::HOSTS,
            "the same for each host, and the time recorded",
        ),
        (
            crate::stages::HOURS,
            "time recorded and harm for each host and hour",
        ),
    ];
    section(
        "Files",
        "Everything above and all that it leaves out stands next to this page, as Parquet.",
        html! {
            dl { @for (file, what) in files { div { dt { code { (file) } } dd { (what) } } } }
        },
    )
}

fn vocabulary() -> Markup {
    let words = [
        (
            "harm",
            "CPU time that a container was billed for packets of other containers",
        ),
        (
            "billed",
            "CPU time by the kernel's own count: cgroup CPU use",
        ),
        (
            "corrected",
            "the same had every packet been billed to the container that caused it",
        ),
        (
            "tenant",
            "the namespace of a Kubernetes pod, otherwise the container's name",
        ),
        (
            "no container's time",
            "network work that ran while a CPU was idle, in kernel threads, \
             or in services of the host",
        ),
    ];
    section(
        "Words",
        "",
        html! { dl { @for (word, meaning) in words { div { dt { (word) } dd { (meaning) } } } } },
    )
}

#[cfg(test)]
mod tests;
