//! The accounting in windows: between them the programs that see packets are detached, and the ledger is
//! estimated. See [`crate::estimate`] for how, [`crate::windows`] for when.

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

/// The programs that see packets, and who attaches them.
pub(crate) enum Watching {
    /// They are attached, for good.
    Always(Markers),
    /// A thread attaches them in windows, or for as long as everything shall be counted.
    InWindows(Box<InWindows>),
    /// In between.
    Nothing,
}

pub(crate) struct InWindows {
    windows: Windows,
    estimate: Estimate,
    /// The last window as it was seen.
    seen: Option<Arc<Interval>>,
}

impl Watching {
    pub(crate) fn estimate(&self) -> Option<&Estimate> {
        match self {
            Watching::InWindows(inside) => Some(&inside.estimate),
            Watching::Always(_) | Watching::Nothing => None,
        }
    }

    /// Readable when the thread has something to say.
    pub(crate) fn fd(&self) -> Option<BorrowedFd<'_>> {
        match self {
            Watching::InWindows(inside) => Some(inside.windows.fd()),
            Watching::Always(_) | Watching::Nothing => None,
        }
    }

    pub(crate) fn ask_sockets(&mut self, wanted: bool) -> io::Result<()> {
        match self {
            Watching::Always(markers) => markers.ask_sockets(wanted),
            Watching::InWindows(inside) => {
                inside.windows.ask_sockets(wanted);
                Ok(())
            }
            Watching::Nothing => Ok(()),
        }
    }

    /// Packets of pairs of rows, where the programs have counted `raw`.
    pub(crate) fn pairs(&self, raw: Vec<PairReading>) -> Vec<PairReading> {
        match self.estimate() {
            Some(estimate) => estimate.pairs(raw),
            None => raw,
        }
    }
}

impl Accountant {
    /// From now on the accounting can sample: see [`Accountant::set_exact`]. Everything is counted until
    /// then. Called again it changes the windows.
    ///
    /// # Errors
    /// No thread or descriptor is to be had, or the programs cannot be read: everything is counted as before.
    pub fn sample(&mut self, options: WindowOptions) -> Result<(), ReadError> {
        if let Watching::InWindows(inside) = &self.watching {
            inside.windows.set_options(options);
            return Ok(());
        }
        let raw = self.raw()?;
        let pairs = read_pairs(&self.programs)?;
        let failed = |e: io::Error| ReadError(format!("cannot take windows: {e}"));
        let prepared = Windows::prepare().map_err(failed)?;
        let Watching::Always(markers) = mem::replace(&mut self.watching, Watching::Nothing) else {
            return Err(ReadError("the accounting has no programs".to_owned()));
        };
        let windows = prepared.start(markers, options);
        self.watching = Watching::InWindows(Box::new(InWindows {
            windows,
            estimate: Estimate::new(raw, &pairs, Instant::now()),
            seen: None,
        }));
        Ok(())
    }

    /// Has everything counted, or what windows see alone; takes effect within a few milliseconds. Nothing
    /// without [`Accountant::sample`].
    ///
    /// # Errors
    /// The programs cannot be read.
    pub fn set_exact(&mut self, exact: bool) -> Result<(), ReadError> {
        if !matches!(self.watching, Watching::InWindows(_)) {
            return Ok(());
        }
        if !exact && self.mode() == AccountingMode::Exact {
            // From here on the kernel counts softirqs that nobody is to see.
            let softirqs = self.softirqs()?;
            self.unseen.pause(softirqs);
        }
        if let Watching::InWindows(inside) = &self.watching {
            inside.windows.set_exact(exact);
        }
        Ok(())
    }

    /// As [`Accountant::set_exact`], and waits for it, `at_most` so long. False when it takes longer.
    ///
    /// # Errors
    /// The programs cannot be attached or read.
    pub fn become_exact(&mut self, at_most: Duration) -> Result<bool, ReadError> {
        self.set_exact(true)?;
        let until = Instant::now() + at_most;
        while self.mode() == AccountingMode::Sampled {
            let Some(fd) = self.watching.fd() else {
                return Ok(true);
            };
            if !wait(until, fd)? {
                return Ok(false);
            }
            self.take_notices()?;
        }
        Ok(true)
    }

    /// Has the next window begin now.
    pub fn look_now(&self) {
        if let Watching::InWindows(inside) = &self.watching {
            inside.windows.look_now();
        }
    }

    /// How the ledger is kept now.
    pub fn mode(&self) -> AccountingMode {
        let estimate = self.watching.estimate();
        estimate.map_or(AccountingMode::Exact, Estimate::mode)
    }

    /// The last window, as it was seen: nothing of it is an estimate. `None` while everything is counted.
    pub fn window(&self) -> Option<Arc<Interval>> {
        match &self.watching {
            Watching::InWindows(inside) => inside.seen.clone(),
            Watching::Always(_) | Watching::Nothing => None,
        }
    }

    /// Deals with what the thread has told. True when there is something new to read.
    pub(crate) fn take_notices(&mut self) -> Result<bool, ReadError> {
        let mut news = false;
        while let Watching::InWindows(inside) = &mut self.watching {
            let Some(notice) = inside.windows.notice() else {
                break;
            };
            news = true;
            let taken = self.take_notice(notice);
            if let Watching::InWindows(inside) = &self.watching {
                // The counts may go on, whether they could be read or not.
                inside.windows.taken();
            }
            taken?;
        }
        Ok(news)
    }

    fn take_notice(&mut self, notice: Notice) -> Result<(), ReadError> {
        let raw = self.raw()?;
        let pairs = read_pairs(&self.programs)?;
        let Watching::InWindows(inside) = &mut self.watching else {
            return Ok(());
        };
        let estimate = &mut inside.estimate;
        inside.seen = None;
        match notice {
            Notice::Window { opened, closed } => {
                estimate.window(raw, &pairs, (opened, closed));
                let seen = self.seen().map(Arc::new);
                if let Watching::InWindows(inside) = &mut self.watching {
                    inside.seen = seen;
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
                self.unseen.resume(softirqs);
            }
            Notice::Failed(why) => {
                let text = format!("cannot attach the accounting programs: {why}");
                return Err(ReadError(text));
            }
        }
        Ok(())
    }

    /// Containers that got a row count from the estimate of it.
    pub(crate) fn begin_rows(&mut self) {
        let fresh = self.identities.take_fresh();
        let Watching::InWindows(inside) = &mut self.watching else {
            return;
        };
        for cgroup in fresh {
            if let Some(slot) = self.identities.slot_mut(cgroup) {
                slot.base = inside.estimate.begin_row(slot.row, &slot.base);
            }
        }
    }

    /// The last window as an interval of its own.
    fn seen(&mut self) -> Option<Interval> {
        let (seen, length) = self.watching.estimate()?.last_window()?;
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

    /// Says until when the counts of `snapshot`, taken just now, hold, and how well.
    pub(crate) fn date(&self, snapshot: &mut Snapshot) {
        let Some(estimate) = self.watching.estimate() else {
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
