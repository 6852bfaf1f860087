use super::*;
use crate::feed::tests::reading;
use crate::ring::Ring;

fn at(seconds: u64) -> SystemTime {
    UNIX_EPOCH + Duration::from_secs(1_000_000 + seconds)
}

fn wanted(from: u64, to: u64, points: u32) -> SeriesRequest {
    SeriesRequest {
        from: at(from),
        to: at(to),
        points,
        container: None,
    }
}

fn ring() -> Ring {
    let mut ring = Ring::default();
    // `db` pays 0.3 CPUs in the second half.
    for second in 1..=100 {
        let paid = if second > 50 { 300 } else { 0 };
        let all = [(1, "web", [200, paid, 0]), (2, "db", [400, 0, paid])];
        ring.push(&reading(&all), at(second));
    }
    ring
}

/// Promise 14.
#[test]
fn figures_are_averaged_over_each_step_and_gaps_stay_gaps() {
    let series = series(&mut ring(), &wanted(0, 200, 20)).unwrap();
    assert_eq!(series.time_ms.len(), 20);
    assert_eq!(series.step_s, 10.0);
    assert_eq!(series.total.cpu[0], Some(0.6));
    assert_eq!(series.total.paid[4], Some(0.0));
    assert_eq!(series.total.paid[5], Some(0.3));
    assert_eq!(series.total.paid[9], Some(0.3));
    assert_eq!(
        series.total.paid[10], None,
        "nothing is known from there on"
    );
    assert_eq!(series.victims.len(), 1);
    assert_eq!(
        (
            series.victims[0].name.as_str(),
            series.victims[0].id.as_str()
        ),
        ("db", "2")
    );
    assert_eq!(
        series.victims[0].values[..7],
        [
            Some(0.0),
            Some(0.0),
            Some(0.0),
            Some(0.0),
            Some(0.0),
            Some(0.3),
            Some(0.3)
        ]
    );
    assert_eq!(series.offenders[0].name, "web");
    assert!(series.losers.is_empty());
}

#[test]
fn one_container_alone_has_its_own_figures() {
    let mut wanted = wanted(0, 100, 10);
    wanted.container = Some(2);
    let series = series(&mut ring(), &wanted).unwrap();
    assert_eq!(series.total.cpu[9], Some(0.4));
    assert_eq!(series.total.charged[9], Some(0.3));
    assert_eq!(series.total.caused[9], Some(0.0));
    assert!(series.victims.is_empty());
}

/// Promise 14.
#[test]
fn points_are_bounded_for_any_request() {
    for (from, to, points) in [(0, 1, 1000), (0, 86_400 * 366, 1000), (5, 5, 1), (9, 1, 10)] {
        let series = series(&mut ring(), &wanted(from, to, points)).unwrap();
        assert!(series.time_ms.len() <= 1000, "{from} {to} {points}");
        assert!(series.step_s >= 1.0);
    }
    let mut many = Ring::default();
    let all: Vec<_> = (0..50).map(|n| (n, "one", [10, 1, 5])).collect();
    many.push(&reading(&all), at(1));
    let series = series(&mut many, &wanted(0, 2, 2)).unwrap();
    assert_eq!(series.victims.len(), MOST_LINES);
}
