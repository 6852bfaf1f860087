//! What was measured for one namespace, kept for its readers.

use crate::sample::Sample;
use std::collections::VecDeque;

/// The newest samples, numbered from 0. Full, it forgets the oldest.
#[derive(Debug)]
pub struct Buffer {
    samples: VecDeque<Sample>,
    /// Number of the first sample still there.
    first: u64,
    capacity: usize,
}

impl Buffer {
    /// Room for `capacity` samples; taken as they come.
    pub fn new(capacity: usize) -> Buffer {
        Buffer {
            samples: VecDeque::new(),
            first: 0,
            capacity: capacity.max(1),
        }
    }

    /// Adds a sample.
    pub fn push(&mut self, sample: Sample) {
        if self.samples.len() == self.capacity {
            self.samples.pop_front();
            self.first += 1;
        }
        self.samples.push_back(sample);
    }

    /// Discards every sample. Numbers continue.
    pub fn clear(&mut self) {
        self.first += self.samples.len() as u64;
        self.samples = VecDeque::new();
    }

    /// Number of the first sample still there.
    pub fn first(&self) -> u64 {
        self.first
    }

    /// Number that the next sample will have.
    pub fn end(&self) -> u64 {
        self.first + self.samples.len() as u64
    }

    /// The sample with this number, if it is kept.
    pub fn get(&self, number: u64) -> Option<&Sample> {
        let index = usize::try_from(number.checked_sub(self.first)?).ok()?;
        self.samples.get(index)
    }
}
