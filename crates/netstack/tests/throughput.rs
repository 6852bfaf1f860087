//! Throughput by loss and buffer size, as a table that changes only on purpose.

mod support;

use cofferdam_netstack::*;
use std::fmt::Write;
use std::time::Duration;
use support::config;
use support::faults::Faults;
use support::transfer::dial;
use support::world::World;

const LINK_BYTES_PER_S: u64 = 12_500_000;
const ONE_WAY: Duration = Duration::from_millis(5);
const LOSS_PCT: [u32; 4] = [0, 1, 3, 10];
const WINDOWS_KIB: [u32; 3] = [16, 64, 256];
const SECONDS: u64 = 4;

/// Bytes per second that arrive in four seconds over 100 Mbit/s and 10 ms, with a queue of 64 KiB.
fn goodput(congestion: Congestion, sack: bool, loss_pct: u32, window_kib: u32) -> u64 {
    let faults = Faults {
        loss_pct,
        delay: ONE_WAY,
        bytes_per_s: Some(LINK_BYTES_PER_S),
        queue_bytes: 64 << 10,
        ..Faults::default()
    };
    let mut configs = [config(0), config(1)];
    for settings in &mut configs {
        settings.tcp.congestion = congestion;
        settings.tcp.sack = sack;
        settings.tcp.receive_window_bytes = window_kib << 10;
        settings.tcp.receive_buffers = 1024;
    }
    let mut world = World::with(faults, 11, configs);
    // Only data is lost, acknowledgements are not.
    world.wires[1].faults.loss_pct = 0;
    let mut client = support::app::Stream::new(u64::MAX >> 8, 16 << 10, false);
    let mut server = support::app::Stream::new(0, 1, true);
    dial(&mut world, &mut client, false);
    world.run_for(
        Duration::from_secs(SECONDS),
        &mut [&mut client, &mut server],
    );
    server.received / SECONDS
}

fn table() -> Vec<(String, Vec<u64>)> {
    let kinds = [
        ("newreno, no sack", Congestion::NewReno, false),
        ("newreno, sack", Congestion::NewReno, true),
        ("cubic, sack", Congestion::Cubic, true),
    ];
    let mut rows = Vec::new();
    for (name, congestion, sack) in kinds {
        for loss in LOSS_PCT {
            let row = WINDOWS_KIB
                .iter()
                .map(|window| goodput(congestion, sack, loss, *window) / 1000);
            rows.push((format!("{name}, {loss}% loss"), row.collect()));
        }
    }
    rows
}

/// `COFFERDAM_UPDATE_SNAPSHOTS=1` rewrites the table; a review must cover the change.
/// Promise 56.
#[test]
fn throughput_by_loss_and_buffer_is_that_of_the_table() {
    let rows = table();
    let mut text = String::from("# kB/s over 100 Mbit/s, 10 ms, by receive window in KiB: ");
    writeln!(text, "{WINDOWS_KIB:?}").expect("a string");
    for (name, row) in &rows {
        writeln!(text, "{name}: {row:?}").expect("a string");
    }
    let path = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/tests/snapshots/throughput.txt"
    );
    if std::env::var_os("COFFERDAM_UPDATE_SNAPSHOTS").is_some() {
        std::fs::write(path, &text).expect("written");
    }
    let expected = std::fs::read_to_string(path).expect("the table");
    for (line, (name, row)) in expected.lines().skip(1).zip(&rows) {
        let (known_name, cells) = line.split_once(": ").expect("a row");
        assert_eq!(known_name, name);
        let cells: Vec<u64> = cells
            .trim_matches(['[', ']'])
            .split(", ")
            .map(|cell| cell.parse().expect("a number"))
            .collect();
        for (now, before) in row.iter().zip(&cells) {
            // The cube root's last bit differs between C libraries.
            assert!(
                now.abs_diff(*before) * 10 <= *before,
                "{name}: {row:?}, the table says {cells:?}"
            );
        }
        assert_eq!(cells.len(), row.len());
    }
    assert_eq!(expected.lines().count(), rows.len() + 1);
    // These conditions hold for any table.
    let cell =
        |name: &str, window: usize| rows.iter().find(|row| row.0 == name).expect("a row").1[window];
    for kind in ["newreno, no sack", "newreno, sack", "cubic, sack"] {
        let clean = |window| cell(&format!("{kind}, 0% loss"), window);
        // The minimum is a window for each round trip and its sending time, in kB/s, and two thirds
        // of the link, as a loss at its short queue halves the window.
        let round_trip_s = 2.0 * ONE_WAY.as_secs_f64() + 16_384.0 / LINK_BYTES_PER_S as f64;
        assert!(
            clean(0) as f64 >= 0.95 * 16.384 / round_trip_s,
            "{kind}: {}",
            clean(0)
        );
        assert!(
            clean(2) >= LINK_BYTES_PER_S / 1000 * 2 / 3,
            "{kind}: {}",
            clean(2)
        );
        assert!(clean(2) <= LINK_BYTES_PER_S / 1000, "{kind}: {}", clean(2));
        let losses: Vec<u64> = LOSS_PCT
            .iter()
            .map(|loss| cell(&format!("{kind}, {loss}% loss"), 2))
            .collect();
        assert!(losses.is_sorted_by(|a, b| a >= b), "{kind}: {losses:?}");
    }
    assert!(cell("newreno, sack, 10% loss", 2) > cell("newreno, no sack, 10% loss", 2));
}
