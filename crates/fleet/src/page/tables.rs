//! Tables, and the charts next to them.

use super::NAME;
use super::unit::{Unit, count, date};
use crate::census::Census;
use crate::error::FleetError;
use crate::figures::{Figures, Sum};
use cofferdam_page::chart::{Chart, Mark, Row, Tone};
use cofferdam_page::format::{number, share, short};
use cofferdam_page::section::{figure, section};
use maud::{Markup, html};

/// Bars of a chart.
const BARS: usize = 10;
/// Rows of the visible part of a table.
const GAPS: usize = 50;

fn part(of: f64, all: f64) -> String {
    if all > 0.0 {
        share(of / all)
    } else {
        "–".to_owned()
    }
}

fn scroll(label: &str, table: Markup) -> Markup {
    html! { div.scroll tabindex="0" role="region" aria-label=(label) { (table) } }
}

/// Section about the transfers between containers.
pub fn flows(figures: &Figures) -> Result<Markup, FleetError> {
    let harm = figures.flows.harm_s;
    if figures.top_transfers.is_empty() {
        return Ok(section(
            "Who caused whose harm",
            "",
            html! { p.said { "No container was billed for packets of another one." } },
        ));
    }
    let unit = Unit::of(figures.top_transfers[0].cpu_s);
    let row = |flow: &crate::figures::Transfer| Row {
        label: format!("{} → {}", flow.offender, flow.victim),
        note: format!("{} · {}", unit.value(flow.cpu_s), flow.host),
        lanes: vec![vec![Mark::Bar {
            value: unit.scale(flow.cpu_s),
            tone: Tone::Caused,
        }]],
    };
    let chart = Chart {
        alt: "The largest flows between two containers".to_owned(),
        axis: format!("{} billed to the wrong container", unit.name()),
        from: 0.0,
        legend: &[],
        references: Vec::new(),
        rows: figures.top_transfers.iter().take(BARS).map(row).collect(),
    };
    let table = html! {
        table {
            thead { tr {
                th.words { "Host" } th.words { "Offender → victim" } th { (unit.name()) }
                th { "Share of all harm" }
            } }
            tbody { @for flow in &figures.top_transfers { tr {
                td.words { (short(&flow.host, NAME)) }
                td.words { (short(&flow.offender, NAME)) " → " (short(&flow.victim, NAME)) }
                td { (unit.value(flow.cpu_s)) }
                td { (part(flow.cpu_s, harm)) }
            } } }
        }
    };
    Ok(section(
        "Who caused whose harm",
        "What the victim was billed for packets of the offender, over the whole period.",
        html! {
            div.charts { (figure("Largest flows", &chart.svg()?)) }
            details {
                summary { "The " (figures.top_transfers.len()) " largest flows" }
                (scroll("Largest flows", table))
            }
        },
    ))
}

/// Section with the corrected bill.
pub fn bill(figures: &Figures, unit: Unit) -> Markup {
    let all = &figures.all;
    let rest = all.without(&figures.tenants);
    let others = figures
        .tenants_count
        .saturating_sub(figures.tenants.len() as u64);
    let line = |name: Markup, sum: &Sum| {
        let difference = sum.corrected_s - sum.billed_s;
        html! { tr {
            th.words scope="row" { (name) }
            td { (unit.value(sum.billed_s)) }
            td { (unit.value(sum.corrected_s)) }
            td { (unit.signed(difference)) }
            td { (percent(difference, sum.billed_s)) }
        } }
    };
    let fill = |name: &str, difference: f64| {
        html! { tr {
            th.words scope="row" { (name) } td {} td {} td { (unit.signed(difference)) } td {}
        } }
    };
    let table = html! {
        table {
            thead { tr {
                th.words { "Tenant" } th { "Billed" } th { "Corrected" } th { "Difference" }
                th { "of its bill" }
            } }
            tbody {
                @for tenant in &figures.tenants {
                    (line(html! { (short(&tenant.name, NAME)) }, tenant))
                }
                @if others > 0 { (line(html! { (count(others as f64, "other tenant")) }, &rest)) }
                (line(html! { strong { "Sum" } }, all))
            }
            tbody {
                (fill(
                    "Ran in no container's time, corrected to who caused it",
                    figures.flows.to_nobody_s,
                ))
                (fill(
                    "Billed for packets of no container, corrected to nobody",
                    -figures.flows.of_none_s,
                ))
            }
        }
    };
    section(
        "The corrected bill",
        &format!(
            "{} by tenant: what the kernel billed, and what it would have billed had it charged \
             every packet to its owner. The sums differ by exactly what the last two rows say.",
            unit.name()
        ),
        scroll("Corrected bill", table),
    )
}

fn percent(difference: f64, billed: f64) -> String {
    if billed <= 0.0 {
        return "–".to_owned();
    }
    let text = share((difference / billed).abs());
    match (text.as_str(), difference < 0.0) {
        ("0.0%", _) => text,
        (_, true) => format!("−{text}"),
        (_, false) => format!("+{text}"),
    }
}

/// Section about the tenants that inflict most.
pub fn noisiest(figures: &Figures, bill: Unit) -> Result<Markup, FleetError> {
    let Some(worst) = figures.noisiest.first() else {
        return Ok(html! {});
    };
    let unit = Unit::of(worst.inflicted_s);
    let row = |tenant: &Sum| Row {
        label: tenant.name.clone(),
        note: unit.value(tenant.inflicted_s),
        lanes: vec![
            vec![Mark::Bar {
                value: unit.scale(tenant.inflicted_s),
                tone: Tone::Caused,
            }],
            vec![Mark::Bar {
                value: unit.scale(tenant.suffered_s),
                tone: Tone::Paid,
            }],
        ],
    };
    let chart = Chart {
        alt: "What the noisiest tenants inflicted on others and suffered from others".to_owned(),
        axis: unit.name().to_owned(),
        from: 0.0,
        legend: &[
            (Tone::Caused, "inflicted on others"),
            (Tone::Paid, "suffered from others"),
        ],
        references: Vec::new(),
        rows: figures.noisiest.iter().take(BARS).map(row).collect(),
    };
    let table = html! {
        table {
            thead { tr {
                th.words { "Tenant" } th { "Containers" } th { "Inflicted, " (unit.name()) }
                th { "Share of all harm" }
                th { "Suffered, " (unit.name()) } th { "Network work caused, " (bill.name()) }
            } }
            tbody { @for tenant in &figures.noisiest { tr {
                th.words scope="row" { (short(&tenant.name, NAME)) }
                td { (number(tenant.containers)) }
                td { (unit.value(tenant.inflicted_s)) }
                td { (part(tenant.inflicted_s, figures.flows.harm_s)) }
                td { (unit.value(tenant.suffered_s)) }
                td { (bill.value(tenant.caused_s)) }
            } } }
        }
    };
    Ok(section(
        "The noisiest tenants",
        "What other containers were billed for their packets, \
         next to what they were billed for others'.",
        html! {
            div.charts { (figure("Harm done and harm suffered", &chart.svg()?)) }
            details {
                summary { "The " (figures.noisiest.len()) " noisiest" }
                (scroll("Noisiest tenants", table))
            }
        },
    ))
}

/// Section about the hosts on which enforcement would pay.
pub fn hosts(figures: &Figures) -> Markup {
    let worth: Vec<&Sum> = figures
        .hosts
        .iter()
        .filter(|h| h.returned_s > 0.0)
        .collect();
    let title = "Hosts where enforcement would pay";
    let Some(best) = worth.first() else {
        return section(
            title,
            "",
            html! {
                p.said { "None: on no host was a container billed enough for others' packets." }
            },
        );
    };
    let unit = Unit::of(best.returned_s);
    let table = html! {
        table {
            thead { tr {
                th.words { "Host" } th { "Returned, " (unit.name()) } th { "CPUs, on average" }
                th { "Harm, " (unit.name()) } th { "of all bills there" }
            } }
            tbody { @for host in &worth { tr {
                th.words scope="row" { (short(&host.name, NAME)) }
                td { (unit.value(host.returned_s)) }
                td {
                    @if host.covered_s > 0.0 { (number(host.returned_s / host.covered_s)) }
                    @else { "–" }
                }
                td { (unit.value(host.suffered_s)) }
                td { (part(host.suffered_s, host.billed_s)) }
            } } }
        }
    };
    section(
        title,
        "CPU time that would return to containers, by the model below.",
        html! {
            (scroll("Hosts where enforcement would pay", table))
            @if figures.hosts_worth as usize > worth.len() {
                p.note {
                    "The first " (worth.len()) " of " (figures.hosts_worth) "; the others are in "
                    code { (crate::stages::HOSTS) } "."
                }
            }
        },
    )
}

/// Section about hosts that lack hours.
pub fn gaps(figures: &Figures, census: &Census) -> Markup {
    let hours = (census.period.to_ms - census.period.from_ms) as f64 / 3.6e6;
    if figures.missing.is_empty() {
        return section(
            "Gaps",
            "",
            html! { p.said {
                "None: every host was recorded in every whole hour of the period ("
                (number(hours)) " h)."
            } },
        );
    }
    let table = html! {
        table {
            thead { tr {
                th.words { "Host" } th { "Missing hours" } th { "Longest run" } th.words { "from" }
            } }
            tbody { @for missing in figures.missing.iter().take(GAPS) { tr {
                th.words scope="row" { (short(&missing.host, NAME)) }
                td { (missing.gap.missing_hours) }
                td { (missing.gap.longest_hours) " h" }
                td.words { (date(missing.gap.longest_from_ms)) }
            } } }
        }
    };
    section(
        "Gaps",
        "Hours of the period in which less than 90% of a host's time was recorded.",
        html! {
            (scroll("Gaps", table))
            @if figures.missing.len() > GAPS {
                p.note { "The first " (GAPS) " of " (figures.missing.len()) " hosts." }
            }
        },
    )
}
