//! Value of every metric, from the view that the control loop publishes.

use super::latency;
use super::table::*;
use super::values::{Values, name, seconds};
use crate::traffic::Traffic;
use crate::view::View;
use cofferdam_types::{
    AccountingMode, CgroupId, ContainerLedger, ContainerStatus, CpuPolicy, CpuTime, Degradation,
    NetworkCpu,
};
use std::collections::{BTreeSet, HashMap, HashSet};

/// Collects all current values. Those of clients are added only for the server, which has them.
pub(super) fn values(view: &View, more: &[Degradation], traffic: Option<Traffic>) -> Values {
    let mut values = Values::default();
    let exported = containers_with_series(view);
    let mut names = HashMap::new();
    for entry in &exported {
        ledger(&mut values, entry);
        names.insert(entry.container.cgroup, name(&entry.container));
    }
    let all = view.snapshot.containers.len();
    let containers = view.snapshot.containers.iter();
    let hosts = containers.filter(|c| c.container.is_of_host()).count();
    values.add(&CONTAINERS, &[], (all - hosts) as f64);
    values.add(&HOST_CGROUPS, &[], hosts as f64);
    values.add(&NOT_EXPORTED, &[], (all - exported.len()) as f64);
    host(&mut values, view);
    for status in &view.enforcement.containers {
        if let Some(name) = names.get(&status.cgroup) {
            enforcement(&mut values, status, name);
        }
    }
    losses(&mut values, view, &names);
    latency::values(&mut values, view);
    agent(&mut values, view, more);
    history(&mut values, view);
    nri(&mut values, view);
    if let Some(traffic) = traffic {
        requests(&mut values, traffic);
    }
    values
}

/// Containers with series of their own: enforced or reserved ones first, then by network CPU,
/// cgroups of the host last.
fn containers_with_series(view: &View) -> Vec<&ContainerLedger> {
    let touched: HashSet<_> = view
        .enforcement
        .containers
        .iter()
        .map(|c| c.cgroup)
        .collect();
    // A container that has ended appears once more, before the one that has its path now.
    let mut paths = HashSet::new();
    let newest_first = view.snapshot.containers.iter().rev();
    let mut all: Vec<&ContainerLedger> = newest_first
        .filter(|c| paths.insert(c.container.cgroup_path.as_path()))
        .collect();
    all.reverse();
    let most = usize::try_from(view.exported).unwrap_or(usize::MAX);
    if all.len() > most {
        all.sort_by_key(|c| {
            let caused = c.ledger.caused_ns() + c.ledger.charged_network_ns;
            (
                !touched.contains(&c.container.cgroup),
                c.container.is_of_host(),
                std::cmp::Reverse(caused),
            )
        });
        all.truncate(most);
        all.sort_by_key(|c| c.container.cgroup);
    }
    all
}

fn ledger(values: &mut Values, entry: &ContainerLedger) {
    let name = name(&entry.container);
    let [container, pod, cgroup] = name.each_ref().map(String::as_str);
    let who = [container, pod, cgroup];
    let l = &entry.ledger;
    let with = |last| [container, pod, cgroup, last];
    values.add(&CAUSED, &with("rx"), seconds(l.caused_rx_ns));
    values.add(&CAUSED, &with("tx"), seconds(l.caused_tx_ns));
    values.add(&CAUSED, &with("hardirq"), seconds(l.caused_hardirq_ns));
    values.add(&CHARGED, &with("network"), seconds(l.charged_network_ns));
    values.add(&CHARGED, &with("other"), seconds(l.charged_other_ns));
    values.add(&OWED, &who, l.owed_ns() as f64 / 1e9);
    values.add(&CPU_USAGE, &who, seconds(l.cpu_usage_ns));
    values.add(&CORRECTED, &who, l.corrected_cpu_ns() as f64 / 1e9);
    values.add(&PACKETS, &with("rx"), l.rx_packets as f64);
    values.add(&PACKETS, &with("tx"), l.tx_packets as f64);
    values.add(&BYTES, &with("rx"), l.rx_bytes as f64);
    values.add(&BYTES, &with("tx"), l.tx_bytes as f64);
}

fn host(values: &mut Values, view: &View) {
    let snapshot = &view.snapshot;
    for (reason, ns) in &snapshot.unattributed_ns {
        let name = serde_json::to_value(reason).ok();
        let name = name
            .as_ref()
            .and_then(|v| v.as_str())
            .unwrap_or(reason.label());
        values.add(&UNATTRIBUTED, &[name], seconds(*ns));
    }
    for (cpu, time) in &snapshot.cpus {
        let cpu = cpu.to_string();
        let mut add = |metric, of: fn(&CpuTime) -> u64| {
            values.add(metric, &[cpu.as_str()], seconds(of(time)));
        };
        add(&CPU_SOFTIRQ, |t| t.softirq_ns);
        add(&CPU_NETWORK_SOFTIRQ, |t| t.network_softirq_ns);
        add(&CPU_HARDIRQ, |t| t.hardirq_ns);
        add(&CPU_NAPI_THREAD, |t| t.napi_thread_ns);
        add(&CPU_DRAIN, |t| t.drain_ns);
        add(&CPU_ATTRIBUTED, |t| t.attributed_ns);
        add(&CPU_CHARGED, |t| t.charged_ns);
        add(&CPU_CHARGED_NOBODY, |t| t.charged_nobody_ns);
        add(&CPU_CHARGED_HOST, |t| t.charged_host_ns);
    }
    let error_pct = snapshot.conservation().worst_cpu_error_pct;
    values.add(&CONSERVATION, &[], error_pct / 100.0);
    let health = &snapshot.health;
    for (event, count) in [
        ("containers_without_slot", health.containers_without_slot),
        ("events_lost", health.events_lost),
        ("containers_gone", health.containers_gone),
        ("cpu_hotplugs", health.cpu_hotplugs),
        ("segments_rejected", health.segments_rejected),
        ("markers_missed", health.markers_missed),
        ("softirqs_unseen", health.softirqs_unseen),
        ("cpu_usage_unreadable", health.cpu_usage_unreadable),
    ] {
        values.add(&ACCOUNTING_EVENTS, &[event], count as f64);
    }
}

fn enforcement(values: &mut Values, status: &ContainerStatus, name: &[String; 3]) {
    let [container, pod, cgroup] = name.each_ref().map(String::as_str);
    let who = [container, pod, cgroup];
    let with = |last| [container, pod, cgroup, last];
    let network_cpu = match status.policy.network_cpu {
        NetworkCpu::Observe => "observe",
        NetworkCpu::Enforce => "enforce",
    };
    let cpu = match status.policy.cpu {
        CpuPolicy::Standard => "standard",
        CpuPolicy::Strict(_) => "strict",
    };
    values.add(&CLASS, &[container, pod, cgroup, network_cpu, cpu], 1.0);
    // Two degradations of the same name are one series.
    let degraded: BTreeSet<&str> = status.degraded.iter().map(|d| d.name.as_str()).collect();
    for name in degraded {
        values.add(&CONTAINER_DEGRADED, &with(name), 1.0);
    }
    if let Some(network) = &status.network {
        for state in &network.means {
            let in_force = f64::from(u8::from(state.in_force));
            values.add(&MEANS, &with(state.means.label()), in_force);
        }
        values.add(&DEBT, &who, seconds(network.debt_ns));
        values.add(&FORGIVEN, &who, seconds(network.forgiven_ns));
        values.add(&ENFORCED_CHARGE, &who, seconds(network.charged_ns));
        values.add(&RETURNED, &who, seconds(network.returned_ns));
        values.add(&DROPPED, &with("rx"), network.dropped_rx_packets as f64);
        values.add(&DROPPED, &with("tx"), network.dropped_tx_packets as f64);
    }
    if let Some(reservation) = &status.reservation {
        let slice = reservation.slice.map_or(0, |(_, milli)| milli);
        values.add(&OWN_CPUS, &who, reservation.own_cpus.len() as f64);
        values.add(&SLICE_CPUS, &who, f64::from(slice) / 1000.0);
        values.add(&LENT_CPUS, &who, reservation.lent_cpus.len() as f64);
        values.add(&LENDINGS, &who, reservation.lendings as f64);
        values.add(&REWRITES, &who, reservation.rewrites as f64);
    }
}

fn losses(values: &mut Values, view: &View, names: &HashMap<CgroupId, [String; 3]>) {
    let losses = &view.losses;
    let Some(interval) = &losses.interval else {
        return;
    };
    for (cgroup, loss) in &losses.totals {
        let Some(name) = names.get(cgroup) else {
            continue;
        };
        let [container, pod, cgroup] = name.each_ref().map(String::as_str);
        let who = [container, pod, cgroup];
        values.add(&ENTITLED, &who, seconds(loss.entitled_ns));
        values.add(&GOT, &who, seconds(loss.got_ns));
        for (cause, ns) in [
            ("forced_sharing", loss.forced_sharing_ns),
            ("phantom", loss.phantom_ns),
            ("throttled", loss.throttled_ns),
            ("lack", loss.lack_ns),
        ] {
            values.add(&LOST, &[container, pod, cgroup, cause], seconds(ns));
        }
    }
    for (event, count) in [
        (
            "containers_without_slot",
            interval.health.containers_without_slot,
        ),
        ("mismatches", interval.health.mismatches),
        ("segments_rejected", interval.health.segments_rejected),
    ] {
        values.add(&DIAGNOSIS_EVENTS, &[event], count as f64);
    }
}

fn agent(values: &mut Values, view: &View, more: &[Degradation]) {
    let enforcement = &view.enforcement;
    values.add(&CHANGES, &[], enforcement.changes_in_force as f64);
    values.add(&FAILED_CHANGES, &[], enforcement.failed_changes as f64);
    values.add(&ENFORCEMENT_STEP, &[], enforcement.last_step.as_secs_f64());
    let degraded: BTreeSet<&str> = view.all_degraded(more).map(|d| d.name.as_str()).collect();
    for name in degraded {
        values.add(&DEGRADED, &[name], 1.0);
    }
    values.add(&INFO, &[env!("CARGO_PKG_VERSION")], 1.0);
    values.add(&UPTIME, &[], view.started.elapsed().as_secs_f64());
    values.add(&RULES, &[], view.rules.len() as f64);
    let unused = view.rules.iter().filter(|r| r.containers == 0).count();
    values.add(&RULES_UNUSED, &[], unused as f64);
    values.add(&LOADS, &[], view.configuration.loads as f64);
    values.add(&REFUSALS, &[], view.configuration.refusals as f64);
    values.add(&PERIOD, &[], view.control_period.as_secs_f64());
    let sampled = view.accounting.mode == AccountingMode::Sampled.label();
    values.add(&SAMPLED, &[], f64::from(u8::from(sampled)));
    values.add(&STEP, &[], view.last_step.as_secs_f64());
    values.add(&STEPS, &[], view.steps as f64);
    values.add(&FAILED_READINGS, &[], view.failed_readings as f64);
    values.add(&AGENT_CPU, &[], view.cost.cpu.as_secs_f64());
    for (outcome, count) in [("sent", view.sent.requests), ("failed", view.sent.failures)] {
        values.add(&PUSHES, &[outcome], count as f64);
    }
    values.add(&AGENT_MEMORY, &[], view.cost.resident_bytes as f64);
}

/// Adds the metrics of NRI; none if it is off.
fn nri(values: &mut Values, view: &View) {
    let Some(nri) = &view.nri else {
        return;
    };
    values.add(&NRI_CONNECTED, &[], f64::from(u8::from(nri.connected)));
    values.add(&NRI_SESSIONS, &[], nri.sessions as f64);
    values.add(&NRI_PODS, &[], nri.pods as f64);
    values.add(&NRI_CONTAINERS, &[], nri.containers as f64);
    let within = nri.answers.saturating_sub(nri.late_answers);
    values.add(&NRI_ANSWERS, &["2ms"], within as f64);
    values.add(&NRI_ANSWERS, &["longer"], nri.late_answers as f64);
    values.add(&NRI_MALFORMED, &[], nri.malformed as f64);
}

fn history(values: &mut Values, view: &View) {
    let history = &view.history;
    values.add(&HISTORY_BYTES, &[], history.bytes as f64);
    values.add(&HISTORY_FRAMES, &[], history.frames as f64);
    values.add(&HISTORY_DROPPED, &[], history.dropped as f64);
    values.add(&HISTORY_DELAYED, &[], history.delayed as f64);
    let failing = f64::from(u8::from(history.error.is_some()));
    values.add(&HISTORY_FAILING, &[], failing);
}

fn requests(values: &mut Values, traffic: Traffic) {
    values.add(&REQUESTS, &[], traffic.requests as f64);
    values.add(&REFUSED_REQUESTS, &[], traffic.refused_requests as f64);
    values.add(
        &REFUSED_CONNECTIONS,
        &[],
        traffic.refused_connections as f64,
    );
    values.add(&TIMEOUTS, &[], traffic.timeouts as f64);
    values.add(&SCRAPES, &[], traffic.scrapes as f64);
}
