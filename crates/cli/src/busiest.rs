//! The busiest process of the host, for findings that blame "processes of the host".

use crate::exit::one_line;
use crate::top::processes::{command, stat};
use cofferdam_host::{HostFs, TICKS_PER_S, parse};
use cofferdam_records::accounting::ContainerRecord;
use cofferdam_records::explain::Explanation;
use cofferdam_records::status::LOSES;
use std::collections::HashMap;
use std::path::Path;
use std::time::Instant;

/// Most processes that are read: each costs about ten microseconds.
const MOST: usize = 4096;
/// Most of the busiest processes whose cgroup is read.
const MOST_ASKED: usize = 16;
/// Letters of a command line that are printed.
const COMMAND: usize = 60;
/// Smallest CPU use of a process that is mentioned, CPUs.
const WORTH_WORDS_CPUS: f64 = 0.01;

/// CPU times of all processes at one moment.
#[derive(Debug)]
pub struct Busiest {
    fs: HostFs,
    ticks: HashMap<(u32, u64), u64>,
    at: Instant,
}

impl Busiest {
    /// Takes the first reading.
    pub fn begin() -> Busiest {
        let fs = HostFs::host();
        Busiest {
            ticks: ticks(&fs)
                .into_iter()
                .map(|(pid, ticks, _)| (pid, ticks))
                .collect(),
            fs,
            at: Instant::now(),
        }
    }

    /// Names the busiest process in each finding that blames the host. Processes of `containers` do
    /// not count.
    pub fn name(&self, explanation: &mut Explanation, containers: &[ContainerRecord]) {
        let blames_host =
            |f: &&mut cofferdam_records::explain::Finding| f.name == LOSES && f.offender.is_none();
        let mut findings = explanation
            .findings
            .iter_mut()
            .filter(blames_host)
            .peekable();
        if findings.peek().is_none() {
            return;
        }
        let Some(text) = self.text(containers) else {
            return;
        };
        for finding in findings {
            finding.reasons.push(text.clone());
        }
    }

    fn text(&self, containers: &[ContainerRecord]) -> Option<String> {
        let seconds = self.at.elapsed().as_secs_f64().max(1e-3);
        let used = |(key, ticks, name): ((u32, u64), u64, String)| {
            let before = self.ticks.get(&key)?;
            let cpus = ticks.saturating_sub(*before) as f64 / TICKS_PER_S / seconds;
            Some((cpus, key.0, name))
        };
        let mut all: Vec<(f64, u32, String)> =
            ticks(&self.fs).into_iter().filter_map(used).collect();
        // ksoftirqd handles packets of others: it is not the cause.
        all.retain(|(cpus, _, name)| *cpus >= WORTH_WORDS_CPUS && !name.starts_with("ksoftirqd/"));
        all.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
        let mut of_host = all
            .into_iter()
            .take(MOST_ASKED)
            .filter_map(|(cpus, pid, name)| {
                let text = self.fs.read_text(format!("/proc/{pid}/cgroup")).ok()?;
                let path = parse::proc_cgroup_v2(&text)?;
                (!is_inside(&path, containers)).then_some((cpus, pid, name, path))
            });
        let (cpus, pid, name, path) = of_host.next()?;
        let line: String = command(&self.fs, pid, &name)
            .chars()
            .take(COMMAND)
            .collect();
        let cgroup = one_line(&path.display().to_string());
        Some(format!(
            "the busiest is '{line}', process {pid} in {cgroup}: {cpus:.2} CPUs"
        ))
    }
}

/// Whether `path` is inside one of `containers`.
fn is_inside(path: &Path, containers: &[ContainerRecord]) -> bool {
    let mut containers = containers.iter().filter(|c| !c.is_of_host());
    containers.any(|c| path.starts_with(&c.cgroup_path))
}

/// CPU time and name of each process, by its number and start.
fn ticks(fs: &HostFs) -> Vec<((u32, u64), u64, String)> {
    let names = fs.directories("/proc").unwrap_or_default();
    let pids = names
        .iter()
        .filter_map(|name| name.to_str()?.parse::<u32>().ok());
    let one = |pid: u32| {
        let stat = stat(&fs.read_text(format!("/proc/{pid}/stat")).ok()?)?;
        Some(((pid, stat.start), stat.ticks, stat.name))
    };
    pids.take(MOST).filter_map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use cofferdam_records::accounting::ContainerRecord;

    /// Promise 7.
    #[test]
    fn a_process_of_a_container_is_not_of_the_host() {
        let container = |path: &str, runtime: &str| ContainerRecord {
            cgroup_path: path.to_owned(),
            runtime: runtime.to_owned(),
            ..ContainerRecord::default()
        };
        let all = [container("/pods/a", "plain"), container("/", "host")];
        assert!(is_inside(Path::new("/pods/a/b"), &all));
        assert!(!is_inside(Path::new("/pods/ab"), &all));
        assert!(!is_inside(Path::new("/"), &all));
    }

    /// Promise 7.
    #[test]
    fn a_process_that_spins_is_the_busiest() {
        let busiest = Busiest::begin();
        let begin = Instant::now();
        let mut rounds = 0_u64;
        while begin.elapsed().as_millis() < 300 {
            rounds = std::hint::black_box(rounds + 1);
        }
        // Others may be busier: then one of them is named.
        let text = busiest.text(&[]).unwrap();
        assert!(
            text.contains("process ") && text.ends_with(" CPUs"),
            "{text}"
        );
    }
}
