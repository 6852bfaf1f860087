//! Selectors from the command line and the configuration.
#![no_main]

use cofferdam_types::Selector;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let Ok(selector) = text.parse::<Selector>() else {
        return;
    };
    // A printed selector parses to the same meaning.
    let printed = selector.to_string();
    let again: Selector = printed.parse().expect("a printed selector parses");
    assert_eq!(again.to_string(), printed);
});
