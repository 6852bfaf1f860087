//! Namespaces that stay open during several changes. Finding and entering one takes longer than
//! most changes: it reads all processes, starts a thread in the namespace, and mounts its sysfs.

use super::Inside;
use cofferdam_types::NetnsId;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io;
use std::rc::Rc;

thread_local! {
    /// Number of [`NamespaceCache`] values, and the namespaces entered since the first.
    static OPEN: RefCell<(u32, BTreeMap<u32, Rc<Inside>>)> =
        const { RefCell::new((0, BTreeMap::new())) };
}

/// Guard that keeps the namespaces open that its thread enters. An open namespace stays alive, so
/// keep the guard only for a moment.
pub(crate) struct NamespaceCache(());

impl NamespaceCache {
    pub fn begin() -> NamespaceCache {
        OPEN.with_borrow_mut(|(keepers, _)| *keepers += 1);
        NamespaceCache(())
    }
}

impl Drop for NamespaceCache {
    fn drop(&mut self) {
        // The descriptors close after the borrow: closing may take a moment.
        let _closed = OPEN.with_borrow_mut(|(keepers, open)| {
            *keepers -= 1;
            (*keepers == 0).then(|| std::mem::take(open))
        });
    }
}

/// Returns the namespace if it is open, and enters it otherwise.
pub(super) fn or_enter(
    netns: NetnsId,
    enter: impl FnOnce() -> io::Result<Inside>,
) -> io::Result<Rc<Inside>> {
    if let Some(open) = OPEN.with_borrow(|(_, open)| open.get(&netns.0).cloned()) {
        return Ok(open);
    }
    let inside = Rc::new(enter()?);
    OPEN.with_borrow_mut(|(keepers, open)| {
        if *keepers > 0 {
            open.insert(netns.0, inside.clone());
        }
    });
    Ok(inside)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Enters this process's namespace `times` times, and returns how often that was not cached.
    fn entered(times: u32) -> u32 {
        let mut count = 0;
        for _ in 0..times {
            let own = std::fs::File::open("/proc/self/ns/net").expect("a file");
            or_enter(NetnsId(7), || {
                count += 1;
                Inside::enter(&own)
            })
            .expect("entered");
        }
        count
    }

    /// Promise 31.
    #[test]
    fn a_namespace_stays_open_while_a_cache_exists() {
        assert_eq!(entered(2), 2, "nobody keeps it");
        let outer = NamespaceCache::begin();
        assert_eq!(entered(2), 1);
        drop(NamespaceCache::begin());
        assert_eq!(entered(2), 0, "an inner one does not close it");
        drop(outer);
        assert_eq!(entered(1), 1, "it is closed");
        OPEN.with_borrow(|(keepers, open)| assert!(*keepers == 0 && open.is_empty()));
    }
}
