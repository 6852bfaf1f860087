//! Writes to a device's sysfs file where the container's runtime has made the whole sysfs of its
//! namespace read-only: it is writable for the moment of the write. That is a change like any
//! other, in the journal before it is made, so a process killed in that moment leaves nothing.

use super::values::{self, READ_ONLY, WRITABLE};
use super::{Form, Journal, Target};
use std::io;

impl Journal {
    /// Calls `write`, which writes `target`, while the file system that it is in can be written.
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
            // Taking back needs no space: what is on its way back is in the journal already.
            Err(e) if e.kind() == io::ErrorKind::StorageFull => {
                values::write(&sysfs, WRITABLE)?;
                let written = write(self);
                values::write(&sysfs, READ_ONLY)?;
                return written;
            }
            Err(e) => return Err(e),
        }
        let written = write(self);
        // What cannot be put back now is still in the journal, and is tried again with the rest.
        self.undo(&sysfs);
        written
    }
}

/// The sysfs that `target` is a file of, when it is read-only.
fn read_only_sysfs(target: &Target) -> Option<Target> {
    let Target::DeviceFile { device, .. } = target else {
        return None;
    };
    let sysfs = Target::Sysfs { device: *device };
    let value = values::read(&sysfs);
    value.is_ok_and(|value| value != WRITABLE).then_some(sysfs)
}
