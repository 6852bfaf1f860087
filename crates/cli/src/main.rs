//! The cofferdam binary.
fn main() {}
