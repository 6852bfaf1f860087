//! Division of a contended CPU among its competitors.

use super::share;
use std::collections::{BTreeMap, HashMap};
use std::path::Path;

/// CPU divided by weight among the cgroups that run there. A cgroup that claims less than its share
/// gets its claim; the rest goes to the others.
#[derive(Debug)]
pub(super) struct CpuDivision<'a> {
    /// Competitors that could use more than their shares, sorted by path.
    busy: Vec<&'a Path>,
    /// Shares of `busy`, parts (0..=1) of `left`.
    shares: Vec<f64>,
    /// Claims of all other competitors, parts (0..=1) of the CPU.
    claimed: HashMap<&'a Path, f64>,
    /// Part of the CPU that the claims leave.
    left: f64,
}

impl<'a> CpuDivision<'a> {
    /// Divides a CPU among the cgroups at these paths. Each claims a part (0..=1) of it, or with
    /// `None` all that it can get. `weight` returns the weight of a cgroup path.
    pub fn among(
        claims: BTreeMap<&'a Path, Option<f64>>,
        mut weight: impl FnMut(&Path) -> f64,
    ) -> CpuDivision<'a> {
        let mut rest: Vec<(&Path, Option<f64>)> = claims.into_iter().collect();
        let (mut claimed, mut left) = (HashMap::new(), 1.0);
        // Each round leaves more to the rest, so that further claims may fall below their share.
        while rest.iter().any(|(_, claim)| claim.is_some()) {
            let paths: Vec<&Path> = rest.iter().map(|(path, _)| *path).collect();
            let mut fair = share::fair_shares(&paths, &mut weight).into_iter();
            let (mut asked, before) = (0.0, claimed.len());
            rest.retain(|(path, claim)| {
                let fair = fair.next().unwrap_or(0.0) * left;
                let Some(less) = claim.filter(|claim| *claim < fair) else {
                    return true;
                };
                asked += less;
                claimed.insert(*path, less);
                false
            });
            if claimed.len() == before {
                break;
            }
            left -= asked;
        }
        let busy: Vec<&Path> = rest.into_iter().map(|(path, _)| path).collect();
        CpuDivision {
            shares: share::fair_shares(&busy, weight),
            busy,
            claimed,
            left,
        }
    }

    /// Share (0..=1) of the cgroup at `own`, whatever it claims itself.
    pub fn share(&self, own: &Path, weight: impl FnMut(&Path) -> f64) -> f64 {
        // Paths below `own` follow it in the order.
        if let Ok(at) = self.busy.binary_search(&own)
            && self
                .busy
                .get(at + 1)
                .is_none_or(|next| !next.starts_with(own))
        {
            return self.shares[at] * self.left;
        }
        let left = self.left + self.claimed.get(own).copied().unwrap_or(0.0);
        let others: Vec<&Path> = self.busy.iter().copied().filter(|p| *p != own).collect();
        share::fair_share(own, &others, weight) * left
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shares(claims: &[(&str, Option<f64>)], of: &[&str]) -> Vec<f64> {
        let claims = claims
            .iter()
            .map(|(path, claim)| (Path::new(*path), *claim));
        let division = CpuDivision::among(claims.collect(), |_| 100.0);
        let share = |path: &&str| division.share(Path::new(path), |_| 100.0);
        of.iter().map(share).collect()
    }

    /// Promise 30.
    #[test]
    fn an_unclaimed_part_goes_to_the_others() {
        let claims = [
            ("/a", None),
            ("/b", Some(0.1)),
            ("/c", None),
            ("/", Some(0.05)),
        ];
        let got = shares(&claims, &["/a", "/b", "/c", "/new"]);
        let expected = [0.425, 0.95 / 3.0, 0.425, 0.85 / 3.0];
        for (got, expected) in got.iter().zip(expected) {
            assert!((got - expected).abs() < 1e-9, "{got} {expected}");
        }
    }

    /// In the first round one claims less than its third, in the second another does.
    /// Promise 30.
    #[test]
    fn a_small_claim_lets_another_have_all_it_claims() {
        let got = shares(
            &[("/a", None), ("/b", Some(0.1)), ("/c", Some(0.4))],
            &["/a"],
        );
        assert!((got[0] - 0.5).abs() < 1e-9, "{got:?}");
    }

    /// Promise 30.
    #[test]
    fn claims_beyond_the_cpu_are_divided_equally() {
        let ten: Vec<String> = (0..10).map(|i| format!("/p/{i}")).collect();
        let claims: Vec<_> = ten.iter().map(|path| (path.as_str(), Some(0.3))).collect();
        let got = shares(&claims, &["/p/0", "/p/9"]);
        assert!(
            got.iter().all(|share| (share - 0.1).abs() < 1e-9),
            "{got:?}"
        );
    }
}
