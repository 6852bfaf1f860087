//! Flows as text for people.

use crate::exit::one_line;
use crate::table::{finish, numbers_right, plain};
use crate::units::{count, pct};
use cofferdam_records::flows::{FlowRecord, FlowsRecord};

/// Whole page: summary, flows, and their limits.
pub fn page(record: &FlowsRecord, width: Option<u16>) -> String {
    let mut text = format!("{}\n\n", words(record));
    if !record.flows.is_empty() {
        let mut table = plain(width);
        table.set_header([
            "flow",
            "from container",
            "packets/s",
            "±",
            "CPU %",
            "Mbit/s",
        ]);
        for flow in &record.flows {
            let sender = flow.sender.as_deref().map_or("–".to_owned(), one_line);
            let [packets, error, cpu, bits] = numbers(record, flow);
            table.add_row([name(flow), sender, packets, error, cpu, bits]);
        }
        numbers_right(&mut table);
        text += &finish(&table);
        text.push('\n');
    }
    text + &notes(record)
}

/// Flows as lines of at most `width` characters, at most `most`: cost, rate, sender.
pub fn lines(record: &FlowsRecord, width: usize, most: usize) -> Vec<String> {
    let line = |flow: &FlowRecord| {
        let [packets, error, cpu, _] = numbers(record, flow);
        let sender = flow
            .sender
            .as_deref()
            .map_or(String::new(), |s| format!(" ({})", one_line(s)));
        let line = format!(
            "{cpu:>6}% {packets:>6}/s {error:>5}  {}{sender}",
            name(flow)
        );
        crate::text::cut_end(&line, width)
    };
    record.flows.iter().take(most).map(line).collect()
}

/// Summary in one sentence: rate, number of flows, and sampling.
pub fn words(record: &FlowsRecord) -> String {
    let name = one_line(&record.container);
    if record.packets == 0 {
        let seconds = record.interval_s;
        return format!("`{name}` received no packet in {seconds:.1} s");
    }
    let sample = match record.sampled_one_in {
        0 | 1 => "all packets counted".to_owned(),
        n => format!("1 packet in {n} sampled"),
    };
    format!(
        "`{name}` receives {} packets/s in {} flow{}; {sample}",
        count(per_s(record, record.packets)),
        match record.flows_seen {
            n if n >= cofferdam_flows::MOST_FLOWS as u64 => format!("{n} or more"),
            n => n.to_string(),
        },
        if record.flows_seen == 1 { "" } else { "s" },
    )
}

fn notes(record: &FlowsRecord) -> String {
    let mut text = match record.ns_per_packet {
        Some(ns) => format!(
            "CPU % is packets × {ns:.0} ns, the container's mean cost of a packet; \
             ± is the 95% interval of \
             the sample.\n"
        ),
        None => "The ledger counted no packet, so there is no cost.\n".to_owned(),
    };
    if record.other_packets > 0 {
        let other = count(per_s(record, record.other_packets));
        text += &format!("Not IP: {other} packets/s.\n");
    }
    if record.lost_packets > 0 {
        text += &format!(
            "{} packets of the sample were lost because a buffer was full: \
             the figures are too low.\n",
            record.lost_packets
        );
    }
    if record.by_sockets {
        text += "In the host's network namespace: packets that its TCP and UDP sockets receive, \
                 without ICMP and fragments.\n";
    }
    if !record.shared_with.is_empty() {
        let names: Vec<_> = record.shared_with.iter().map(|n| one_line(n)).collect();
        text += &format!(
            "Includes the packets of {}, in the same network namespace.\n",
            names.join(", ")
        );
    }
    text
}

/// Name of a flow, such as `udp 10.0.0.1:4711 → 10.0.0.2:53`.
fn name(flow: &FlowRecord) -> String {
    let end = |address: &str, port: Option<u16>| match port {
        Some(port) if address.contains(':') => format!("[{address}]:{port}"),
        Some(port) => format!("{address}:{port}"),
        None => address.to_owned(),
    };
    let fragments = if flow.fragments { " fragments" } else { "" };
    format!(
        "{}{fragments} {} → {}",
        flow.protocol,
        end(&flow.source, flow.source_port),
        end(&flow.destination, flow.destination_port)
    )
}

/// Packets per second, their error, percent of a CPU, Mbit/s.
fn numbers(record: &FlowsRecord, flow: &FlowRecord) -> [String; 4] {
    let packets = flow.packets.max(1) as f64;
    let error = flow.packets_error + flow.packets_at_most_too_many;
    let share = |ns: f64| pct(ns / 1e7 / record.interval_s.max(1e-9));
    [
        count(per_s(record, flow.packets)),
        match error {
            0 => "exact".to_owned(),
            error => format!("±{:.0}%", (error as f64 / packets * 100.0).min(999.0)),
        },
        flow.cost_ns.map_or("–".to_owned(), share),
        format!("{:.1}", per_s(record, flow.bytes) * 8.0 / 1e6),
    ]
}

fn per_s(record: &FlowsRecord, count: u64) -> f64 {
    count as f64 / record.interval_s.max(1e-9)
}
