//! Bounds of promises: quantities of a sentence, and the constants that tests use for them.
//!
//! A bound stands in round brackets, as `` (`MOST_FLOWS`) `` or, where crates of its tests have
//! constants of one name, as `` (`flows::MOST_FLOWS`) ``.

use regex_lite::Regex;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::OnceLock;

/// Crate whose constants every promise may name.
const LABORATORY: &str = "lab";

/// Relative difference below which two values are the same.
const SAME: f64 = 1e-9;

/// Sources of the crates, which hold the constants.
#[derive(Default)]
pub struct Constants {
    sources: BTreeMap<String, String>,
}

impl Constants {
    pub fn add(&mut self, krate: &str, source: &str) {
        self.sources
            .entry(krate.to_owned())
            .or_default()
            .push_str(source);
    }

    fn sources<'a>(&'a self, crates: &'a BTreeSet<&str>) -> impl Iterator<Item = &'a String> {
        crates.iter().filter_map(|name| self.sources.get(*name))
    }
}

/// Contradictions between the bounds of `text` and the constants of `crates`, those of its tests.
/// A text that states a quantity names a bound.
pub fn faults(text: &str, crates: &BTreeSet<&str>, constants: &Constants) -> Vec<String> {
    let bounds = bounds(text);
    let quantities = quantities(text);
    if bounds.is_empty() && quantities.iter().any(|quantity| quantity.is_measure) {
        return vec!["a quantity is stated without the constant that a test uses".to_owned()];
    }
    let found = bounds.into_iter();
    found
        .filter_map(|bound| fault_of(bound, crates, &quantities, constants))
        .collect()
}

fn fault_of(
    bound: &str,
    crates: &BTreeSet<&str>,
    quantities: &[Quantity],
    constants: &Constants,
) -> Option<String> {
    let may_name = |name: &str| name == LABORATORY || crates.contains(name);
    let (name, crates) = match bound.rsplit_once("::") {
        Some((krate, name)) if may_name(krate) => (name, BTreeSet::from([krate])),
        Some((krate, _)) => return Some(format!("{bound}: no test is in the crate {krate}")),
        None => {
            let all = crates.iter().copied().chain([LABORATORY]);
            (bound, all.collect())
        }
    };
    let definitions: Vec<Option<Vec<f64>>> = constants
        .sources(&crates)
        .flat_map(|source| values(source, name))
        .collect();
    if definitions.is_empty() {
        return Some(format!("{bound} is no constant of the crates of its tests"));
    }
    let uses: usize = constants
        .sources(&crates)
        .map(|source| words(source, name))
        .sum();
    if uses <= definitions.len() {
        return Some(format!(
            "{bound} is used nowhere in the crates of its tests"
        ));
    }
    let Some(values) = definitions.into_iter().collect::<Option<Vec<_>>>() else {
        return Some(format!("{bound} is not a number, a duration or a range"));
    };
    let is_stated = |value: &f64| {
        let same = |q: &Quantity| (q.value - value).abs() <= SAME * value.abs().max(SAME);
        quantities.iter().any(same)
    };
    let missing: Vec<String> = values
        .iter()
        .flatten()
        .filter(|value| !is_stated(value))
        .map(f64::to_string)
        .collect();
    (!missing.is_empty()).then(|| {
        let value = missing.join(" and ");
        format!("{bound} is {value}, which the sentence does not say")
    })
}

/// Number of places where `name` stands in `source`, not as a part of a longer name.
fn words(source: &str, name: &str) -> usize {
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let is_whole = |(at, _): &(usize, &str)| {
        let before = source.get(..*at).and_then(|s| s.chars().next_back());
        let after = source.get(at + name.len()..).and_then(|s| s.chars().next());
        !before.is_some_and(is_part) && !after.is_some_and(is_part)
    };
    source.match_indices(name).filter(is_whole).count()
}

/// Constants that stand in round brackets.
fn bounds(text: &str) -> Vec<&str> {
    let brackets = text
        .split('(')
        .skip(1)
        .filter_map(|rest| rest.split(')').next());
    let names = brackets.flat_map(|inner| inner.split('`').skip(1).step_by(2));
    names.filter(|name| is_constant(name)).collect()
}

/// Whether a name is in `SCREAMING_CASE`, with or without a crate, and no environment variable of
/// the product.
fn is_constant(name: &str) -> bool {
    let name = name.rsplit("::").next().unwrap_or_default();
    let has_shape = name
        .bytes()
        .all(|b| b.is_ascii_uppercase() || b.is_ascii_digit() || b == b'_');
    has_shape && name.len() > 2 && !name.starts_with("COFFERDAM_")
}

/// Number of a sentence, in base units: seconds, bytes, parts of one.
#[derive(Debug, PartialEq)]
struct Quantity {
    value: f64,
    /// Whether it has a unit or is large. Smaller ones count things.
    is_measure: bool,
}

fn quantities(text: &str) -> Vec<Quantity> {
    static CELL: OnceLock<Regex> = OnceLock::new();
    let number = CELL.get_or_init(|| {
        let pattern = r"(^|[^\w.])(\d[\d,]*(?:\.\d+)?)(\s?%|\s(?:ns|µs|ms|s|KiB|MiB)\b)?";
        Regex::new(pattern).expect("the pattern is a constant")
    });
    let plain: String = text.split('`').step_by(2).collect();
    let found = number.captures_iter(&plain).filter_map(|found| {
        let digits = found.get(2)?.as_str().trim_end_matches(',');
        let value: f64 = digits.replace(',', "").parse().ok()?;
        let unit = found.get(3).map_or("", |unit| unit.as_str().trim());
        Some(Quantity {
            value: value * factor(unit),
            is_measure: !unit.is_empty() || digits.contains(','),
        })
    });
    found.collect()
}

fn factor(unit: &str) -> f64 {
    match unit {
        "%" => 1e-2,
        "ns" => 1e-9,
        "µs" => 1e-6,
        "ms" => 1e-3,
        "KiB" => 1024.0,
        "MiB" => 1024.0 * 1024.0,
        _ => 1.0,
    }
}

/// Values of each `const name` in `source`: one, or the two ends of a range; `None` where the
/// constant is neither a number nor a duration.
fn values(source: &str, name: &str) -> Vec<Option<Vec<f64>>> {
    let definition = format!("const {name}:");
    let found = source.match_indices(&definition).map(|(at, _)| {
        let (_, value) = source.get(at..)?.split_once('=')?;
        let (value, _) = value.split_once(';')?;
        value.split("..=").map(value_of).collect()
    });
    found.collect()
}

/// Value of `5_000`, `0.01`, `2 << 10` or `Duration::from_millis(100)`.
fn value_of(text: &str) -> Option<f64> {
    let text = text.trim().replace('_', "");
    if let Some((call, argument)) = text.strip_suffix(')').and_then(|t| t.split_once('(')) {
        let unit = match call.rsplit("::from").next()? {
            "secs" => "s",
            "millis" => "ms",
            "micros" => "µs",
            "nanos" => "ns",
            _ => return None,
        };
        return Some(argument.parse::<f64>().ok()? * factor(unit));
    }
    if let Some((number, shift)) = text.split_once("<<") {
        let (number, shift): (f64, i32) = (number.trim().parse().ok()?, shift.trim().parse().ok()?);
        return Some(number * 2f64.powi(shift));
    }
    text.parse().ok()
}
