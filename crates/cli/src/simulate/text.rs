//! The simulation for people: one table a policy.

use crate::table;
use crate::units;
use cofferdam_records::simulation::{SimulatedTenant, SimulationReport, SimulationRun};
use std::time::Duration;

const HEADER: [&str; 10] = [
    "tenant",
    "wants",
    "entitled",
    "got",
    "forced sharing",
    "phantom",
    "throttled",
    "lack",
    "wake-up p99",
    "rounds/s",
];

/// Text of all policies; CPU time in CPUs.
pub fn text(report: &SimulationReport, width: Option<u16>) -> String {
    let mut text = format!(
        "Simulated: {} CPUs for {}. CPU time in CPUs; 'lack' is time without a runnable thread.\n",
        report.cpus,
        humantime::format_duration(Duration::from_secs_f64(report.duration_s)),
    );
    for run in &report.runs {
        text += &format!(
            "\n{}: {} of the host used; {}\n",
            run.policy,
            units::spoken_pct(run.utilisation * 100.0),
            worst(run, report.duration_s)
        );
        for refused in &run.refused {
            let fits = match refused.fits_cpus {
                Some(cpus) => format!("{cpus} would fit"),
                None => "no CPU is left".to_owned(),
            };
            text += &format!(
                "{}: {} CPUs cannot be reserved next to the others: {fits}\n",
                refused.name, refused.asked_cpus
            );
        }
        text += &rows(run, report.duration_s, width);
    }
    text
}

fn cpus(ns: u64, seconds: f64) -> f64 {
    ns as f64 / 1e9 / seconds.max(1e-9)
}

/// Sentence that names the tenant that loses most to others.
fn worst(run: &SimulationRun, seconds: f64) -> String {
    let taken = |t: &SimulatedTenant| t.forced_sharing_ns + t.phantom_ns;
    let most = run.tenants.iter().max_by_key(|t| taken(t));
    match most.filter(|t| cpus(taken(t), seconds) >= 0.005) {
        None => "no tenant loses CPU time to others".to_owned(),
        Some(t) => format!(
            "{} loses most to others, {:.2} of {:.2} CPUs",
            t.name,
            cpus(taken(t), seconds),
            cpus(t.entitled_ns, seconds)
        ),
    }
}

fn rows(run: &SimulationRun, seconds: f64, width: Option<u16>) -> String {
    let mut table = table::plain(width);
    table.set_header(HEADER);
    for t in &run.tenants {
        let amount = |ns: u64| match cpus(ns, seconds) {
            none if none < 0.005 => "0".to_owned(),
            some => format!("{some:.2}"),
        };
        let delay = t
            .wakeup_delay
            .as_ref()
            .map_or("–".to_owned(), |d| match d.p99_us {
                us if us < 1000.0 => format!("{us:.0} µs"),
                us => format!("{:.1} ms", us / 1000.0),
            });
        let rounds = match t.rounds {
            0 => "–".to_owned(),
            some => units::count(some as f64 / seconds.max(1e-9)),
        };
        table.add_row([
            t.name.clone(),
            amount(t.demanded_ns),
            format!("{} ({})", amount(t.entitled_ns), t.entitled_by),
            amount(t.got_ns),
            amount(t.forced_sharing_ns),
            amount(t.phantom_ns),
            amount(t.throttled_ns),
            amount(t.lack_ns),
            delay,
            rounds,
        ]);
    }
    table::gaps(&mut table);
    table::numbers_right(&mut table);
    table::finish(&table)
}
