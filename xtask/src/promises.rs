//! What the specifications promise, held against the tests.
//!
//! A row names its tests in the last column, as `` `crate::test` ``, and the bounds that it promises
//! in the first, as `` (`BOUND`) ``: constants of the crates whose tests it names, or of the laboratory.

use crate::tree;
use anyhow::{Context, Result, bail};
use regex_lite::Regex;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// The documents that name a test for each promise.
const DOCUMENTS: [&str; 3] = [
    "SPECIFICATION.md",
    "crates/netstack/SPECIFICATION.md",
    "docs/src/security.md",
];

/// The crate whose constants every row may name.
const LABORATORY: &str = "lab";

/// Two values are the same if they differ by less than this part.
const SAME: f64 = 1e-9;

/// A row of a table of promises.
#[derive(Debug, PartialEq)]
struct Promise<'a> {
    text: &'a str,
    /// `crate::test`.
    tests: Vec<&'a str>,
}

/// The sources of one crate.
type Sources = BTreeMap<String, String>;

/// Every test that a row names is a test of that crate, and every bound a constant that the crate
/// uses, with a value that the row states. A row that states a quantity names a bound.
pub fn check() -> Result<()> {
    let crates = sources()?;
    let (mut wrong, mut tests) = (Vec::new(), 0);
    for file in DOCUMENTS {
        let text = tree::read(Path::new(file))?;
        for (number, line) in text.lines().enumerate() {
            let Some(promise) = parse(line) else { continue };
            tests += promise.tests.len();
            let found = faults(&promise, &crates);
            wrong.extend(
                found
                    .into_iter()
                    .map(|f| format!("{file}:{}: {f}", number + 1)),
            );
        }
    }
    if !wrong.is_empty() {
        bail!("promises without their tests:\n{}", wrong.join("\n"));
    }
    (tests > 0)
        .then_some(())
        .context("no document names a test")
}

/// The sources of each crate, by the name that rows use: `packetdrill_shim`, `xtask`.
fn sources() -> Result<Sources> {
    let mut crates = Sources::new();
    for file in tree::files(&[".rs"])? {
        if let Some(name) = crate_of(&file) {
            let text = tree::read(&file)?;
            crates.entry(name).or_default().push_str(&text);
        }
    }
    Ok(crates)
}

fn crate_of(file: &Path) -> Option<String> {
    let parts: Vec<PathBuf> = file.iter().map(PathBuf::from).collect();
    let name = match parts.first()?.to_str()? {
        "crates" => parts.get(1)?.to_str()?,
        other => other,
    };
    Some(name.replace('-', "_"))
}

fn parse(line: &str) -> Option<Promise<'_>> {
    let cells = line.strip_prefix('|')?.trim_end().strip_suffix('|')?;
    let (text, last) = (cells.split('|').next()?, cells.rsplit('|').next()?);
    let tests: Vec<&str> = quoted(last).filter(|name| name.contains("::")).collect();
    (!tests.is_empty()).then_some(Promise { text, tests })
}

/// What stands between backquotes.
fn quoted(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

fn faults(promise: &Promise, crates: &Sources) -> Vec<String> {
    let mut faults = Vec::new();
    for name in &promise.tests {
        let (krate, test) = name.split_once("::").unwrap_or_default();
        if !crates
            .get(krate)
            .is_some_and(|source| is_test(source, test))
        {
            faults.push(format!("{name} is no test of the crate {krate}"));
        }
    }
    let bounds = bounds(promise.text);
    let quantities = quantities(promise.text);
    // The scripts of TCP are the rule themselves: their numbers stand in them.
    let rule = promise.text.trim_start().starts_with("RFC ");
    if bounds.is_empty() && quantities.iter().any(|q| q.is_measure) && !rule {
        faults.push(format!(
            "it states a quantity and names no constant that a test uses:{}",
            promise.text.trim_end()
        ));
    }
    for bound in bounds {
        faults.extend(fault_of(bound, promise, &quantities, crates));
    }
    faults
}

fn fault_of(
    bound: &str,
    promise: &Promise,
    quantities: &[Quantity],
    crates: &Sources,
) -> Option<String> {
    let of_tests = promise
        .tests
        .iter()
        .filter_map(|name| name.split("::").next());
    let names: BTreeSet<&str> = of_tests.chain([LABORATORY]).collect();
    let sources = || names.iter().filter_map(|name| crates.get(*name));
    let definitions: Vec<Option<Vec<f64>>> = sources().flat_map(|s| values(s, bound)).collect();
    if definitions.is_empty() {
        return Some(format!("{bound} is no constant of the crates of its tests"));
    }
    let uses: usize = sources().map(|source| words(source, bound)).sum();
    if uses <= definitions.len() {
        return Some(format!(
            "{bound} is used nowhere in the crates of its tests"
        ));
    }
    let Some(values) = definitions.into_iter().collect::<Option<Vec<_>>>() else {
        return Some(format!("{bound} is no number, duration or range of them"));
    };
    let is_stated = |value: &f64| {
        let same = |q: &Quantity| (q.value - value).abs() <= SAME * value.abs().max(1.0);
        quantities.iter().any(same)
    };
    let values = values.iter().flatten();
    let missing: Vec<String> = values
        .filter(|v| !is_stated(v))
        .map(f64::to_string)
        .collect();
    (!missing.is_empty()).then(|| {
        format!(
            "{bound} is {}, which the row does not say",
            missing.join(" and ")
        )
    })
}

/// How often `name` stands in `source`, not as a part of a longer name.
fn words(source: &str, name: &str) -> usize {
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let whole = |(at, _): &(usize, &str)| {
        let before = source.get(..*at).and_then(|s| s.chars().next_back());
        let after = source.get(at + name.len()..).and_then(|s| s.chars().next());
        !before.is_some_and(is_part) && !after.is_some_and(is_part)
    };
    source.match_indices(name).filter(whole).count()
}

/// The constants that stand in round brackets.
fn bounds(text: &str) -> Vec<&str> {
    let brackets = text
        .split('(')
        .skip(1)
        .filter_map(|rest| rest.split(')').next());
    let names = brackets.flat_map(quoted);
    names.filter(|name| is_constant(name)).collect()
}

/// `SCREAMING_CASE`, and no environment variable of the product.
fn is_constant(name: &str) -> bool {
    let shape = name
        .bytes()
        .all(|b| b.is_ascii_uppercase() || b.is_ascii_digit() || b == b'_');
    shape && name.len() > 2 && !name.starts_with("COFFERDAM_")
}

/// Whether `source` has a test `name`: a function under `#[test]`, or one that a macro makes into a
/// test (`fn name();`).
fn is_test(source: &str, name: &str) -> bool {
    let lines: Vec<&str> = source.lines().map(str::trim).collect();
    let function = format!("fn {name}(");
    let is_one = |(at, line): (usize, &&str)| {
        let Some(before) = lines.get(..at) else {
            return false;
        };
        let mut above = before.iter().rev();
        line.contains(&function)
            && (line.ends_with("();")
                || above
                    .by_ref()
                    .take_while(|l| l.starts_with("#[") || l.starts_with("//"))
                    .any(|l| *l == "#[test]"))
    };
    lines.iter().enumerate().any(is_one)
}

/// A number of a row, in base units: seconds, bytes, parts of one.
#[derive(Debug, PartialEq)]
struct Quantity {
    value: f64,
    /// It has a unit, or is large: a bound, and no count of things in the sentence.
    is_measure: bool,
}

fn quantities(text: &str) -> Vec<Quantity> {
    let Ok(number) =
        Regex::new(r"(^|[^\w.])(\d[\d,]*(?:\.\d+)?)(\s?%|\s(?:ns|µs|ms|s|KiB|MiB)\b)?")
    else {
        return Vec::new();
    };
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

/// The values of each `const name` in `source`: one, or the two ends of a range; `None` where it is
/// neither a number nor a duration.
fn values(source: &str, name: &str) -> Vec<Option<Vec<f64>>> {
    let definition = format!("const {name}:");
    let found = source.match_indices(&definition).map(|(at, _)| {
        let (_, value) = source.get(at..)?.split_once('=')?;
        let (value, _) = value.split_once(';')?;
        value.split("..=").map(number).collect()
    });
    found.collect()
}

/// `5_000`, `0.01`, `2 << 10`, `Duration::from_millis(100)`.
fn number(text: &str) -> Option<f64> {
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

#[cfg(test)]
mod tests {
    use super::*;

    const SOURCE: &str = "
        const MOST: usize = 5_000;
        const WITHIN: f64 = 0.01;
        const FAIR: RangeInclusive<f64> = 0.97..=1.03;
        const PATIENCE: Duration = Duration::from_millis(100);
        const BYTES: u64 = 8 << 10;
        const WORD: &str = \"x\";
        const UNUSED: u64 = 7;
        const UNUSED_TOO: u64 = 7;
        /// What it checks.
        #[test]
        #[should_panic]
        fn is_there() { MOST; WITHIN; FAIR; PATIENCE; BYTES; WORD }
        fn is_a_helper() {}
        script! { fn is_made_by_a_macro(); }
            fn is_made_too();
    ";

    fn faults_of(row: &str) -> Vec<String> {
        let crates = Sources::from([("a".to_owned(), SOURCE.to_owned())]);
        faults(&parse(row).expect("a row"), &crates)
    }

    #[test]
    fn a_row_names_tests_of_its_crate() {
        assert!(faults_of("| it is | `a::is_there`, `a::is_made_too` |").is_empty());
        for name in [
            "a::is_a_helper",
            "a::is_not_there",
            "b::is_there",
            "a::there",
        ] {
            let faults = faults_of(&format!("| it is | `{name}` |"));
            assert_eq!(faults.len(), 1, "{name}: {faults:?}");
        }
        assert_eq!(parse("| `std::fs` is promised | nothing |"), None);
        assert_eq!(parse("`a::is_there` in a sentence"), None);
    }

    #[test]
    fn a_stated_quantity_has_a_constant_of_that_value() {
        for row in [
            "| 5,000 at once (`MOST`) | `a::is_there` |",
            "| within 1% (`WITHIN`) | `a::is_there` |",
            "| between 0.97 and 1.03 (`FAIR`) | `a::is_there` |",
            "| after 100 ms (`PATIENCE`), of 8 KiB (`BYTES`) | `a::is_there` |",
            "| two of 3 in IPv4, `TIME_WAIT` (`COFFERDAM_X`) | `a::is_there` |",
            "| RFC 1, 2: after 200 ms | `a::is_made_too` |",
        ] {
            assert_eq!(faults_of(row), [""; 0], "{row}");
        }
        for (row, word) in [
            ("| 5,000 at once | `a::is_there` |", "names no constant"),
            ("| within 2% (`WITHIN`) | `a::is_there` |", "WITHIN is 0.01"),
            ("| from 0.97 on (`FAIR`) | `a::is_there` |", "FAIR is 1.03"),
            (
                "| 1% (`NOWHERE`) | `a::is_there` |",
                "NOWHERE is no constant",
            ),
            ("| 1% (`WORD`) | `a::is_there` |", "WORD is no number"),
            ("| 7 (`UNUSED`) | `a::is_there` |", "UNUSED is used nowhere"),
        ] {
            let faults = faults_of(row);
            assert!(faults.iter().any(|f| f.contains(word)), "{row}: {faults:?}");
        }
    }
}
