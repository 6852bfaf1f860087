//! Order of measurements within a block: each cell once, then those cells again that the hypervisor
//! disturbed.
//!
//! Steal time comes in spells of seconds and longer, so a repetition waits for the end of its
//! block. It stays within the block, because a cell is compared with its block's baseline. On a
//! host that is never calm, repetitions would only cost time: a block repeats at most half as many
//! measurements as it has cells. Cells are chosen by their steal time alone, never by their result.

use crate::noise::DISTURBING_STEAL;
use std::collections::{HashMap, HashSet};
use std::hash::Hash;

/// Steal fraction of every attempt, by measured cell.
pub(crate) type Attempts<K> = HashMap<K, Vec<f64>>;

/// Returns the next measurement of `block` and its attempt, from 0; `None` at the end of the block.
/// Leaves out the cells in `failed`. The same attempts give the same answer, so a stopped run
/// resumes at the same place, and a finished run has nothing left.
pub(crate) fn next<'a, K: Eq + Hash>(
    block: &'a [K],
    attempts: &Attempts<K>,
    failed: &HashSet<K>,
    most: u32,
) -> Option<(&'a K, u32)> {
    let open = || block.iter().filter(|key| !failed.contains(*key));
    let of = |key: &K| attempts.get(key).map_or(&[] as &[f64], Vec::as_slice);
    if let Some(new) = open().find(|key| of(key).is_empty()) {
        return Some((new, 0));
    }
    let again: usize = open().map(|key| of(key).len() - 1).sum();
    if again >= block.len().div_ceil(2) {
        return None;
    }
    let least = |key: &K| of(key).iter().copied().fold(f64::INFINITY, f64::min);
    let disturbed = open().filter(|key| least(key) > DISTURBING_STEAL);
    // Attempt by attempt; within one, the most disturbed cell first.
    let turn = |key: &K| (of(key).len(), -least(key));
    disturbed
        .filter(|key| of(key).len() < most as usize)
        .min_by(|a, b| {
            let ((a_count, a_calm), (b_count, b_calm)) = (turn(a), turn(b));
            a_count.cmp(&b_count).then(a_calm.total_cmp(&b_calm))
        })
        .map(|key| (key, of(key).len() as u32))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block(cells: u32) -> Vec<u32> {
        (10..10 + cells).collect()
    }

    /// Measures until nothing is left; `steal` by cell and attempt.
    fn run(block: &[u32], most: u32, steal: impl Fn(usize, u32) -> f64) -> Vec<(usize, u32)> {
        let mut attempts = Attempts::new();
        let mut order = Vec::new();
        while let Some((key, attempt)) = next(block, &attempts, &HashSet::new(), most) {
            let index = block.iter().position(|k| k == key).unwrap();
            assert_eq!(attempts.get(key).map_or(0, Vec::len), attempt as usize);
            attempts
                .entry(*key)
                .or_default()
                .push(steal(index, attempt));
            order.push((index, attempt));
            assert!(order.len() < 100);
        }
        order
    }

    #[test]
    fn a_calm_block_is_measured_once_in_its_order() {
        let all = run(&block(4), 3, |_, _| DISTURBING_STEAL);
        assert_eq!(all, [(0, 0), (1, 0), (2, 0), (3, 0)]);
    }

    /// Promise 44.
    #[test]
    fn disturbed_cells_are_repeated_worst_first_until_calm() {
        // Cell 1 is calm the second time, cell 2 never.
        let steal = |cell: usize, attempt: u32| match (cell, attempt) {
            (1, 0) => 0.2,
            (2, _) => 0.3,
            _ => 0.0,
        };
        let all = run(&block(6), 3, steal);
        assert_eq!(all[6..], [(2, 1), (1, 1), (2, 2)]);
        assert_eq!(run(&block(6), 1, steal).len(), 6);
    }

    /// Promise 44.
    #[test]
    fn a_block_repeats_at_most_half_of_its_cells() {
        let all = run(&block(16), 3, |cell, _| 0.1 + cell as f64 / 100.0);
        assert_eq!(all.len(), 24);
        // The most disturbed cells get a second attempt; none gets a third before that.
        let again: Vec<usize> = all[16..].iter().map(|(cell, _)| *cell).collect();
        assert_eq!(again, [15, 14, 13, 12, 11, 10, 9, 8]);
    }

    #[test]
    fn a_failed_cell_is_not_measured_again() {
        let block = block(3);
        let failed = HashSet::from([block[1]]);
        let attempts = Attempts::from([(block[0], vec![0.0])]);
        let (key, attempt) = next(&block, &attempts, &failed, 3).unwrap();
        assert_eq!((key, attempt), (&block[2], 0));
    }
}
