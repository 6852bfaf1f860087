//! What the control plane reports as soon as it changes: the devices' links, and offences.

use crate::engine::Tally;
use crate::notice::Notice;
use cofferdam_xsk::{LinkState, PortError, link_state};

/// A device's link, as last reported.
pub(super) struct DeviceWatch {
    name: String,
    /// Index of the device; 0 when it is none of the kernel's.
    index: u32,
    link: LinkState,
}

impl DeviceWatch {
    /// Of a device that was opened, so that it is there; one that is down is reported at once.
    pub fn new(name: String, index: u32) -> DeviceWatch {
        DeviceWatch {
            name,
            index,
            link: LinkState::Up,
        }
    }

    /// Reports a change.
    ///
    /// # Errors
    /// [`PortError::Gone`] when the device is gone.
    pub fn look(&mut self, say: impl Fn(Notice)) -> Result<(), PortError> {
        let link = match self.index {
            0 => LinkState::Up,
            index => link_state(index),
        };
        if link == LinkState::Gone {
            return Err(PortError::Gone(self.name.clone()));
        }
        if link != self.link {
            self.link = link;
            say(Notice::Device {
                name: self.name.clone(),
                link,
            });
        }
        Ok(())
    }
}

/// How many offences were reported.
#[derive(Default)]
pub(super) struct OffenceWatch {
    reported: u64,
}

impl OffenceWatch {
    /// Reports applications that broke the rules: one notice for all since the last.
    pub fn look(&mut self, tally: Tally, say: impl Fn(Notice)) {
        let count = tally.offences.saturating_sub(self.reported);
        if let (1.., Some(last)) = (count, tally.last_offence) {
            self.reported = tally.offences;
            say(Notice::Offence { count, last });
        }
    }
}
