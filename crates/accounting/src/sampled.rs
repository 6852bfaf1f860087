//! Accounting in windows: between them the programs that see packets are detached, and the ledger
//! is estimated. [`crate::estimate`] has the arithmetic, [`crate::windows`] the timing.

use crate::ReadError;
use crate::accountant::{Accountant, wait};
use crate::estimate::Estimate;
use crate::reading::read_pairs;
use crate::windows::{Notice, WindowOptions, Windows};
use cofferdam_bpf::{Markers, PairReading};
use cofferdam_types::{AccountingMode, Conservation, Interval, Snapshot};
use std::collections::BTreeMap;
use std::io;
use std::mem;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

/// Owner of the programs that see packets.
pub(crate) enum MarkerOwner {
    /// This process: they stay attached.
    Always(Markers),
    /// A thread attaches them in windows, or for as long as every packet must be counted.
    InWindows(Box<Sampler>),
    /// No owner, during the change between the others.
    Nothing,
}

pub(crate) struct Sampler {
    windows: Windows,
    estimate: Estimate,
    /// Counts of the last window, unscaled.
    seen: Option<Arc<Interval>>,
}

impl MarkerOwner {
    pub(crate) fn estimate(&self) -> Option<&Estimate> {
        match self {
            MarkerOwner::InWindows(sampler) => Some(&sampler.estimate),
            MarkerOwner::Always(_) | MarkerOwner::Nothing => None,
        }
    }

    /// Returns a descriptor that is readable when the thread has a notice.
    pub(crate) fn fd(&self) -> Option<BorrowedFd<'_>> {
        match self {
            MarkerOwner::InWindows(sampler) => Some(sampler.windows.fd()),
            MarkerOwner::Always(_) | MarkerOwner::Nothing => None,
        }
    }

    pub(crate) fn look_up_sockets(&mut self, wanted: bool) -> io::Result<()> {
        match self {
            MarkerOwner::Always(markers) => markers.look_up_sockets(wanted),
            MarkerOwner::InWindows(sampler) => {
                sampler.windows.look_up_sockets(wanted);
                Ok(())
            }
            MarkerOwner::Nothing => Ok(()),
        }
    }

    /// Returns the packets of pairs of rows, if the programs have counted `raw`.
    pub(crate) fn pairs(&self, raw: Vec<PairReading>) -> Vec<PairReading> {
        match self.estimate() {
            Some(estimate) => estimate.pairs(raw),
            None => raw,
        }
    }
}

impl Accountant {
    /// Allows the accounting to sample: see [`Accountant::set_exact`]. Everything is counted until
    /// then. Another call changes the windows.
    ///
    /// # Errors No thread or descriptor is available, or the programs cannot be read: everything is
    /// counted as before.
    pub fn sample(&mut self, options: WindowOptions) -> Result<(), ReadError> {
        if let MarkerOwner::InWindows(sampler) = &self.marker_owner {
            sampler.windows.set_options(options);
            return Ok(());
        }
        let raw = self.raw()?;
        let pairs = read_pairs(&self.programs)?;
        let failed = |e: io::Error| ReadError(format!("cannot take windows: {e}"));
        let prepared = Windows::prepare().map_err(failed)?;
        let MarkerOwner::Always(markers) =
            mem::replace(&mut self.marker_owner, MarkerOwner::Nothing)
        else {
            return Err(ReadError("the accounting has no programs".to_owned()));
        };
        let windows = prepared.start(markers, options);
        self.marker_owner = MarkerOwner::InWindows(Box::new(Sampler {
            windows,
            estimate: Estimate::new(raw, &pairs, Instant::now()),
            seen: None,
        }));
        Ok(())
    }

    /// Chooses between counting everything and counting in windows; takes effect within a few
    /// milliseconds. Without [`Accountant::sample`] it does nothing.
    ///
    /// # Errors
    /// The programs cannot be read.
    pub fn set_exact(&mut self, exact: bool) -> Result<(), ReadError> {
        if !matches!(self.marker_owner, MarkerOwner::InWindows(_)) {
            return Ok(());
        }
        if !exact && self.mode() == AccountingMode::Exact {
            // From here on the kernel counts softirqs that the programs are not meant to see.
            let softirqs = self.softirqs()?;
            self.hidden_softirqs.pause(softirqs);
        }
        if let MarkerOwner::InWindows(sampler) = &self.marker_owner {
            sampler.windows.set_exact(exact);
        }
        Ok(())
    }

    /// Counts everything, and waits until that takes effect. Returns false if it takes longer than
    /// `at_most`.
    ///
    /// # Errors
    /// The programs cannot be attached or read.
    pub fn become_exact(&mut self, at_most: Duration) -> Result<bool, ReadError> {
        self.set_exact(true)?;
        let until = Instant::now() + at_most;
        while self.mode() == AccountingMode::Sampled {
            let Some(fd) = self.marker_owner.fd() else {
                return Ok(true);
            };
            if !wait(until, fd)? {
                return Ok(false);
            }
            self.take_notices()?;
        }
        Ok(true)
    }

    /// Starts the next window now.
    pub fn look_now(&self) {
        if let MarkerOwner::InWindows(sampler) = &self.marker_owner {
            sampler.windows.look_now();
        }
    }

    /// Returns the current mode of the ledger.
    pub fn mode(&self) -> AccountingMode {
        let estimate = self.marker_owner.estimate();
        estimate.map_or(AccountingMode::Exact, Estimate::mode)
    }

    /// Returns the last window with its own counts, none of them estimated. `None` while everything
    /// is counted.
    pub fn window(&self) -> Option<Arc<Interval>> {
        match &self.marker_owner {
            MarkerOwner::InWindows(sampler) => sampler.seen.clone(),
            MarkerOwner::Always(_) | MarkerOwner::Nothing => None,
        }
    }

    /// Handles the notices of the thread. Returns whether there is something new to read.
    pub(crate) fn take_notices(&mut self) -> Result<bool, ReadError> {
        let mut news = false;
        while let MarkerOwner::InWindows(sampler) = &mut self.marker_owner {
            let Some(notice) = sampler.windows.notice() else {
                break;
            };
            news = true;
            let taken = self.take_notice(notice);
            if let MarkerOwner::InWindows(sampler) = &self.marker_owner {
                // The counts may continue, whether they could be read or not.
                sampler.windows.taken();
            }
            taken?;
        }
        Ok(news)
    }

    fn take_notice(&mut self, notice: Notice) -> Result<(), ReadError> {
        let raw = self.raw()?;
        let pairs = read_pairs(&self.programs)?;
        let MarkerOwner::InWindows(sampler) = &mut self.marker_owner else {
            return Ok(());
        };
        let estimate = &mut sampler.estimate;
        sampler.seen = None;
        match notice {
            Notice::Window { opened, closed } => {
                estimate.window(raw, &pairs, (opened, closed));
                let seen = self.seen().map(Arc::new);
                if let MarkerOwner::InWindows(sampler) = &mut self.marker_owner {
                    sampler.seen = seen;
                }
                self.read_usage();
            }
            Notice::Closed { closed } => {
                estimate.close(raw, &pairs, closed);
                self.read_usage();
            }
            Notice::Exact { opened } => {
                estimate.open(opened);
                let softirqs = self.softirqs()?;
                self.hidden_softirqs.resume(softirqs);
            }
            Notice::Failed(why) => {
                let text = format!("cannot attach the accounting programs: {why}");
                return Err(ReadError(text));
            }
        }
        Ok(())
    }

    /// Sets the base of containers that got a row to the estimate of that row.
    pub(crate) fn begin_rows(&mut self) {
        let fresh = self.identities.take_fresh();
        let MarkerOwner::InWindows(sampler) = &mut self.marker_owner else {
            return;
        };
        for cgroup in fresh {
            if let Some(slot) = self.identities.slot_mut(cgroup) {
                slot.base = sampler.estimate.begin_row(slot.row, &slot.base);
            }
        }
    }

    /// Returns the last window as an interval of its own.
    fn seen(&mut self) -> Option<Interval> {
        let (seen, length) = self.marker_owner.estimate()?.last_window()?;
        let returned = self.returned;
        let slots = self.identities.slots_mut();
        Some(Interval {
            time: SystemTime::now(),
            length,
            cpus: seen.times(),
            containers: slots.map(|slot| seen.difference(slot, returned)).collect(),
            unattributed_ns: BTreeMap::new(),
            health: cofferdam_types::Health::default(),
            conservation: Conservation {
                measured_ns: 0,
                attributed_ns: 0,
                worst_cpu_error_pct: 0.0,
            },
            sampling: None,
        })
    }

    /// Adds the end and the quality of the counts to `snapshot`, which was taken just now.
    pub(crate) fn date(&self, snapshot: &mut Snapshot) {
        let Some(estimate) = self.marker_owner.estimate() else {
            return;
        };
        let now = Instant::now();
        let behind = now.saturating_duration_since(estimate.covered(now));
        snapshot.time = snapshot.time.checked_sub(behind).unwrap_or(snapshot.time);
        snapshot.uptime = snapshot.uptime.saturating_sub(behind);
        let rows = self.identities.cgroups_of_rows();
        snapshot.sampling = Some(Arc::new(estimate.sampling(&rows)));
    }
}
