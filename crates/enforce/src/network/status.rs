//! Means in force for a container, and the reasons for the others.

use super::means::{AppliedMeans, LimitError};
use super::policy::{Account, UncompensatedTime};
use super::{Member, NetworkEnforcer};
use cofferdam_types::{CgroupId, Container, Degradation, Means, MeansState, NetworkEnforcement};

/// Reason why a container under a quota has no NAPI thread in its cgroup.
const UNSTOPPABLE: &str = "it is under a CPU quota, which on this kernel (Linux 6.18 and newer) \
    stops tasks but not kernel threads: the thread's time would delay its tasks without bound";

/// Reason why the weight of an idle cgroup is not corrected.
const IDLE: &str = "the kernel takes no weight for an idle cgroup (cpu.idle = 1), which runs only \
     where nobody else wants to";

/// Most victims without a rule that are reported.
const MOST_VICTIMS: usize = 8;

/// State of one means for one container.
#[derive(Clone, Copy, PartialEq, Eq)]
enum MeansStatus {
    InForce,
    /// Not in force and not needed.
    NotNeeded,
    /// Needed, and could not be applied.
    Failed,
}

impl NetworkEnforcer {
    /// State of a container's network enforcement.
    pub fn status(&self, cgroup: CgroupId) -> Option<NetworkEnforcement> {
        let (member, account) = self.find_enforced(cgroup)?;
        if let Some(lead) = self.pods.reported_by(cgroup) {
            return Some(enforced_with_pod(lead));
        }
        Some(NetworkEnforcement {
            means: Means::ALL
                .iter()
                .map(|means| self.means_state(member, account, *means))
                .collect(),
            debt_ns: account.debt_ns(),
            forgiven_ns: account.forgiven_ns(),
            charged_ns: account.charged_ns,
            returned_ns: account.returned_ns,
            dropped_rx_packets: member.applied.dropped_rx_packets,
            dropped_tx_packets: member.applied.dropped_tx_packets,
        })
    }

    /// Number of attached programs that limit packets. The journal has all other changes.
    pub fn attached(&self) -> u64 {
        self.means.ingress.attached()
    }

    /// Enforced container, or the pod that it is enforced with, and its account.
    fn find_enforced(&self, cgroup: CgroupId) -> Option<(&Member, &Account)> {
        let cgroup = self.pods.enforced_as(cgroup);
        self.members.get(&cgroup).zip(self.policy.account(cgroup))
    }

    /// Needed means of a container that are not in force, and the uncompensated time that it is
    /// charged for others.
    pub fn degraded(&self, cgroup: CgroupId) -> Vec<Degradation> {
        let Some((member, account)) = self.find_enforced(cgroup) else {
            return Vec::new();
        };
        if self.pods.reported_by(cgroup).is_some() {
            return Vec::new();
        }
        let cgroup = self.pods.enforced_as(cgroup);
        let states: Vec<MeansState> = Means::ALL
            .iter()
            .map(|means| self.means_state(member, account, *means))
            .collect();
        let others: Vec<&str> = states
            .iter()
            .filter(|state| state.in_force)
            .map(|state| state.means.label())
            .collect();
        let instead = match others.is_empty() {
            true => "no other mechanism is in force in its place".to_owned(),
            false => format!("in force: {}", others.join(", ")),
        };
        let failed = states.iter().filter(|state| state.failed);
        let mut degraded: Vec<Degradation> = failed
            .map(|state| Degradation {
                name: format!("{}_failed", state.means.label()),
                text: format!("{}: {}; {instead}", state.means.label(), state.why),
            })
            .collect();
        let uncompensated = self.policy.uncompensated(cgroup);
        degraded.extend(uncompensated.map(|uncompensated| Degradation {
            name: "pays_for_others".to_owned(),
            text: pays_for_others("it", &uncompensated),
        }));
        degraded
    }

    /// Reports that the cost of an interrupt is an estimate because it cannot be measured.
    pub fn estimated_interrupt_cost(&self) -> Option<Degradation> {
        let (why, us) = self.observer.interrupt_failure()?;
        let cost = match us > 0.0 {
            true => format!("{us:.1} µs, estimated when enforcement began"),
            false => "nothing".to_owned(),
        };
        Some(Degradation {
            name: "interrupt_cost_estimated".to_owned(),
            text: format!(
                "an interrupt for a container's packets counts as {cost}: it cannot be measured in \
                 place: {why}; see 'interrupts' in 'cofferdam doctor'"
            ),
        })
    }

    /// Victims that no rule enforces: containers and cgroups of the host. The worst ones, at most
    /// [`MOST_VICTIMS`].
    pub fn unprotected(&self) -> Vec<Degradation> {
        let others = self.policy.uncompensated_without_rule().into_iter();
        others
            .take(MOST_VICTIMS)
            .map(|(name, uncompensated)| Degradation {
                name: "victim_pays".to_owned(),
                text: pays_for_others(name, &uncompensated),
            })
            .collect()
    }

    fn means_state(&self, member: &Member, account: &Account, means: Means) -> MeansState {
        let (status, why) = self.means_status(member, account, means);
        MeansState {
            means,
            in_force: status == MeansStatus::InForce,
            failed: status == MeansStatus::Failed,
            why,
        }
    }

    fn means_status(
        &self,
        member: &Member,
        account: &Account,
        means: Means,
    ) -> (MeansStatus, String) {
        let cgroup = member.placed.container.cgroup;
        let AppliedMeans {
            napi,
            weight,
            quota,
            drop_refused,
            sent_refused,
            ..
        } = &member.applied;
        let no = |why: &str| (MeansStatus::NotNeeded, why.to_owned());
        let failed = |why: &str| (MeansStatus::Failed, why.to_owned());
        let yes = |why: &str| (MeansStatus::InForce, why.to_owned());
        if !self.policy.rules.may(means) {
            return no("not allowed by the options");
        }
        if !account.is_enforced() {
            return no("no container pays for it now");
        }
        match means {
            Means::NapiThread if account.is_unstoppable() => no(UNSTOPPABLE),
            Means::NapiThread if napi.refusal().is_some() => {
                failed(&napi.refusal().unwrap_or_default())
            }
            Means::NapiThread if napi.in_place() => {
                yes("its interface's NAPI thread runs in its cgroup")
            }
            Means::NapiThread if napi.has_threads() => {
                no("its interface's NAPI thread is being moved into its cgroup")
            }
            Means::NapiThread if account.has_exceeded_weight() && !account.wants_napi() => {
                no("a NAPI thread receives, and most of its network CPU is for what it sends")
            }
            Means::NapiThread if !account.wants_napi() => {
                no("its weight alone compensates the time that its packets take")
            }
            Means::NapiThread if member.placed.container.interfaces.is_empty() => {
                failed("it has no network interface of its own")
            }
            Means::NapiThread => no("its interface's NAPI thread was just moved out of its cgroup"),
            Means::WeightCorrection if account.weight_reserved => {
                no("its weight belongs to its CPU reservation")
            }
            Means::WeightCorrection if member.applied.weight_is_idle => failed(IDLE),
            Means::WeightCorrection => match (weight.refused(), &member.placed.place.cpu) {
                (Some(why), _) => failed(&why.to_string()),
                (_, None) => failed("its cgroup has no CPU controller"),
                _ if member.applied.weight_is_lowest => no("its weight is the lowest there is"),
                _ if weight.has_effect() => yes("its weight is lowered by its softirq time"),
                _ if weight.is_corrected() => no("with its packets it uses no more than its share"),
                _ => no("little of its work runs in softirq"),
            },
            Means::QuotaCorrection => match quota.refused() {
                Some(why) => failed(&why.to_string()),
                None if !account.is_under_quota() => no("it has no quota"),
                None if quota.has_effect() => yes("its quota is corrected by what it owes"),
                None => no("it owes little"),
            },
            Means::IngressDrop => drop_status(
                drop_refused.as_deref(),
                self.means.ingress.is_received_limited(cgroup),
                "its packets are limited to what its share or quota leaves",
            ),
            Means::EgressDrop => drop_status(
                drop_refused.as_deref().or(sent_refused.as_deref()),
                self.means.ingress.is_sent_limited(cgroup),
                "what it sends is limited to what its share or quota leaves",
            ),
        }
    }
}

/// State of a container whose pod's state is reported for `lead`.
fn enforced_with_pod(lead: &Container) -> NetworkEnforcement {
    let why = format!("it is enforced with its pod: see {}", lead.name);
    let state = |means: &Means| MeansState {
        means: *means,
        in_force: false,
        failed: false,
        why: why.clone(),
    };
    NetworkEnforcement {
        means: Means::ALL.iter().map(state).collect(),
        debt_ns: 0,
        forgiven_ns: 0,
        charged_ns: 0,
        returned_ns: 0,
        dropped_rx_packets: 0,
        dropped_tx_packets: 0,
    }
}

fn drop_status(refused: Option<&LimitError>, in_force: bool, why: &str) -> (MeansStatus, String) {
    match refused {
        Some(refused) => (MeansStatus::Failed, refused.to_string()),
        None if in_force => (MeansStatus::InForce, why.to_owned()),
        None => (
            MeansStatus::NotNeeded,
            "it is within its share and quota".to_owned(),
        ),
    }
}

fn pays_for_others(subject: &str, uncompensated: &UncompensatedTime) -> String {
    let whom = match &uncompensated.offender {
        Some(offender) if offender.is_enforced => {
            format!("packets of others, mostly of {}", offender.name)
        }
        Some(offender) => format!(
            "packets of others, mostly of {}, which no rule enforces",
            offender.name
        ),
        None => "packets of no known container".to_owned(),
    };
    // In tenths of a CPU: the log repeats a line only when its text changes.
    format!(
        "{subject} pays about {:.1} CPUs for {whom}, and does not get them back",
        uncompensated.cpus.max(0.1)
    )
}
