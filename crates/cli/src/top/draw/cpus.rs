//! Each CPU: the kernel's work on it, the containers that caused it, and those charged for it.

use super::bars::{self, LABEL};
use super::style::Palette;
use crate::exit::one_line;
use crate::text;
use crate::top::fold::fold;
use crate::top::state::State;
use crate::units::{pct, percent_of};
use cofferdam_records::accounting::{AccountingRecord, ContainerRecord, CpuRecord};
use ratatui::style::Stylize;
use ratatui::text::{Line, Span};

/// Most containers that are named on a CPU.
const MOST_NAMED: usize = 8;
/// Smallest share of a CPU for which a container is named, percent.
const WORTH_NAMING_PCT: f64 = 0.1;
/// Widest bar: one cell for 1%.
const BAR: usize = 100;
/// Longest name in a row of several.
const NAME: usize = 24;

/// View of the CPUs in lines of `width`.
pub fn lines(state: &State, width: u16, palette: Palette) -> Vec<Line<'static>> {
    let Some(reading) = &state.reading else {
        return Vec::new();
    };
    let width = usize::from(width);
    let key = "█ network  ▓ other softirq  ▒ other hardirq  · tasks and idle";
    let mut lines: Vec<_> = fold(key, width, 2)
        .into_iter()
        .map(|l| Line::from(l).dim())
        .collect();
    for (place, cpu) in reading.record.cpus.iter().enumerate() {
        lines.push(Line::from(""));
        lines.extend(of_cpu(&reading.record, place, cpu, width, palette));
    }
    lines
}

fn of_cpu(
    record: &AccountingRecord,
    place: usize,
    cpu: &CpuRecord,
    width: usize,
    palette: Palette,
) -> Vec<Line<'static>> {
    let share = |ns: u64| percent_of(ns as f64, record.length());
    // Hardirqs of network devices cannot be distinguished on a CPU.
    let network = share(cpu.network_softirq_ns + cpu.napi_thread_ns + cpu.drain_ns);
    let softirq = share(cpu.softirq_ns.saturating_sub(cpu.network_softirq_ns));
    let hardirq = share(cpu.hardirq_ns);
    let bar_width = width.saturating_sub(LABEL).min(BAR);
    let bar = bars::parts(
        &[(network, '█'), (softirq, '▓'), (hardirq, '▒')],
        100.0,
        bar_width,
    );
    let mut lines = vec![bars::labelled(&format!("CPU {}", cpu.cpu), [Span::from(bar)]).bold()];
    let shares = format!(
        "network {}% · other softirq {}% · hardirq {}% · while idle {}% · charged {}%",
        pct(network),
        pct(softirq),
        pct(hardirq),
        pct(share(
            cpu.charged_nobody_ns.saturating_sub(cpu.charged_host_ns)
        )),
        pct(share(cpu.charged_ns)),
    );
    lines.extend(indented("", &shares, width));
    let at = |by_cpu: &[u64]| share(by_cpu.get(place).copied().unwrap_or(0));
    let caused = named(record, |c| at(&c.caused_by_cpu_ns));
    let charged = named(record, |c| at(&c.charged_by_cpu_ns));
    let styled = |lines: Vec<Line<'static>>, style| lines.into_iter().map(move |l| l.style(style));
    lines.extend(styled(
        indented("caused by", &caused, width),
        palette.owes(),
    ));
    lines.extend(styled(
        indented("charged to", &charged, width),
        palette.paid(),
    ));
    lines
}

/// Names of the containers with the largest shares.
fn named(record: &AccountingRecord, share: impl Fn(&ContainerRecord) -> f64) -> String {
    let mut shares: Vec<_> = (record.containers.iter())
        .map(|c| (share(c), c))
        .filter(|(share, _)| *share >= WORTH_NAMING_PCT)
        .collect();
    shares.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cgroup_id.cmp(&b.1.cgroup_id)));
    let more = shares.len().saturating_sub(MOST_NAMED);
    let mut parts: Vec<_> = (shares.iter().take(MOST_NAMED))
        .map(|(share, c)| {
            format!(
                "{} {}%",
                text::cut_middle(&one_line(&c.name), NAME),
                pct(*share)
            )
        })
        .collect();
    if more > 0 {
        parts.push(format!("{more} more"));
    }
    match parts.is_empty() {
        true => "nobody".to_owned(),
        false => parts.join(" · "),
    }
}

/// `text` after `label`, folded between words.
pub fn indented(label: &str, text: &str, width: usize) -> Vec<Line<'static>> {
    let folded = fold(text, width.saturating_sub(LABEL), 4);
    let label = std::iter::once(label).chain(std::iter::repeat(""));
    folded
        .into_iter()
        .zip(label)
        .map(|(text, label)| bars::labelled(label, [Span::from(text)]))
        .collect()
}
