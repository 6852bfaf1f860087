//! Finding of an isolation run: the largest harm, and its certainty.

use super::protection;
use crate::data::{Estimate, GoalBound, Verdict};
use crate::evidence::{LargestHarm, judge, largest};
use crate::isolation::data::{
    DISTURBING_STEAL, IsolationResult, IsolationRow, IsolationSamples, IsolationTable, Protection,
};
use crate::isolation::goals::{LOSS_TOLERATED_PCT, P99_FACTOR_TOLERATED};
use crate::report::format::{certainty, factor, number, share};
use crate::run::RunData;

/// Cell with a neighbour.
type Cell<'a> = (&'a IsolationTable, &'a IsolationRow);

/// Sentences about the largest loss of performance and of latency, proved or not, the number of
/// cells with a loss, and missing cells.
pub fn finding(run: &RunData, result: &IsolationResult) -> Vec<String> {
    // A run with Cofferdam judges the runtime only in its vanilla cells.
    let of = |protection| {
        result
            .tables
            .iter()
            .filter(move |t| t.protection == protection)
    };
    let judged = match of(Protection::Vanilla).next() {
        Some(_) => Protection::Vanilla,
        None => Protection::Cofferdam,
    };
    let contended: Vec<Cell<'_>> = of(judged)
        .flat_map(|t| t.rows.iter().map(move |row| (t, row)))
        .filter(|(_, row)| row.scenario.b.is_some())
        .collect();
    let mut text = loss_lines(&contended, run.manifest.is_busy);
    text.extend(latency_lines(&contended));
    text.extend(protection::finding(result));
    text.extend(steal_line(IsolationSamples::of(run), result));
    let [done, total] = result.done;
    if done < total {
        text.push(format!(
            "{done} of {total} cells are measured: run it again with the same --output to resume."
        ));
    }
    text
}

fn cases<'a>(
    contended: &[Cell<'a>],
    value: fn(&IsolationRow) -> Option<&Estimate>,
) -> Vec<(Cell<'a>, &'a Estimate)> {
    let all = contended.iter();
    all.filter_map(|(t, row)| Some(((*t, *row), value(row)?)))
        .collect()
}

fn loss_lines(contended: &[Cell<'_>], is_busy: bool) -> Vec<String> {
    let cases = cases(contended, |row| row.performance_loss_pct.as_ref());
    if cases.is_empty() {
        let why = "not measured: no cell with a neighbour has one without it to compare with";
        return vec![format!("What a tenant loses to its neighbour was {why}.")];
    }
    let tolerated = GoalBound::AtMost(LOSS_TOLERATED_PCT);
    let describe = |((t, row), loss): (Cell<'_>, &Estimate)| {
        format!(
            "Under {}, tenant a lost {}% of its {} performance in {} ({}).",
            t.runtime,
            number(loss.median),
            t.resource,
            row.scenario,
            certainty(loss)
        )
    };
    let limit = LOSS_TOLERATED_PCT;
    let mut text = headlines(largest(&cases, tolerated), describe, &|worst| {
        format!("No tenant lost more than {limit}% of its performance to its neighbour. {worst}")
    });
    if is_busy {
        return text; // no cell is judged
    }
    let count = |of: Verdict| {
        cases
            .iter()
            .filter(|(_, e)| judge(tolerated, e) == of)
            .count()
    };
    text.push(format!(
        "In {} of {} contended cells a lost more than {limit}% of its performance, in {} it did \
         not; inconclusive: {}.",
        count(Verdict::Missed),
        cases.len(),
        count(Verdict::Reached),
        count(Verdict::Inconclusive)
    ));
    text
}

fn latency_lines(contended: &[Cell<'_>]) -> Vec<String> {
    let cases = cases(contended, |row| row.p99_factor.as_ref());
    let describe = |((t, row), grown): (Cell<'_>, &Estimate)| {
        format!(
            "Under {}, the 99th percentile of tenant a's {} operations was {} of that alone in {} \
             ({}).",
            t.runtime,
            t.resource,
            factor(grown.median),
            row.scenario,
            certainty(grown)
        )
    };
    let bound = GoalBound::AtMost(P99_FACTOR_TOLERATED);
    let mut found = largest(&cases, bound);
    // The table has the doubtful cases whose median is on the good side.
    found.doubtful = found.doubtful.filter(|(_, e)| !bound.admits(e.median));
    found.harmless = None;
    headlines(found, describe, &|worst| worst)
}

/// Headlines of a search: the proved harm first, then a larger one that is in doubt.
fn headlines<'a>(
    found: LargestHarm<'a, Cell<'a>>,
    describe: impl Fn((Cell<'a>, &'a Estimate)) -> String,
    harmless: &dyn Fn(String) -> String,
) -> Vec<String> {
    let is_first = found.proved.is_none();
    let proved = found.proved.map(&describe);
    let doubtful = found.doubtful.map(&describe).map(|text| match is_first {
        true => format!("Inconclusive, and the largest: {text}"),
        false => format!("Larger, but inconclusive: {text}"),
    });
    let calm = found.harmless.map(&describe).map(harmless);
    proved.into_iter().chain(doubtful).chain(calm).collect()
}

/// Numbers of cells that the hypervisor disturbed and of repeated measurements; `None` if there are
/// none.
fn steal_line(run: &IsolationSamples, result: &IsolationResult) -> Option<String> {
    let disturbed = run.samples.iter().filter(|s| s.is_disturbed()).count();
    if disturbed == 0 && result.repeated == 0 {
        return None;
    }
    let still = match disturbed {
        0 => format!(
            "No cell has more than {} of steal time.",
            share(DISTURBING_STEAL)
        ),
        _ => format!(
            "In {disturbed} of {} measured cells the hypervisor took more than {} of the CPUs \
             (steal time): their losses may be its own. Measure again when the host is calm.",
            run.samples.len(),
            share(DISTURBING_STEAL)
        ),
    };
    Some(match result.repeated {
        0 => still,
        n => format!(
            "{still} {n} measurements that it disturbed were repeated and do not count; they are \
             in the data."
        ),
    })
}
