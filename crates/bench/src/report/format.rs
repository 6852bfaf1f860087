//! Numbers and cells as people read them.

pub use cofferdam_page::format::{bytes, cpu_count, cpus, factor, number, scaled, share, short};

use crate::data::{
    Cell, Direction, EVEN_SHARE_PCT, Estimate, FEWEST_BLOCKS, Interferer, Limit, Path, Protocol,
    Rate, Role,
};

/// Median and interval, `5.61 [5.10, 6.20]`, or the reason why there is none: `5.61 (n = 3)`.
pub fn estimate(e: &Estimate) -> String {
    estimate_as(e, number)
}

/// Like [`estimate`], with every number formatted by `show`.
pub fn estimate_as(e: &Estimate, show: fn(f64) -> String) -> String {
    match e.interval() {
        Some(i) => format!("{} [{}, {}]", show(e.median), show(i.low()), show(i.high())),
        None => format!("{} ({})", show(e.median), instead(e)),
    }
}

/// Factor with its interval: `5.61× [5.10, 6.20]`.
pub fn times(e: &Estimate) -> String {
    estimate(e).replacen(' ', "× ", 1)
}

/// Text in place of an interval: `n = 3`, or `all 7 alike`.
pub fn instead(e: &Estimate) -> String {
    match e.blocks() < FEWEST_BLOCKS {
        true => format!("n = {}", e.blocks()),
        false => format!("all {} alike", e.blocks()),
    }
}

/// Confidence in a median: `95% interval 5.45 to 5.89`.
pub fn certainty(e: &Estimate) -> String {
    match (e.interval(), e.blocks()) {
        (Some(i), _) => format!("95% interval {} to {}", number(i.low()), number(i.high())),
        (None, 1) => "inconclusive: measured once".to_owned(),
        (None, n) if n < FEWEST_BLOCKS => {
            format!("inconclusive: {n} blocks, and an interval needs {FEWEST_BLOCKS}")
        }
        (None, n) => format!("inconclusive: all {n} blocks alike, so no interval"),
    }
}

/// Rate as it is judged: packets for UDP. For TCP it is bits, because nothing counts its packets.
pub fn rate(protocol: Protocol, rate: &Rate) -> String {
    match protocol {
        Protocol::Udp => format!("{}/s", scaled(rate.packets_per_s)),
        Protocol::Tcp => format!("{}bit/s", scaled(rate.bytes_per_s * 8.0)),
    }
}

/// Traffic of the cell within a sentence: `3 flows of 200-byte UDP`.
pub fn traffic(cell: &Cell) -> String {
    let flows = cell.flows;
    let many = if flows == 1 { "" } else { "s" };
    let size = cell
        .payload_bytes
        .map(|b| format!("{b}-byte "))
        .unwrap_or_default();
    let what = match cell.interferer {
        Interferer::Flood => format!("{flows} flow{many} of {size}UDP"),
        Interferer::Stream => format!("{flows} TCP stream{many} of {size}writes"),
        Interferer::Shuffle => format!("a shuffle of {flows} TCP flow{many}"),
    };
    let htb = cell
        .htb_gbit_per_s
        .map(|r| format!(" behind HTB at {r} Gbit/s"))
        .unwrap_or_default();
    what + &htb
}

/// Path of the cell within a sentence.
pub fn path(path: Path) -> &'static str {
    match path {
        Path::Veth => "over one veth pair",
        Path::Routed => "over a router",
        Path::BridgeNat => "over a bridge with NAT and connection tracking",
        Path::Macvlan => "over a macvlan device",
        Path::Vxlan => "over a vxlan tunnel and a router",
    }
}

/// The cell on one line of a chart or table: `cpu · 3 × 200 B UDP in · veth`.
pub fn cell(cell: &Cell) -> String {
    let direction = match cell.direction {
        Direction::Receiver => " in",
        Direction::Sender => " out",
    };
    cell_named(cell, direction)
}

/// Like [`cell`], without the direction, for a chart that states it.
pub fn cell_without_direction(cell: &Cell) -> String {
    cell_named(cell, "")
}

fn cell_named(cell: &Cell, direction: &str) -> String {
    let what = match (cell.interferer, cell.payload_bytes) {
        (Interferer::Shuffle, _) => format!("shuffle of {}", cell.flows),
        (_, Some(size)) => format!("{} × {} {}", cell.flows, payload(size), protocol(cell)),
        (_, None) => format!("{} × {}", cell.flows, protocol(cell)),
    };
    let htb = cell
        .htb_gbit_per_s
        .map(|r| format!(" · HTB {r} G"))
        .unwrap_or_default();
    let mut name = format!("{} · {what}{direction} · {}{htb}", cell.victim, cell.path);
    if cell.victim_share_pct != EVEN_SHARE_PCT {
        name += &format!(
            " · {}:{}",
            cell.victim_share_pct,
            100 - cell.victim_share_pct.min(100)
        );
    }
    if cell.limit != Limit::Weights {
        name += &format!(" · {}", cell.limit);
    }
    if cell.offenders != 1 {
        name += &format!(" · {} offenders", cell.offenders);
    }
    name
}

fn payload(bytes: u32) -> String {
    if bytes >= 1024 && bytes.is_multiple_of(1024) {
        format!("{} KiB", bytes / 1024)
    } else {
        format!("{bytes} B")
    }
}

fn protocol(cell: &Cell) -> &'static str {
    match cell.protocol {
        Protocol::Tcp => "TCP",
        Protocol::Udp => "UDP",
    }
}

/// Work of the competitors.
pub fn role(role: Role) -> &'static str {
    match role {
        Role::Alone => "alone",
        Role::Compute => "next to compute",
        Role::Traffic => "next to traffic",
    }
}
