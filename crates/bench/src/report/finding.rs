//! The main finding, in words.

use super::format::{cell as cell_name, estimate, factor, number, path, share, traffic};
use super::ledger::{self, Share};
use super::reservation::{GOAL_CPU_GOT, GOAL_P99, GOAL_UTILISATION, words};
use crate::data::{
    AccountingResult, CellResult, Direction, Metric, NeighbourLimit, PolicyRow,
    ReservationCellResult, ReservationPolicy, ReservationResult, Role, RunData, RunResult,
    Treatment,
};

/// The penalty that is still fair, as the goal of Iron has it.
pub const FAIR: f64 = 1.05;

/// One to four sentences; never empty.
pub fn of(run: &RunData) -> Vec<String> {
    let mut text = match &run.result {
        None => vec![
            "The run ended before anything could be compared. What was measured is below."
                .to_owned(),
        ],
        Some(RunResult::Penalty(result)) => penalty(run, &result.cells),
        Some(RunResult::Demo(result)) => {
            let mut text = penalty(run, std::slice::from_ref(&result.cell));
            text.extend(
                result
                    .reservation
                    .as_ref()
                    .and_then(super::reservation::story),
            );
            text
        }
        Some(RunResult::Accounting(result)) => accounting(result),
        Some(RunResult::Reservation(result)) => reservation(result),
        Some(RunResult::Dataplane(result)) => super::dataplane::finding(result),
        Some(RunResult::Isolation(result)) => super::isolation::finding(run, result),
        Some(RunResult::Latency(result)) => super::latency::finding(result),
        Some(RunResult::Agent(result)) => super::agent::finding(result),
    };
    if run.manifest.interrupted {
        text.push("The run was interrupted: it is not complete.".to_owned());
    }
    text
}

fn penalty(run: &RunData, cells: &[CellResult]) -> Vec<String> {
    let Some(worst) = cells
        .iter()
        .max_by(|a, b| a.penalty.median.total_cmp(&b.penalty.median))
    else {
        return vec!["No cell was measured to its end.".to_owned()];
    };
    let mut text = vec![headline(worst)];
    text.extend(blame(run, worst));
    if let (Some(fraction), Some(predicted)) = (worst.softirq_fraction, worst.predicted) {
        text.push(format!(
            "{} of CPU {} went to softirq. With equal shares that alone makes {}.",
            share(fraction),
            run.manifest.victim_cpu,
            factor(predicted)
        ));
    }
    text.extend(enforced(cells));
    if cells.len() > 1 {
        let fair = cells.iter().filter(|c| c.penalty.median <= FAIR).count();
        text.push(format!(
            "This is the worst of {} cells; {fair} of them are at {} or below.",
            cells.len(),
            factor(FAIR)
        ));
    }
    text
}

/// What enforcement made of the penalty.
fn enforced(cells: &[CellResult]) -> Option<String> {
    let of = |c: &CellResult| {
        let treated = c
            .treated
            .iter()
            .find(|t| t.treatment == Treatment::Enforced)?;
        Some((treated.penalty.median, c.penalty.median))
    };
    let all: Vec<(f64, f64)> = cells.iter().filter_map(of).collect();
    let (worst, was) = all.iter().copied().max_by(|a, b| a.0.total_cmp(&b.0))?;
    let fair = all.iter().filter(|(now, _)| *now <= FAIR).count();
    Some(match all.len() {
        1 => format!(
            "With Cofferdam enforcing, it is {} instead of {}.",
            factor(worst),
            factor(was)
        ),
        n => format!(
            "With Cofferdam enforcing, {fair} of {n} cells are at {} or below; the worst is {}, \
             which is {} without.",
            factor(FAIR),
            factor(worst),
            factor(was)
        ),
    })
}

fn headline(result: &CellResult) -> String {
    let (cell, penalty) = (&result.cell, &result.penalty);
    let verb = match cell.direction {
        Direction::Receiver => "receives",
        Direction::Sender => "sends",
    };
    let subject = match result.metric {
        Metric::ElapsedS => format!("The {} job takes", cell.victim),
        Metric::P99Us => format!("The 99th percentile of the {} server is", cell.victim),
    };
    let doubt = if penalty.low <= 1.0 && penalty.high >= 1.0 {
        ": no difference can be told"
    } else {
        ""
    };
    format!(
        "{subject} {} as long beside a container that {verb} {} {} as beside one that computes \
         (95% interval {} to {}){doubt}.",
        factor(penalty.median),
        traffic(cell),
        path(cell.path),
        number(penalty.low),
        number(penalty.high)
    )
}

/// Who caused and who paid, from the ledgers of the samples beside traffic.
fn blame(run: &RunData, result: &CellResult) -> Option<String> {
    let cpu = run.manifest.victim_cpu;
    let shares = ledger::shares(run, &result.cell.id, Role::Traffic);
    // Without any record there is nothing to say; with records and no container, there is.
    run.ledgers.iter().find(|r| r.cell == result.cell.id)?;
    let largest = |key: fn(&Share) -> f64| shares.iter().max_by(|a, b| key(a).total_cmp(&key(b)));
    let caused: f64 = shares.iter().map(|s| s.caused).sum();
    if caused < result.softirq_fraction.unwrap_or(0.0) / 10.0 {
        return Some(format!(
            "The ledgers name no offender: the network work on CPU {cpu} belongs to no container \
             that the accounting knew."
        ));
    }
    let offender = largest(|s| s.caused - s.charged)?;
    let payer = largest(|s| s.charged - s.caused)?;
    if offender.caused - offender.charged < 0.005 {
        return Some(format!(
            "On CPU {cpu} everybody paid for their own packets."
        ));
    }
    let paid = if payer.charged - payer.caused < 0.005 {
        "no other container paid".to_owned()
    } else {
        format!("{} paid {}", payer.name, share(payer.charged))
    };
    Some(format!(
        "{} caused {} of CPU {cpu} in network work; {paid}.",
        offender.name,
        share(offender.caused)
    ))
}

fn accounting(result: &AccountingResult) -> Vec<String> {
    let mut text: Vec<String> = result
        .overhead
        .iter()
        .map(|row| {
            let verdict = if row.ratio.median >= row.goal {
                "reached"
            } else {
                "missed"
            };
            format!(
                "With the accounting on, {} keeps {} of its {}; the goal of {} is {verdict}.",
                row.load.label(),
                estimate(&row.ratio),
                row.unit,
                number(row.goal)
            )
        })
        .collect();
    let worst = result
        .conservation
        .iter()
        .map(|c| c.worst_cpu_error_pct)
        .reduce(f64::max);
    if let Some(worst) = worst {
        text.push(format!(
            "The ledgers miss at most {}% of the measured time on any CPU.",
            number(worst)
        ));
    }
    let worst = result
        .accuracy
        .iter()
        .max_by(|a, b| a.error_pct.abs().total_cmp(&b.error_pct.abs()));
    if let Some(row) = worst {
        text.push(format!(
            "The largest error of attribution is {}% ({}).",
            number(row.error_pct.abs()),
            row.case
        ));
    }
    if text.is_empty() {
        text.push("Nothing was measured to its end.".to_owned());
    }
    text
}

/// The worst loss without a policy, then each goal in its worst cell.
fn reservation(result: &ReservationResult) -> Vec<String> {
    let row = |cell: &ReservationCellResult, policy| -> Option<PolicyRow> {
        cell.rows.iter().find(|r| r.policy == policy).cloned()
    };
    let ratio = |row: &PolicyRow| row.to_alone.as_ref().map(|e| e.median);
    let mut text = Vec::new();
    let lost = result.cells.iter().filter_map(|cell| {
        let without = ratio(&row(cell, ReservationPolicy::None)?)?;
        Some((without, cell))
    });
    if let Some((without, cell)) = lost.max_by(|a, b| a.0.total_cmp(&b.0)) {
        let with = |policy| row(cell, policy).and_then(|r| ratio(&r));
        let strict = with(ReservationPolicy::Strict).map_or("not measured".to_owned(), factor);
        let lending = with(ReservationPolicy::Lending).map_or("not measured".to_owned(), factor);
        text.push(format!(
            "Worst without a policy: {}, {} as alone; strict {strict}, strict with lending \
             {lending}.",
            words(&cell.cell),
            factor(without)
        ));
    }
    let lending = |keep: fn(&ReservationCellResult) -> bool,
                   value: fn(&PolicyRow) -> Option<f64>| {
        let cells = result.cells.iter().filter(|cell| keep(cell));
        let values: Vec<f64> = cells
            .filter_map(|cell| value(&row(cell, ReservationPolicy::Lending)?))
            .collect();
        values
    };
    let mut goal = |what: &str, worst: Option<f64>, reached: fn(f64) -> bool, goal: f64| {
        if let Some(worst) = worst {
            let verdict = if reached(worst) { "reached" } else { "missed" };
            text.push(format!(
                "With lending, {what} is {} at worst; the goal of {} is {verdict}.",
                number(worst),
                number(goal)
            ));
        }
    };
    let least = |values: Vec<f64>| values.into_iter().reduce(f64::min);
    let most = |values: Vec<f64>| values.into_iter().reduce(f64::max);
    let got = lending(
        |c| !c.cell.target.is_interactive(),
        |r| Some(r.cpu_got.median),
    );
    goal(
        "the owner's CPU ÷ its reservation",
        least(got),
        |v| v >= GOAL_CPU_GOT,
        GOAL_CPU_GOT,
    );
    let late = lending(
        |c| c.cell.target.is_interactive(),
        |r| r.to_alone.as_ref().map(|e| e.median),
    );
    goal(
        "the owner's p99 ÷ alone",
        most(late),
        |v| v <= GOAL_P99,
        GOAL_P99,
    );
    let used = lending(
        |c| c.cell.limit == NeighbourLimit::Burstable,
        |r| Some(r.host_utilisation.median),
    );
    goal(
        "host utilisation",
        least(used),
        |v| v >= GOAL_UTILISATION,
        GOAL_UTILISATION,
    );
    if text.is_empty() {
        text.push("Nothing was measured to its end.".to_owned());
    }
    text
}

/// Title of the page.
pub fn title(run: &RunData) -> String {
    let what = match &run.result {
        Some(RunResult::Demo(result)) => format!("Demo: {}", cell_name(&result.cell.cell)),
        _ => match run.manifest.kind {
            crate::data::Kind::Penalty => "Penalty of network work".to_owned(),
            crate::data::Kind::Accounting => "Cost and accuracy of the accounting".to_owned(),
            crate::data::Kind::Latency => "Truth and cost of the latency measurement".to_owned(),
            crate::data::Kind::Demo => "Demo".to_owned(),
            crate::data::Kind::Isolation => "How well tenants are isolated".to_owned(),
            crate::data::Kind::Reservation => "What a CPU reservation is worth".to_owned(),
            crate::data::Kind::Agent => "What the agent takes of the host".to_owned(),
            crate::data::Kind::Dataplane => "The dataplane beside Linux sockets".to_owned(),
        },
    };
    format!("Cofferdam · {what}")
}
