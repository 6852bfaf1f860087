//! Repositories in memory with one contradiction each.

use super::Repository;
use super::document::promises;
use std::path::Path;

/// Constants of the synthetic crate `a`, and one use of each.
const CONSTANTS: &str = "
    const MOST: usize = 5_000;
    const WITHIN: f64 = 0.01;
    const FAIR: RangeInclusive<f64> = 0.97..=1.03;
    const PATIENCE: Duration = Duration::from_millis(100);
    const BYTES: u64 = 8 << 10;
    const WORD: &str = \"x\";
    const UNUSED: u64 = 7;
    fn uses() { MOST; WITHIN; FAIR; PATIENCE; BYTES; WORD }
";

/// A test of promise 1.
const TEST: &str = "/// Promise 1.\n#[test]\nfn a_test() {}\n";

/// Repository of one document and one source of the crate `a`.
fn repository(specification: &str, source: &str) -> Repository {
    let mut repository = Repository::default();
    repository.add_specification(specification);
    repository.add_source(Path::new("crates/a/src/lib.rs"), source);
    repository
}

fn faults(specification: &str, source: &str) -> Vec<String> {
    repository(specification, source).faults()
}

/// Asserts that there is one fault, which contains `words`.
fn assert_one(faults: &[String], words: &str) {
    assert_eq!(faults.len(), 1, "{faults:?}");
    assert!(faults[0].contains(words), "{faults:?}");
}

/// Promise 80.
#[test]
fn a_promise_with_its_test_is_accepted() {
    assert_eq!(faults("# Title\n\n1. It is there.\n", TEST), [""; 0]);
    let source = "/// Promise 1.\nfn made_by_a_macro();\n";
    assert_eq!(faults("1. It is there.\n", source), [""; 0]);
}

/// Promise 80.
#[test]
fn a_promise_without_a_test_is_refused() {
    let faults = faults("1. It is there.\n2. It is tested.\n", TEST);
    assert_one(
        &faults,
        "SPECIFICATION.md:2: no test carries \"Promise 2.\"",
    );
}

/// Promise 80.
#[test]
fn a_marker_without_a_promise_is_refused() {
    let source = format!("{TEST}/// Promise 3.\n#[test]\nfn another() {{}}\n");
    let faults = faults("1. It is there.\n", &source);
    assert_one(
        &faults,
        "crates/a/src/lib.rs:6: SPECIFICATION.md has no promise 3",
    );
}

/// Promise 80.
#[test]
fn a_marker_stands_at_a_test_in_one_form() {
    for (marked, words) in [
        ("/// Promise 1.\nfn helper() {}\n", "stands at no test"),
        ("/// Promise 1.\nstruct Thing;\n", "stands at no test"),
        ("/// Promises 1, 2.\n#[test]\nfn b() {}\n", "one a line"),
        ("// Promise 1\n#[test]\nfn b() {}\n", "one a line"),
    ] {
        let source = format!("{TEST}{marked}");
        assert_one(&faults("1. It is there.\n", &source), words);
    }
}

/// Promise 80.
#[test]
fn a_number_that_is_there_twice_is_refused() {
    let twice = faults("1. It is there.\n1. It is there again.\n", TEST);
    assert_one(&twice, "SPECIFICATION.md:2: promise 1 follows promise 1");
    let gap = format!("{TEST}/// Promise 4.\n#[test]\nfn another() {{}}\n");
    assert_eq!(faults("1. It is there.\n4. A gap stays.\n", &gap), [""; 0]);
}

/// Promise 80.
#[test]
fn a_stated_quantity_equals_its_constant() {
    let source = format!("{CONSTANTS}{TEST}");
    for text in [
        "At most 5,000 are there (`MOST`).",
        "At most 5,000 are there (`a::MOST`).",
        "It differs within 1% (`WITHIN`).",
        "It is between 0.97 and 1.03 (`FAIR`).",
        "It ends after 100 ms (`PATIENCE`), with 8 KiB\n   (`BYTES`).",
        "Two of 3 in IPv4 set `TIME_WAIT` (`COFFERDAM_X`).",
    ] {
        assert_eq!(faults(&format!("1. {text}\n"), &source), [""; 0], "{text}");
    }
    for (text, words) in [
        ("At most 5,000 are there.", "without the constant"),
        ("It differs within 2% (`WITHIN`).", "WITHIN is 0.01"),
        ("It is at least 0.97 (`FAIR`).", "FAIR is 1.03"),
        (
            "It differs within 1% (`NOWHERE`).",
            "NOWHERE is no constant",
        ),
        (
            "It differs within 1% (`b::WITHIN`).",
            "no test is in the crate b",
        ),
        ("It differs within 1% (`WORD`).", "WORD is not a number"),
        ("There are 7 (`UNUSED`).", "UNUSED is used nowhere"),
    ] {
        assert_one(&faults(&format!("1. {text}\n"), &source), words);
    }
}

/// Promise 80.
#[test]
fn a_row_names_promises_that_exist() {
    let source = format!("{CONSTANTS}{TEST}");
    let repository = repository("1. It is there.\n", &source);
    let found = |row: &str| repository.faults_of_rows("page.md", row);
    assert_eq!(found("| at most 5,000 (`MOST`) | 1 |\n"), [""; 0]);
    assert_one(
        &found("| it is there | 1, 2 |\n"),
        "page.md:1: SPECIFICATION.md has no promise 2",
    );
    assert_one(&found("| at most 6,000 (`MOST`) | 1 |\n"), "MOST is 5000");
}

/// Promise 80.
#[test]
fn the_index_leads_from_a_promise_to_lines() {
    let mut repository = repository("1. It is\n   there.\n", TEST);
    let script = Path::new("scripts/kernels.d/10-try.sh");
    repository.add_source(script, "#!/bin/sh\n# Promise 1.\n");
    repository.add_source(Path::new("scripts/setup.sh"), "# Promise 9.\n");
    let index = repository.index();
    assert!(index.contains("\n## 1. It is there.\n"), "{index}");
    assert!(
        index.contains("- `a::a_test` crates/a/src/lib.rs:3\n"),
        "{index}"
    );
    assert!(
        index.contains("- `scripts::10-try` scripts/kernels.d/10-try.sh:2\n"),
        "{index}"
    );
    assert_eq!(repository.faults(), [""; 0]);
}

/// Promise 80.
#[test]
fn other_text_of_the_document_is_no_promise() {
    let text = "# 1. Title\n\nIn 2026. A sentence.\n\n3. A promise\n   of two lines.\n\n    code\n";
    let found = promises(text);
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!((found[0].number, found[0].line), (3, 5));
    assert_eq!(found[0].text, "A promise of two lines.");
}
