//! Raw samples of a run for other programs: Parquet and CSV, one row for each 100 ms of a tenant,
//! and the results as CSV. Each file is made from the samples alone and replaced at each end of the
//! run.

use crate::data::Estimate;
use crate::error::BenchError;
use crate::isolation::data::{IsolationResult, IsolationSample, Point, TenantSample, TracedPoint};
use parquet::basic::Compression;
use parquet::column::writer::ColumnWriter;
use parquet::data_type::ByteArray;
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::parser::parse_message_type;
use std::fmt::Write as _;
use std::fs::{self, File};
use std::path::Path;
use std::sync::Arc;

/// File of the raw samples in Parquet.
pub const PARQUET: &str = "samples.parquet";
/// File of the raw samples as CSV.
pub const CSV: &str = "samples.csv";
/// File of the tables as CSV.
pub const RESULT_CSV: &str = "result.csv";

/// Row: one moment of a tenant.
struct Line<'a> {
    sample: &'a IsolationSample,
    tenant: &'static str,
    of: &'a TenantSample,
    point: &'a Point,
    counts: bool,
}

/// Column: its name and its value.
enum Column {
    Text(&'static str, fn(&Line<'_>) -> String),
    Whole(&'static str, fn(&Line<'_>) -> u64),
    Number(&'static str, fn(&Line<'_>) -> f64),
}

/// Columns of both formats. `asked` is infinite for a load that asks for all it can get.
const COLUMNS: &[Column] = &[
    Column::Text("runtime", |l| l.sample.key.runtime.to_string()),
    Column::Text("care", |l| l.sample.key.protection.to_string()),
    Column::Text("resource", |l| l.sample.key.resource.to_string()),
    Column::Text("scenario", |l| l.sample.key.scenario.to_string()),
    Column::Whole("repetition", |l| l.sample.key.repetition.into()),
    Column::Whole("attempt", |l| l.sample.attempt.into()),
    Column::Whole("counts", |l| l.counts.into()),
    Column::Number("steal_fraction", |l| {
        l.sample.steal_fraction.unwrap_or(f64::NAN)
    }),
    Column::Text("tenant", |l| l.tenant.to_owned()),
    Column::Number("asked", |l| l.of.asked.unwrap_or(f64::INFINITY)),
    Column::Number("t_ms", |l| l.point.t_ms),
    Column::Number("cpu_ms", |l| l.point.cpu_ms),
    Column::Whole("rss_bytes", |l| l.point.rss_bytes),
    Column::Whole("io_ops", |l| l.point.io_ops),
    Column::Whole("io_bytes", |l| l.point.io_bytes),
    Column::Whole("tx_packets", |l| l.point.tx_packets),
    Column::Whole("tx_bytes", |l| l.point.tx_bytes),
    Column::Whole("rx_packets", |l| l.point.rx_packets),
    Column::Whole("rx_bytes", |l| l.point.rx_bytes),
    Column::Number("traced_rss_bytes", |l| traced_value(l, |t| t.rss_bytes)),
    Column::Number("traced_device_ops", |l| traced_value(l, |t| t.device_ops)),
    Column::Number("traced_device_bytes", |l| {
        traced_value(l, |t| t.device_bytes)
    }),
    Column::Whole("ops", |l| l.point.ops),
    Column::Whole("bytes", |l| l.point.bytes),
];

/// Value of a traced column; NaN, not 0, if it was not traced.
fn traced_value(line: &Line<'_>, of: fn(&TracedPoint) -> u64) -> f64 {
    line.point
        .traced
        .as_ref()
        .map_or(f64::NAN, |t| of(t) as f64)
}

/// Writes all three files into the run directory `dir`: first the samples that count, then the
/// repeated ones.
pub(super) fn write(
    dir: &Path,
    samples: &[IsolationSample],
    repeated: &[IsolationSample],
    result: &IsolationResult,
) -> Result<(), BenchError> {
    let counting = samples.iter().flat_map(|s| lines(s, true));
    let lines: Vec<Line<'_>> = counting
        .chain(repeated.iter().flat_map(|s| lines(s, false)))
        .collect();
    let failed = |path: &Path, source: std::io::Error| BenchError::Output {
        path: path.to_owned(),
        source,
    };
    let path = dir.join(PARQUET);
    let temporary = dir.join("samples.parquet.tmp");
    parquet(&temporary, &lines)
        .map_err(std::io::Error::other)
        .and_then(|()| fs::rename(&temporary, &path))
        .map_err(|e| failed(&path, e))?;
    for (name, text) in [(CSV, csv(&lines)), (RESULT_CSV, result_csv(result))] {
        let path = dir.join(name);
        fs::write(&path, text).map_err(|e| failed(&path, e))?;
    }
    Ok(())
}

fn lines(sample: &IsolationSample, counts: bool) -> Vec<Line<'_>> {
    let tenants = std::iter::once(("a", &sample.a)).chain(sample.b.as_ref().map(|b| ("b", b)));
    tenants
        .flat_map(|(tenant, of)| {
            of.series.iter().map(move |point| Line {
                sample,
                tenant,
                of,
                point,
                counts,
            })
        })
        .collect()
}

fn parquet(path: &Path, lines: &[Line<'_>]) -> Result<(), ParquetError> {
    let mut schema = "message samples {".to_owned();
    for column in COLUMNS {
        let field = match column {
            Column::Text(name, _) => format!(" required binary {name} (UTF8);"),
            Column::Whole(name, _) => format!(" required int64 {name};"),
            Column::Number(name, _) => format!(" required double {name};"),
        };
        schema += &field;
    }
    schema += " }";
    let schema = Arc::new(parse_message_type(&schema)?);
    // Dictionaries and run lengths shrink the file enough; a codec would be a further library.
    let properties = WriterProperties::builder().set_compression(Compression::UNCOMPRESSED);
    let mut file =
        SerializedFileWriter::new(File::create(path)?, schema, Arc::new(properties.build()))?;
    let mut group = file.next_row_group()?;
    let mut columns = COLUMNS.iter();
    while let (Some(column), Some(mut writer)) = (columns.next(), group.next_column()?) {
        match (column, writer.untyped()) {
            (Column::Text(_, of), ColumnWriter::ByteArrayColumnWriter(writer)) => {
                let values: Vec<ByteArray> =
                    lines.iter().map(|l| of(l).into_bytes().into()).collect();
                writer.write_batch(&values, None, None)?;
            }
            (Column::Whole(_, of), ColumnWriter::Int64ColumnWriter(writer)) => {
                let values: Vec<i64> = lines
                    .iter()
                    .map(|l| i64::try_from(of(l)).unwrap_or(i64::MAX))
                    .collect();
                writer.write_batch(&values, None, None)?;
            }
            (Column::Number(_, of), ColumnWriter::DoubleColumnWriter(writer)) => {
                let values: Vec<f64> = lines.iter().map(of).collect();
                writer.write_batch(&values, None, None)?;
            }
            _ => {
                return Err(ParquetError::General(
                    "a column's type is not its own".into(),
                ));
            }
        }
        writer.close()?;
    }
    group.close()?;
    file.close()?;
    Ok(())
}

fn csv(lines: &[Line<'_>]) -> String {
    let names: Vec<&str> = COLUMNS
        .iter()
        .map(|column| match column {
            Column::Text(name, _) | Column::Whole(name, _) | Column::Number(name, _) => *name,
        })
        .collect();
    let mut text = names.join(",") + "\n";
    for line in lines {
        for (i, column) in COLUMNS.iter().enumerate() {
            if i > 0 {
                text.push(',');
            }
            // Our names contain no comma; writing to a String cannot fail.
            let _infallible = match column {
                Column::Text(_, of) => write!(text, "{}", of(line)),
                Column::Whole(_, of) => write!(text, "{}", of(line)),
                Column::Number(_, of) => write!(text, "{}", of(line)),
            };
        }
        text.push('\n');
    }
    text
}

fn result_csv(result: &IsolationResult) -> String {
    let mut text = "runtime,care,resource,id,scenario,utilisation_pct,i_ulr,i_plr,\
                    utilisation_loss_pct,utilisation_loss_low,utilisation_loss_high,performance,\
                    performance_loss_pct,performance_loss_low,performance_loss_high,p99_us\n"
        .to_owned();
    let optional = |value: Option<f64>| value.map_or(String::new(), |v| v.to_string());
    for table in &result.tables {
        for row in &table.rows {
            let mut fields = vec![
                table.runtime.to_string(),
                table.protection.to_string(),
                table.resource.to_string(),
                row.id.to_string(),
                row.scenario.to_string(),
                row.utilisation_pct.median.to_string(),
                optional(row.i_ulr),
                optional(row.i_plr),
            ];
            for (i, loss) in [&row.utilisation_loss_pct, &row.performance_loss_pct]
                .into_iter()
                .enumerate()
            {
                if i == 1 {
                    fields.push(row.performance.median.to_string());
                }
                let loss = loss.as_ref();
                fields.push(optional(loss.map(|e| e.median)));
                fields.push(optional(loss.and_then(Estimate::low)));
                fields.push(optional(loss.and_then(Estimate::high)));
            }
            fields.push(optional(row.p99_us.as_ref().map(|e| e.median)));
            text += &fields.join(",");
            text.push('\n');
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::SCHEMA;
    use crate::isolation::data::{CellKey, Protection, Resource, RuntimeKind};
    use parquet::file::reader::{FileReader, SerializedFileReader};
    use parquet::record::RowAccessor;

    /// Promise 45.
    #[test]
    fn parquet_and_csv_hold_the_same_rows() {
        let point = |t_ms| Point {
            t_ms,
            rss_bytes: 4096,
            ops: 7,
            ..Point::default()
        };
        let sample = IsolationSample {
            schema: SCHEMA,
            time: "2026-11-22T00:00:00Z".to_owned(),
            key: CellKey {
                runtime: RuntimeKind::Podman,
                protection: Protection::Vanilla,
                resource: Resource::Memory,
                scenario: "a_s_b_f".parse().unwrap(),
                repetition: 3,
            },
            position: 0,
            attempt: 0,
            window_s: 1.0,
            limit: 0.5,
            a: TenantSample {
                asked: Some(2.5),
                series: vec![point(0.0), point(100.25)],
                ..TenantSample::default()
            },
            b: Some(TenantSample {
                series: vec![point(50.0)],
                ..TenantSample::default()
            }),
            acquisition_cpu_pct: 0.1,
            steal_fraction: None,
        };
        let dir = tempfile::tempdir().unwrap();
        let again = IsolationSample {
            attempt: 1,
            b: None,
            ..sample.clone()
        };
        write(dir.path(), &[again], &[sample], &IsolationResult::default()).unwrap();
        let file = File::open(dir.path().join(PARQUET)).unwrap();
        let reader = SerializedFileReader::new(file).unwrap();
        let rows: Vec<_> = reader
            .get_row_iter(None)
            .unwrap()
            .map(Result::unwrap)
            .collect();
        // The repeated measurement's three points follow the counting one's two.
        assert_eq!(rows.len(), 5);
        assert_eq!(
            (rows[0].get_long(5).unwrap(), rows[0].get_long(6).unwrap()),
            (1, 1)
        );
        assert_eq!(
            (rows[4].get_long(5).unwrap(), rows[4].get_long(6).unwrap()),
            (0, 0)
        );
        assert_eq!(rows[1].get_string(0).unwrap(), "podman");
        assert_eq!(rows[1].get_string(3).unwrap(), "a_s_b_f");
        assert_eq!(rows[1].get_long(4).unwrap(), 3);
        assert_eq!(rows[1].get_double(10).unwrap(), 100.25);
        assert_eq!(rows[4].get_string(8).unwrap(), "b");
        let text = fs::read_to_string(dir.path().join(CSV)).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 6);
        assert!(lines[0].starts_with(
            "runtime,care,resource,scenario,repetition,attempt,counts,steal_fraction,tenant,asked,t_ms"
        ));
        assert!(
            lines[2].starts_with("podman,vanilla,memory,a_s_b_f,3,1,1,NaN,a,2.5,100.25,0,4096,")
        );
        let result = fs::read_to_string(dir.path().join(RESULT_CSV)).unwrap();
        assert_eq!(result.lines().count(), 1);
        assert!(!dir.path().join("samples.parquet.tmp").exists());
    }
}
