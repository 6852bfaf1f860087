//! Weighted max-min fairness: the arithmetic of CPU weights.

/// CPUs that a group of `weight` gets of `capacity_cpus` when it wants all of them. `others` are
/// the weights and the demands, in CPUs, of the other groups.
pub fn fair_share(capacity_cpus: f64, weight: u64, others: &[(u64, f64)]) -> f64 {
    let mut others: Vec<(f64, f64)> = others
        .iter()
        .map(|(w, demand)| ((*w).max(1) as f64, demand.max(0.0)))
        .collect();
    // The member with the smallest demand relative to its weight is served first.
    others.sort_by(|a, b| (a.1 / a.0).total_cmp(&(b.1 / b.0)));
    let weight = weight.max(1) as f64;
    let mut sum = weight + others.iter().map(|o| o.0).sum::<f64>();
    let mut left = capacity_cpus;
    for (w, demand) in others {
        if demand >= left * w / sum {
            break;
        }
        left -= demand;
        sum -= w;
    }
    left * weight / sum
}
