//! Tests with arbitrary names, numbers and sizes.

use super::*;
use proptest::prelude::*;

/// Promise 74.
#[test]
fn hostile_and_wide_names_stay_in_their_cells() {
    let names = [
        "\u{1b}[31mred\u{7}".to_owned(),
        "網頁伺服器".repeat(20),
        format!("z{}", "\u{335}".repeat(200)),
        "x".repeat(300),
        "gnp\u{202e}evil".to_owned(),
        "👩‍👩‍👧‍👦 family".to_owned(),
    ];
    for name in names {
        let mut record = busy();
        record.containers[0].name = name.clone();
        record.containers[0].pod = Some(name.clone());
        let mut state = State::new(SECOND, Selection::default());
        state.agent = Some(Agent::NotRunning(Start::Service));
        state.take(record, None);
        for keys in ["", "c", "c\n"] {
            for c in keys.chars() {
                let code = if c == '\n' {
                    KeyCode::Enter
                } else {
                    KeyCode::Char(c)
                };
                state.key(KeyEvent::new(code, KeyModifiers::NONE));
            }
            for width in [40, 80, 120] {
                let lines = screen(&state, width, 24);
                let text = lines.join("\n");
                let bad =
                    |c: char| c != '\n' && c.is_control() || ('\u{202a}'..='\u{202e}').contains(&c);
                assert!(!text.chars().any(bad), "{name:?}: {text:?}");
                if keys.is_empty() {
                    // The columns after the name are in the same place for all names.
                    let row = lines.iter().find(|l| l.contains("+33.0")).unwrap();
                    let others = lines.iter().find(|l| l.contains("-31.0")).unwrap();
                    let at = |l: &str, what: &str| l.find(what).map(|at| text::width(&l[..at]));
                    assert_eq!(at(row, "+33.0"), at(others, "-31.0"), "{row}\n{others}");
                }
            }
        }
    }
}

#[test]
fn only_visible_rows_of_500_containers_are_drawn() {
    let mut many = interval();
    many.containers = (0..500)
        .map(|i| entry(i, &format!("c{i:03}"), 1000, i, 500 - i, 900))
        .collect();
    let state = state(&[many]);
    let lines = screen(&state, 200, 50);
    assert!(
        lines.iter().filter(|l| l.starts_with('c')).count() > 30,
        "{lines:#?}"
    );
    assert!(lines[0].contains("500 containers"), "{}", lines[0]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// Tries arbitrary documents on terminals of any size.
    /// Promise 13.
    #[test]
    fn no_record_and_no_size_panics(
        width in 0_u16..220,
        height in 0_u16..70,
        names in proptest::collection::vec("\\PC{0,40}|[\\x00-\\x1f]{0,5}", 0..6),
        numbers in proptest::collection::vec(any::<u64>(), 24),
        interval_s in prop_oneof![Just(f64::NAN), Just(-1.0), Just(0.0), Just(1e300), 0.01..100.0],
        keys in "[?cfgrsSp/jk0-9]{0,6}",
    ) {
        let mut record = busy();
        record.interval_s = interval_s;
        let mut number = numbers.iter().cycle().copied();
        let mut next = || number.next().unwrap_or(0);
        let template = record.containers[0].clone();
        record.containers = names.iter().map(|name| {
            let mut one = template.clone();
            one.name = name.clone();
            (one.cgroup_id, one.caused_ns, one.rx_packets) = (next(), next() >> 2, next() >> 2);
            (one.owed_ns, one.cpu_usage_ns) = (next().cast_signed() >> 2, next());
            one.caused_by_cpu_ns = vec![next() >> 4; (next() % 4) as usize];
            one.charged_by_cpu_ns = vec![next() >> 4; (next() % 4) as usize];
            one.received_from = [(next(), next() >> 2)].into();
            one
        }).collect();
        let mut state = State::new(SECOND, Selection::default());
        state.agent = Some(Agent::NotRunning(Start::Service));
        state.take(record, None);
        screen(&state, width, height);
        press(&mut state, &keys);
        screen(&state, width, height);
        state.key(KeyEvent::new(KeyCode::Enter, KeyModifiers::NONE));
        screen(&state, width, height);
    }
}
