use super::*;
use cofferdam_bpf::{Counts, CpuReading, FIRST_CONTAINER_ROW};
use cofferdam_types::CpuTime;

const A: u32 = FIRST_CONTAINER_ROW;
const B: u32 = A + 1;
const ROWS: u32 = B + 1;
const MS: u64 = 1_000_000;
const CGROUP: CgroupId = CgroupId(7);

/// Counts of the programs on two CPUs.
#[derive(Default)]
struct Programs {
    rows: HashMap<(u32, u32), RowReading>,
    pairs: u64,
}

impl Programs {
    fn cause(&mut self, cpu: u32, row: u32, ns: u64) {
        let row = self.rows.entry((cpu, row)).or_default();
        row.rx_ns += ns;
        row.rx_packets += ns / 1000;
    }

    fn charge(&mut self, cpu: u32, row: u32, ns: u64) {
        self.rows.entry((cpu, row)).or_default().charged_network_ns += ns;
    }

    fn read(&self) -> Reading {
        Reading::take(self, ROWS).unwrap()
    }

    fn pairs(&self) -> Vec<PairReading> {
        Counts::pairs(self).unwrap()
    }

    fn of_row(&self, row: u32) -> Vec<RowReading> {
        (0..2).map(|cpu| self.row(cpu, row)).collect()
    }
}

impl Counts for Programs {
    fn cpus(&self) -> u32 {
        2
    }

    fn row(&self, cpu: u32, row: u32) -> RowReading {
        self.rows.get(&(cpu, row)).copied().unwrap_or_default()
    }

    fn cpu_reading(&self, cpu: u32) -> Result<CpuReading, cofferdam_bpf::MapError> {
        let rows = self.rows.iter().filter(|((at, _), _)| *at == cpu);
        Ok(CpuReading {
            time: CpuTime {
                softirq_ns: rows.map(|(_, row)| row.rx_ns).sum(),
                ..CpuTime::default()
            },
            ..CpuReading::default()
        })
    }

    fn pairs(&self) -> Result<Vec<PairReading>, cofferdam_bpf::MapError> {
        Ok(vec![PairReading {
            sender: A,
            receiver: B,
            packets: self.pairs,
        }])
    }
}

/// Returns an estimate that has sampled since `start`.
fn sampling(programs: &Programs, start: Instant) -> Estimate {
    let mut estimate = Estimate::new(programs.read(), &programs.pairs(), start);
    estimate.close(programs.read(), &programs.pairs(), start);
    estimate
}

fn caused(reading: &Reading, row: u32) -> u64 {
    reading.caused_of(row).iter().sum()
}

/// Sums up the measured and the attributed time of all CPUs.
fn totals(reading: &Reading) -> (u64, u64) {
    let times = reading.times().into_iter();
    times.fold((0, 0), |(m, a), (_, t)| {
        (m + t.measured_ns(), a + t.attributed_ns)
    })
}

fn interval(estimate: &Estimate, total: u64) -> [f64; 2] {
    let sampling = estimate.sampling(&HashMap::from([(A, CGROUP)]));
    let spread = sampling.spreads.get(&CGROUP).copied().unwrap_or_default();
    sampling.interval_95(total as f64, &spread.caused, 2, false)
}

fn at(start: Instant, ms: u64) -> Instant {
    start + Duration::from_millis(ms)
}

/// Promise 4.
#[test]
fn a_window_stands_for_the_time_since_the_one_before() {
    let (mut programs, start) = (Programs::default(), Instant::now());
    let mut estimate = sampling(&programs, start);
    assert_eq!(estimate.mode(), AccountingMode::Sampled);
    // 10 ms in a window of 50 ms, a fifth of its time. It ends 1 s after the start, a second one
    // after 2.5 s.
    for closed in [1000, 2500] {
        programs.cause(0, A, 10 * MS);
        programs.charge(1, B, 10 * MS);
        programs.pairs += 100;
        let window = (at(start, closed - 50), at(start, closed));
        estimate.window(programs.read(), &programs.pairs(), window);
    }
    let now = estimate.covered_counts();
    assert_eq!(caused(&now, A), 500 * MS);
    assert_eq!(now.row(B)[1].charged_network_ns, 500 * MS);
    assert_eq!(totals(&now), (500 * MS, 500 * MS));
    assert_eq!(estimate.covered(at(start, 9000)), at(start, 2500));
    assert_eq!(estimate.pairs(programs.pairs())[0].packets, 5000);
    let [low, high] = interval(&estimate, 500 * MS);
    assert!(
        high - low < 1000.0,
        "both saw the same rate: {low} to {high}"
    );
    let (seen, length) = estimate.last_window().unwrap();
    assert_eq!(caused(seen, A), 10 * MS, "as it was seen");
    assert_eq!(length, Duration::from_millis(50));
}

/// Promise 4.
#[test]
fn what_is_counted_while_all_is_stays_as_counted() {
    let (mut programs, start) = (Programs::default(), Instant::now());
    programs.cause(1, A, 3 * MS);
    let mut estimate = Estimate::new(programs.read(), &programs.pairs(), start);
    programs.cause(1, A, 4 * MS);
    programs.pairs += 7;
    assert_eq!(
        caused(&estimate.current_counts(&programs.read()), A),
        7 * MS
    );
    assert_eq!(estimate.pairs(programs.pairs())[0].packets, 7);
    estimate.close(programs.read(), &programs.pairs(), at(start, 100));
    assert_eq!(caused(&estimate.covered_counts(), A), 7 * MS);
    // 20 ms of 50 ms; then everything again, 450 ms after the window.
    programs.cause(1, A, 20 * MS);
    let window = (at(start, 550), at(start, 600));
    estimate.window(programs.read(), &programs.pairs(), window);
    estimate.open(at(start, 1050));
    let estimated = 200 * MS + 180 * MS;
    assert_eq!(
        caused(&estimate.current_counts(&programs.read()), A),
        7 * MS + estimated,
        "the time since the window is taken to have been like it"
    );
    programs.cause(1, A, 5 * MS);
    let total = 12 * MS + estimated;
    let live = estimate.current_counts(&programs.read());
    assert_eq!(caused(&live, A), total);
    assert_eq!(totals(&live).0, totals(&live).1);
    // One window in 950 ms: its counts and the exact counts are certain.
    let possible = [32 * MS, 32 * MS + 2 * 900 * MS].map(|ns| ns as f64);
    assert_eq!(interval(&estimate, total), possible);
}

/// Promise 4.
#[test]
fn time_without_any_window_is_open() {
    let (programs, start) = (Programs::default(), Instant::now());
    let mut estimate = sampling(&programs, start);
    estimate.open(at(start, 300));
    assert_eq!(caused(&estimate.current_counts(&programs.read()), A), 0);
    assert_eq!(interval(&estimate, 0), [0.0, 600.0 * MS as f64]);
}

/// Promise 4.
#[test]
fn a_new_owner_of_a_row_begins_with_nothing() {
    let (mut programs, start) = (Programs::default(), Instant::now());
    let mut estimate = sampling(&programs, start);
    programs.cause(0, A, 10 * MS);
    let window = (at(start, 950), at(start, 1000));
    estimate.window(programs.read(), &programs.pairs(), window);
    // In the next window the old owner still causes 3 ms, and then the new one 2 ms.
    programs.cause(0, A, 3 * MS);
    let base = estimate.begin_row(A, &programs.of_row(A));
    programs.cause(0, A, 2 * MS);
    let window = (at(start, 1950), at(start, 2000));
    estimate.window(programs.read(), &programs.pairs(), window);
    let now = estimate.covered_counts();
    assert_eq!(now.row(A)[0].minus(&base[0]).rx_ns, 40 * MS);
    assert_eq!(caused(&now, unknown()), 60 * MS, "nobody's");
    assert_eq!(totals(&now), (300 * MS, 300 * MS), "and nothing is lost");
    // From here on everything is counted.
    estimate.open(at(start, 2000));
    let base = estimate.begin_row(A, &programs.of_row(A));
    programs.cause(0, A, MS);
    let live = estimate.current_counts(&programs.read());
    assert_eq!(live.row(A)[0].minus(&base[0]).rx_ns, MS);
}

/// For random histories: counts never fall, and the rows add up to the measured time.
/// Promise 4.
#[test]
fn counts_only_grow_and_add_up() {
    let mut random = fastrand::Rng::with_seed(17);
    for _ in 0..50 {
        let (mut programs, start) = (Programs::default(), Instant::now());
        let mut estimate = sampling(&programs, start);
        let (mut now, mut before, mut scaled) = (0, estimate.covered_counts(), 0);
        for _ in 0..60 {
            let length = random.u64(1..60);
            let opened = now + random.u64(0..1500);
            let count = |programs: &mut Programs, random: &mut fastrand::Rng| {
                for _ in 0..random.u32(0..6) {
                    let (cpu, row) = (random.u32(0..2), random.u32(0..ROWS));
                    programs.cause(cpu, row, random.u64(0..length * MS / 6));
                }
            };
            count(&mut programs, &mut random);
            if estimate.mode() == AccountingMode::Exact {
                now += length;
                if random.bool() {
                    estimate.close(programs.read(), &programs.pairs(), at(start, now));
                }
            } else {
                if random.u8(0..4) == 0 {
                    estimate.begin_row(A, &programs.of_row(A));
                    count(&mut programs, &mut random);
                }
                now = opened + length;
                let window = (at(start, opened), at(start, now));
                estimate.window(programs.read(), &programs.pairs(), window);
                scaled += 1;
                if random.u8(0..3) == 0 {
                    now += random.u64(0..900);
                    estimate.open(at(start, now));
                    scaled += 1;
                }
            }
            let reading = match estimate.mode() {
                AccountingMode::Exact => estimate.current_counts(&programs.read()),
                AccountingMode::Sampled => estimate.covered_counts(),
            };
            for row in 0..ROWS {
                for (now, before) in reading.row(row).iter().zip(before.row(row)) {
                    assert!(now.rx_ns >= before.rx_ns && now.rx_packets >= before.rx_packets);
                }
            }
            let (measured, attributed) = totals(&reading);
            let rows: u64 = (0..ROWS).map(|row| caused(&reading, row)).sum();
            // Each scaled count is rounded to a nanosecond.
            let rounding = scaled * 2 * u64::from(ROWS);
            assert!(measured.abs_diff(rows) <= rounding, "{measured} {rows}");
            assert!(measured.abs_diff(attributed) <= rounding);
            before = reading;
        }
    }
}
