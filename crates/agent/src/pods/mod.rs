//! Requests of pods, and the decision about them.
//!
//! These functions are pure: [`claim()`] parses the annotations of one container, [`decide()`]
//! weighs them against the rules. Pods are reported by [`crate::nri`].

pub(crate) mod claim;
pub(crate) mod decide;

pub(crate) use claim::{Claim, claim};
pub(crate) use decide::{Decision, decide};

use globset::{GlobBuilder, GlobMatcher};

/// Prefix of every annotation of Cofferdam on a pod.
pub(crate) const PREFIX: &str = "cofferdam.dev";
/// Annotation that the agent adds to a container which is created on CPUs of its own. The value is
/// the list of CPUs.
pub(crate) const MADE_ON: &str = "made-on.cofferdam.dev/cpus";

/// Namespaces whose pods may ask.
#[derive(Clone, Debug, Default)]
pub struct MayAsk(Vec<(String, GlobMatcher)>);

impl MayAsk {
    /// Compiles names with globs.
    ///
    /// # Errors
    /// The first text that is neither the name of a namespace nor a glob.
    pub fn new<'a>(names: impl IntoIterator<Item = &'a str>) -> Result<MayAsk, String> {
        let one = |name: &str| {
            let plain = |c: char| c.is_ascii_alphanumeric() || "-*?[]{},!".contains(c);
            let glob = GlobBuilder::new(name).build().ok();
            let glob = glob.filter(|_| !name.is_empty() && name.chars().all(plain));
            let glob = glob.ok_or_else(|| {
                format!(
                    "'{name}' is not a namespace: write a name such as \"shop\", \
                                     or a glob such as \"team-*\""
                )
            })?;
            Ok((name.to_owned(), glob.compile_matcher()))
        };
        names
            .into_iter()
            .map(one)
            .collect::<Result<_, _>>()
            .map(MayAsk)
    }

    /// Whether pods of `namespace` may ask.
    pub fn allows(&self, namespace: &str) -> bool {
        self.0.iter().any(|(_, glob)| glob.is_match(namespace))
    }
}

impl PartialEq for MayAsk {
    fn eq(&self, other: &MayAsk) -> bool {
        let names = |all: &MayAsk| all.0.iter().map(|(n, _)| n.clone()).collect::<Vec<_>>();
        names(self) == names(other)
    }
}

impl Eq for MayAsk {}
