//! Namespaces that stay open while several changes are made in them. To find and enter one takes longer
//! than most changes: a look at all processes, a thread that enters it, and a mount of its sysfs.

use super::Inside;
use cofferdam_types::NetnsId;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io;
use std::rc::Rc;

thread_local! {
    /// How many [`KeptOpen`] there are, and what was entered meanwhile.
    static OPEN: RefCell<(u32, BTreeMap<u32, Rc<Inside>>)> = const { RefCell::new((0, BTreeMap::new())) };
}

/// While it lives, the namespaces that its thread enters stay open, and alive: keep it only for a moment.
pub(crate) struct KeptOpen(());

impl KeptOpen {
    pub fn begin() -> KeptOpen {
        OPEN.with_borrow_mut(|(keepers, _)| *keepers += 1);
        KeptOpen(())
    }
}

impl Drop for KeptOpen {
    fn drop(&mut self) {
        // Closed after the borrow: that may take a moment.
        let _closed = OPEN.with_borrow_mut(|(keepers, open)| {
            *keepers -= 1;
            (*keepers == 0).then(|| std::mem::take(open))
        });
    }
}

/// The namespace, if it is open; else it is entered.
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

    /// This process's own namespace, and how often it was entered.
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
    fn a_namespace_stays_open_as_long_as_it_is_kept() {
        assert_eq!(entered(2), 2, "nobody keeps it");
        let outer = KeptOpen::begin();
        assert_eq!(entered(2), 1);
        drop(KeptOpen::begin());
        assert_eq!(entered(2), 0, "an inner one does not close it");
        drop(outer);
        assert_eq!(entered(1), 1, "it is closed");
        OPEN.with_borrow(|(keepers, open)| assert!(*keepers == 0 && open.is_empty()));
    }
}
