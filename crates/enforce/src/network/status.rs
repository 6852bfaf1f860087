//! What is in force for a container, and what is not and why.

use super::Network;
use super::container::Enforced;
use cofferdam_types::{CgroupId, Degraded, Means, MeansState, NetworkEnforcement};

/// Why a container under a quota has no NAPI thread in its cgroup.
const UNSTOPPABLE: &str = "it is under a CPU quota, which stops its tasks but no kernel thread on this kernel (Linux 6.18 on): the thread's time would hold them up without end";

#[derive(Clone, Copy, PartialEq, Eq)]
enum Standing {
    InForce,
    /// Not in force, and nothing is wrong.
    NotNeeded,
    /// Needed, and could not be put in place.
    Failed,
}

impl Network {
    /// State of a container's network enforcement.
    pub fn status(&self, cgroup: CgroupId) -> Option<NetworkEnforcement> {
        let enforced = self.enforced.get(&cgroup)?;
        Some(NetworkEnforcement {
            means: Means::ALL
                .iter()
                .map(|means| self.means_state(enforced, *means))
                .collect(),
            debt_ns: enforced.debt.ns(),
            forgiven_ns: enforced.debt.forgiven_ns(),
            charged_ns: enforced.charged_ns,
            returned_ns: enforced.returned_ns,
            dropped_rx_packets: enforced.dropped_rx_packets,
            dropped_tx_packets: enforced.dropped_tx_packets,
        })
    }

    /// What of a container's network enforcement is not in force though it is needed, and what it
    /// pays for others all the same.
    pub fn degraded(&self, cgroup: CgroupId) -> Vec<Degraded> {
        let Some(enforced) = self.enforced.get(&cgroup) else {
            return Vec::new();
        };
        let states: Vec<MeansState> = Means::ALL
            .iter()
            .map(|means| self.means_state(enforced, *means))
            .collect();
        let others: Vec<&str> = states
            .iter()
            .filter(|state| state.in_force)
            .map(|state| state.means.label())
            .collect();
        let instead = match others.is_empty() {
            true => "nothing is in force in its place".to_owned(),
            false => format!("in force: {}", others.join(", ")),
        };
        let failed = states.iter().filter(|state| state.failed);
        let mut degraded: Vec<Degraded> = failed
            .map(|state| Degraded {
                name: format!("{}_failed", state.means.label()),
                text: format!("{}: {}; {instead}", state.means.label(), state.why),
            })
            .collect();
        degraded.extend(self.payers.degraded(cgroup));
        degraded
    }

    fn means_state(&self, enforced: &Enforced, means: Means) -> MeansState {
        let (standing, why) = self.standing(enforced, means);
        MeansState {
            means,
            in_force: standing == Standing::InForce,
            failed: standing == Standing::Failed,
            why,
        }
    }

    fn standing(&self, enforced: &Enforced, means: Means) -> (Standing, String) {
        let no = |why: &str| (Standing::NotNeeded, why.to_owned());
        let failed = |why: &str| (Standing::Failed, why.to_owned());
        let yes = |why: &str| (Standing::InForce, why.to_owned());
        if !self.may(means) {
            return no("not allowed by the options");
        }
        if enforced.until.is_none() {
            return no("nobody pays for it now");
        }
        match means {
            Means::NapiThread if enforced.unstoppable => no(UNSTOPPABLE),
            Means::NapiThread if enforced.napi.refusal().is_some() => {
                failed(enforced.napi.refusal().unwrap_or_default())
            }
            Means::NapiThread if enforced.napi.in_place() => {
                yes("its interface's NAPI thread runs in its cgroup")
            }
            Means::NapiThread if enforced.napi.any() => {
                no("its interface's NAPI thread is on its way into its cgroup")
            }
            Means::NapiThread if enforced.container.interfaces.is_empty() => {
                failed("it has no network interface of its own")
            }
            Means::NapiThread => no("its interface's NAPI thread has just left its cgroup"),
            Means::WeightCorrection if enforced.weight_reserved => {
                no("its weight belongs to its CPU reservation")
            }
            Means::WeightCorrection => match (&enforced.weight.refused, &enforced.place.cpu) {
                (Some(why), _) => failed(why),
                (_, None) => failed("its cgroup has no CPU controller"),
                _ if enforced.weight.is_corrected() => {
                    yes("its weight is lowered by what runs in softirq")
                }
                _ => no("little of its work runs in softirq"),
            },
            Means::QuotaCorrection => match &enforced.quota.refused {
                Some(why) => failed(why),
                None if enforced.limit.cpus().is_none() => no("it has no quota"),
                None if enforced.quota.is_corrected() => {
                    yes("its quota is corrected by what it owes")
                }
                None => no("it owes little"),
            },
            Means::IngressDrop => drop_standing(
                enforced.drop_refused.as_ref(),
                self.ingress.limits(enforced.container.cgroup),
                "its packets pass at the rate that its share or quota leaves",
            ),
            Means::EgressDrop => drop_standing(
                enforced
                    .drop_refused
                    .as_ref()
                    .or(enforced.sent_refused.as_ref()),
                self.ingress.limits_sent(enforced.container.cgroup),
                "what it sends passes at the rate that its share or quota leaves",
            ),
        }
    }
}

fn drop_standing(refused: Option<&String>, in_force: bool, why: &str) -> (Standing, String) {
    match refused {
        Some(refused) => (Standing::Failed, refused.clone()),
        None if in_force => (Standing::InForce, why.to_owned()),
        None => (
            Standing::NotNeeded,
            "it is within its share and quota".to_owned(),
        ),
    }
}
