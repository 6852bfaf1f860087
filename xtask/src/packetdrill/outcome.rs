//! Outcome of a script, and its comparison with the classification.

use super::classification::Class;
use std::fmt;

/// Outcome of one script.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    Passed,
    /// Failed, with packetdrill's message.
    Failed(String),
    TimedOut,
}

/// Line of packetdrill's output that gives the reason, with complaints of the script's own code. It
/// begins with the script's name and a line number.
pub fn message(script: &str, output: &str) -> String {
    let name = script.rsplit('/').next().unwrap_or(script);
    let lines: Vec<&str> = output.lines().map(str::trim).collect();
    let place = lines.iter().rposition(|line| {
        line.strip_prefix(name)
            .and_then(|rest| rest.strip_prefix(':'))
            .is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit() || c == ' '))
    });
    let assertion = lines
        .iter()
        .rfind(|line| line.starts_with("AssertionError"));
    let asserted = lines.iter().rfind(|line| line.starts_with("assert "));
    let mut words: Vec<&str> = Vec::new();
    match (place, assertion) {
        (place, Some(assertion)) => {
            // The last message of packetdrill only says that the code failed.
            let line = lines
                .iter()
                .find(|line| line.starts_with(&format!("{name}:")));
            words.extend(line.or(place.map(|place| &lines[place])));
            words.extend(asserted);
            words.push(assertion);
        }
        (Some(place), None) => words.extend(lines[place..].iter().take(3)),
        (None, None) => words.extend(lines.iter().rfind(|line| !line.is_empty())),
    }
    words.join(" | ")
}

/// Counts over all scripts.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Summary {
    passed: usize,
    /// Failed, as classified.
    differs: usize,
    not_applicable: usize,
    open: usize,
    /// Failed although classified as passing, or not classified.
    unexpected: usize,
    /// Passed although classified as failing.
    better: usize,
}

impl Summary {
    /// Counts one script; returns a line about it, unless it passed as expected.
    pub fn count(
        &mut self,
        name: &str,
        outcome: &Outcome,
        class: Option<&Class>,
    ) -> Option<String> {
        let why = match outcome {
            Outcome::Passed => {
                self.passed += 1;
                return match class {
                    None | Some(Class::Passes) => None,
                    Some(class) => {
                        self.better += 1;
                        Some(format!("PASSES   {name}, but is classified: {class}"))
                    }
                };
            }
            Outcome::Failed(message) => message.as_str(),
            Outcome::TimedOut => "time limit exceeded",
        };
        let (count, word) = match class {
            None | Some(Class::Passes) => (&mut self.unexpected, "FAILS   "),
            Some(Class::Differs(_)) => (&mut self.differs, "differs "),
            Some(Class::NotApplicable(_)) => (&mut self.not_applicable, "private "),
            Some(Class::Open(_)) => (&mut self.open, "open    "),
        };
        *count += 1;
        Some(format!("{word} {name}: {why}"))
    }

    /// Whether a script failed that should pass.
    pub const fn is_wrong(&self) -> bool {
        self.unexpected > 0
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        let failed = self.differs + self.not_applicable + self.open + self.unexpected;
        write!(
            to,
            "{} of {} pass; {} differ by choice, {} are not applicable, {} are open, {} fail \
             unexpectedly, {} pass unexpectedly",
            self.passed,
            self.passed + failed,
            self.differs,
            self.not_applicable,
            self.open,
            self.unexpected,
            self.better
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_message_comes_from_packetdrill() {
        let output = "sysctl: cannot stat /proc/x\nclose.pkt:12: error handling packet: bad ack\n\
                      script packet:  0.1 . 1:1(0)\nactual packet:  0.2 . 1:1(0)\n";
        assert_eq!(
            message("close/close.pkt", output),
            "close.pkt:12: error handling packet: bad ack | script packet:  0.1 . 1:1(0) | \
             actual packet:  0.2 . 1:1(0)"
        );
        let output = "info.pkt:9: error in Python code\nTraceback\n    assert a == 1, a\n\
                      AssertionError: 2\ninfo.pkt: error executing code: status 1\n";
        assert_eq!(
            message("info.pkt", output),
            "info.pkt:9: error in Python code | assert a == 1, a | AssertionError: 2"
        );
        assert_eq!(message("a.pkt", "one\ntwo\n\n"), "two");
        assert_eq!(message("a.pkt", ""), "");
    }

    /// Promise 62.
    #[test]
    fn unexpected_outcomes_are_counted() {
        let failed = Outcome::Failed("bad".into());
        let open = Class::Open("no RACK".into());
        let mut summary = Summary::default();
        assert_eq!(summary.count("a", &Outcome::Passed, None), None);
        assert!(summary.count("b", &failed, Some(&open)).is_some());
        assert!(!summary.is_wrong());
        let better = summary.count("c", &Outcome::Passed, Some(&open));
        assert!(better.is_some_and(|line| line.contains("no RACK")));
        assert!(!summary.is_wrong(), "better is not wrong");
        summary.count("d", &Outcome::TimedOut, Some(&Class::Passes));
        assert!(summary.is_wrong());
        let mut unclassified = Summary::default();
        unclassified.count("e", &failed, None);
        assert!(unclassified.is_wrong());
        assert!(summary.to_string().starts_with("2 of 4 pass; 0 differ"));
    }
}
