//! Wire formats: views of received bytes that were checked for length, and writers.

pub mod checksum;
