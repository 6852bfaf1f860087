//! Changes that the control plane reports at once: the devices' links, and offences.

use crate::engine::Tally;
use crate::notice::Notice;
use cofferdam_xsk::{LinkState, PortError, link_state};

/// Last reported state of a device's link.
pub(super) struct DeviceWatch {
    name: String,
    /// Index of the device; 0 if the kernel has none.
    index: u32,
    link: LinkState,
}

impl DeviceWatch {
    /// Watches a device that was opened. A device that is down is reported at once.
    pub fn new(name: String, index: u32) -> DeviceWatch {
        DeviceWatch {
            name,
            index,
            link: LinkState::Up,
        }
    }

    /// Reports a change of the link.
    ///
    /// # Errors
    /// [`PortError::Gone`] if the device is gone.
    pub fn report_change(&mut self, notify: impl Fn(Notice)) -> Result<(), PortError> {
        let link = match self.index {
            0 => LinkState::Up,
            index => link_state(index),
        };
        if link == LinkState::Gone {
            return Err(PortError::Gone(self.name.clone()));
        }
        if link != self.link {
            self.link = link;
            notify(Notice::Device {
                name: self.name.clone(),
                link,
            });
        }
        Ok(())
    }
}

/// Number of reported offences.
#[derive(Default)]
pub(super) struct OffenceWatch {
    reported: u64,
}

impl OffenceWatch {
    /// Reports applications that broke the rules, with one notice for all since the previous one.
    pub fn report_new(&mut self, tally: Tally, notify: impl Fn(Notice)) {
        let count = tally.offences.saturating_sub(self.reported);
        if let (1.., Some(last)) = (count, tally.last_offence) {
            self.reported = tally.offences;
            notify(Notice::Offence { count, last });
        }
    }
}
