//! The measurement: programs, the containers they measure, and readers of the reports.

use crate::clock::Clock;
use crate::devices::Devices;
use crate::error::MeasureError;
use crate::sample::Sample;
use cofferdam_bpf::ProgramCost;
use cofferdam_bpf::latency::{
    Counts, Filter, LatencyPrograms, LatencySizes, ReportCounts, ReportRing, Start,
};
use cofferdam_host::hardware_timestamping;
use cofferdam_types::NetnsId;
use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, Instant};

/// Loaded measurement. Dropping it detaches every program and leaves nothing behind.
pub struct Meter {
    // Dropped first, so that they are detached before the programs go.
    devices: Option<Devices>,
    programs: LatencyPrograms,
    rows: BTreeMap<NetnsId, u32>,
    /// Free rows, the one free longest first: packets of the previous owner may still be in flight.
    free: VecDeque<u32>,
    /// First bucket of the next look.
    next_bucket: u32,
    tended: Instant,
    /// Host devices with hardware timestamps.
    stamping: Vec<String>,
}

/// Time without news of a packet after which its end will not be seen.
const UNSEEN: Duration = Duration::from_secs(2);
/// Such a time for a packet in a queue, which may be a shaped one.
const UNSEEN_QUEUED: Duration = Duration::from_secs(20);
/// Time between two looks of [`Meter::maintain`].
const TEND_EVERY: Duration = Duration::from_millis(250);
/// Number of buckets in one look: some 0.1 ms.
const TEND_BUCKETS: u32 = 4096;

impl Meter {
    /// Loads and attaches the programs; measures nothing yet.
    ///
    /// # Errors
    /// [`MeasureError::Unsupported`] if this host lacks something (the error names it and the
    /// remedy).
    pub fn load(sizes: LatencySizes, start: Start) -> Result<Meter, MeasureError> {
        Meter::load_with(sizes, start, hardware_timestamping())
    }

    /// Loads and attaches the programs, with these host devices for hardware timestamps.
    ///
    /// # Errors
    /// The errors of [`Meter::load`].
    pub fn load_with(
        sizes: LatencySizes,
        start: Start,
        stamping: Vec<String>,
    ) -> Result<Meter, MeasureError> {
        let programs = LatencyPrograms::load(sizes, start, !stamping.is_empty())?;
        Ok(Meter {
            devices: programs.hooks().map(Devices::new),
            free: (1..=programs.rows()).collect(),
            programs,
            rows: BTreeMap::new(),
            next_bucket: 0,
            tended: Instant::now(),
            stamping,
        })
    }

    /// Detaches the programs temporarily, or attaches them again: detached they cost nothing.
    /// Packets in flight at that moment count as missed (unseen).
    pub fn attach(&mut self, on: bool) -> Result<(), MeasureError> {
        match &mut self.devices {
            Some(devices) if on => devices.look().map_err(MeasureError::Look)?,
            Some(devices) => devices.detach(),
            None => {}
        }
        Ok(self.programs.attach(on)?)
    }

    /// Measures `netns` from now on, or changes its filter.
    pub fn on(&mut self, netns: NetnsId, filter: &Filter) -> Result<(), MeasureError> {
        let row = match self.rows.get(&netns) {
            Some(row) => *row,
            None => {
                let row = self.free.pop_front().ok_or(MeasureError::NoRow {
                    netns,
                    rows: self.programs.rows(),
                })?;
                self.rows.insert(netns, row);
                self.programs
                    .reset_counts(row)
                    .map_err(map_error("reset"))?;
                row
            }
        };
        let written = self.programs.set(netns, row, filter);
        written.map_err(map_error("written"))?;
        if let Some(devices) = &mut self.devices {
            let added = devices.add(netns);
            added.map_err(|source| {
                self.off(netns);
                MeasureError::Devices { netns, source }
            })?;
        }
        Ok(())
    }

    /// Stops measuring `netns` and forgets its counts; an unknown one is no error.
    pub fn off(&mut self, netns: NetnsId) {
        if let Some(row) = self.rows.remove(&netns) {
            self.programs.clear(netns, row);
            self.free.push_back(row);
        }
        if let Some(devices) = &mut self.devices {
            devices.remove(netns);
        }
    }

    /// Whether `netns` is measured.
    pub fn measures(&self, netns: NetnsId) -> bool {
        self.rows.contains_key(&netns)
    }

    /// Returns the counts of `netns`; zero if it is not measured.
    pub fn counts(&self, netns: NetnsId) -> Result<Counts, MeasureError> {
        match self.rows.get(&netns) {
            Some(row) => self.programs.counts(*row).map_err(map_error("read")),
            None => Ok(Counts::default()),
        }
    }

    /// Closes packets whose end was not seen (TCP frees some without a tracepoint), a part of the
    /// table per call, and follows the host's devices. Call it about as often as the reports are
    /// read.
    pub fn maintain(&mut self) -> Result<(), MeasureError> {
        if let Some(devices) = &mut self.devices {
            devices.maintain().map_err(MeasureError::Look)?;
        }
        if self.tended.elapsed() < TEND_EVERY {
            return Ok(());
        }
        self.tended = Instant::now();
        let count = TEND_BUCKETS.max(self.programs.buckets() / 8);
        let first = self.next_bucket;
        self.next_bucket = first.wrapping_add(count) % self.programs.buckets();
        self.programs
            .sweep(UNSEEN, UNSEEN_QUEUED, first, count)
            .map_err(map_error("swept"))
    }

    /// Closes every packet without news for `older`, at once.
    pub fn close_idle_packets(&self, older: Duration) -> Result<(), MeasureError> {
        self.programs
            .sweep(older, older, 0, self.programs.buckets())
            .map_err(map_error("swept"))
    }

    /// Makes a reader of all reports from now on.
    pub fn reader(&self) -> Result<Reader, MeasureError> {
        Ok(Reader {
            ring: self.programs.reports()?,
            counts: ReportCounts::default(),
        })
    }

    /// Returns the host's devices with hardware timestamps, as found at the start.
    pub fn hardware_timestamping(&self) -> &[String] {
        &self.stamping
    }

    /// Returns the first point of egress.
    pub fn start(&self) -> Start {
        self.programs.start()
    }

    /// Returns the memory of the BPF maps, bytes; fixed from the start.
    pub fn memory_bytes(&self) -> u64 {
        self.programs.memory_bytes()
    }

    /// Returns the cost of each program since the start.
    pub fn program_costs(&self) -> Result<Vec<ProgramCost>, MeasureError> {
        self.programs.program_costs().map_err(map_error("read"))
    }
}

fn map_error<E>(what: &'static str) -> impl FnOnce(E) -> MeasureError
where
    E: std::error::Error + Send + Sync + 'static,
{
    move |source| MeasureError::Map {
        what,
        source: Box::new(source),
    }
}

/// Reader of reports; it never delays the data path.
pub struct Reader {
    ring: ReportRing,
    counts: ReportCounts,
}

impl Reader {
    /// Passes every waiting report to `sink`, in the order of each CPU.
    pub fn take(&mut self, mut sink: impl FnMut(Sample)) {
        let clock = Clock::now();
        let counts = self.ring.take(|report| sink(Sample::new(report, &clock)));
        self.counts.reports += counts.reports;
        self.counts.lost += counts.lost;
        self.counts.rejected += counts.rejected;
    }

    /// Returns the reports that this reader has taken, missed and refused so far.
    pub fn totals(&self) -> ReportCounts {
        self.counts
    }
}
