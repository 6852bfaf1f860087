//! A device that the dataplane and Linux share, and the addresses that each of them has.

use crate::error::PortError;
use crate::port::Facts;
use crate::port::facts;
use cofferdam_bpf::{RedirectCounts, RedirectLink, RedirectMode, RedirectPrograms};
use cofferdam_types::IfIndex;
use std::net::IpAddr;
use std::os::fd::BorrowedFd;

/// Place at which packets are taken off the device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// In the driver if it can, else in the stack.
    #[default]
    Best,
    /// In the driver only.
    Native,
    /// In the stack, for any device.
    Generic,
}

/// The redirecting program on one device. Dropping it detaches the program.
pub struct Device {
    facts: Facts,
    programs: RedirectPrograms,
    /// Keeps the program attached until it is dropped.
    _link: RedirectLink,
}

impl Device {
    /// Attaches to device `name` of the calling thread's network namespace. Every packet passes to
    /// Linux until addresses are claimed.
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

    /// Facts of the device.
    pub fn facts(&self) -> &Facts {
        &self.facts
    }

    /// Index of the device.
    pub fn index(&self) -> u32 {
        self.facts.index
    }

    /// Redirects every packet for `address`, ARP and neighbour solicitations included.
    pub fn claim(&self, address: IpAddr) -> Result<(), PortError> {
        self.programs.claim(address).map_err(|e| self.failed(e))
    }

    /// Redirects, of an address that Linux has, the ports from `first_port` to `last_port` (0 and 0
    /// for none) and those of [`Device::claim_port`].
    pub fn share(&self, address: IpAddr, first_port: u16, last_port: u16) -> Result<(), PortError> {
        let shared = self.programs.claim_range(address, first_port, last_port);
        shared.map_err(|e| self.failed(e))
    }

    /// Redirects a port of a shared address. `protocol` is 6 (TCP) or 17 (UDP).
    pub fn claim_port(&self, address: IpAddr, protocol: u8, port: u16) -> Result<(), PortError> {
        let claimed = self.programs.claim_port(address, protocol, port);
        claimed.map_err(|e| self.failed(e))
    }

    /// Leaves an address to Linux again.
    pub fn disclaim(&self, address: IpAddr) {
        self.programs.disclaim(address);
    }

    /// Leaves a port to Linux again.
    pub fn disclaim_port(&self, address: IpAddr, protocol: u8, port: u16) {
        self.programs.disclaim_port(address, protocol, port);
    }

    /// Packets by destination.
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
