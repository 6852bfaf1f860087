//! Counters as Prometheus text and as JSON.

use crate::config::Link;
use crate::elastic::Status as Elastic;
use crate::engine::{CoreTally, Stage, Tally};
use cofferdam_xsk::PortCounters;
use std::fmt::Write;

/// Schema of the JSON document.
pub const SCHEMA: &str = "cofferdam.dataplane/1";

/// Single counters: name, description, value.
fn counters(t: &Tally) -> [(&'static str, &'static str, u64); 34] {
    [
        (
            "received_packets",
            "Packets received from the device",
            t.received,
        ),
        ("sent_packets", "Packets passed to the device", t.sent),
        (
            "sent_payload_bytes",
            "Payload passed to the device, in bytes",
            t.sent_payload_bytes,
        ),
        (
            "copied_payload_bytes",
            "Payload that the loop copied into packets, in bytes",
            t.copied_payload_bytes,
        ),
        ("batches", "Turns of the loop with packets", t.batches),
        (
            "idle_cycles",
            "Time in turns without work, in time-stamp cycles",
            t.idle_cycles,
        ),
        (
            "empty_turns",
            "Turns of the loop without work",
            t.empty_turns,
        ),
        (
            "queued_packets",
            "Packets still waiting after each batch, summed",
            t.queued,
        ),
        ("calls", "Calls of applications", t.calls),
        (
            "conditions",
            "Event conditions delivered to applications",
            t.conditions,
        ),
        (
            "wakeups",
            "Times a sleeping application was woken",
            t.wakeups,
        ),
        ("sleeps", "Times the loop slept", t.sleeps),
        (
            "stale_calls",
            "Calls that named an object that had ended",
            t.stale_calls,
        ),
        (
            "overruns",
            "Connections ended: the application sent more than its window",
            t.overruns,
        ),
        (
            "over_quota",
            "Datagrams dropped: the application kept too many frames",
            t.over_quota,
        ),
        (
            "readers_stopped",
            "Times that TCP windows were closed because the application held all the frames it may",
            t.readers_stopped,
        ),
        (
            "out_of_frames",
            "Packets delayed for lack of a free frame",
            t.out_of_frames,
        ),
        (
            "connections_refused",
            "Connections refused: the application is at its limit",
            t.connections_refused,
        ),
        (
            "connections_evicted",
            "Connections reset because they rested and a newcomer needed a place",
            t.connections_evicted,
        ),
        (
            "timers_refused",
            "Timers that fired at once: the application is at its limit",
            t.timers_refused,
        ),
        (
            "datagrams_refused",
            "Datagrams of applications that could not be sent",
            t.datagrams_refused,
        ),
        (
            "flush_errors",
            "Sends that the device refused",
            t.flush_errors,
        ),
        (
            "applications_attached",
            "Applications that attached",
            t.attached,
        ),
        (
            "applications_ended",
            "Applications that ended or were terminated",
            t.ended,
        ),
        (
            "offences",
            "Applications terminated for breaking the interface's rules",
            t.offences,
        ),
        (
            "lost_packets",
            "Packets that the device lost for lack of frames or room",
            t.port.lost_packets,
        ),
        (
            "refused_packets",
            "Packets that found the transmit ring full",
            t.port.refused_packets,
        ),
        (
            "large_packets",
            "Packets sent that the device or the kernel cuts into segments",
            t.port.large_packets,
        ),
        (
            "system_calls",
            "System calls made for packets",
            t.port.system_calls,
        ),
        (
            "steered_packets",
            "Packets passed on to the core of their flow group",
            t.steered_out,
        ),
        (
            "steering_lost_packets",
            "Packets lost because the core of their flow group was too far behind",
            t.steering_lost,
        ),
        (
            "groups_moved",
            "Flow groups moved from one core to another",
            t.groups_moved,
        ),
        (
            "connections_moved",
            "Connections moved from one core to another",
            t.connections_moved,
        ),
        (
            "connections_lost_moving",
            "Connections ended because the new core of their flow group had no room",
            t.connections_lost,
        ),
    ]
}

/// Name, description, type and value of a series of each core.
type CoreSeries = (
    &'static str,
    &'static str,
    &'static str,
    fn(&CoreTally) -> f64,
);

const CORE_SERIES: [CoreSeries; 8] = [
    (
        "cofferdam_dataplane_core_groups",
        "Flow groups that a core has",
        "gauge",
        |core| f64::from(core.groups),
    ),
    (
        "cofferdam_dataplane_core_connections",
        "Connections of a core's flow groups",
        "gauge",
        |core| f64::from(core.connections),
    ),
    (
        "cofferdam_dataplane_core_received_packets_total",
        "Packets that a core received from the device",
        "counter",
        |core| core.received_packets as f64,
    ),
    (
        "cofferdam_dataplane_core_steered_in_packets_total",
        "Packets that a core received from other cores",
        "counter",
        |core| core.steered_in_packets as f64,
    ),
    (
        "cofferdam_dataplane_core_sent_packets_total",
        "Packets that a core passed to the device",
        "counter",
        |core| core.sent_packets as f64,
    ),
    (
        "cofferdam_dataplane_core_busy_cycles_total",
        "Time in a core's turns with work, in time-stamp cycles",
        "counter",
        |core| core.busy_cycles as f64,
    ),
    (
        "cofferdam_dataplane_core_idle_cycles_total",
        "Time in a core's turns without work, in time-stamp cycles; sleep is not counted",
        "counter",
        |core| core.idle_cycles as f64,
    ),
    (
        "cofferdam_dataplane_core_queue_delay_seconds",
        "Estimated time that a packet waited before a core took it, in the last interval",
        "gauge",
        |core| core.queue_delay_ns as f64 / 1e9,
    ),
];

/// Number of cores that have flow groups.
fn in_use(cores: &[CoreTally]) -> usize {
    cores.iter().filter(|core| core.groups > 0).count()
}

/// Changes of elastic cores: label and value of each series.
fn changes(elastic: &Elastic) -> [(String, f64); 3] {
    let counts = &elastic.counts;
    [
        ("added", counts.cores_added),
        ("removed", counts.cores_removed),
        ("balanced", counts.balances),
    ]
    .map(|(change, count)| (format!(",change=\"{change}\""), count as f64))
}

/// Names of the devices as one text.
fn names(links: &[Link]) -> String {
    let names: Vec<&str> = links.iter().map(|link| link.name.as_str()).collect();
    names.join(",")
}

/// Devices with their counters, which are zero until the loop has published some.
fn by_device<'a>(
    tally: &'a Tally,
    links: &'a [Link],
) -> impl Iterator<Item = (&'a Link, PortCounters)> {
    let counters = |(n, link)| (link, tally.devices.get(n).copied().unwrap_or_default());
    links.iter().enumerate().map(counters)
}

/// Escapes a text for quotes.
fn label(text: &str) -> String {
    text.replace(['\\', '"', '\n'], "_")
}

/// Series of each device: name, description, value.
const DEVICE_SERIES: [DeviceSeries; 4] = [
    (
        "cofferdam_dataplane_link_received_packets_total",
        "Packets received from one device",
        |c| c.received_packets,
    ),
    (
        "cofferdam_dataplane_link_sent_packets_total",
        "Packets passed to one device",
        |c| c.sent_packets,
    ),
    (
        "cofferdam_dataplane_link_lost_packets_total",
        "Packets that one device lost for lack of frames or room",
        |c| c.lost_packets,
    ),
    (
        "cofferdam_dataplane_link_refused_packets_total",
        "Packets that found one device's ring full",
        |c| c.refused_packets,
    ),
];
type DeviceSeries = (&'static str, &'static str, fn(&PortCounters) -> u64);

/// Counters as Prometheus text (version 0.0.4).
pub(crate) fn text(
    tally: &Tally,
    cores: &[CoreTally],
    elastic: Option<&Elastic>,
    links: &[Link],
) -> String {
    let mut out = String::new();
    let device = label(&names(links));
    let mut put = |name: &str, help: &str, kind: &str, series: &[(String, f64)]| {
        let _ = writeln!(out, "# HELP {name} {help}.\n# TYPE {name} {kind}");
        for (labels, value) in series {
            let _ = writeln!(out, "{name}{{device=\"{device}\"{labels}}} {value}");
        }
    };
    for (name, help, value) in counters(tally) {
        let name = format!("cofferdam_dataplane_{name}_total");
        put(&name, help, "counter", &[(String::new(), value as f64)]);
    }
    let stages: Vec<(String, f64)> = Stage::ALL
        .iter()
        .zip(tally.stage_cycles)
        .map(|(stage, cycles)| (format!(",stage=\"{}\"", stage.name()), cycles as f64))
        .collect();
    put(
        "cofferdam_dataplane_stage_cycles_total",
        "Time in each stage of turns with work, in time-stamp cycles",
        "counter",
        &stages,
    );
    let sizes: Vec<(String, f64)> = tally
        .batch_sizes
        .iter()
        .enumerate()
        .map(|(class, count)| (format!(",most=\"{}\"", 1_u32 << class), *count as f64))
        .collect();
    put(
        "cofferdam_dataplane_batch_sizes_total",
        "Batches by size: at most this many packets and more than half of it",
        "counter",
        &sizes,
    );
    let stack: Vec<(String, f64)> = tally
        .stack
        .iter()
        .map(|(name, value)| (format!(",event=\"{name}\""), *value as f64))
        .collect();
    put(
        "cofferdam_dataplane_stack_total",
        "Counters of the network stack",
        "counter",
        &stack,
    );
    put(
        "cofferdam_dataplane_free_frames",
        "Free frames of the packet memory",
        "gauge",
        &[(String::new(), f64::from(tally.free_frames))],
    );
    for (name, help, value) in DEVICE_SERIES {
        let series = by_device(tally, links).map(|(link, counters)| {
            let name = label(&link.name);
            (format!(",link=\"{name}\""), value(&counters) as f64)
        });
        put(name, help, "counter", &series.collect::<Vec<_>>());
    }
    for (name, help, kind, value) in CORE_SERIES {
        let series = cores.iter().map(|core| {
            let cpu = core
                .cpu
                .map_or_else(|| "any".to_owned(), |cpu| cpu.to_string());
            (
                format!(",core=\"{}\",cpu=\"{cpu}\"", core.core),
                value(core),
            )
        });
        put(name, help, kind, &series.collect::<Vec<_>>());
    }
    put(
        "cofferdam_dataplane_cores_in_use",
        "Cores that have flow groups",
        "gauge",
        &[(String::new(), in_use(cores) as f64)],
    );
    if let Some(elastic) = elastic {
        put(
            "cofferdam_dataplane_core_changes_total",
            "Cores added and removed, and times that loads were evened out",
            "counter",
            &changes(elastic),
        );
        for (name, help, value) in [
            (
                "cofferdam_dataplane_elastic_groups_moved_total",
                "Flow groups that elastic cores have moved",
                elastic.counts.groups_moved,
            ),
            (
                "cofferdam_dataplane_elastic_moves_stuck_total",
                "Moves of elastic cores that took longer than a second",
                elastic.counts.moves_stuck,
            ),
        ] {
            put(name, help, "counter", &[(String::new(), value as f64)]);
        }
    }
    for (name, help, of) in [
        ("connections", "Connections of an application", 0),
        (
            "held_frames",
            "Received frames that an application has not returned",
            1,
        ),
    ] {
        let series: Vec<(String, f64)> = tally
            .applications
            .iter()
            .map(|a| {
                let value = if of == 0 {
                    a.connections
                } else {
                    a.held_frames
                };
                let name = label(&a.name);
                (format!(",application=\"{name}\""), f64::from(value))
            })
            .collect();
        put(
            &format!("cofferdam_dataplane_{name}"),
            help,
            "gauge",
            &series,
        );
    }
    out
}

/// Counters as one JSON document.
pub(crate) fn status(
    tally: &Tally,
    cores: &[CoreTally],
    elastic: Option<&Elastic>,
    links: &[Link],
) -> serde_json::Value {
    let counts: serde_json::Map<_, _> = counters(tally)
        .into_iter()
        .map(|(name, _, value)| (name.to_owned(), value.into()))
        .collect();
    let stages: serde_json::Map<_, _> = Stage::ALL
        .iter()
        .zip(tally.stage_cycles)
        .map(|(stage, cycles)| (stage.name().to_owned(), cycles.into()))
        .collect();
    let stack: serde_json::Map<_, _> = tally
        .stack
        .iter()
        .map(|(name, value)| ((*name).to_owned(), (*value).into()))
        .collect();
    let devices = by_device(tally, links).map(|(link, counters)| {
        let addresses = link.addresses.iter().map(|own| own.ip);
        serde_json::json!({
            "device": link.name,
            "addresses": addresses.collect::<Vec<_>>(),
            "received_packets": counters.received_packets,
            "sent_packets": counters.sent_packets,
            "lost_packets": counters.lost_packets,
            "refused_packets": counters.refused_packets,
        })
    });
    serde_json::json!({
        "schema": SCHEMA,
        "device": names(links),
        "links": devices.collect::<Vec<_>>(),
        "counts": counts,
        "batch_sizes": tally.batch_sizes,
        "stage_cycles": stages,
        "stack": stack,
        "free_frames": tally.free_frames,
        "applications": tally.applications,
        "cores": cores,
        "cores_in_use": in_use(cores),
        "elastic": elastic,
        "flow_groups": tally.groups,
        "last_offence": tally.last_offence,
    })
}
