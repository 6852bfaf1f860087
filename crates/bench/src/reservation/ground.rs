//! Places of target and neighbours, and the owner of the target's reservation.

use super::containers::{Containers, Member};
use super::options::Options;
use super::pods::Pods;
use crate::error::BenchError;
use crate::experiment::{JournaledReservations, Rig};
use crate::reservation::data::{ReservationCell, ReservationPolicy, ReservationRuntime};
use cofferdam_enforce::reservation::ReservationOptions;
use cofferdam_types::CpuAmount;
use std::time::Instant;

/// Containers that can be put under one policy after the other.
pub(super) trait Ground {
    /// Puts the containers under `policy`.
    fn arrange(
        &mut self,
        cell: &ReservationCell,
        policy: ReservationPolicy,
    ) -> Result<(), BenchError>;

    /// The containers.
    ///
    /// # Errors
    /// [`Ground::arrange`] was not called yet.
    fn containers(&self) -> Result<&Containers, BenchError>;

    /// Runs every few milliseconds while a sample is taken.
    fn step(&mut self) {}

    /// Number of times that CPUs of the target were lent so far.
    fn lendings(&self) -> u64;

    /// Requested policies that can be measured here now.
    fn policies(&self) -> Vec<ReservationPolicy>;
}

/// Ground that `options` ask for.
pub(super) fn of(options: &Options, rig: &mut Rig<'_>) -> Result<Box<dyn Ground>, BenchError> {
    Ok(match options.runtime {
        ReservationRuntime::Process => Box::new(CgroupGround::build(options)?),
        ReservationRuntime::Kubernetes => {
            let (pods, notes) = Pods::prepare(options)?;
            for note in notes {
                rig.warn(&note)?;
            }
            Box::new(pods)
        }
    })
}

/// Cgroups of this program, and reservations by the product's own code.
struct CgroupGround {
    // Before the containers: a reservation goes before its cgroup.
    journaled: JournaledReservations,
    containers: Containers,
    policies: Vec<ReservationPolicy>,
}

impl CgroupGround {
    fn build(options: &Options) -> Result<CgroupGround, BenchError> {
        Ok(CgroupGround {
            journaled: JournaledReservations::open(ReservationOptions::default())?,
            containers: Containers::build(options.most_neighbours())?,
            policies: options.policies(),
        })
    }
}

impl Ground for CgroupGround {
    fn arrange(
        &mut self,
        cell: &ReservationCell,
        policy: ReservationPolicy,
    ) -> Result<(), BenchError> {
        self.containers.request(cell, policy)?;
        let target = self.containers.target.container()?;
        let others = self.containers.neighbours(cell).iter();
        let others = others
            .map(Member::container)
            .collect::<Result<Vec<_>, _>>()?;
        let JournaledReservations {
            journal,
            reservations,
        } = &mut self.journaled;
        reservations.set(journal, &[], &[]);
        let Some(amount) = reserved_amount(cell, policy)? else {
            return Ok(());
        };
        reservations.set_options(ReservationOptions {
            lending: policy == ReservationPolicy::Lending,
            ..ReservationOptions::default()
        });
        reservations.set(journal, &[(target, amount)], &others);
        let degraded = reservations.states().flat_map(|(_, _, d)| d).next();
        match degraded {
            Some(d) => Err(BenchError::Unsupported(d.text)),
            None => Ok(()),
        }
    }

    fn containers(&self) -> Result<&Containers, BenchError> {
        Ok(&self.containers)
    }

    fn step(&mut self) {
        let JournaledReservations {
            journal,
            reservations,
        } = &mut self.journaled;
        reservations.step(journal, Instant::now());
    }

    fn lendings(&self) -> u64 {
        let states = self.journaled.reservations.states();
        states.map(|(_, s, _)| s.lendings).sum()
    }

    fn policies(&self) -> Vec<ReservationPolicy> {
        self.policies.clone()
    }
}

/// CPU amount that the target has reserved under `policy`.
pub(super) fn reserved_amount(
    cell: &ReservationCell,
    policy: ReservationPolicy,
) -> Result<Option<CpuAmount>, BenchError> {
    use ReservationPolicy::{CpuManager, Lending, Strict};
    let amount = CpuAmount::try_from(cell.reserved_cpus);
    let amount = amount.map_err(|e| BenchError::Usage(e.to_string()))?;
    Ok(matches!(policy, CpuManager | Lending | Strict).then_some(amount))
}
