//! What is in force for a container, and what is not and why.

use super::Network;
use super::container::Enforced;
use cofferdam_types::{CgroupId, Means, MeansState, NetworkEnforcement};

/// Why a container under a quota has no NAPI thread in its cgroup.
const UNSTOPPABLE: &str = "it is under a CPU quota, which stops its tasks but no kernel thread on this kernel (Linux 6.18 on): the thread's time would hold them up without end";

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

    fn means_state(&self, enforced: &Enforced, means: Means) -> MeansState {
        let no = |why: &str| (false, why.to_owned());
        let needed = enforced.until.is_some();
        let (in_force, why) = if !self.may(means) {
            no("not allowed by the options")
        } else if !needed {
            no("nobody else pays for it")
        } else {
            match means {
                Means::NapiThread if enforced.unstoppable => no(UNSTOPPABLE),
                Means::NapiThread if enforced.napi.in_place() => (
                    true,
                    "its interface's NAPI thread runs in its cgroup".to_owned(),
                ),
                Means::NapiThread if enforced.napi.any() => {
                    no("its interface's NAPI thread is on its way into its cgroup")
                }
                Means::NapiThread => no(enforced
                    .napi
                    .refusal()
                    .unwrap_or("it has no interface of its own")),
                Means::WeightCorrection if enforced.weight_reserved => {
                    no("its weight belongs to its CPU reservation")
                }
                Means::WeightCorrection => match (&enforced.weight.refused, &enforced.place.cpu) {
                    (Some(why), _) => no(why),
                    (_, None) => no("its cgroup has no CPU controller"),
                    _ if enforced.weight.is_corrected() => (
                        true,
                        "its weight is lowered by what runs in softirq".to_owned(),
                    ),
                    _ => no("little of its work runs in softirq"),
                },
                Means::QuotaCorrection => match &enforced.quota.refused {
                    Some(why) => no(why),
                    None if enforced.limit.cpus().is_none() => no("it has no quota"),
                    None if enforced.quota.is_corrected() => {
                        (true, "its quota is corrected by what it owes".to_owned())
                    }
                    None => no("it owes little"),
                },
                Means::IngressDrop => self.drop_state(
                    enforced,
                    self.ingress.limits(enforced.container.cgroup),
                    "its packets pass at the rate that its share or quota leaves",
                ),
                Means::EgressDrop => self.drop_state(
                    enforced,
                    self.ingress.limits_sent(enforced.container.cgroup),
                    "what it sends passes at the rate that its share or quota leaves",
                ),
            }
        };
        MeansState {
            means,
            in_force,
            why,
        }
    }

    fn drop_state(&self, enforced: &Enforced, in_force: bool, why: &str) -> (bool, String) {
        match &enforced.drop_refused {
            Some(refused) => (false, refused.clone()),
            None if in_force => (true, why.to_owned()),
            None => (false, "it is within its share and quota".to_owned()),
        }
    }
}
