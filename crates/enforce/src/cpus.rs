//! Sets of CPUs in the kernel's formats: lists and masks.

use cofferdam_host::parse;
use cofferdam_types::CpuId;
use std::collections::BTreeSet;

pub(crate) type Cpus = BTreeSet<CpuId>;

/// Spells a set as the kernel does: `0-2,5`.
pub(crate) fn spell(cpus: &Cpus) -> String {
    let mut text = String::new();
    let mut left = cpus.iter().map(|c| c.0).peekable();
    while let Some(first) = left.next() {
        let mut last = first;
        while left.peek() == Some(&(last + 1)) {
            last += 1;
            left.next();
        }
        if !text.is_empty() {
            text.push(',');
        }
        text += &first.to_string();
        if last > first {
            text += &format!("-{last}");
        }
    }
    text
}

/// CPUs of a list; `None` if it is empty, which in v2 means "as the cgroup above".
pub(crate) fn read_list(text: &str) -> Option<Cpus> {
    let cpus: Cpus = parse::cpu_list(text)?.into_iter().collect();
    (!cpus.is_empty()).then_some(cpus)
}

/// CPUs of a mask such as `1,00000003`; `None` if it is empty.
pub(crate) fn read_mask(text: &str) -> Option<Cpus> {
    let mut cpus = BTreeSet::new();
    for (i, group) in text.trim().rsplit(',').enumerate() {
        let bits = u32::from_str_radix(group.trim(), 16).ok()?;
        let first = u32::try_from(i).ok()?.checked_mul(32)?;
        cpus.extend(
            (0..32)
                .filter(|b| bits >> b & 1 == 1)
                .map(|b| CpuId(first + b)),
        );
    }
    (!cpus.is_empty()).then_some(cpus)
}

pub(crate) fn spell_mask(cpus: &Cpus) -> String {
    let groups = cpus.last().map_or(0, |last| last.0 / 32);
    let group = |n: u32| {
        let bits = cpus.iter().filter(|c| c.0 / 32 == n);
        format!("{:08x}", bits.fold(0u32, |all, c| all | 1 << (c.0 % 32)))
    };
    let all: Vec<String> = (0..=groups).rev().map(group).collect();
    all.join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_spelt_as_the_kernel_does() {
        let spelt = |cpus: &[u32]| spell(&cpus.iter().copied().map(CpuId).collect());
        assert_eq!(spelt(&[0, 1, 2, 5, 7, 8]), "0-2,5,7-8");
        assert_eq!(spelt(&[3]), "3");
        assert_eq!(spelt(&[]), "");
        assert_eq!(read_list(" \n"), None);
        assert_eq!(read_list("0-1"), Some([CpuId(0), CpuId(1)].into()));
    }

    #[test]
    fn masks_are_read_and_written() {
        let cpus: Cpus = [0, 1, 32, 63].into_iter().map(CpuId).collect();
        assert_eq!(spell_mask(&cpus), "80000001,00000003");
        assert_eq!(read_mask("80000001,00000003"), Some(cpus));
        assert_eq!(read_mask("00000000,00000000"), None);
        assert_eq!(read_mask("no"), None);
    }
}
