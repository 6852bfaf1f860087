//! cofferdam-testkit
