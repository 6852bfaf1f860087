//! Section about the circumstances of the run.

use super::section::section;
use crate::run::Manifest;
use maud::{Markup, html};

/// The environment as a list, and the command that renders the page again.
pub fn of(manifest: &Manifest) -> Markup {
    let m = manifest;
    let commit = m
        .commit
        .as_deref()
        .unwrap_or("unknown (built outside a git tree, without COFFERDAM_COMMIT)");
    let finished = m.finished.as_deref().unwrap_or("never: it was killed");
    let facts = [
        ("Version", format!("{}, commit {commit}", m.version)),
        ("Command", m.command.join(" ")),
        ("Started", m.started.clone()),
        ("Finished", finished.to_owned()),
        ("Kernel", m.kernel.clone()),
        ("CPU", format!("{}, {} online", m.cpu_model, m.cpus)),
        ("CPU of the victim", m.victim_cpu.to_string()),
        ("CPU of the peer", m.peer_cpu.to_string()),
        ("cgroups", m.cgroup_layout.clone()),
        ("Grid", if m.quick { "quick" } else { "full" }.to_owned()),
        ("Seed", m.seed.to_string()),
    ];
    section(
        "Environment",
        "",
        html! {
            dl { @for (name, value) in &facts { div { dt { (name) } dd { (value) } } } }
            @if !m.mitigations.is_empty() {
                details {
                    summary { "Mitigations of CPU vulnerabilities" }
                    dl { @for (name, value) in &m.mitigations {
                        div { dt { (name) } dd { (value) } }
                    } }
                }
            }
            p.note {
                "Raw data is next to this file: " code { "manifest.json" } ", "
                code { "samples.jsonl" } ", " code { "ledger.jsonl" } ", " code { "result.json" }
                ". " code { "cofferdam report DIR" } " renders this page again from them."
            }
        },
    )
}
