//! Sets of CPUs by their index in the host, as bits.

/// Set of CPUs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct CpuSet(Vec<u64>);

impl CpuSet {
    /// Set of the CPUs `cpus`.
    pub fn of(cpus: impl IntoIterator<Item = usize>) -> CpuSet {
        let mut set = CpuSet::default();
        for cpu in cpus {
            set.insert(cpu);
        }
        set
    }

    pub fn insert(&mut self, cpu: usize) {
        let word = cpu / 64;
        if self.0.len() <= word {
            self.0.resize(word + 1, 0);
        }
        self.0[word] |= 1 << (cpu % 64);
    }

    pub fn remove(&mut self, cpu: usize) {
        if let Some(word) = self.0.get_mut(cpu / 64) {
            *word &= !(1 << (cpu % 64));
        }
    }

    pub fn has(&self, cpu: usize) -> bool {
        self.0
            .get(cpu / 64)
            .is_some_and(|word| word & (1 << (cpu % 64)) != 0)
    }

    pub fn is_empty(&self) -> bool {
        self.0.iter().all(|word| *word == 0)
    }

    /// CPUs in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = usize> + '_ {
        self.0.iter().enumerate().flat_map(|(i, word)| {
            let mut rest = *word;
            std::iter::from_fn(move || {
                let bit = (rest != 0).then(|| rest.trailing_zeros() as usize)?;
                rest &= rest - 1;
                Some(i * 64 + bit)
            })
        })
    }

    /// CPUs that are in both sets.
    pub fn and(&self, other: &CpuSet) -> CpuSet {
        let words = self.0.iter().zip(&other.0);
        CpuSet(words.map(|(a, b)| a & b).collect())
    }

    /// CPUs that are not in `other`.
    pub fn without(&self, other: &CpuSet) -> CpuSet {
        let word = |i: usize| other.0.get(i).copied().unwrap_or(0);
        let words = self.0.iter().enumerate();
        CpuSet(words.map(|(i, a)| a & !word(i)).collect())
    }

    /// CPUs that are in any of the two sets.
    pub fn or(&self, other: &CpuSet) -> CpuSet {
        let mut all = self.clone();
        for cpu in other.iter() {
            all.insert(cpu);
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_of_cpus() {
        let mut set = CpuSet::of([0, 63, 64, 200]);
        assert_eq!(set.iter().collect::<Vec<_>>(), [0, 63, 64, 200]);
        set.remove(63);
        set.remove(9999);
        assert!(set.has(64) && !set.has(63) && !set.has(9999));
        assert_eq!(set.iter().count(), 3);
        let other = CpuSet::of([64, 200]);
        assert_eq!(set.without(&other), CpuSet(vec![1, 0, 0, 0]));
        assert_eq!(set.and(&other).iter().count(), 2);
        assert_eq!(CpuSet::of([1]).or(&other).iter().count(), 3);
        assert!(CpuSet::default().is_empty());
    }
}
