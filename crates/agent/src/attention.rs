//! Choice of the accounting mode. The ledger is exact while a container or host task pays for the
//! packets of others, while network CPU is enforced, or while a client reads. Otherwise it is
//! sampled in windows.
//!
//! Windows decide nothing about containers: they only show that exact accounting is needed.
//! Conditions, events and every act of the enforcement come from exact intervals alone.

mod signs;

pub(crate) use signs::Signs;

use crate::config::AccountingConfig;
use cofferdam_records::status::{AccountingStatusRecord, SUFFERS_CPUS};
use cofferdam_types::{AccountingMode, Interval};
use std::collections::BTreeMap;
use std::time::{Duration, Instant, SystemTime};

/// Time for which the ledger stays exact after the last reason for it.
pub(crate) const QUIET: Duration = Duration::from_secs(5);
/// Time for which a client that read the ledger is assumed to read again.
pub(crate) const WATCHED: Duration = Duration::from_secs(10);
/// CPUs. A sample shows a victim if it pays this much for the packets of others. Half of what makes
/// a condition, since a window may have sampled a quieter moment.
const VICTIM_CPUS: f64 = SUFFERS_CPUS / 2.0;

/// Reason for exact accounting. The most informative one has the highest order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum ExactReason {
    /// The agent has just started and knows nothing of the host yet.
    Starting,
    /// The host handles so few packets that windows would cost more.
    FewPackets,
    /// A client reads the ledger.
    Watched,
    /// A container or a host task pays, or may pay, for the packets of others.
    VictimSuspected,
    /// An enforcement mechanism is in place.
    Enforced,
    /// The configuration demands it.
    Configured,
}

impl ExactReason {
    fn label(self) -> &'static str {
        match self {
            ExactReason::Starting => "starting",
            ExactReason::FewPackets => "few packets",
            ExactReason::Watched => "watched",
            ExactReason::VictimSuspected => "pressed",
            ExactReason::Enforced => "enforced",
            ExactReason::Configured => "configured",
        }
    }
}

/// Reasons for exact accounting that hold now, and the current mode.
#[derive(Debug)]
pub(crate) struct Attention {
    config: AccountingConfig,
    /// Reasons, each with the time at which it expires.
    reasons: BTreeMap<ExactReason, Instant>,
    mode: AccountingMode,
    since: SystemTime,
}

impl Attention {
    pub fn new(config: AccountingConfig, now: Instant) -> Attention {
        Attention {
            config,
            reasons: BTreeMap::from([(ExactReason::Starting, now + QUIET)]),
            mode: AccountingMode::Exact,
            since: SystemTime::now(),
        }
    }

    pub fn configure(&mut self, config: AccountingConfig) {
        self.config = config;
    }

    /// Records a reason that holds now.
    pub fn add_reason(&mut self, why: ExactReason, now: Instant) {
        let lasts = if why == ExactReason::Watched {
            WATCHED
        } else {
            QUIET
        };
        self.reasons.insert(why, now + lasts);
    }

    /// Records the traffic of an interval that was counted completely. In sampled mode the
    /// threshold is half, so that the mode does not oscillate.
    pub fn note_traffic(&mut self, seen: &Interval, now: Instant) {
        let ns: u64 = seen.cpus.iter().map(|(_, time)| time.network_ns()).sum();
        let cpus = ns as f64 / seen.length.as_nanos().max(1) as f64;
        let below = match self.mode {
            AccountingMode::Exact => self.config.exact_below_cpus,
            AccountingMode::Sampled => self.config.exact_below_cpus / 2.0,
        };
        if cpus < below {
            self.add_reason(ExactReason::FewPackets, now);
        }
    }

    /// Mode in which the ledger should be.
    pub fn wanted(&mut self, now: Instant) -> AccountingMode {
        self.reasons.retain(|_, until| now < *until);
        match self.config.mode {
            AccountingMode::Sampled if self.reasons.is_empty() => AccountingMode::Sampled,
            _ => AccountingMode::Exact,
        }
    }

    /// Time at which the last reason expires if none is renewed. `None` if there is none.
    pub fn ends(&self) -> Option<Instant> {
        match self.config.mode {
            AccountingMode::Sampled => self.reasons.values().max().copied(),
            AccountingMode::Exact => None,
        }
    }

    /// Records the mode in which the ledger is. Returns whether it changed.
    pub fn is_now(&mut self, mode: AccountingMode) -> bool {
        let news = self.mode != mode;
        if news {
            self.mode = mode;
            self.since = SystemTime::now();
        }
        news
    }

    pub fn record(&self) -> AccountingStatusRecord {
        let why = match (self.mode, self.config.mode) {
            (AccountingMode::Sampled, _) => "quiet",
            (_, AccountingMode::Exact) => ExactReason::Configured.label(),
            _ => {
                let last = self.reasons.keys().next_back();
                // The last reason has just expired, and the sampling thread has not started yet.
                last.copied().unwrap_or(ExactReason::Starting).label()
            }
        };
        AccountingStatusRecord {
            mode: self.mode.label().to_owned(),
            since: cofferdam_records::time(self.since.max(SystemTime::UNIX_EPOCH)),
            why: why.to_owned(),
            window_s: self.config.windows.window.as_secs_f64(),
            period_s: self.config.windows.period.as_secs_f64(),
        }
    }
}

/// Whether a container, or a cgroup of the host, pays for others in the interval `seen`.
pub(crate) fn has_victim(seen: &Interval) -> bool {
    let most = VICTIM_CPUS * seen.length.as_nanos() as f64;
    let pays = |paid_ns: i64| paid_ns as f64 > most;
    seen.containers
        .iter()
        .any(|row| pays(-row.ledger.owed_ns()))
        || (seen.cpus.iter()).any(|(_, time)| time.charged_host_ns as f64 > most)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;
    use crate::testing::interval_with_payments;

    fn at(start: Instant, seconds: f64) -> Instant {
        start + Duration::from_secs_f64(seconds)
    }

    fn sampled() -> AccountingConfig {
        Config::default().accounting
    }

    /// Promise 5.
    #[test]
    fn sampling_begins_after_a_quiet_while() {
        let start = Instant::now();
        let mut attention = Attention::new(sampled(), start);
        assert_eq!(attention.wanted(start), AccountingMode::Exact);
        assert_eq!(attention.record().why, "starting");
        assert_eq!(attention.ends(), Some(start + QUIET));
        assert_eq!(attention.wanted(start + QUIET), AccountingMode::Sampled);
        assert_eq!(attention.ends(), None);
    }

    /// Promise 5.
    #[test]
    fn each_reason_makes_the_ledger_exact_for_a_while() {
        for (why, lasts) in [
            (ExactReason::VictimSuspected, QUIET),
            (ExactReason::Enforced, QUIET),
            (ExactReason::Watched, WATCHED),
        ] {
            let start = Instant::now();
            let mut attention = Attention::new(sampled(), start);
            let later = at(start, 100.0);
            assert_eq!(attention.wanted(later), AccountingMode::Sampled);
            assert!(attention.is_now(AccountingMode::Sampled));
            assert_eq!(attention.record().why, "quiet");
            attention.add_reason(why, later);
            assert_eq!(attention.wanted(later), AccountingMode::Exact);
            assert!(attention.is_now(AccountingMode::Exact));
            assert!(!attention.is_now(AccountingMode::Exact), "no news");
            assert_eq!(attention.record().why, why.label());
            // Renewed again and again, the reason never flickers.
            for step in 0..20 {
                attention.add_reason(why, later + lasts / 2 * step);
                assert_eq!(
                    attention.wanted(later + lasts / 2 * step),
                    AccountingMode::Exact
                );
            }
            let end = later + lasts / 2 * 19 + lasts;
            assert_eq!(
                attention.wanted(end - Duration::from_millis(1)),
                AccountingMode::Exact
            );
            assert_eq!(attention.wanted(end), AccountingMode::Sampled);
        }
    }

    /// Promise 5.
    #[test]
    fn few_packets_are_all_counted_and_many_are_not() {
        let with = |cpus: f64| {
            let mut seen = interval_with_payments(Duration::from_millis(50), &[]);
            seen.cpus[0].1.network_softirq_ns = (cpus * 40e6) as u64;
            seen.cpus[0].1.hardirq_ns = (cpus * 10e6) as u64;
            seen
        };
        let start = Instant::now();
        let mut attention = Attention::new(sampled(), start);
        let mut mode_after = |at_s: f64, cpus: f64| {
            let now = at(start, at_s);
            attention.note_traffic(&with(cpus), now);
            let wanted = attention.wanted(at(now, 0.001));
            attention.is_now(wanted);
            (wanted.label(), attention.record().why)
        };
        let few = || ("exact", "few packets".to_owned());
        let many = || ("sampled", "quiet".to_owned());
        assert_eq!(mode_after(100.0, 0.019), few());
        assert_eq!(mode_after(106.0, 0.021), many());
        assert_eq!(mode_after(107.0, 0.019), many(), "and not to and fro");
        assert_eq!(mode_after(108.0, 0.009), few());
        assert_eq!(mode_after(114.0, 0.019), few());
        let config = AccountingConfig {
            exact_below_cpus: 0.0,
            ..sampled()
        };
        let mut never = Attention::new(config, start);
        never.note_traffic(&with(0.0), at(start, 100.0));
        assert_eq!(never.wanted(at(start, 100.0)), AccountingMode::Sampled);
    }

    /// Promise 5.
    #[test]
    fn a_configured_exact_mode_stays_exact() {
        let start = Instant::now();
        let config = AccountingConfig {
            mode: AccountingMode::Exact,
            ..sampled()
        };
        let mut attention = Attention::new(config, start);
        assert_eq!(attention.wanted(at(start, 1000.0)), AccountingMode::Exact);
        assert_eq!(
            (attention.ends(), &*attention.record().why),
            (None, "configured")
        );
        attention.configure(sampled());
        assert_eq!(attention.wanted(at(start, 1001.0)), AccountingMode::Sampled);
    }

    /// Promise 5.
    #[test]
    fn half_of_a_condition_makes_a_victim() {
        let window = Duration::from_millis(50);
        // 1 ms and 2 ms of 50 ms are 2% and 4% of a CPU.
        assert!(!has_victim(&interval_with_payments(
            window,
            &[(7, 1), (8, 1)]
        )));
        assert!(has_victim(&interval_with_payments(
            window,
            &[(7, 1), (8, 2)]
        )));
        let mut unknown = interval_with_payments(window, &[]);
        unknown.cpus[0].1.charged_host_ns = 2_000_000;
        assert!(has_victim(&unknown), "of whom no more is known");
    }
}
