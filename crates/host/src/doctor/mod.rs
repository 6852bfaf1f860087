//! What this host can do, found by trying it.
