//! `cofferdam bench compare`.

use crate::args::CompareArgs;
use crate::exit::{Failure, Outcome};
use crate::output::Output;
use crate::table;
use cofferdam_bench::data::FEWEST_BLOCKS;
use cofferdam_bench::evidence::SIGNIFICANT;
use cofferdam_bench::isolation::compare::{self, ComparedFigure};
use cofferdam_bench::report::format;
use std::collections::BTreeMap;

/// Prints the differences between two runs.
pub fn compare(args: &CompareArgs) -> Outcome {
    let comparison =
        compare::compare(&args.first, &args.second).map_err(|e| Failure::failed(e.to_string()))?;
    let mut text = String::new();
    if comparison.environment.is_empty() {
        text += "The environments are the same.\n";
    } else {
        let mut table = table::plain(table::terminal_width());
        table.set_header(["environment", "first", "second"]);
        for (name, first, second) in &comparison.environment {
            table.add_row([name, first, second]);
        }
        text += &table::finish(&table);
    }
    if let Some([first, second]) = comparison.own_limits {
        text += &format!(
            "\nThe experiment leaves the disk's limit to the host ({} and {} operations/s): disk \
             cells are compared in parts of each run's own limit.\n",
            format::number(first),
            format::number(second)
        );
    }
    for (what, cells) in [
        ("utilisation", &comparison.utilisation),
        ("performance", &comparison.performance),
    ] {
        text += &format!("\n{}\n", agreement(what, cells));
        let apart = |c: &&ComparedFigure| c.overlap == Some(false) || c.differs == Some(true);
        let apart: Vec<&ComparedFigure> = cells.iter().filter(apart).collect();
        if apart.is_empty() {
            continue;
        }
        let mut table = table::plain(table::terminal_width());
        table.set_header([what, "first", "second", "intervals", "p"]);
        for c in apart {
            table.add_row([
                c.cell.clone(),
                format::estimate(&c.first),
                format::estimate(&c.second),
                match c.overlap {
                    Some(true) => "overlap",
                    Some(false) => "apart",
                    None => "–",
                }
                .to_owned(),
                format::number(c.p),
            ]);
        }
        table::numbers_right(&mut table);
        text += &table::finish(&table);
    }
    for (group, cells) in lone(&comparison.lone) {
        text += &format!("only in one run: {group} ({cells} cells)\n");
    }
    Output::stdout().write(&text)?;
    match comparison.performance.is_empty() {
        true => Err(Failure::failed(
            "nothing was compared: no cell is in both runs",
        )),
        false => Ok(()),
    }
}

/// Runtimes and resources of cells such as `podman/cpu/a_s`, with the number of their cells.
fn lone(cells: &[String]) -> BTreeMap<&str, usize> {
    let mut groups = BTreeMap::new();
    for cell in cells {
        let group = cell
            .rsplit_once('/')
            .map_or(cell.as_str(), |(group, _)| group);
        *groups.entry(group).or_default() += 1;
    }
    groups
}

fn agreement(what: &str, cells: &[ComparedFigure]) -> String {
    let overlap = cells.iter().filter(|c| c.overlap == Some(true)).count();
    let compared = cells.iter().filter(|c| c.overlap.is_some()).count();
    let differ = cells.iter().filter(|c| c.differs == Some(true)).count();
    let tested = cells.iter().filter(|c| c.differs.is_some()).count();
    let silent = match cells.len() - tested {
        0 => String::new(),
        n => format!("; {n} are inconclusive: fewer than {FEWEST_BLOCKS} blocks"),
    };
    format!(
        "{what}: the 95% intervals of {overlap} of {compared} cells overlap; \
         {differ} of {tested} differ \
         by the Mann-Whitney test at 5% (about {:.0} would by chance){silent}",
        tested as f64 * SIGNIFICANT
    )
}
