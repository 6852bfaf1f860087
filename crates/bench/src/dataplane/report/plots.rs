//! Plots as in IX's paper: one line a server.

use super::{goodput, tone};
use crate::dataplane::data::{DataplaneExperiment, DataplaneRow, EchoServer, SERVICE_P99_US};
use crate::report::error::ReportError;
use crate::report::plot::{Axis, Line, Plot};
use crate::report::section::figure;
use maud::Markup;

/// Plot of an experiment; `None` if bars show it better.
pub(super) fn of(
    experiment: DataplaneExperiment,
    rows: &[&DataplaneRow],
) -> Result<Option<Markup>, ReportError> {
    type Value = fn(&DataplaneRow) -> f64;
    let at: Value = |r| f64::from(r.cell.at);
    let rate: Value = |r| r.requests_per_s.median / 1000.0;
    let (title, x, y, references, values): (_, _, _, _, (Value, Value)) = match experiment {
        sizes if sizes.is_of_sizes() => (
            "NetPIPE: more is better",
            Axis::log("bytes"),
            Axis::log("Mbit/s, both ways"),
            Vec::new(),
            (at, goodput as Value),
        ),
        DataplaneExperiment::Connections => (
            "Connections: more is better",
            Axis::log("connections"),
            Axis::linear("thousand requests a second"),
            Vec::new(),
            (at, rate),
        ),
        DataplaneExperiment::Cores => (
            "Multicore: more is better",
            Axis::count("cores of the server"),
            Axis::linear("thousand requests a second"),
            Vec::new(),
            (at, rate),
        ),
        DataplaneExperiment::Usr | DataplaneExperiment::Etc => (
            "Latency against throughput: low and right is better",
            Axis::linear("thousand requests a second"),
            Axis::log("p99, µs"),
            vec![(SERVICE_P99_US, "limit")],
            (rate, |r| r.p99_us.median),
        ),
        _ => return Ok(None),
    };
    let lines = EchoServer::ALL.iter().map(|server| {
        let own = || rows.iter().filter(|r| r.cell.server == *server);
        Line {
            name: server.words().to_owned(),
            tone: tone(*server),
            points: own().map(|r| ((values.0)(r), (values.1)(r))).collect(),
            hollow_from: own().position(|r| r.shares_cpu),
            is_trace: false,
        }
    });
    let plot = Plot {
        alt: title.to_owned(),
        x,
        y,
        references,
        hollow: "one of the server's CPUs is the load generator's",
        lines: lines.filter(|l| !l.points.is_empty()).collect(),
    };
    Ok(Some(figure(title, &plot.svg()?)))
}
