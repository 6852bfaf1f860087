//! Values of one scrape, by metric, and the labels of containers.

use super::table::Metric;
use crate::latency::Buckets;
use cofferdam_types::{Container, path_text};
use std::collections::HashMap;

/// One series: the values of its labels, and its value.
pub(super) type Series = (Vec<String>, f64);

/// Series of every metric.
#[derive(Debug, Default)]
pub(super) struct Values {
    series: HashMap<&'static str, Vec<Series>>,
    histograms: HashMap<&'static str, Vec<(Vec<String>, Buckets)>>,
}

impl Values {
    pub fn of(&self, metric: &Metric) -> &[Series] {
        self.series.get(metric.stem).map_or(&[], Vec::as_slice)
    }

    pub fn histograms(&self, metric: &Metric) -> &[(Vec<String>, Buckets)] {
        self.histograms.get(metric.stem).map_or(&[], Vec::as_slice)
    }

    pub(super) fn add(&mut self, metric: &'static Metric, labels: &[&str], value: f64) {
        debug_assert_eq!(labels.len(), metric.labels.len(), "{}", metric.stem);
        let labels = labels.iter().map(|&l| l.to_owned()).collect();
        let series = self.series.entry(metric.stem).or_default();
        series.push((labels, value));
    }

    pub(super) fn add_histogram(
        &mut self,
        metric: &'static Metric,
        labels: &[&str],
        value: Buckets,
    ) {
        debug_assert_eq!(labels.len(), metric.labels.len(), "{}", metric.stem);
        let labels = labels.iter().map(|&l| l.to_owned()).collect();
        let series = self.histograms.entry(metric.stem).or_default();
        series.push((labels, value));
    }
}

/// Labels that name a container: `container`, `pod`, `cgroup`.
pub(super) fn name(container: &Container) -> [String; 3] {
    [
        container.name.clone(),
        container.pod.clone().unwrap_or_default(),
        path_text(&container.cgroup_path).into_owned(),
    ]
}

pub(super) fn seconds(ns: u64) -> f64 {
    ns as f64 / 1e9
}

#[cfg(test)]
mod tests {
    use super::*;
    use cofferdam_types::CgroupId;
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;

    /// Promise 9.
    #[test]
    fn names_that_are_no_text_have_series_of_their_own() {
        let labels = |path: &[u8]| {
            let path = OsStr::from_bytes(path);
            name(&Container::plain(CgroupId(1), path, "x"))
        };
        let series = [
            &b"/a\xff"[..],
            b"/a\xfe",
            br"/a\xff",
            "/a\u{fffd}".as_bytes(),
        ]
        .map(labels);
        let different: std::collections::BTreeSet<_> = series.iter().collect();
        assert_eq!(different.len(), series.len(), "{series:?}");
    }
}
