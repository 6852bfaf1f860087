//! Writes to a device's sysfs file if the container's runtime has made the whole sysfs of the
//! namespace read-only. The sysfs is made writable for the moment of the write. That change is
//! recorded in the journal like any other, so a process killed in that moment leaves nothing
//! behind.

use super::values::{self, READ_ONLY, WRITABLE};
use super::{Form, Journal, Target};
use std::io;

impl Journal {
    /// Calls `write`, which writes `target`, while the target's file system is writable.
    pub(super) fn writable<R>(
        &mut self,
        target: &Target,
        write: impl FnOnce(&mut Journal) -> io::Result<R>,
    ) -> io::Result<R> {
        let Some(sysfs) = read_only_sysfs(target) else {
            return write(self);
        };
        match self.set(&sysfs, Form::Text, WRITABLE).map_err(|e| e.source) {
            Ok(_) => {}
            // Reverting needs no free space: the change is in the journal already.
            Err(e) if e.kind() == io::ErrorKind::StorageFull => {
                values::write(&sysfs, WRITABLE)?;
                let written = write(self);
                values::write(&sysfs, READ_ONLY)?;
                return written;
            }
            Err(e) => return Err(e),
        }
        let written = write(self);
        // A failed revert stays in the journal, and is retried with the rest.
        self.revert(&sysfs);
        written
    }
}

/// Sysfs that contains `target`, if it is read-only.
fn read_only_sysfs(target: &Target) -> Option<Target> {
    let Target::DeviceFile { device, .. } = target else {
        return None;
    };
    let sysfs = Target::Sysfs { device: *device };
    let value = values::read(&sysfs);
    value.is_ok_and(|value| value != WRITABLE).then_some(sysfs)
}
