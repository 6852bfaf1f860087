//! Prints once a second, for ten seconds, the CPU time that each container was entitled to and did
//! not get.
//!
//! `cargo run -p cofferdam-diagnosis --example losses` as root.

use cofferdam_diagnosis::{Diagnosis, DiagnosisOptions};
use cofferdam_host::Inventory;
use std::time::Duration;

fn containers() -> Vec<std::sync::Arc<cofferdam_types::Container>> {
    let inventory = Inventory::scan().expect("the host can be scanned");
    inventory.containers().cloned().collect()
}

fn main() {
    let mut diagnosis =
        Diagnosis::start(DiagnosisOptions::default()).expect("the diagnosis starts");
    println!("maps take {} bytes", diagnosis.memory_bytes());
    let mut last = diagnosis.snapshot(&containers()).expect("it can be read");
    for _ in 0..10 {
        std::thread::sleep(Duration::from_secs(1));
        let now = diagnosis.snapshot(&containers()).expect("it can be read");
        let interval = now.since(&last);
        println!(
            "{:?} · idle {:.2} (left by throttled {:.2}) · host {:.2} · {:?}",
            interval.length,
            interval.idle_ns as f64 / 1e9,
            interval.left_idle_ns as f64 / 1e9,
            interval.host_ns as f64 / 1e9,
            interval.health
        );
        for one in &interval.containers {
            println!("  {} [{}]", one.words(interval.length), one.entitlement);
        }
        last = now;
    }
}
