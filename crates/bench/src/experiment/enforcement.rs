//! Enforcement in the benchmark's own process while a sample runs: the product's code with all of
//! its means, or with some of them for an ablation.

use crate::data::Treatment;
use crate::error::BenchError;
use crate::ledger::LedgerSource;
use cofferdam_enforce::network::NetworkOptions;
use cofferdam_enforce::{ContainerPolicy, EnforceOptions, Enforcer};
use cofferdam_types::{Means, NetworkCpu, Policy, Snapshot};
use std::time::{Duration, Instant};

/// Time between two steps of the enforcement, as in the agent.
const PERIOD: Duration = Duration::from_millis(20);

/// Running enforcement.
pub(super) struct Enforcement {
    enforcer: Enforcer,
    last: Snapshot,
    next: Instant,
}

/// Begins `treatment` for the containers at `paths` (below the v2 mount).
pub(super) fn begin(
    treatment: Treatment,
    paths: &[String],
    ledger: &mut dyn LedgerSource,
) -> Result<Enforcement, BenchError> {
    let options = EnforceOptions {
        network: network_options(treatment),
        ..EnforceOptions::default()
    };
    let failed = |e: &dyn std::fmt::Display| BenchError::Enforcement(e.to_string());
    let mut enforcer = Enforcer::open(options).map_err(|e| failed(&e))?;
    let last = ledger.snapshot()?;
    let wanted: Vec<ContainerPolicy> = paths
        .iter()
        .map(|path| {
            let mut containers = last.containers.iter().map(|c| &c.container);
            let container = containers
                .rfind(|c| c.cgroup_path == std::path::Path::new(path))
                .ok_or_else(|| failed(&format!("the accounting does not know {path}")))?;
            let policy = Policy {
                network_cpu: NetworkCpu::Enforce,
                ..Policy::default()
            };
            Ok(ContainerPolicy::new(container.clone(), policy))
        })
        .collect::<Result<_, BenchError>>()?;
    enforcer.set(wanted);
    Ok(Enforcement {
        enforcer,
        last,
        next: Instant::now() + PERIOD,
    })
}

impl Enforcement {
    /// Acts on the measurements since the last step, once [`PERIOD`] has passed.
    pub fn step(&mut self, ledger: &mut dyn LedgerSource) -> Result<(), BenchError> {
        if Instant::now() < self.next {
            return Ok(());
        }
        let now = ledger.snapshot()?;
        self.enforcer.step(&now.since(&self.last));
        self.last = now;
        self.next = Instant::now() + PERIOD;
        Ok(())
    }

    /// Reverts all changes.
    pub fn end(self) -> Result<(), BenchError> {
        let report = self.enforcer.revert();
        match report.failed.first() {
            None => Ok(()),
            Some(problem) => Err(BenchError::Enforcement(problem.clone())),
        }
    }
}

fn network_options(treatment: Treatment) -> NetworkOptions {
    use Means::{EgressDrop, IngressDrop, NapiThread, QuotaCorrection, WeightCorrection};
    let all = NetworkOptions::default();
    let means = match treatment {
        Treatment::Vanilla => vec![],
        Treatment::NapiRoot | Treatment::NapiCgroup => vec![NapiThread],
        Treatment::NapiCorrection => vec![NapiThread, WeightCorrection, QuotaCorrection],
        Treatment::NapiDrop => vec![NapiThread, IngressDrop, EgressDrop],
        Treatment::CorrectionOnly => vec![WeightCorrection, QuotaCorrection],
        Treatment::Enforced | Treatment::Agent => all.means.clone(),
    };
    NetworkOptions {
        means,
        napi_in_container: treatment != Treatment::NapiRoot,
        ..all
    }
}
