//! Programs where packets enter and leave devices (tcx, Linux 6.6).

use crate::link::{BPF_TCX_EGRESS, BPF_TCX_INGRESS, link_create};
use cofferdam_types::IfIndex;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd, RawFd};

/// Descriptors of two programs, for attaching them from any thread; valid while their owner lives.
#[derive(Clone, Copy, Debug)]
pub struct HookDescriptors {
    ingress: RawFd,
    egress: RawFd,
}

impl HookDescriptors {
    pub(crate) fn of(ingress: BorrowedFd<'_>, egress: BorrowedFd<'_>) -> HookDescriptors {
        HookDescriptors {
            ingress: ingress.as_raw_fd(),
            egress: egress.as_raw_fd(),
        }
    }

    /// Attaches both to a device of the calling thread's network namespace. Closing the links
    /// detaches them.
    ///
    /// # Errors
    /// The kernel's: it has no such hooks, or the device was removed.
    pub fn attach(self, device: IfIndex) -> io::Result<[OwnedFd; 2]> {
        let ingress = link_create(self.ingress, device, BPF_TCX_INGRESS, 0)?;
        Ok([
            ingress,
            link_create(self.egress, device, BPF_TCX_EGRESS, 0)?,
        ])
    }
}
