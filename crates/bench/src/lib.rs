//! cofferdam-bench
