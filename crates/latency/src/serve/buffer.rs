//! Samples of one namespace, buffered for its readers.

use crate::sample::Sample;
use std::collections::VecDeque;

/// The newest samples, numbered from 0. A full buffer drops the oldest.
#[derive(Debug)]
pub struct Buffer {
    samples: VecDeque<Sample>,
    /// Number of the oldest buffered sample.
    first: u64,
    capacity: usize,
}

impl Buffer {
    /// Makes room for `capacity` samples; the memory is taken as they come.
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

    /// Discards every sample. The numbers continue.
    pub fn clear(&mut self) {
        self.first += self.samples.len() as u64;
        self.samples = VecDeque::new();
    }

    /// Returns the number of the oldest buffered sample.
    pub fn first(&self) -> u64 {
        self.first
    }

    /// Returns the number of the next sample.
    pub fn end(&self) -> u64 {
        self.first + self.samples.len() as u64
    }

    /// Returns the sample with this number, if it is buffered.
    pub fn get(&self, number: u64) -> Option<&Sample> {
        let index = usize::try_from(number.checked_sub(self.first)?).ok()?;
        self.samples.get(index)
    }
}
