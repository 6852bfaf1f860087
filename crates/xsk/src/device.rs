//! A device that the dataplane and Linux share, and which of its packets are whose.

use crate::error::PortError;
use crate::port::Facts;
use crate::port::facts;
use cofferdam_bpf::{RedirectCounts, RedirectLink, RedirectMode, RedirectPrograms};
use cofferdam_types::IfIndex;
use std::net::IpAddr;
use std::os::fd::BorrowedFd;

/// Where packets are taken off the device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// In the driver where it can, else in the stack.
    #[default]
    Best,
    /// In the driver or not at all.
    Native,
    /// In the stack: any device.
    Generic,
}

/// The redirecting program on one device; it goes when this is dropped.
pub struct Device {
    facts: Facts,
    programs: RedirectPrograms,
    /// Attached until it is dropped.
    _link: RedirectLink,
}

impl Device {
    /// Attaches to device `name` of the calling thread's network namespace. Until addresses
    /// are claimed every packet passes to Linux.
    pub fn open(name: &str, mode: Mode) -> Result<Device, PortError> {
        let facts = facts(name)?;
        let index = IfIndex(facts.index);
        let programs = RedirectPrograms::load().map_err(|source| PortError::Load {
            device: name.to_owned(),
            source,
        })?;
        let attach = |mode| {
            let link = programs.attach(index, mode);
            link.map_err(|e| PortError::os("cannot attach the redirecting program", name, e))
        };
        let link = match mode {
            Mode::Native => attach(RedirectMode::Native)?,
            Mode::Generic => attach(RedirectMode::Generic)?,
            Mode::Best => match attach(RedirectMode::Native) {
                Ok(link) => link,
                Err(PortError::Busy(name)) => return Err(PortError::Busy(name)),
                Err(_) => attach(RedirectMode::Generic)?,
            },
        };
        Ok(Device {
            facts,
            programs,
            _link: link,
        })
    }

    /// What it is.
    pub fn facts(&self) -> &Facts {
        &self.facts
    }

    /// Its index.
    pub fn index(&self) -> u32 {
        self.facts.index
    }

    /// Everything for `address` is the dataplane's: ARP and neighbour solicitations too.
    pub fn claim(&self, address: IpAddr) -> Result<(), PortError> {
        self.programs.claim(address).map_err(|e| self.failed(e))
    }

    /// Of an address that Linux has, the ports from `first_port` to `last_port` (0 and 0 for
    /// none) and those of [`Device::claim_port`] are the dataplane's.
    pub fn share(&self, address: IpAddr, first_port: u16, last_port: u16) -> Result<(), PortError> {
        let shared = self.programs.share(address, first_port, last_port);
        shared.map_err(|e| self.failed(e))
    }

    /// A port of a shared address is the dataplane's; `protocol` is 6 (TCP) or 17 (UDP).
    pub fn claim_port(&self, address: IpAddr, protocol: u8, port: u16) -> Result<(), PortError> {
        let claimed = self.programs.claim_port(address, protocol, port);
        claimed.map_err(|e| self.failed(e))
    }

    /// Gives an address back to Linux.
    pub fn disclaim(&self, address: IpAddr) {
        self.programs.disclaim(address);
    }

    /// Gives a port back to Linux.
    pub fn disclaim_port(&self, address: IpAddr, protocol: u8, port: u16) {
        self.programs.disclaim_port(address, protocol, port);
    }

    /// How many packets went where.
    pub fn counts(&self) -> RedirectCounts {
        self.programs.counts()
    }

    pub(crate) fn set_socket(&self, queue: u32, socket: BorrowedFd<'_>) -> Result<(), PortError> {
        let set = self.programs.set_socket(queue, socket);
        set.map_err(|e| self.failed(e))
    }

    fn failed(&self, source: cofferdam_bpf::MapError) -> PortError {
        PortError::Program {
            device: self.facts.name.clone(),
            source,
        }
    }
}
