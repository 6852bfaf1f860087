//! Renders a run from its data alone.
