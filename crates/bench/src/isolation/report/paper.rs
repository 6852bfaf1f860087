//! Tables of the paper for podman (Volpert et al., ICPE'23): ids 1 to 16.

use crate::isolation::data::Resource;

/// Utilisation of a in each of the 16 scenarios, percent.
pub fn podman(resource: Resource) -> Option<&'static [f64; 16]> {
    match resource {
        Resource::Cpu => Some(&CPU),
        Resource::Memory => Some(&MEMORY),
        Resource::Network => Some(&NETWORK),
        Resource::Disk | Resource::DiskBuffered | Resource::Llc | Resource::NetworkCpu => None,
    }
}

const CPU: [f64; 16] = [
    12.47, 25.00, 25.00, 98.92, 12.48, 12.36, 12.35, 12.20, 24.91, 24.06, 23.48, 24.71, 25.00,
    25.13, 25.08, 25.09,
];
const NETWORK: [f64; 16] = [
    10.00, 50.12, 88.71, 93.29, 10.05, 10.00, 8.29, 2.37, 49.99, 46.54, 28.38, 12.89, 79.20, 61.13,
    51.99, 19.02,
];
const MEMORY: [f64; 16] = [
    12.80, 24.14, 21.24, 71.94, 12.74, 12.68, 12.74, 12.64, 24.39, 24.18, 24.20, 24.24, 21.29,
    21.21, 21.72, 21.14,
];

/// I_plr of the paper's row `id`, from its rounded utilisations; `None` for a baseline.
pub fn i_plr(resource: Resource, id: u32) -> Option<f64> {
    let table = podman(resource)?;
    let row = usize::try_from(id).ok()?.checked_sub(1)?;
    let baseline = match row {
        4..=7 => 0,
        8..=11 => 1,
        12..=15 => 2,
        _ => return None,
    };
    Some((table[baseline] - table[row]).abs() / table[baseline] * 100.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Compares with the I_plr that the paper prints; its utilisations are rounded to two digits.
    /// Promise 43.
    #[test]
    fn the_papers_rows_are_its_own() {
        for (resource, id, printed) in [
            (Resource::Cpu, 11, 6.07),
            (Resource::Cpu, 8, 2.23),
            (Resource::Network, 8, 76.32),
            (Resource::Network, 12, 74.27),
            (Resource::Network, 16, 78.56),
            (Resource::Memory, 15, 2.30),
        ] {
            let ours = i_plr(resource, id).unwrap();
            assert!((ours - printed).abs() < 0.1, "{resource} {id}: {ours}");
        }
        assert_eq!(i_plr(Resource::Cpu, 4), None);
        assert_eq!(i_plr(Resource::Cpu, 0), None);
        assert_eq!(i_plr(Resource::Disk, 8), None);
    }
}
