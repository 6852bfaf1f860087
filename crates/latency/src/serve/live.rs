//! The kernel's measurement behind the socket.

use super::spaces::{NotMeasured, Source};
use crate::error::MeasureError;
use crate::meter::{Meter, Reader};
use crate::sample::Sample;
use cofferdam_bpf::latency::{Counts, Filter, LatencySizes, Start};
use cofferdam_types::NetnsId;
use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::time::{Duration, Instant};

/// The kernel's measurement. It refuses the host's own namespace.
pub struct Live {
    meter: Meter,
    reader: Reader,
    host: NetnsId,
}

impl Live {
    /// Makes a source of `meter`.
    pub fn new(meter: Meter, host: NetnsId) -> Result<Live, MeasureError> {
        Ok(Live {
            reader: meter.reader()?,
            meter,
            host,
        })
    }
}

fn refuse_host(netns: NetnsId, host: NetnsId) -> Result<(), NotMeasured> {
    match netns == host {
        true => Err(NotMeasured::Host),
        false => Ok(()),
    }
}

impl Source for Live {
    fn on(&mut self, netns: NetnsId, filter: &Filter) -> Result<(), NotMeasured> {
        refuse_host(netns, self.host)?;
        self.meter.on(netns, filter).map_err(NotMeasured::NotNow)
    }

    fn off(&mut self, netns: NetnsId) {
        self.meter.off(netns);
    }

    fn take(&mut self, sink: &mut dyn FnMut(Sample)) {
        // A packet that cannot be closed now stays in the table until its place is needed.
        let _ = self.meter.maintain();
        self.reader.take(sink);
    }

    fn counts(&self, netns: NetnsId) -> Counts {
        self.meter.counts(netns).unwrap_or_default()
    }

    fn living(&self) -> BTreeSet<NetnsId> {
        living()
    }
}

fn living() -> BTreeSet<NetnsId> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let netns = |entry: fs::DirEntry| {
        let file = fs::metadata(entry.path().join("ns/net")).ok()?;
        u32::try_from(file.ino()).ok().map(NetnsId)
    };
    entries.filter_map(netns).collect()
}

/// Time without any measurement after which the programs are unloaded.
const UNLOAD_AFTER: Duration = Duration::from_secs(30);

/// Source that loads the programs when the first namespace measures, and unloads them some time
/// after the last: an unused service costs nothing per packet.
pub struct OnDemand {
    sizes: LatencySizes,
    start: Start,
    host: NetnsId,
    live: Option<Live>,
    on: BTreeSet<NetnsId>,
    idle: Instant,
}

impl OnDemand {
    /// Makes a source that has not loaded anything yet.
    pub fn new(sizes: LatencySizes, start: Start, host: NetnsId) -> OnDemand {
        OnDemand {
            sizes,
            start,
            host,
            live: None,
            on: BTreeSet::new(),
            idle: Instant::now(),
        }
    }

    fn live(&mut self) -> Result<&mut Live, MeasureError> {
        let live = match self.live.take() {
            Some(live) => live,
            None => Live::new(Meter::load(self.sizes, self.start)?, self.host)?,
        };
        Ok(self.live.insert(live))
    }
}

impl Source for OnDemand {
    fn on(&mut self, netns: NetnsId, filter: &Filter) -> Result<(), NotMeasured> {
        refuse_host(netns, self.host)?;
        self.live()
            .map_err(NotMeasured::NotNow)?
            .on(netns, filter)?;
        self.on.insert(netns);
        Ok(())
    }

    fn off(&mut self, netns: NetnsId) {
        if let Some(live) = &mut self.live {
            live.off(netns);
        }
        self.on.remove(&netns);
        self.idle = Instant::now();
    }

    fn take(&mut self, sink: &mut dyn FnMut(Sample)) {
        if let Some(live) = &mut self.live {
            live.take(sink);
        }
        if self.on.is_empty() && self.idle.elapsed() >= UNLOAD_AFTER {
            self.live = None;
        }
    }

    fn counts(&self, netns: NetnsId) -> Counts {
        let live = self.live.as_ref();
        live.map_or_else(Counts::default, |live| live.counts(netns))
    }

    fn living(&self) -> BTreeSet<NetnsId> {
        living()
    }
}
