//! Headline of a penalty run and of the demo.

use crate::data::{CellResult, Direction, GoalBound, Metric, Role, TreatedResult, Verdict};
use crate::evidence::{judge, largest};
use crate::penalty::goals::FAIR;
use crate::report::format::{certainty, factor, path, share, traffic};
use crate::report::ledger::{self, Share};
use crate::run::RunData;

/// Sentences about the largest harm, its offender, and the effect of enforcement.
pub fn finding(run: &RunData, cells: &[CellResult]) -> Vec<String> {
    let cases: Vec<_> = cells.iter().map(|c| (c, &c.penalty)).collect();
    let fair = GoalBound::AtMost(FAIR);
    let found = largest(&cases, fair);
    let Some(worst) = worst(cells) else {
        return vec!["Not measured: no cell was completed.".to_owned()];
    };
    let mut text = vec![headline(worst)];
    if let Some((larger, _)) = found.doubtful.filter(|(cell, _)| *cell != worst) {
        text.push(format!("Larger, but inconclusive: {}", headline(larger)));
    }
    text.extend(cause_line(run, worst));
    if let (Some(fraction), Some(predicted)) = (worst.softirq_fraction, worst.predicted) {
        text.push(format!(
            "{} of CPU {} went to softirq. With equal shares that alone makes {}.",
            share(fraction),
            run.manifest.victim_cpu,
            factor(predicted)
        ));
    }
    text.extend(enforcement_line(cells));
    if cells.len() > 1 {
        let count = |of: Verdict| cases.iter().filter(|(_, e)| judge(fair, e) == of).count();
        text.push(format!(
            "Fair without Cofferdam ({} or below): {} of {} cells; not fair: {}; inconclusive: {}.",
            factor(FAIR),
            count(Verdict::Reached),
            cells.len(),
            count(Verdict::Missed),
            count(Verdict::Inconclusive)
        ));
    }
    text
}

/// Cell with the largest harm; a proved harm comes first.
pub fn worst(cells: &[CellResult]) -> Option<&CellResult> {
    let cases: Vec<_> = cells.iter().map(|c| (c, &c.penalty)).collect();
    let found = largest(&cases, GoalBound::AtMost(FAIR));
    let first = found.proved.or(found.doubtful).or(found.harmless);
    let worst = first.or_else(|| cases.first().cloned());
    worst.map(|(cell, _)| cell)
}

/// Sentence about the penalty under enforcement, in its worst cell.
fn enforcement_line(cells: &[CellResult]) -> Option<String> {
    let of = |c: &'_ CellResult| -> Option<TreatedResult> {
        let mut treated = c.treated.iter();
        treated.find(|t| t.treatment.is_whole()).cloned()
    };
    let all: Vec<(TreatedResult, f64)> = cells
        .iter()
        .filter_map(|c| Some((of(c)?, c.penalty.median)))
        .collect();
    let median = |t: &TreatedResult| t.penalty.median;
    let (worst, was) = all
        .iter()
        .max_by(|a, b| median(&a.0).total_cmp(&median(&b.0)))?;
    let worst = format!("{} ({})", factor(median(worst)), certainty(&worst.penalty));
    Some(match all.len() {
        1 => format!(
            "With Cofferdam enforcing, it is {worst} instead of {}.",
            factor(*was)
        ),
        n => format!(
            "With Cofferdam enforcing, the worst of {n} cells is {worst}, which is {} without.",
            factor(*was)
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
    let doubt = match penalty.interval() {
        Some(interval) if interval.holds(1.0) => ": no difference is shown",
        _ => "",
    };
    format!(
        "{subject} {} as long next to a container that {verb} {} {} as next to one that computes \
         ({}){doubt}.",
        factor(penalty.median),
        traffic(cell),
        path(cell.path),
        certainty(penalty)
    )
}

/// Sentence that names the offender and the victim, by the ledgers of the samples with traffic.
fn cause_line(run: &RunData, result: &CellResult) -> Option<String> {
    let cpu = run.manifest.victim_cpu;
    let shares = ledger::shares(run, &result.cell.id, Role::Traffic);
    // Without a record nothing can be said; with records but no container, that is a finding.
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
            "On CPU {cpu} every container paid for its own packets."
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
