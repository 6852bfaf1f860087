//! Writes the ledgers of a synthetic fleet: `synthetic DIR HOSTS DAYS CONTAINERS [INTERVAL_S]`, one
//! Parquet file per host.

use anyhow::{Context, Result, bail};
use cofferdam_columnar::Writer;
use cofferdam_fleet::synthetic::Host;
use std::path::PathBuf;
use std::time::Instant;

/// CPUs of each host.
const CPUS: usize = 8;

fn main() -> Result<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let (dir, numbers) = words
        .split_first()
        .context("usage: synthetic DIR HOSTS DAYS CONTAINERS [INTERVAL_S]")?;
    let parsed: Vec<f64> = numbers
        .iter()
        .map(|n| n.parse())
        .collect::<Result<_, _>>()?;
    let (hosts, days, containers, interval_s) = match parsed[..] {
        [hosts, days, containers] => (hosts as u64, days, containers as usize, 60.0),
        [hosts, days, containers, interval_s] => {
            (hosts as u64, days, containers as usize, interval_s)
        }
        _ => bail!("three or four numbers are wanted"),
    };
    let dir = PathBuf::from(dir);
    std::fs::create_dir_all(&dir)?;
    let begin = Instant::now();
    let records = (days * 86_400.0 / interval_s) as u64;
    for n in 0..hosts {
        let name = format!("node-{n:04}.example.org");
        let host = Host::new(&name, CPUS, containers);
        let mut writer = Writer::create(&dir.join(format!("{name}.parquet")), &name)?;
        for number in 0..records {
            writer.write(&host.record(number, interval_s))?;
        }
        writer.finish()?;
    }
    let rows = hosts * records * containers as u64;
    eprintln!(
        "{rows} rows of containers in {:.1} s",
        begin.elapsed().as_secs_f64()
    );
    Ok(())
}
