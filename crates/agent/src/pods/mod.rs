//! What pods ask for, and what is done about it.
//!
//! Pure: [`claim()`] reads the annotations of one container, [`decide()`] weighs them against the rules.
//! Who tells us of pods is in [`crate::nri`].

pub(crate) mod claim;
pub(crate) mod decide;

pub(crate) use claim::{Claim, claim};
pub(crate) use decide::{Decision, decide};

use globset::{GlobBuilder, GlobMatcher};

/// Before every annotation of Cofferdam's on a pod.
pub(crate) const PREFIX: &str = "cofferdam.dev";
/// The annotation that we give a container which is made on CPUs of its own: which these are.
pub(crate) const MADE_ON: &str = "made-on.cofferdam.dev/cpus";

/// The namespaces whose pods may ask.
#[derive(Clone, Debug, Default)]
pub struct MayAsk(Vec<(String, GlobMatcher)>);

impl MayAsk {
    /// By names with globs.
    ///
    /// # Errors
    /// The first that is no name of a namespace and no glob for some.
    pub fn new<'a>(names: impl IntoIterator<Item = &'a str>) -> Result<MayAsk, String> {
        let one = |name: &str| {
            let plain = |c: char| c.is_ascii_alphanumeric() || "-*?[]{},!".contains(c);
            let glob = GlobBuilder::new(name).build().ok();
            let glob = glob.filter(|_| !name.is_empty() && name.chars().all(plain));
            let glob = glob.ok_or_else(|| {
                format!("'{name}' is not a namespace: write a name such as \"shop\", or a glob such as \"team-*\"")
            })?;
            Ok((name.to_owned(), glob.compile_matcher()))
        };
        names
            .into_iter()
            .map(one)
            .collect::<Result<_, _>>()
            .map(MayAsk)
    }

    /// Whether pods of `namespace` may.
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
