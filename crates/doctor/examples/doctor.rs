//! Prints the capabilities of this host: `cargo run -p cofferdam-doctor --example doctor`.

fn main() {
    let report = cofferdam_doctor::examine();
    for check in &report.checks {
        println!(
            "{:20} {:6} {}: {}",
            check.id, check.status, check.capability, check.detail
        );
        if let Some(remedy) = &check.remedy {
            println!("{:27} remedy: {remedy}", "");
        }
    }
    match report.accounting_blocker() {
        Some(check) => println!(
            "the accounting cannot run: {} ({})",
            check.capability, check.detail
        ),
        None => println!("the accounting can run"),
    }
}
