//! What the dataplane and one application share, made by the dataplane: rings, the memory the
//! application sends from, the memory it receives in, and two bells.

use crate::ring::{ApplicationEnd, DataplaneEnd, ring_file, sealed_file};
use cofferdam_xsk::{Access, FrameFacts, Mapping, Memory};
use nix::sys::eventfd::{EfdFlags, EventFd};
use std::io;
use std::os::fd::{AsFd, OwnedFd};

/// Buffers for datagrams that came in fragments and fit no frame: of the dataplane, and of each
/// application that has frames of its own.
pub(crate) const SPANS: u32 = 16;

/// Sizes, told to the application with the descriptors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Sizes {
    /// Memory that the application sends from, bytes.
    pub area_bytes: u32,
    /// Memory that received data lies in, bytes.
    pub inbox_bytes: u64,
}

/// The dataplane's side.
pub(crate) struct Inside {
    pub end: DataplaneEnd,
    pub area: Mapping,
    /// The application's own frames; `None` when it reads the dataplane's.
    pub frames: Option<Memory>,
    /// Rung when the application sleeps.
    pub bell: EventFd,
    /// Rung by the application when the dataplane sleeps.
    pub door: EventFd,
}

/// The application's side, as descriptors that can be sent to it.
pub(crate) struct Outside {
    pub rings: OwnedFd,
    pub area: OwnedFd,
    pub inbox: OwnedFd,
    pub bell: EventFd,
    pub door: EventFd,
    pub sizes: Sizes,
}

/// Makes both sides. With `private_frames` received data is copied into that many frames of the
/// application's own; else it reads the dataplane's `memory`.
pub(crate) fn channel(
    shared: &FrameFacts,
    area_bytes: u32,
    private_frames: Option<u32>,
) -> io::Result<(Inside, Outside)> {
    let frames = private_frames
        .map(|count| Memory::with_spans(count, shared.frame_bytes, SPANS))
        .transpose()?;
    let (inbox, inbox_bytes) = match &frames {
        Some(own) => (own.file(), own.len_bytes()),
        None => (shared.file.as_fd(), shared.len_bytes()),
    };
    let rings = ring_file()?;
    let area = sealed_file("cofferdam-area", area_bytes as usize)?;
    let event = || EventFd::from_flags(EfdFlags::EFD_NONBLOCK | EfdFlags::EFD_CLOEXEC);
    let (bell, door) = (event()?, event()?);
    let dup = |event: &EventFd| -> io::Result<EventFd> {
        let copy = event.as_fd().try_clone_to_owned()?;
        // SAFETY: the descriptor is a copy of an eventfd's.
        Ok(unsafe { EventFd::from_owned_fd(copy) })
    };
    let outside = Outside {
        inbox: inbox.try_clone_to_owned()?,
        bell: dup(&bell)?,
        door: dup(&door)?,
        sizes: Sizes {
            area_bytes,
            inbox_bytes,
        },
        rings,
        area,
    };
    let inside = Inside {
        end: DataplaneEnd::map(outside.rings.as_fd())?,
        area: Mapping::new(outside.area.as_fd(), 0, area_bytes as usize, Access::Read)?,
        frames,
        bell,
        door,
    };
    Ok((inside, outside))
}

/// The application's side, mapped.
pub(crate) struct Mapped {
    pub end: ApplicationEnd,
    pub area: Mapping,
    pub inbox: Mapping,
    pub bell: EventFd,
    pub door: EventFd,
    pub sizes: Sizes,
}

impl Outside {
    /// Maps what was sent. Received data can be mapped only for reading.
    pub fn map(self) -> io::Result<Mapped> {
        let len = usize::try_from(self.sizes.inbox_bytes).map_err(io::Error::other)?;
        Ok(Mapped {
            end: ApplicationEnd::map(self.rings.as_fd())?,
            area: Mapping::new(
                self.area.as_fd(),
                0,
                self.sizes.area_bytes as usize,
                Access::Write,
            )?,
            inbox: Mapping::new(self.inbox.as_fd(), 0, len, Access::Read)?,
            bell: self.bell,
            door: self.door,
            sizes: self.sizes,
        })
    }
}
