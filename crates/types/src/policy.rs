//! The policy that the configuration asks for: treatment of a container's network CPU and CPU.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// Treatment of the network CPU that a container causes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum NetworkCpu {
    /// Counted and reported; nothing on the host is changed.
    #[default]
    Observe,
    /// Charged to the container and returned to the victims; the container's packets are dropped
    /// when it has used up its share.
    Enforce,
}

/// An amount of CPU, in thousandths of a CPU. Never zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "f64", into = "f64")]
pub struct CpuAmount(u32);

/// Largest amount that a rule may ask for, CPUs.
const MOST_CPUS: f64 = 65_536.0;

impl CpuAmount {
    /// Amount of `milli_cpus` thousandths of a CPU; `None` when zero.
    pub fn from_milli_cpus(milli_cpus: u32) -> Option<CpuAmount> {
        (milli_cpus > 0).then_some(CpuAmount(milli_cpus))
    }

    /// Thousandths of a CPU.
    pub fn milli_cpus(self) -> u32 {
        self.0
    }

    /// Whole CPUs in it.
    pub fn whole_cpus(self) -> u32 {
        self.0 / 1000
    }

    /// The remainder beyond whole CPUs, in thousandths (0..=999).
    pub fn fraction_milli_cpus(self) -> u32 {
        self.0 % 1000
    }
}

/// A number that is not a valid amount of CPU.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{0} is not a valid amount of CPU: give at least 0.001 and at most 65536, such as 1.5")]
pub struct CpuAmountError(String);

impl TryFrom<f64> for CpuAmount {
    type Error = CpuAmountError;

    fn try_from(cpus: f64) -> Result<CpuAmount, CpuAmountError> {
        if !(0.001..=MOST_CPUS).contains(&cpus) {
            return Err(CpuAmountError(cpus.to_string()));
        }
        Ok(CpuAmount((cpus * 1000.0).round() as u32))
    }
}

impl From<CpuAmount> for f64 {
    fn from(amount: CpuAmount) -> f64 {
        f64::from(amount.0) / 1000.0
    }
}

impl FromStr for CpuAmount {
    type Err = CpuAmountError;

    fn from_str(text: &str) -> Result<CpuAmount, CpuAmountError> {
        let cpus: f64 = text.parse().map_err(|_| CpuAmountError(text.to_owned()))?;
        CpuAmount::try_from(cpus)
    }
}

impl fmt::Display for CpuAmount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f64::from(*self).fmt(f)
    }
}

/// Way in which a container gets its CPU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CpuPolicy {
    /// By the runtime's own weight and quota; only CPUs reserved for others are closed to it.
    #[default]
    Standard,
    /// CPUs of its own: whole CPUs for the integer part, a guaranteed slice for the fraction.
    Strict(CpuAmount),
}

/// The classes of one container.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Policy {
    /// Class of the container's network CPU.
    pub network_cpu: NetworkCpu,
    /// Class of the container's CPU.
    pub cpu: CpuPolicy,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_amount_has_a_whole_part_and_a_fraction() {
        let amount: CpuAmount = "1.5".parse().unwrap();
        assert_eq!(
            (amount.whole_cpus(), amount.fraction_milli_cpus()),
            (1, 500)
        );
        assert_eq!(amount.to_string(), "1.5");
    }

    #[test]
    fn a_refused_amount_is_answered_with_an_example() {
        for bad in ["0", "-1", "NaN", "inf", "70000", "1,5", "", "0.0001"] {
            let error = bad.parse::<CpuAmount>().unwrap_err().to_string();
            assert!(error.contains("such as 1.5"), "{bad}: {error}");
        }
    }
}
