//! What the dataplane and one application share, made by the dataplane: rings, the memory the
//! application sends from, the memory it receives in, and what wakes either.

use crate::bell::{BellEnd, Door, Doors, bell};
use crate::ring::{ApplicationEnd, DataplaneEnd, ring_file, sealed_file};
use crate::ringer::{Bell, Trust};
use crate::served::Served;
use cofferdam_pkey::Kind;
use cofferdam_xsk::{Access, FrameFacts, Mapping, Memory};
use nix::sys::eventfd::EventFd;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

/// Sizes, which the application gets with the descriptors.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Sizes {
    /// Memory that the application sends from, bytes.
    pub area_bytes: u32,
    /// Memory that received data lies in, bytes.
    pub inbox_bytes: u64,
    /// Cores; each has rings and a door of its own.
    pub cores: u32,
    /// Sends that may be unacknowledged at once, of all its connections: one more ends its
    /// connection.
    pub ranges: u32,
    /// Datagrams that may be on their way to the device at once: more may find no place in the
    /// dataplane's table, and are lost.
    pub datagrams: u32,
    /// The core that has each flow group, when the application attaches; empty when that is
    /// unknown. Only a hint of where new connections do best.
    #[serde(default)]
    pub owners: Vec<u8>,
    /// The dataplane's addresses; empty when they are unknown.
    #[serde(default)]
    pub served: Served,
    /// The loop yields its CPU to an application that has events: the two may share it.
    #[serde(default)]
    pub yields: bool,
    /// What lets others attach as this application; empty for nobody.
    #[serde(default)]
    pub key: String,
}

/// The dataplane's side.
pub(crate) struct Inside {
    pub end: DataplaneEnd,
    pub area: Arc<Mapping>,
    /// The application's own frames, this core's part of them; `None` when it reads the
    /// dataplane's.
    pub frames: Option<Memory>,
    /// Frames that received data may lie in.
    pub inbox_frames: u32,
    /// Rung when the application sleeps.
    pub bell: Arc<Bell>,
    /// Rung by the application when the dataplane sleeps; until it is dropped.
    pub _door: Door,
}

impl Inside {
    /// What the application has touched is freed when all cores' sides have ended, though it may
    /// keep descriptors and mappings. (Not at the end of the dataplane: applications still read
    /// then.)
    pub fn discard_at_end(&self) {
        self.end.discard_at_end();
        self.area.discard_at_end();
        if let Some(frames) = &self.frames {
            frames.discard_at_end();
        }
    }
}

/// The application's side, as descriptors that can be sent to it.
pub(crate) struct Outside {
    /// Rings and door of each core.
    pub cores: Vec<(OwnedFd, EventFd)>,
    pub area: OwnedFd,
    pub inbox: OwnedFd,
    pub bell: BellEnd,
    pub sizes: Sizes,
}

/// Makes both sides, the dataplane's once a core, each of which has `doors`. The application
/// learns of `ranges`. No page is touched here: the application is charged for what it touches.
/// With `private_frames` received data is copied into that many frames of the application's own;
/// else it reads the dataplane's `memory`.
pub(crate) fn channel(
    shared: &FrameFacts,
    area_bytes: u32,
    private_frames: Option<u32>,
    ranges: u32,
    doors: &[Arc<Doors>],
    trust: Arc<Trust>,
) -> io::Result<(Vec<Inside>, Outside)> {
    let frames = private_frames
        .map(|count| Memory::lent(count, shared.frame_bytes, shared.spans))
        .transpose()?;
    let (inbox, inbox_bytes) = match &frames {
        Some(own) => (own.file(), own.len_bytes()),
        None => (shared.file.as_fd(), shared.len_bytes()),
    };
    let inbox_frames = frames.as_ref().map_or(shared.frames, Memory::numbers);
    let area = sealed_file("cofferdam-area", area_bytes as usize)?;
    let (bell, bell_end) = bell(trust)?;
    let bell = Arc::new(bell);
    let cores = doors.len();
    let mut outside = Outside {
        inbox: inbox.try_clone_to_owned()?,
        bell: bell_end,
        cores: Vec::with_capacity(cores),
        sizes: Sizes {
            area_bytes,
            inbox_bytes,
            cores: cores as u32,
            ranges,
            datagrams: 0,
            owners: Vec::new(),
            served: Served::default(),
            yields: false,
            key: String::new(),
        },
        area,
    };
    let len = area_bytes as usize;
    let area = Mapping::lent(outside.area.as_fd(), len, Access::Read, Kind::Private)?;
    let area = Arc::new(area);
    let mut parts = frames.map(|frames| frames.split(cores as u32).into_iter());
    let mut inside = Vec::with_capacity(cores);
    for doors in doors {
        let (rings, (door, theirs)) = (ring_file()?, doors.door()?);
        inside.push(Inside {
            end: DataplaneEnd::map(rings.as_fd())?,
            area: area.clone(),
            frames: parts.as_mut().and_then(Iterator::next),
            inbox_frames,
            bell: bell.clone(),
            _door: door,
        });
        outside.cores.push((rings, theirs));
    }
    Ok((inside, outside))
}

/// The application's side, mapped.
pub(crate) struct Mapped {
    /// Rings and door of each core.
    pub cores: Vec<(ApplicationEnd, EventFd)>,
    pub area: Mapping,
    pub inbox: Mapping,
    pub bell: BellEnd,
    pub sizes: Sizes,
}

impl Mapped {
    /// The rings of the first core.
    pub fn first(&mut self) -> &mut ApplicationEnd {
        &mut self.cores[0].0
    }
}

impl Outside {
    /// Maps what was sent. Received data can be mapped only for reading.
    pub fn map(self) -> io::Result<Mapped> {
        let len = usize::try_from(self.sizes.inbox_bytes).map_err(io::Error::other)?;
        let cores = self.cores.into_iter();
        let cores: io::Result<Vec<(ApplicationEnd, EventFd)>> = cores
            .map(|(rings, door)| Ok((ApplicationEnd::map(rings.as_fd())?, door)))
            .collect();
        Ok(Mapped {
            cores: cores?,
            area: Mapping::new(
                self.area.as_fd(),
                0,
                self.sizes.area_bytes as usize,
                Access::Write,
            )?,
            inbox: Mapping::new(self.inbox.as_fd(), 0, len, Access::Read)?,
            bell: self.bell,
            sizes: self.sizes,
        })
    }
}
