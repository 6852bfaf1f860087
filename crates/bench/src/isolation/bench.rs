//! Measurement of cells. The tenants of one runtime and resource stay alive from cell to cell.

use super::acquire::{Acquisition, Files, Tenants};
use super::cgroups::TenantCgroups;
use super::device::{self, BlockDevice};
use super::experiment::Experiment;
use super::figures::{LoadReports, sample, series};
use super::flood::{self, Flood};
use super::generator::HostGenerator;
use super::guest::{LoadFigures, Tick};
use super::levels::{self, Demand, Load, Target, most_memory, split_iops};
use super::place::{Place, Sink};
use super::protection;
use super::runtime::{self, Runtime};
use super::tenant::{Limit, TenantSpec};
use super::testbed::{IsolationTestbed, shape};
use super::trace::Tracer;
use crate::agent::process::Agent;
use crate::cpustat;
use crate::data::SCHEMA;
use crate::error::BenchError;
use crate::host_facts;
use crate::isolation::data::{CellKey, IsolationSample, Level, Protection, Resource, Scenario};
use crate::rundir::now;
use crate::signals::Signals;
use cofferdam_bpf::TenantWatch;
use cofferdam_lab::run;
use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};

/// Time by which tenant b's load starts before tenant a's.
const LEAD: Duration = Duration::from_millis(100);
/// Longest delay of a load's end: its CPU may be taken.
const LATE: Duration = Duration::from_secs(20);
/// Ports of the sinks of a and b.
const PORTS: [u16; 2] = [9001, 9002];

/// One of the two tenants.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum TenantRole {
    A,
    B,
}

/// Tenants of one runtime for one resource, on their testbed.
pub(super) struct Bench<'a> {
    experiment: &'a Experiment,
    signals: &'a Signals,
    resource: Resource,
    // Dropped before the runtime (its images) and the testbed, which they need.
    tenants: BTreeMap<(TenantRole, bool), Place>,
    sinks: Vec<Sink>,
    /// Source of b's datagrams if network CPU is measured.
    flood: Option<Flood>,
    runtime: Box<dyn Runtime>,
    tracer: Option<Tracer>,
    /// Reason why there are no BPF programs.
    pub untraced: Option<String>,
    // Dropped after the tenants: the agent must not revert their limits while it still works.
    _agent: Option<Agent>,
    testbed: IsolationTestbed,
    /// Number of tenants started so far, which makes their names unique.
    started: u8,
    pub image: Option<(String, String)>,
}

impl<'a> Bench<'a> {
    /// Builds the testbed and prepares the runtime.
    pub fn new(
        experiment: &'a Experiment,
        key: &CellKey,
        signals: &'a Signals,
    ) -> Result<Bench<'a>, BenchError> {
        let mut runtime = runtime::of(key.runtime);
        let testbed = IsolationTestbed::build(experiment.link.0)?;
        let image = runtime.prepare(&testbed)?;
        let agent = match key.protection {
            Protection::Vanilla => None,
            Protection::Cofferdam => Some(protection::start(experiment, key.runtime, &testbed)?),
        };
        let (tracer, untraced) = match Tracer::start() {
            Ok(tracer) => (Some(tracer), None),
            Err(e) => (None, Some(e.to_string())),
        };
        Ok(Bench {
            experiment,
            tracer,
            untraced,
            signals,
            resource: key.resource,
            tenants: BTreeMap::new(),
            sinks: Vec::new(),
            flood: None,
            runtime,
            _agent: agent,
            testbed,
            started: 0,
            image,
        })
    }

    /// Measures one cell.
    pub fn cell(&mut self, key: &CellKey, position: u32) -> Result<IsolationSample, BenchError> {
        let outcome = self.measure(key, position);
        if outcome.is_err() {
            // Their state is unknown: the next cell starts new ones.
            self.tenants.clear();
            self.sinks.clear();
            self.flood = None;
        }
        outcome
    }

    fn measure(&mut self, key: &CellKey, position: u32) -> Result<IsolationSample, BenchError> {
        let Scenario { a, b } = key.scenario;
        let roles: Vec<(TenantRole, Level)> = std::iter::once((TenantRole::A, a))
            .chain(b.map(|b| (TenantRole::B, b)))
            .collect();
        if self.resource == Resource::Network && self.sinks.is_empty() {
            for port in PORTS {
                let sink = Sink::new(&self.testbed, self.experiment.generator, port)?;
                self.sinks.push(sink);
            }
        }
        for sink in &mut self.sinks {
            sink.prepare(&self.testbed)?;
        }
        let mut demands = Vec::new();
        let mut files = Vec::new();
        for (who, level) in &roles {
            self.ready(*who, *level)?;
            let demand = self.demand(*who, *level)?;
            let place = self.tenant(*who, *level)?;
            place.begin(&demand.load)?;
            let counter = place.watch.as_ref().map(TenantWatch::counter);
            files.push(Files::of(place.tenant.pid, &place.cgroups, counter));
            demands.push(demand);
        }
        for ((who, level), demand) in roles.iter().zip(&demands) {
            self.tenant(*who, *level)?.await_prepared(&demand.load)?;
        }
        let (warmup, measure) = (self.experiment.warmup.0, self.experiment.measure.0);
        let online = host_facts::online_cpus();
        let cpus_before: Vec<_> = online.iter().map(|cpu| cpustat::read(*cpu)).collect();
        let tenants = Tenants::new(files);
        for sink in &mut self.sinks {
            sink.go(LEAD, warmup, measure)?;
        }
        if let [_, (who, level), ..] = roles.as_slice() {
            self.tenant(*who, *level)?.go(LEAD + warmup, measure)?;
            if let Some(flood) = &mut self.flood {
                flood.go(LEAD + warmup, measure)?;
            }
        }
        std::thread::sleep(LEAD);
        let programs_before = self.tracer.as_ref().map_or(0, Tracer::run_time_ns);
        let acquisition = Acquisition::start(tenants);
        self.tenant(TenantRole::A, a)?.go(warmup, measure)?;
        let done = self.finish(&roles, warmup + measure);
        let mut acquired = acquisition.end();
        let programs = self.tracer.as_ref().map_or(0, Tracer::run_time_ns);
        let programs_s = programs.saturating_sub(programs_before) as f64 / 1e9;
        acquired.cpu_pct += programs_s / acquired.wall_s.max(1e-9) * 100.0;
        let done = done?;
        let arrived = self.await_sinks(&roles)?;
        let flooded = match &mut self.flood {
            Some(flood) if roles.len() > 1 => Some(flood.end(LATE)?),
            _ => None,
        };
        let generator = self.experiment.generator;
        let mut samples = Vec::new();
        for (i, (who, level)) in roles.iter().enumerate() {
            let place = self.tenant(*who, *level)?;
            let at_sink = match key.resource {
                Resource::Network => arrived.get(i),
                _ => None,
            };
            let ticks = at_sink.map_or(place.ticks(), |(_, ticks)| ticks.as_slice());
            let series = series(&acquired, i, ticks);
            // Source and sink of the load, if these differ.
            let (source, sink) = match (&flooded, who) {
                (Some(flooded), TenantRole::B) => (flooded, Some(&done[i])),
                _ => (&done[i], at_sink.map(|(done, _)| done)),
            };
            let load = LoadReports {
                asked: demands[i].asked,
                source,
                sink,
                one_clock: sink.is_none() || place.tenant.host_clock,
            };
            let window = [warmup, warmup + measure];
            samples.push(sample(key.resource, generator, &load, series, window));
        }
        let steal = steal(&online, &cpus_before);
        let mut samples = samples.into_iter();
        Ok(IsolationSample {
            schema: SCHEMA,
            time: now(),
            key: key.clone(),
            position,
            attempt: 0,
            window_s: done[0].window_s,
            limit: self.limit_value(),
            a: samples.next().unwrap_or_default(),
            b: samples.next(),
            acquisition_cpu_pct: acquired.cpu_pct / roles.len() as f64,
            steal_fraction: steal,
        })
    }

    /// Waits for a, then stops b. Signals are noticed within 50 ms.
    fn finish(
        &mut self,
        roles: &[(TenantRole, Level)],
        time: Duration,
    ) -> Result<Vec<LoadFigures>, BenchError> {
        let deadline = Instant::now() + time + LATE;
        let mut all = Vec::new();
        for (i, (who, level)) in roles.iter().enumerate() {
            let mut done = None;
            while done.is_none() {
                if self.signals.caught() {
                    // The caller fills in the directory.
                    return Err(BenchError::Interrupted {
                        dir: Path::new("").to_owned(),
                    });
                }
                let place = self.tenant(*who, *level)?;
                done = place.await_figures(Duration::from_millis(50))?;
                if done.is_none() && Instant::now() > deadline {
                    return Err(BenchError::Worker {
                        worker: tenant_name(*who, *level),
                        reason: format!("it was not done {} s after its time", LATE.as_secs()),
                    });
                }
            }
            all.extend(done);
            if i == 0 && roles.len() > 1 {
                // The load is about to end by itself. A delayed tenant b must not delay the rest.
                let (who, level) = roles[1];
                self.tenant(who, level)?.stop()?;
            }
        }
        Ok(all)
    }

    /// Figures and ticks of the sinks.
    fn await_sinks(
        &mut self,
        roles: &[(TenantRole, Level)],
    ) -> Result<Vec<(LoadFigures, Vec<Tick>)>, BenchError> {
        let mut all = Vec::new();
        for (i, sink) in self.sinks.iter_mut().enumerate() {
            all.extend(sink.await_figures(i < roles.len(), LATE)?);
        }
        Ok(all)
    }

    fn tenant(&mut self, who: TenantRole, level: Level) -> Result<&mut Place, BenchError> {
        let limited = level != Level::Unrestricted;
        self.tenants
            .get_mut(&(who, limited))
            .ok_or_else(|| BenchError::Worker {
                worker: tenant_name(who, level),
                reason: "it was not started".to_owned(),
            })
    }

    /// Demand on a started tenant. If network CPU is measured, b must receive, and the peer must
    /// send.
    fn demand(&mut self, who: TenantRole, level: Level) -> Result<Demand, BenchError> {
        let experiment = self.experiment;
        let resource = self.resource;
        let place = self.tenant(who, level)?;
        if (who, resource) != (TenantRole::B, Resource::NetworkCpu) {
            return Ok(levels::demand(experiment, resource, level, &place.target));
        }
        let port = PORTS[who as usize];
        let to = format!("{}:{port}", flood::address(&place.tenant)?);
        let sent = levels::flood(experiment, level, to);
        let flood = match &mut self.flood {
            Some(flood) => flood,
            none => none.insert(Flood::new(&self.testbed)?),
        };
        flood.prepare(&sent)?;
        Ok(Demand {
            asked: sent.asked,
            load: Load::Sink { port },
        })
    }

    /// Starts a tenant unless it runs.
    fn ready(&mut self, who: TenantRole, level: Level) -> Result<(), BenchError> {
        let limited = level != Level::Unrestricted;
        if self.tenants.contains_key(&(who, limited)) {
            return Ok(());
        }
        let disk_bytes = match self.resource.is_disk() {
            true => self.experiment.limits.disk_file.0,
            false => 0,
        };
        if disk_bytes > 0 {
            device::room_for(&self.testbed.data, disk_bytes)?;
        }
        let limit = match limited {
            true => self.limit()?,
            false => None,
        };
        let index = self.started;
        self.started = self.started.wrapping_add(1);
        let spec = TenantSpec {
            name: format!("{}{index}", tenant_name(who, level)),
            // The address of an ended tenant is free again.
            index: index % 200,
            limit,
            network: self.resource.needs_network(),
            memory_bytes: most_memory(self.experiment, self.resource),
            disk_bytes,
        };
        let tenant = self.runtime.start(&self.testbed, &spec)?;
        if let Some(Limit::Network(bits_per_s)) = spec.limit {
            shape(tenant.pid, bits_per_s)?;
        }
        let target = Target {
            file: format!("{}/file", tenant.dir),
            sink: IsolationTestbed::sink(PORTS[who as usize]),
        };
        let cgroups = TenantCgroups::of(tenant.pid)?;
        let watch = self.tracer.as_mut().map(|t| t.watch(&cgroups)).transpose();
        let place = Place {
            watch: watch?,
            host_generator: HostGenerator::of(self.experiment.generator, &tenant)?,
            tenant,
            target,
            cgroups,
        };
        self.tenants.insert((who, limited), place);
        if self.resource.needs_network() {
            // A runtime's bridge may change its hardware address with each new port. The tenants'
            // neighbour entries are then stale, and their packets would be lost for a while.
            for Place { tenant, .. } in self.tenants.values() {
                run(&format!(
                    "nsenter --target {} --net ip neigh flush all",
                    tenant.pid
                ))?;
            }
        }
        Ok(())
    }

    /// Limit as a number in the resource's unit.
    fn limit_value(&self) -> f64 {
        let limits = &self.experiment.limits;
        match self.resource {
            Resource::Cpu | Resource::NetworkCpu => self.experiment.cpus(),
            Resource::Memory => self.experiment.memory().0 as f64,
            Resource::Disk | Resource::DiskBuffered => f64::from(limits.disk_iops.unwrap_or(0)),
            Resource::Network => limits.network.0 as f64,
            Resource::Llc => self.experiment.llc().0 as f64,
        }
    }

    /// Limit of a tenant; `None` if no runtime limits this resource.
    fn limit(&self) -> Result<Option<Limit>, BenchError> {
        let limits = &self.experiment.limits;
        Ok(Some(match self.resource {
            Resource::Cpu | Resource::NetworkCpu => Limit::Cpus(self.experiment.cpus()),
            Resource::Memory => Limit::Memory(self.experiment.memory().0),
            Resource::Disk | Resource::DiskBuffered => {
                let (reads, writes) = split_iops(limits.disk_iops.unwrap_or(1));
                Limit::Disk {
                    device: BlockDevice::under(&self.testbed.data)?,
                    reads,
                    writes,
                }
            }
            Resource::Network => Limit::Network(limits.network.0),
            Resource::Llc if self.experiment.llc().0 == 0 => {
                return Err(BenchError::Unsupported(
                    "this host does not report the size of its last-level cache: set 'limits.llc'"
                        .to_owned(),
                ));
            }
            Resource::Llc => return Ok(None),
        }))
    }
}

fn tenant_name(who: TenantRole, level: Level) -> String {
    let name = match who {
        TenantRole::A => "a",
        TenantRole::B => "b",
    };
    match level {
        Level::Unrestricted => format!("{name}-free"),
        _ => name.to_owned(),
    }
}

fn steal(online: &[u32], before: &[Option<cpustat::CpuStat>]) -> Option<f64> {
    let used: Vec<_> = online
        .iter()
        .zip(before)
        .filter_map(|(cpu, before)| Some(cpustat::read(*cpu)?.since(before.as_ref()?)))
        .collect();
    let total: f64 = used.iter().map(cpustat::CpuStat::total).sum();
    let steal: f64 = used.iter().map(|u| u.steal).sum();
    (total > 0.0).then_some(steal / total)
}
