#![allow(clippy::unwrap_used)]
use super::*;
use crate::census::{Facts, Span};
use crate::figures::{Hours, Sum, Transfer, TransferSums};
use std::collections::BTreeMap;

fn tenant(name: &str, billed_s: f64, owed_s: f64) -> Sum {
    Sum {
        name: name.to_owned(),
        billed_s,
        corrected_s: billed_s + owed_s,
        containers: 1.0,
        ..Sum::default()
    }
}

fn figures() -> Figures {
    Figures {
        all: tenant("", 100_000.0, 50.0),
        flows: TransferSums {
            harm_s: 900.0,
            of_none_s: 50.0,
            to_nobody_s: 100.0,
        },
        top_transfers: vec![Transfer {
            host: "n1".to_owned(),
            offender: "web".to_owned(),
            victim: "db".to_owned(),
            cpu_s: 800.0,
        }],
        tenants: vec![
            tenant("shop", 60_000.0, 40.0),
            tenant("ads", 30_000.0, -10.0),
        ],
        tenants_count: 3,
        noisiest: Vec::new(),
        hosts: Vec::new(),
        hosts_worth: 0,
        hours: vec![Hours {
            host: "n1".to_owned(),
            hours: BTreeMap::from([(0, (3600.0, 10.0)), (2, (3600.0, 900.0))]),
        }],
        missing: Vec::new(),
    }
}

fn census() -> Census {
    Census {
        ledgers: Vec::new(),
        hosts: BTreeMap::from([("n1".to_owned(), Facts::default())]),
        period: Span {
            from_ms: 0,
            to_ms: 3 * crate::census::HOUR_MS,
        },
        copies: Vec::new(),
    }
}

/// Promise 17.
#[test]
fn the_bill_shows_other_tenants_and_the_difference() {
    let page = html(&figures(), &census(), &[]).unwrap();
    for text in [
        "1 other tenant",
        "Ran in no container's time",
        "+0.028",
        "−0.014",
    ] {
        assert!(page.contains(text), "{text}");
    }
    assert!(!page.contains("Take care"));
}

/// Promise 17.
#[test]
fn ledgers_that_do_not_add_up_cause_a_warning() {
    let mut wrong = figures();
    wrong.flows.to_nobody_s = 120.0;
    let page = html(&wrong, &census(), &[]).unwrap();
    assert!(page.contains("Bills and flows differ by 20.0 s"), "{page}");
}

/// Promise 17.
#[test]
fn hours_without_records_are_gaps_and_the_worst_is_darkest() {
    let page = html(&figures(), &census(), &[]).unwrap();
    assert_eq!(page.matches("<rect class=\"gap\"").count(), 2);
    assert!(page.contains("<rect class=\"step5\" x=\"20\""));
    assert!(page.contains("1 of 3 columns without records"));
}

#[test]
fn a_quiet_fleet_has_a_page() {
    let mut quiet = figures();
    quiet.flows = TransferSums {
        to_nobody_s: 50.0,
        ..TransferSums::default()
    };
    quiet.top_transfers = Vec::new();
    quiet.hours = Vec::new();
    let page = html(&quiet, &census(), &[]).unwrap();
    assert!(page.contains("No container was billed for packets of another one"));
}
