use super::*;

const MS: f64 = 1e6;

/// Windows of 50 ms, one a second, that measured these nanoseconds of one container.
fn sampled(seen: &[f64]) -> (Sampling, Moments) {
    let mut sampling = Sampling {
        mode: AccountingMode::Sampled,
        ..Sampling::default()
    };
    let mut moments = Moments::default();
    for seen in seen {
        sampling.windows += 1;
        sampling.observed_ns += 50_000_000;
        sampling.estimated_ns += 1_000_000_000;
        sampling.period_squares += 1e18;
        moments.add(Moments::of_window(*seen, 1e9, 20.0));
    }
    (sampling, moments)
}

/// Asserts equality to a millionth: the sums are differences of large numbers.
#[track_caller]
fn assert_close(found: [f64; 2], expected: [f64; 2]) {
    for (found, expected) in found.into_iter().zip(expected) {
        assert!(
            (found - expected).abs() <= 1e-6 * expected.abs(),
            "{found} for {expected}"
        );
    }
}

fn interval(seen: &[f64]) -> [f64; 2] {
    let (sampling, moments) = sampled(seen);
    sampling.interval_95(moments.sum, &moments, 2, false)
}

/// Promise 4.
#[test]
fn one_window_says_only_what_is_possible() {
    // 10 ms were seen; in the other 950 ms two CPUs may have done nothing, or nothing else.
    assert_eq!(interval(&[10.0 * MS]), [10.0 * MS, 1910.0 * MS]);
    assert_eq!(interval(&[0.0]), [0.0, 1900.0 * MS]);
    // Owed time has a sign.
    for (seen, ends) in [(-10.0, [-1910.0, 1890.0]), (10.0, [-1890.0, 1910.0])] {
        let (sampling, moments) = sampled(&[seen * MS]);
        let found = sampling.interval_95(moments.sum, &moments, 2, true);
        assert_eq!(found, ends.map(|end| end * MS));
    }
}

/// Promise 4.
#[test]
fn the_interval_is_narrow_only_where_windows_agree() {
    assert_close(interval(&[10.0 * MS; 5]), [1000.0 * MS; 2]);
    // Rates of 0.2 and 0.3 of a CPU: mean 0.25, t(1) = 12.706.
    let half = 12.706 * (0.95_f64 * 2.0 * 2.0 * (50.0 * MS).powi(2)).sqrt();
    let [low, high] = interval(&[10.0 * MS, 15.0 * MS]);
    assert_eq!(low, 25.0 * MS, "no less than was seen");
    assert!((high - (500.0 * MS + half)).abs() < 1.0, "{high}");
    let many: Vec<f64> = [10.0 * MS, 15.0 * MS].repeat(50); // for 25 s of a CPU
    let [low, high] = interval(&many);
    assert!((high - low) < 0.1 * 25_000.0 * MS, "{low} to {high}");
}

/// Promise 4.
#[test]
fn an_interval_consists_of_the_windows_between_two_readings() {
    let id = CgroupId(7);
    let at = |seen: &[f64]| {
        let (mut sampling, moments) = sampled(seen);
        let spread = Spread {
            caused: moments,
            ..Spread::default()
        };
        sampling.spreads.insert(id, spread);
        sampling
    };
    let all = [3.0 * MS, 40.0 * MS, 10.0 * MS, 12.0 * MS, 11.0 * MS];
    let between = at(&all).since(Some(&at(&all[..2])));
    let caused = between.spreads[&id].caused;
    let [low, high] = between.interval_95(caused.sum, &caused, 2, false);
    let [expected_low, expected_high] = interval(&all[2..]);
    assert!((low - expected_low).abs() < 1.0 && (high - expected_high).abs() < 1.0);
    assert_eq!(at(&all).since(None), at(&all));
}

/// Promise 4.
#[test]
fn time_counted_without_windows_is_certain() {
    let (sampling, moments) = sampled(&[10.0 * MS; 5]);
    let exact = 7_000.0 * MS;
    let ends = sampling.interval_95(moments.sum + exact, &moments, 2, false);
    assert_close(ends, [8_000.0 * MS; 2]);
    let none = Sampling::default();
    let ends = none.interval_95(exact, &Moments::default(), 2, false);
    assert_eq!(ends, [exact; 2], "nothing is estimated");
}

#[test]
fn the_quantile_continues_where_the_table_ends() {
    assert_eq!(student_975(1), 12.706);
    assert!((student_975(31) - 2.0395).abs() < 1e-3);
    assert!((student_975(1_000_000) - 1.959_964).abs() < 1e-4);
}

/// Traffic in bursts, of which windows meet some: the interval contains the true value about as
/// often as it claims.
/// Promise 4.
#[test]
fn the_interval_contains_the_truth_nineteen_times_in_twenty() {
    // A linear congruential generator (Knuth, MMIX): the same sequence everywhere.
    let mut state = 1_u64;
    let mut random = || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (state >> 11) as f64 / (1_u64 << 53) as f64
    };
    let mut hits = 0;
    const ROUNDS: usize = 400;
    for _ in 0..ROUNDS {
        // 30 s of slots of 50 ms in which the container is quiet, or causes up to half a CPU.
        let slots: Vec<f64> = (0..600)
            .map(|_| match random() < 0.3 {
                true => random() * 25.0 * MS,
                false => random() * 2.0 * MS,
            })
            .collect();
        let truth: f64 = slots.iter().sum();
        let seen: Vec<f64> = slots
            .chunks(20)
            .map(|period| period[(random() * 20.0) as usize])
            .collect();
        let [low, high] = interval(&seen);
        hits += usize::from(low <= truth && truth <= high);
    }
    let part = hits as f64 / ROUNDS as f64;
    assert!((0.90..=0.99).contains(&part), "contained in {part}");
}
