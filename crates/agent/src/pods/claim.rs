//! Parser of a pod's annotations.
//!
//! `cofferdam.dev/KEY` applies to every container of the pod. `KEY.cofferdam.dev/container.NAME`
//! applies to that container, and takes precedence. (A key of Kubernetes has one `/`, so the
//! container cannot stand behind another; the form is that of NRI's own plugins.)

use super::PREFIX;
use cofferdam_nri::Pod;
use cofferdam_types::{Degradation, NetworkCpu, printable};
use std::collections::BTreeMap;

/// Limit on the problems reported per container; a pod may have thousands of annotations.
const MOST_LINES: usize = 8;
/// Limit on the characters of a pod's text that a report repeats.
const MOST_REPEATED: usize = 64;

/// The value of an annotation is invalid. The name stands in `status` and in metrics.
pub(crate) const INVALID: &str = "annotation_invalid";
/// No such annotation exists.
pub(crate) const UNKNOWN: &str = "annotation_unknown";

/// Requests of the annotations; `None` where they request nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Claim {
    pub strict: Option<bool>,
    pub network_cpu: Option<NetworkCpu>,
    pub latency: Option<bool>,
    pub lends: Option<bool>,
    /// Annotations that cannot be parsed.
    pub problems: Vec<Degradation>,
}

impl Claim {
    /// Whether nothing is requested.
    pub fn is_empty(&self) -> bool {
        self.strict.is_none()
            && self.network_cpu.is_none()
            && self.latency.is_none()
            && self.lends.is_none()
    }
}

const KEYS: [(&str, &str); 4] = [
    ("cpu", "strict or standard"),
    ("network-cpu", "enforce or observe"),
    ("latency", "measure"),
    ("lend", "\"true\" or \"false\""),
];

/// Requests of `pod` for its container `name`.
pub(crate) fn claim(pod: &Pod, name: &str) -> Claim {
    let mut claim = Claim::default();
    let mut left_out = 0;
    let mut problem = |claim: &mut Claim, kind: &str, text: String| {
        if claim.problems.len() >= MOST_LINES {
            left_out += 1;
            return;
        }
        claim.problems.push(Degradation {
            name: kind.to_owned(),
            text,
        });
    };
    // The pod's come first: those of the container replace them.
    for own in [false, true] {
        for (key, value) in asked(&pod.annotations, own.then_some(name)) {
            let annotation = short_text(key.whole);
            let Some((_, values)) = KEYS.iter().find(|(name, _)| *name == key.key) else {
                let names: Vec<&str> = KEYS.iter().map(|(name, _)| *name).collect();
                let text = format!(
                    "there is no annotation '{annotation}': write {PREFIX}/KEY with one of {}",
                    names.join(", ")
                );
                problem(&mut claim, UNKNOWN, text);
                continue;
            };
            if !claim.apply(key.key, value) {
                let text = format!(
                    "annotation '{annotation}' is '{}', which is not {values}: it has no effect",
                    short_text(value)
                );
                problem(&mut claim, INVALID, text);
            }
        }
    }
    if left_out > 0
        && let Some(last) = claim.problems.last_mut()
    {
        last.text += &format!(" (and {left_out} more annotations like it)");
    }
    claim
}

impl Claim {
    /// Applies one annotation. Returns false if the value is invalid.
    fn apply(&mut self, key: &str, value: &str) -> bool {
        match (key, value) {
            ("cpu", "strict") => self.strict = Some(true),
            ("cpu", "standard") => self.strict = Some(false),
            ("network-cpu", "enforce") => self.network_cpu = Some(NetworkCpu::Enforce),
            ("network-cpu", "observe") => self.network_cpu = Some(NetworkCpu::Observe),
            ("latency", "measure") => self.latency = Some(true),
            ("lend", "true") => self.lends = Some(true),
            ("lend", "false") => self.lends = Some(false),
            _ => return false,
        }
        true
    }
}

struct Key<'a> {
    whole: &'a str,
    key: &'a str,
}

/// Annotations for Cofferdam: the pod's, or those of one container.
fn asked<'a>(
    annotations: &'a BTreeMap<String, String>,
    container: Option<&'a str>,
) -> impl Iterator<Item = (Key<'a>, &'a str)> {
    annotations.iter().filter_map(move |(whole, value)| {
        let (prefix, rest) = whole.split_once('/')?;
        let key = match container {
            None if prefix == PREFIX => rest,
            None => return None,
            Some(name) => {
                let of = rest.strip_prefix("container.")?;
                let key = prefix.strip_suffix(PREFIX)?.strip_suffix('.')?;
                (of == name).then_some(key)?
            }
        };
        Some((Key { whole, key }, value.as_str()))
    })
}

/// Makes a pod's text fit for a line.
pub(crate) fn short_text(text: &str) -> String {
    let printable = printable(text);
    match printable.char_indices().nth(MOST_REPEATED) {
        Some((end, _)) => format!("{}…", &printable[..end]),
        None => printable,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn pod(annotations: &[(&str, &str)]) -> Pod {
        let own = |(k, v): &(&str, &str)| ((*k).to_owned(), (*v).to_owned());
        Pod {
            id: "1".into(),
            namespace: "shop".into(),
            name: "web".into(),
            uid: "u".into(),
            qos: None,
            labels: BTreeMap::new(),
            annotations: annotations.iter().map(own).collect(),
            netns: None,
        }
    }

    /// Promise 39.
    #[test]
    fn a_container_may_ask_for_something_else_than_its_pod() {
        let pod = pod(&[
            ("cofferdam.dev/cpu", "strict"),
            ("cofferdam.dev/lend", "false"),
            ("cpu.cofferdam.dev/container.logger", "standard"),
            ("network-cpu.cofferdam.dev/container.logger", "enforce"),
            ("prometheus.io/scrape", "true"),
        ]);
        let app = claim(&pod, "app");
        assert_eq!((app.strict, app.lends), (Some(true), Some(false)));
        assert_eq!(app.network_cpu, None);
        let logger = claim(&pod, "logger");
        assert_eq!((logger.strict, logger.lends), (Some(false), Some(false)));
        assert_eq!(logger.network_cpu, Some(NetworkCpu::Enforce));
        assert!(app.problems.is_empty() && logger.problems.is_empty());
    }

    /// Promise 39.
    #[test]
    fn each_invalid_annotation_is_reported_once() {
        let pod = pod(&[
            ("cofferdam.dev/cpu", "Strict\u{1b}[2J"),
            ("cofferdam.dev/cpus", "2"),
            ("cofferdam.dev/latency", "measure"),
        ]);
        let claim = claim(&pod, "app");
        assert_eq!((claim.strict, claim.latency), (None, Some(true)));
        let names: Vec<_> = claim.problems.iter().map(|p| p.name.as_str()).collect();
        assert_eq!(names, [INVALID, UNKNOWN]);
        assert!(
            claim.problems[0].text.contains("strict or standard"),
            "{}",
            claim.problems[0].text
        );
        assert!(!claim.problems[0].text.contains('\u{1b}'));
    }

    /// Promise 39.
    /// Promise 74.
    #[test]
    fn ten_thousand_annotations_are_reported_in_a_few_lines() {
        let keys: Vec<String> = (0..10_000).map(|i| format!("cofferdam.dev/x{i}")).collect();
        let all: Vec<(&str, &str)> = keys.iter().map(|k| (k.as_str(), "1")).collect();
        let claim = claim(&pod(&all), "app");
        assert_eq!(claim.problems.len(), MOST_LINES);
        assert!(claim.problems[7].text.contains("9992 more"));
    }

    proptest! {
        /// Promise 74.
        #[test]
        fn any_text_is_reported_in_short_lines(key in ".{0,300}", value in ".{0,300}") {
            let keys = [
                            format!("cofferdam.dev/{key}"),
                            format!("{key}.cofferdam.dev/container.app"),
                        ];
            for key in keys {
                for problem in claim(&pod(&[(&key, &value)]), "app").problems {
                    prop_assert!(problem.text.chars().count() < 300);
                    prop_assert!(!problem.text.chars().any(char::is_control));
                }
            }
        }
    }
}
