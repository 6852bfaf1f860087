//! Configuration of the agent.
#![no_main]

use cofferdam_agent::config;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| match config::parse(text) {
    Ok((config, _)) => assert!(config.rules.len() <= config::MOST_RULES),
    Err(problems) => {
        assert!(!problems.is_empty());
        for problem in problems {
            assert_eq!(problem.to_string().lines().count(), 1);
        }
    }
});
