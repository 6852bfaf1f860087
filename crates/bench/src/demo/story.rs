//! Output of the demo: the same job without Cofferdam and with it, side by side.

use super::data::DemoResult;
use crate::data::{CellResult, Estimate};
use crate::report::format;
use crate::reservation::data::{Entitlements, PolicyRow, ReservationCellResult, ReservationPolicy};
use crate::table::{Table, optional, time};

/// Tables of the flood and of the reservation.
pub(super) fn tables(result: &DemoResult) -> Vec<Table> {
    let reservation = result.reservation.as_ref().map(reservation);
    [flood(&result.cell)]
        .into_iter()
        .chain(reservation)
        .collect()
}

fn flood(c: &CellResult) -> Table {
    let mut table = Table::new(["a job next to", "Linux", "Linux + Cofferdam"]);
    let took = |e: &Estimate| time(c.metric, e.median);
    let with = |e: &Estimate, factor: f64| format!("{} ({})", took(e), format::factor(factor));
    if let Some(alone) = &c.alone {
        table.row(["nothing", &took(alone), ""]);
    }
    table.row(["a job that computes", &took(&c.baseline), ""]);
    let enforced = c.treated.iter().find(|t| t.treatment.is_whole());
    table.row([
        "a container that is flooded".to_owned(),
        // The penalty factor: the median of the rounds' factors, not the ratio of the medians.
        with(&c.test, c.penalty.median),
        enforced.map_or_else(String::new, |t| with(&t.test, t.penalty.median)),
    ]);
    table.row([
        "share of the CPU it paid for packets".to_owned(),
        optional(c.victim_charged_fraction, format::share),
        optional(
            enforced.and_then(|t| t.victim_charged_fraction),
            format::share,
        ),
    ]);
    table
}

fn reservation(c: &ReservationCellResult) -> Table {
    let row = |policy| c.rows.iter().find(|r| r.policy == policy);
    let alone = row(ReservationPolicy::Alone);
    let both = [
        row(ReservationPolicy::None),
        row(ReservationPolicy::Lending),
    ];
    let first = format!(
        "a job with {} reserved, next to",
        format::cpu_count(c.cell.reserved_cpus)
    );
    let mut table = Table::new([first.as_str(), "Linux", "Linux + Cofferdam"]);
    let took = |row: &PolicyRow| {
        let seconds = row.elapsed_s.as_ref()?;
        Some(format!("{} s", format::number(seconds.median)))
    };
    if let Some(alone) = alone.and_then(took) {
        table.row(["nothing", &alone, ""]);
    }
    let with = |row: &PolicyRow| {
        let factor = format::factor(row.to_alone.as_ref()?.median);
        Some(format!("{} ({factor})", took(row)?))
    };
    let dash = |text: Option<String>| text.unwrap_or_else(|| "–".to_owned());
    let mut add = |what: String, value: &dyn Fn(&PolicyRow) -> Option<String>| {
        let [without, reserved] = both.map(|row| dash(row.and_then(value)));
        table.row([what, without, reserved]);
    };
    add(
        format!("{} busy threads of others", c.cell.neighbour_threads),
        &with,
    );
    add("CPU it got ÷ CPU reserved".to_owned(), &|row| {
        Some(format::share(row.cpu_got.median))
    });
    for (i, cause) in Entitlements::<Estimate>::CAUSES.iter().enumerate() {
        if c.rows.iter().any(|row| row.entitled.is_some()) {
            add(format!("  CPUs lost: {cause}"), &|row| {
                let entitled = row.entitled.as_ref()?;
                Some(format::cpus(entitled.losses()[i].median))
            });
        }
    }
    add("CPU time of the host in use".to_owned(), &|row| {
        Some(format::share(row.host_utilisation.median))
    });
    table
}
