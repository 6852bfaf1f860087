//! Latency of containers' packets. At most `latency.containers` containers, two directions and four
//! protocols each: the number of series has a bound.

use super::table::*;
use super::values::{Values, name, seconds};
use crate::view::View;
use cofferdam_latency::{Class, Direction, Miss, Stage};
use cofferdam_types::CgroupId;
use std::collections::HashSet;

pub(super) fn values(values: &mut Values, view: &View) {
    let latency = &view.latency;
    if latency.memory_bytes == 0 {
        return;
    }
    // The measurement updates its containers twice a second: some of them may have ended.
    let containers = view.snapshot.containers.iter();
    let there: HashSet<CgroupId> = containers.map(|c| c.container.cgroup).collect();
    let measured = latency.containers.iter();
    for measured in measured.filter(|m| there.contains(&m.container.cgroup)) {
        let who = name(&measured.container);
        let [container, pod, cgroup] = who.each_ref().map(String::as_str);
        for (&(direction, class), flow) in &measured.flows {
            let (way, protocol) = (direction.label(), class.label());
            let labels = [container, pod, cgroup, way, protocol];
            values.add_histogram(&LATENCY, &labels, flow.total);
            if flow.added.count() > 0 {
                values.add_histogram(&LATENCY_ADDED, &labels, flow.added);
            }
            for (stage, ns) in Stage::ALL.iter().zip(flow.stages_ns) {
                if ns > 0 {
                    let labels = [container, pod, cgroup, way, protocol, stage.label()];
                    values.add(&LATENCY_STAGE, &labels, seconds(ns));
                }
            }
        }
        for direction in Direction::ALL {
            let (d, way) = (direction as usize, direction.label());
            for (class, packets) in Class::ALL.iter().zip(measured.counts.packets[d]) {
                if packets > 0 {
                    let labels = [container, pod, cgroup, way, class.label()];
                    values.add(&LATENCY_PACKETS, &labels, packets as f64);
                }
            }
            for (miss, packets) in Miss::ALL.iter().zip(measured.counts.misses[d]) {
                if packets > 0 {
                    let labels = [container, pod, cgroup, way, miss.label()];
                    values.add(&LATENCY_MISSED, &labels, packets as f64);
                }
            }
        }
    }
    values.add(&LATENCY_CONTAINERS, &[], latency.containers.len() as f64);
    values.add(&LATENCY_NOT_MEASURED, &[], latency.not_measured as f64);
    values.add(&LATENCY_REPORTS, &["lost"], latency.reports_lost as f64);
    values.add(
        &LATENCY_REPORTS,
        &["rejected"],
        latency.reports_rejected as f64,
    );
    values.add(&LATENCY_MEMORY, &[], latency.memory_bytes as f64);
}
