use super::*;
use crate::network::policy::{Correction, InterruptionCosts, Packets, contended, simulation};
use cofferdam_types::{CpuTime, Interval};

const SHARE: f64 = 0.5;

fn rules() -> Rules {
    Rules {
        means: Means::ALL.to_vec(),
        napi_in_container: true,
        debt_bound: Duration::from_secs(1),
        linger: Duration::from_secs(30),
    }
}

fn account() -> Account {
    Account::new(simulation::container(1))
}

/// Account whose packets take 0.4 of its share.
fn communicating() -> Account {
    let mut account = account();
    let length = Duration::from_secs(1);
    let used = super::Use {
        softirq_ns: 0.4 * SHARE * length.as_nanos() as f64,
        ..super::Use::default()
    };
    account.rates.update(&used, length);
    account
}

fn overdraft(account: &Account) -> f64 {
    account.overdraft(&rules(), &simulation::facts(), SHARE)
}

/// Promise 34.
#[test]
fn an_overdraft_needs_a_weight_and_no_debt() {
    let mut sender = communicating();
    assert!(
        (overdraft(&sender) - 0.05).abs() < 1e-9,
        "{}",
        overdraft(&sender)
    );
    let bounds = Bounds {
        debt: Duration::from_secs(1),
        credit: Duration::ZERO,
        repayment_time: tuning::REPAYMENT_TIME,
    };
    sender
        .debts
        .update(0, 0.51, SHARE, Duration::from_secs(1), bounds);
    assert!(
        (overdraft(&sender) - 0.03).abs() < 1e-9,
        "{}",
        overdraft(&sender)
    );
    sender
        .debts
        .update(0, 0.52, SHARE, Duration::from_secs(1), bounds);
    assert_eq!(overdraft(&sender), 0.0);

    let mut reserved = account();
    reserved.weight_reserved = true;
    assert_eq!(overdraft(&reserved), 0.0, "its weight is its reservation's");
    let mut flooded = account();
    flooded.exceeded_weight = true;
    assert_eq!(
        overdraft(&flooded),
        0.0,
        "more than a weight can compensate"
    );
    let without = Rules {
        means: vec![Means::IngressDrop],
        ..rules()
    };
    let account = account();
    assert_eq!(
        account.overdraft(&without, &simulation::facts(), SHARE),
        0.0
    );
}

/// Promise 34.
#[test]
fn a_flood_pays_back_sooner_than_a_stream() {
    let mut account = account();
    assert_eq!(account.repayment_time(), tuning::REPAYMENT_TIME);
    account.exceeded_weight = true;
    assert!(account.repayment_time() < tuning::REPAYMENT_TIME);
    account.streams = true;
    assert_eq!(account.repayment_time(), tuning::REPAYMENT_TIME);
}

/// An executor of a batch job: its packets take little, whatever their kind.
/// Promise 34.
#[test]
fn a_modest_sender_has_a_streams_overdraft() {
    let modest = account();
    assert_eq!(overdraft(&modest), SHARE);
    assert!(overdraft(&communicating()) < 0.1 * SHARE + 1e-9);
    let mut flooded = account();
    flooded.exceeded_weight = true;
    assert_eq!(overdraft(&flooded), 0.0);
}

/// An executor of a batch job while its siblings pause: the scheduler gave it more than its
/// share.
/// Promise 34.
#[test]
fn only_a_flood_owes_its_tasks_excess() {
    let second = Duration::from_secs(1);
    let of = |tasks_ns: f64, packets_ns: f64, charged_ns: f64| {
        let used = super::Use {
            usage_ns: tasks_ns,
            billed_ns: tasks_ns,
            billed_here_ns: tasks_ns,
            softirq_ns: packets_ns,
            charged_ns,
            ..super::Use::default()
        };
        Rates::of(&used, second)
    };
    let is = |found: f64, expected: f64| assert!((found - expected).abs() < 1e-9, "{found}");
    let mut account = account();
    is(account.counted(&of(0.9e9, 0.0, 0.0), SHARE), SHARE);
    is(account.counted(&of(0.3e9, 0.0, 0.0), SHARE), 0.3);
    // The packets also took time that the scheduler gave to others, or more than its tasks did.
    is(account.counted(&of(0.8e9, 0.05e9, 0.0), SHARE), SHARE);
    is(account.counted(&of(0.52e9, 0.05e9, 0.0), SHARE), 0.53);
    is(account.counted(&of(0.5e9, 0.05e9, 0.0), SHARE), 0.55);
    // The container is charged more than it causes: a flood runs in its time slices.
    is(account.counted(&of(0.55e9, 0.05e9, 0.1e9), SHARE), SHARE);
    account.exceeded_weight = true;
    assert!(account.counted(&of(0.8e9, 0.05e9, 0.1e9), SHARE) > 0.7);
    is(account.counted(&of(0.9e9, 0.4e9, 0.0), SHARE), 1.0);
}

/// Promise 34.
#[test]
fn streams_may_overdraw_until_their_debt_is_large() {
    let mut account = account();
    account.streams = true;
    assert_eq!(overdraft(&account), SHARE);
    // Also with a running NAPI thread.
    account.exceeded_weight = true;
    assert_eq!(overdraft(&account), SHARE);
    let bounds = Bounds {
        debt: Duration::from_secs(1),
        credit: Duration::ZERO,
        repayment_time: tuning::REPAYMENT_TIME,
    };
    let mut owe = |used: f64| {
        let second = Duration::from_secs(1);
        account.debts.update(0, SHARE + used, SHARE, second, bounds);
        overdraft(&account)
    };
    assert!((owe(0.05) - 0.25).abs() < 1e-9, "a payment of 0.1 of a CPU");
    assert_eq!(owe(0.03), 0.0, "0.16");
}

/// The kernel bills it for others' packets, and deducts that from its quota. Interruptions do the
/// same.
/// Promise 33.
#[test]
fn a_quota_returns_time_charged_for_others() {
    let cpu = CpuTime {
        network_softirq_ns: 2_000_000,
        interruptions: 200,
        ..CpuTime::default()
    };
    let mut interval = simulation::interval(&[cpu], &[(0, 2_000_000)]);
    interval.containers[0].ledger.charged_network_ns = 2_000_000;
    interval.containers[0].interruptions_by_cpu = vec![200];
    let row = &interval.containers[0];
    assert!(contended::counts(row, &interval), "it is looked at");
    let mut own = simulation::facts();
    (own.active.contended, own.active.contended_now) = (Vec::new(), Vec::new());
    own.billed.all_ns = 10e6;
    own.quota_cpus = Some(0.5);
    own.own_quota = Some(OwnQuota {
        quota_us: 50_000.0,
        period_us: 100_000.0,
    });
    for (interruption_ns, least) in [(0.0, 59_000.0), (5_000.0, 64_000.0)] {
        let mut facts = facts(&interval);
        facts.interruptions = InterruptionCosts::everywhere(interruption_ns);
        let mut account = account();
        let mut last = None;
        for _ in 0..30 {
            last = Some(account.step(&rules(), &facts, &own, Some(row), None).0);
        }
        let Some(Action::Enforce(settings)) = last else {
            panic!("{last:?}");
        };
        let quota = settings.quota_us.unwrap_or_default();
        assert!((least..least + 3_000.0).contains(&quota), "{quota}");
        assert_eq!(settings.napi, NapiPlace::Unchanged, "it causes nothing");
        assert!(
            matches!(settings.packets, Packets::Unchanged),
            "{:?}",
            settings.packets
        );
    }
}

fn facts(interval: &Interval) -> Facts<'_> {
    Facts {
        now: Duration::ZERO,
        interval,
        interruptions: Default::default(),
        late_ns: Default::default(),
        weights: Default::default(),
        quota_stops_threads: true,
        containers: Vec::new(),
    }
}

/// Contest for CPU 0.
fn contest(offenders: &Offenders) -> Contest<'_> {
    Contest {
        cpu: 0,
        share: SHARE,
        shares: &[(0, SHARE)],
        offenders,
    }
}

/// Promise 31.
/// Promise 34.
#[test]
fn a_napi_thread_is_for_containers_that_receive() {
    let step = Duration::from_millis(20);
    let mut interval = simulation::interval(&[], &[]);
    interval.length = step;
    let facts = facts(&interval);
    let place_of = |sends_ns: f64, account: Account, weight: f64, softirq_cpus: f64| {
        let mut account = account;
        let used = Use {
            softirq_ns: softirq_cpus * 20e6,
            ..Use::default()
        };
        let mut own = simulation::facts();
        own.weight = Some(CorrectionState {
            base: Some(weight),
            written: None,
        });
        account.packets.tx.update(sends_ns, 1_000.0, step);
        account.packets.rx.update(10e6 - sends_ns, 1_000.0, step);
        let places = (0..30).map(|_| {
            account.rates.update(&used, step);
            account.napi(&rules(), &facts, &own, Some(SHARE))
        });
        let place = places.last();
        assert!(account.has_exceeded_weight());
        place
    };
    let (untouched, engaged) = (Some(NapiPlace::Unchanged), Some(NapiPlace::InContainer));
    assert_eq!(place_of(9e6, account(), 100.0, 0.4), untouched);
    assert_eq!(place_of(1e6, account(), 100.0, 0.4), engaged);
    // A weight is enough for streams if it can still be lowered.
    let streams = || Account {
        streams: true,
        ..account()
    };
    assert_eq!(place_of(1e6, streams(), 100.0, 0.4), untouched);
    assert_eq!(place_of(1e6, streams(), 100.0, 0.48), engaged);
    assert_eq!(place_of(1e6, streams(), 2.0, 0.4), engaged);
    let reserved = Account {
        weight_reserved: true,
        ..streams()
    };
    assert_eq!(place_of(1e6, reserved, 100.0, 0.4), engaged);
}

/// The acknowledgements of a sent stream do not make it a flood.
/// Promise 34.
#[test]
fn full_segments_are_a_stream_in_either_direction() {
    let are = |rx: (u64, u64), tx: (u64, u64)| {
        let mut row = simulation::interval(&[], &[(0, 0)]).containers.remove(0);
        (row.ledger.rx_packets, row.ledger.rx_bytes) = rx;
        (row.ledger.tx_packets, row.ledger.tx_bytes) = tx;
        limit::are_full(Some(&row))
    };
    assert!(are((100, 140_000), (30, 1_560)));
    assert!(are((30, 1_560), (100, 140_000)));
    assert!(!are((100, 20_000), (0, 0)));
    assert!(!are((0, 0), (100, 20_000)));
    assert!(!are((1_000, 200_000), (100, 140_000)), "mostly a flood");
}

/// The CPU is full in one step and not in the next, and then no competitor waits any more.
/// Promise 29.
#[test]
fn a_weight_does_not_stay_low_without_competitors() {
    let interval = simulation::interval(&[], &[]);
    let mut facts = facts(&interval);
    let mut own = simulation::facts();
    own.weight = Some(CorrectionState {
        base: Some(100.0),
        written: Some(Correction {
            value: 40.0,
            at: Duration::ZERO,
        }),
    });
    let offenders = Offenders::default();
    let contest = contest(&offenders);
    let mut account = account();
    let mut weight_at = |ms: u64, contest| {
        facts.now = Duration::from_millis(ms);
        match account.step(&rules(), &facts, &own, None, contest).0 {
            Action::Enforce(settings) => settings.weight,
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(
        weight_at(1_000, Some(contest)),
        Some(100.0),
        "it owes nothing"
    );
    assert_eq!(weight_at(1_020, None), None, "it stays for a moment");
    assert_eq!(weight_at(1_100, None), Some(100.0));
}

/// Promise 29.
#[test]
fn a_limit_that_drops_nothing_is_removed() {
    let interval = simulation::interval(&[], &[]);
    let mut facts = facts(&interval);
    let mut own = simulation::facts();
    own.limiting.received = true;
    let mut account = account();
    let mut packets_at = |ms: u64, dropped: u64| {
        own.limiting.counts.rx_dropped = dropped;
        facts.now = Duration::from_millis(ms);
        account.packets(&rules(), facts.now, &own, None, Some(SHARE))
    };
    assert!(matches!(packets_at(0, 1), Packets::Limited(_)));
    assert!(matches!(packets_at(900, 1), Packets::Limited(_)));
    assert!(matches!(packets_at(1_500, 0), Packets::Limited(_)));
    assert_eq!(packets_at(1_900, 0), Packets::Unlimited);
}

/// Two offenders' tasks took 30 of 100 interruptions, at 2 µs each.
/// Promise 29.
#[test]
fn others_are_billed_for_their_interruptions() {
    let time = CpuTime {
        network_softirq_ns: 900_000,
        interruptions: 100,
        charged_host_ns: 7_000,
        ..CpuTime::default()
    };
    let mut interval = simulation::interval(&[time], &[(0, 0), (0, 0), (0, 0)]);
    let met = [(20, 40_000), (10, 30_000), (60, 500_000)];
    for (row, (interruptions, charged)) in interval.containers.iter_mut().zip(met) {
        row.interruptions_by_cpu = vec![interruptions];
        row.charged_by_cpu_ns = vec![charged];
    }
    let mut offenders = Offenders::default();
    offenders.add(interval.containers[1].container.cgroup, &[(0, 0.25)]);
    let mut facts = facts(&interval);
    facts.interruptions = InterruptionCosts::everywhere(2_000.0);
    let contest = contest(&offenders);
    let account = Account::new(interval.containers[0].container.clone());
    let billed = account.others_charged_ns(&facts, contest);
    assert_eq!(billed, 507_000.0 + 70.0 * 2_000.0);
}
