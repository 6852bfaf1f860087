//! Objects that the dataplane shares with one application: rings, the memory that the application
//! sends from, the memory that it receives in, and wake-ups in both directions.

use crate::bell::{BellEnd, Door, Doors, bell};
use crate::ring::{ApplicationEnd, DataplaneEnd, ring_file, sealed_file};
use crate::ringer::{Bell, Trust};
use crate::served::ServedNetwork;
use cofferdam_pkey::MemoryKind;
use cofferdam_xsk::{Access, FrameFacts, Mapping, Memory};
use nix::sys::eventfd::EventFd;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

/// Sizes and settings that the application gets with the descriptors.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Sizes {
    /// Bytes of the memory that the application sends from.
    pub area_bytes: u32,
    /// Bytes of the memory with received data.
    pub inbox_bytes: u64,
    /// Number of cores. Each has its own rings and door.
    pub cores: u32,
    /// Sends of all connections that may be unacknowledged at once. One more ends its connection.
    pub ranges: u32,
    /// Datagrams that may be pending at once. Further ones may find no place in the dataplane's
    /// table and are lost.
    pub datagrams: u32,
    /// Core of each flow group when the application attaches, as a hint for new connections; empty
    /// if unknown.
    #[serde(default)]
    pub owners: Vec<u8>,
    /// Addresses of the dataplane; empty if unknown.
    #[serde(default)]
    pub served: ServedNetwork,
    /// Whether the loop yields its CPU to an application that has events, because the two may share
    /// it.
    #[serde(default)]
    pub yields: bool,
    /// Key by which other processes attach as this application; empty if none may.
    #[serde(default)]
    pub key: String,
}

/// The dataplane's side.
pub(crate) struct Inside {
    pub end: DataplaneEnd,
    pub area: Arc<Mapping>,
    /// This core's part of the application's own frames; `None` if it reads the dataplane's frames.
    pub frames: Option<Memory>,
    /// Number of frames that received data may lie in.
    pub inbox_frames: u32,
    /// Rung to wake a sleeping application.
    pub bell: Arc<Bell>,
    /// Rung by the application to wake the dataplane, until it is dropped.
    pub _door: Door,
}

impl Inside {
    /// Frees, when the sides of all cores have ended, the memory that the application has touched,
    /// even if it keeps descriptors and mappings. This does not happen at the end of the dataplane,
    /// when applications still read.
    pub fn discard_at_end(&self) {
        self.end.discard_at_end();
        self.area.discard_at_end();
        if let Some(frames) = &self.frames {
            frames.discard_at_end();
        }
    }
}

/// The application's side, as descriptors to be sent to it.
pub(crate) struct Outside {
    /// Rings and door of each core.
    pub cores: Vec<(OwnedFd, EventFd)>,
    pub area: OwnedFd,
    pub inbox: OwnedFd,
    pub bell: BellEnd,
    pub sizes: Sizes,
}

/// Creates both sides. The dataplane has one for each core in `doors`. The application may have
/// `ranges` sends unacknowledged. No page is touched here, so that the application is charged for
/// its pages. With `private_frames`, received data is copied into that many frames of the
/// application; otherwise it reads the dataplane's memory.
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
            served: ServedNetwork::default(),
            yields: false,
            key: String::new(),
        },
        area,
    };
    let len = area_bytes as usize;
    let area = Mapping::lent(outside.area.as_fd(), len, Access::Read, MemoryKind::Private)?;
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
pub(crate) struct MappedChannel {
    /// Rings and door of each core.
    pub cores: Vec<(ApplicationEnd, EventFd)>,
    pub area: Mapping,
    pub inbox: Mapping,
    pub bell: BellEnd,
    pub sizes: Sizes,
}

impl MappedChannel {
    /// Rings of the first core.
    pub fn first(&mut self) -> &mut ApplicationEnd {
        &mut self.cores[0].0
    }
}

impl Outside {
    /// Maps the descriptors. Received data can be mapped only for reading.
    pub fn map(self) -> io::Result<MappedChannel> {
        let len = usize::try_from(self.sizes.inbox_bytes).map_err(io::Error::other)?;
        let cores = self.cores.into_iter();
        let cores: io::Result<Vec<(ApplicationEnd, EventFd)>> = cores
            .map(|(rings, door)| Ok((ApplicationEnd::map(rings.as_fd())?, door)))
            .collect();
        Ok(MappedChannel {
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
