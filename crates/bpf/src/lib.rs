//! cofferdam-bpf
