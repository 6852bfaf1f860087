//! Hostile application: the entries of its call ring, and the configuration.
#![no_main]

use cofferdam_dataplane::{abi, config::Config, hostile::Hostile};
use libfuzzer_sys::fuzz_target;
use std::cell::RefCell;

thread_local! {
    static TARGET: RefCell<Hostile> = RefCell::new(Hostile::new());
}

fuzz_target!(|bytes: &[u8]| {
    // The text of a configuration file is foreign too.
    if let Ok(text) = std::str::from_utf8(bytes) {
        let _ = Config::parse(text);
    }
    TARGET.with_borrow_mut(|target| target.attack(bytes));
    let _ = abi::Call::decode(&abi::Entry::default());
});
