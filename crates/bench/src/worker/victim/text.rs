//! `wordcount` and `grep` as map and reduce tasks over the corpus.

use super::corpus::CHUNKS;
use super::mapreduce;
use std::collections::HashMap;

/// Counts words: each map task counts one chunk, the reduce adds the tables. Returns a checksum of
/// the final table.
pub(crate) fn wordcount(corpus: &[String], units: u64, threads: usize) -> u64 {
    let table = mapreduce::run(
        units,
        threads,
        |task| {
            let mut table: HashMap<&str, u64> = HashMap::new();
            for word in corpus[task as usize % CHUNKS].split_ascii_whitespace() {
                *table.entry(word).or_default() += 1;
            }
            table
        },
        |mut all, one| {
            for (word, count) in one {
                *all.entry(word).or_default() += count;
            }
            all
        },
    );
    // A sum, because the order of a hash table is random.
    table.iter().fold(0, |sum, (word, count)| {
        sum.wrapping_add(hash(word).wrapping_mul(*count))
    })
}

/// Finds lines with a word: each map task searches one chunk, the reduce adds the results. Returns
/// a checksum of the matching lines.
pub(crate) fn grep(corpus: &[String], units: u64, threads: usize) -> u64 {
    // A word of the first line: it exists, and is the same for the same corpus.
    let needle = corpus[0]
        .split_ascii_whitespace()
        .nth(5)
        .unwrap_or("a")
        .to_owned();
    mapreduce::run(
        units,
        threads,
        |task| {
            corpus[task as usize % CHUNKS]
                .lines()
                .filter(|line| line.split(' ').any(|word| word == needle))
                .fold(0_u64, |sum, line| sum.wrapping_add(hash(line)))
        },
        u64::wrapping_add,
    )
}

/// FNV-1a hash.
fn hash(text: &str) -> u64 {
    hash_on(EMPTY, text.as_bytes())
}

/// Hash of no bytes.
pub(crate) const EMPTY: u64 = 0xcbf2_9ce4_8422_2325;

/// FNV-1a hash of the text with hash `before`, followed by `bytes`.
pub(crate) fn hash_on(before: u64, bytes: &[u8]) -> u64 {
    bytes.iter().fold(before, |h, b| {
        (h ^ u64::from(*b)).wrapping_mul(0x0100_0000_01b3)
    })
}
