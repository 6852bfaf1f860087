//! Flows to a container, by 5-tuple: `cofferdam flows`, and the same in the details of `top`.

mod document;
#[cfg(test)]
mod tests;
mod text;

pub use document::{Subject, document};
pub use text::{lines, words};

use crate::args::FlowsArgs;
use crate::exit::{Failure, Outcome, one_line};
use crate::interrupt::Interrupt;
use crate::output::{Output, json};
use crate::progress::Progress;
use crate::source::{self, Meter};
use crate::{table, units};
use cofferdam_flows::{Capture, CaptureError, PacketOwner};
use cofferdam_host::{CgroupLayout, HostFs, in_namespace, inside, parse, resolve};
use cofferdam_types::{CgroupId, Container, ContainerLedger, Interval, NetnsId};
use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::net::IpAddr;
use std::os::unix::fs::MetadataExt;
use std::sync::Arc;

/// Most containers of the host whose addresses are read.
const MOST_SENDERS: usize = 64;

/// Samples the packets of one container, and prints their flows.
pub fn run(args: &FlowsArgs, interrupt: &Interrupt) -> Outcome {
    let mut progress = Progress::new(true);
    progress.show("loading the accounting programs, or attaching to running ones");
    let source = source::start(&args.agent.path(), std::slice::from_ref(&args.container))?;
    let mut meter = Meter::new(source)?;
    let containers = meter.containers();
    let found =
        resolve(&args.container, &containers).map_err(|e| Failure::failed(e.to_string()))?;
    let [container] = &found[..] else {
        let names: Vec<_> = found.iter().map(|c| one_line(&c.name)).collect();
        return Err(Failure::failed(format!(
            "'{}' means {} containers ({}): name one",
            args.container,
            names.len(),
            names.join(", ")
        )));
    };
    let container = Arc::clone(container);
    let netns = open(&container)?;
    let capture = Capture::start(&netns, &packet_owner(&container), None).map_err(refused)?;
    progress.show(&format!(
        "sampling packets for {}",
        units::duration(args.duration)
    ));
    let interval = match meter.next(args.duration, interrupt)? {
        Some(interval) => interval,
        None => return Err(Failure::Interrupted(None)),
    };
    let reading = capture.reading();
    drop(capture);
    progress.clear();
    if let Some(why) = &reading.failed {
        return Err(Failure::failed(format!(
            "the sampling of packets ended: {why}"
        )));
    }
    let subject = subject(&container, &interval)?;
    let mut record = document(&subject, &reading, interval.time);
    record.flows.truncate(args.top);
    let text = if args.json {
        json(&record)?
    } else {
        text::page(&record, table::terminal_width())
    };
    Output::stdout().write(&text)
}

/// Ledger of the container that is sampled, as far as the document needs it.
fn subject(container: &Container, interval: &Interval) -> Result<Subject, Failure> {
    let is_it = |entry: &&ContainerLedger| entry.container.cgroup == container.cgroup;
    let Some(entry) = interval.containers.iter().find(is_it) else {
        return Err(Failure::failed(format!(
            "container {} is gone: its cgroup was removed while its packets were sampled",
            one_line(&container.name)
        )));
    };
    let all: Vec<_> = interval
        .containers
        .iter()
        .map(|c| Arc::clone(&c.container))
        .collect();
    let mut senders: Vec<_> = entry.received_from.iter().collect();
    senders.sort_by_key(|(_, packets)| std::cmp::Reverse(**packets));
    let ids = senders.into_iter().map(|(id, _)| *id);
    Ok(Subject {
        container: container.name.clone(),
        cgroup_id: container.cgroup.0,
        shared_with: neighbours(container, &all),
        by_sockets: container.host_network,
        ns_per_packet: entry.ledger.ns_per_packet(),
        senders: senders_of(ids, &all),
    })
}

/// Way to recognize the packets of `container`: by its sockets in the host's network namespace,
/// else by its namespace.
pub fn packet_owner(container: &Container) -> PacketOwner {
    if !container.host_network {
        return PacketOwner::Namespace;
    }
    let below = container.descendants.iter().copied();
    PacketOwner::Cgroups(below.chain([container.cgroup]).collect())
}

/// Names of the other containers whose packets cannot be distinguished from those of `container`:
/// they share its network namespace, and it is not the host's.
pub fn neighbours(container: &Container, all: &[Arc<Container>]) -> Vec<String> {
    if container.host_network {
        return Vec::new();
    }
    let other = |c: &&Arc<Container>| {
        c.cgroup != container.cgroup && c.netns == container.netns && c.netns.is_some()
    };
    all.iter().filter(other).map(|c| c.name.clone()).collect()
}

/// Names of containers by their addresses: first those of `first`, then others, up to
/// [`MOST_SENDERS`]. Containers whose addresses cannot be read are left out.
pub fn senders_of(
    first: impl Iterator<Item = CgroupId>,
    all: &[Arc<Container>],
) -> HashMap<IpAddr, String> {
    let mut asked = HashSet::new();
    let mut names = HashMap::new();
    for id in first.chain(all.iter().map(|c| c.cgroup)) {
        if asked.len() == MOST_SENDERS {
            break;
        }
        let sender = all.iter().find(|c| c.cgroup == id);
        let Some(sender) = sender.filter(|c| !c.host_network && asked.insert(c.netns)) else {
            continue;
        };
        let addresses = open(sender).ok().and_then(|netns| {
            let asked = in_namespace(&netns, inside::addresses).ok()?;
            asked.ok()
        });
        for (_, address) in addresses.unwrap_or_default() {
            names.insert(address, sender.name.clone());
        }
    }
    names
}

/// Opens the network namespace of `container`, by any of its processes.
pub fn open(container: &Container) -> Result<File, Failure> {
    let name = one_line(&container.name);
    let Some(expected) = container.netns else {
        return Err(Failure::failed(format!(
            "{name} has no process, and so no network namespace"
        )));
    };
    let fs = HostFs::host();
    let listed = CgroupLayout::read(&fs).ok().and_then(|layout| {
        let folder = layout.v2_directory(&container.cgroup_path);
        fs.read_text(folder.join("cgroup.procs")).ok()
    });
    let listed = listed.unwrap_or_default();
    let pids = container.pid.into_iter().chain(parse::procs(&listed));
    let mut denied = false;
    for pid in pids.take(64) {
        match File::open(format!("/proc/{pid}/ns/net")) {
            Ok(file) if is(&file, expected) => return Ok(file),
            Ok(_) => {}
            Err(e) => denied |= e.kind() == std::io::ErrorKind::PermissionDenied,
        }
    }
    if denied {
        return Err(refused(CaptureError::Denied));
    }
    Err(Failure::failed(format!(
        "{name} has no process in its network namespace any more"
    )))
}

fn is(file: &File, netns: NetnsId) -> bool {
    file.metadata().is_ok_and(|m| m.ino() == u64::from(netns.0))
}

fn refused(error: CaptureError) -> Failure {
    match error {
        CaptureError::Denied => Failure::Unsupported(error.to_string()),
        CaptureError::Failed(_) => Failure::failed(error.to_string()),
    }
}
