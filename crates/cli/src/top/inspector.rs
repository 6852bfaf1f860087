//! Collects the details of a container beyond the ledger from /proc, from the agent and, on
//! request, from a packet socket. Nothing runs once the details are closed.

use super::inspection::{AgentPart, DetailsRequest, Flows, Inspection};
use super::processes::Reader;
use crate::flows::{Subject, document, neighbours, open, packet_owner, senders_of};
use cofferdam_flows::Capture;
use cofferdam_records::accounting::{AccountingRecord, ContainerRecord};
use cofferdam_records::explain::Agent;
use cofferdam_types::{CgroupId, Container};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

/// Length of a counting window; flows are counted over the last one to two of them.
const WINDOW: Duration = Duration::from_secs(5);

/// Collections that run for the details on the screen.
#[derive(Debug, Default)]
pub struct Inspector {
    request: DetailsRequest,
    processes: Reader,
    capture: Option<Result<(Capture, Subject), String>>,
}

impl Inspector {
    /// Starts and ends the collections as `request` asks, and collects the details if there is a
    /// container.
    pub fn look(
        &mut self,
        request: DetailsRequest,
        containers: &[Arc<Container>],
        record: Option<&AccountingRecord>,
        agent: &Agent,
    ) -> Option<Inspection> {
        if request.container != self.request.container {
            *self = Inspector::default();
        }
        if !request.flows {
            self.capture = None;
        }
        self.request = request;
        let id = request.container?;
        let container = containers.iter().find(|c| c.cgroup == CgroupId(id))?;
        let ledger = record.and_then(|r| r.containers.iter().find(|c| c.cgroup_id == id));
        if request.flows && self.capture.is_none() {
            self.capture = Some(begin(container, containers, ledger));
        }
        Some(Inspection {
            processes: self.processes.read(&container.cgroup_path),
            agent: agent_part(agent, id),
            flows: self.flows(ledger),
        })
    }

    fn flows(&mut self, ledger: Option<&ContainerRecord>) -> Flows {
        match &mut self.capture {
            None => Flows::Off,
            Some(Err(why)) => Flows::Failed(why.clone()),
            Some(Ok((capture, subject))) => {
                // An interval without packets has no cost: the last known one is used.
                let cost = ledger.and_then(|c| c.ns_per_packet);
                subject.ns_per_packet = cost.or(subject.ns_per_packet);
                let reading = capture.reading();
                match &reading.failed {
                    Some(why) => Flows::Failed(format!("the sampling of packets ended: {why}")),
                    None => Flows::On(Box::new(document(subject, &reading, SystemTime::now()))),
                }
            }
        }
    }
}

fn begin(
    container: &Container,
    all: &[Arc<Container>],
    ledger: Option<&ContainerRecord>,
) -> Result<(Capture, Subject), String> {
    let netns = open(container).map_err(|failure| failure.line().unwrap_or_default())?;
    let capture = Capture::start(&netns, &packet_owner(container), Some(WINDOW))
        .map_err(|e| e.to_string())?;
    let mut senders: Vec<_> = ledger.iter().flat_map(|c| &c.received_from).collect();
    senders.sort_by_key(|(_, packets)| std::cmp::Reverse(**packets));
    let subject = Subject {
        container: container.name.clone(),
        cgroup_id: container.cgroup.0,
        shared_with: neighbours(container, all),
        by_sockets: container.host_network,
        ns_per_packet: ledger.and_then(|c| c.ns_per_packet),
        senders: senders_of(senders.iter().map(|(id, _)| CgroupId(**id)), all),
    };
    Ok((capture, subject))
}

fn agent_part(agent: &Agent, id: u64) -> AgentPart {
    match agent {
        Agent::Running(both) => {
            let found = both.1.containers.iter().find(|c| c.cgroup_id == id);
            found.map_or(AgentPart::Observed, |c| AgentPart::By(Box::new(c.clone())))
        }
        Agent::NotRunning(_) | Agent::NotPermitted => AgentPart::NoAgent,
    }
}
