//! Reader and writer of `host.json`.

use super::InputError;
use super::document::{CpuDocument, HostDocument, SliceUs, TickHz};
use crate::host::{CgroupVersion, Host, MOST_CPUS, Shape};
use cofferdam_types::{CpuId, LogicalCpu, Topology};
use std::collections::BTreeSet;

/// Schema of `host.json`.
pub const HOST: &str = "cofferdam.host/1";

/// Reads `host.json`: either `cpus`, each with its core, cache and node, or `shape`, a regular
/// host.
///
/// # Errors
/// Returns the fault with its line.
pub fn host(text: &str) -> Result<Host, InputError> {
    let read: HostDocument = serde_json::from_str(text).map_err(|e| InputError::form(&e))?;
    let wrong = |key: &str, what: String| {
        let key = format!("\"{key}\"");
        let line = text.lines().position(|l| l.contains(&key)).unwrap_or(0) + 1;
        Err(InputError::Content { line, what })
    };
    if read.schema != HOST {
        let found = &read.schema;
        return wrong(
            "schema",
            format!("the schema is '{found}': it must be '{HOST}'"),
        );
    }
    let topology = match (read.shape, read.cpus) {
        (Some(shape), None) => {
            let shape = Shape {
                nodes: shape.nodes,
                llcs_per_node: shape.llcs_per_node,
                cores_per_llc: shape.cores_per_llc,
                threads_per_core: shape.threads_per_core,
            };
            match shape.topology() {
                Some(topology) => topology,
                None => {
                    let what = format!(
                        "the product of the four numbers of 'shape' is the number of CPUs: it must \
                         be 1 to {MOST_CPUS}"
                    );
                    return wrong("shape", what);
                }
            }
        }
        (None, Some(cpus)) => match topology(cpus) {
            Ok(topology) => topology,
            Err(what) => return wrong("cpus", what),
        },
        _ => {
            let what = "give either 'shape' or 'cpus'".to_owned();
            return wrong("schema", what);
        }
    };
    let mut host = Host::new(topology);
    if let Some(TickHz(hz)) = read.tick_hz {
        host.tick_hz = hz;
    }
    if let Some(SliceUs(us)) = read.base_slice_us {
        host.base_slice_ns = (us * 1000.0) as u64;
    }
    host.cgroup = match read.cgroup_version {
        None | Some(2) => CgroupVersion::V2,
        Some(1) => CgroupVersion::V1,
        Some(other) => {
            let what = format!("cgroup_version is {other}: it must be 1 or 2");
            return wrong("cgroup_version", what);
        }
    };
    Ok(host)
}

fn topology(cpus: Vec<CpuDocument>) -> Result<Topology, String> {
    let mut seen = BTreeSet::new();
    if let Some(twice) = cpus.iter().find(|c| !seen.insert(c.cpu)) {
        return Err(format!("CPU {} is listed twice: list each once", twice.cpu));
    }
    if !(1..=MOST_CPUS).contains(&cpus.len()) {
        return Err(format!(
            "{} CPUs are listed: give 1 to {MOST_CPUS}",
            cpus.len()
        ));
    }
    if cpus.iter().all(|c| c.isolated) {
        return Err("all CPUs are isolated: nothing can run".to_owned());
    }
    let mut cpus: Vec<LogicalCpu> = cpus
        .into_iter()
        .map(|c| LogicalCpu {
            cpu: CpuId(c.cpu),
            core: c.core,
            llc: c.llc,
            node: c.node,
            isolated: c.isolated,
        })
        .collect();
    cpus.sort_by_key(|c| c.cpu);
    Ok(Topology { cpus })
}

/// Writes a host as `host.json`, one CPU per line.
pub fn host_json(host: &Host) -> String {
    let cpus = host.topology.cpus.iter().map(|c| {
        let cpu = CpuDocument {
            cpu: c.cpu.0,
            core: c.core,
            llc: c.llc,
            node: c.node,
            isolated: c.isolated,
        };
        serde_json::to_string(&cpu).expect("numbers and booleans are JSON")
    });
    let cpus: Vec<String> = cpus.map(|cpu| format!("    {cpu}")).collect();
    let version = match host.cgroup {
        CgroupVersion::V1 => 1,
        CgroupVersion::V2 => 2,
    };
    format!(
        "{{\n  \"schema\": \"{HOST}\",\n  \"tick_hz\": {},\n  \"base_slice_us\": {},\n  \
         \"cgroup_version\": {version},\n  \"cpus\": [\n{}\n  ]\n}}\n",
        host.tick_hz,
        host.base_slice_ns as f64 / 1000.0,
        cpus.join(",\n")
    )
}
