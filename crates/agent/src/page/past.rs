//! Past of the agent's page, read from the agent's history.

use cofferdam_history::{Frame, Reader};
use cofferdam_records::accounting::AccountingRecord;
use cofferdam_web::{Past, PastError, Points, points};
use std::collections::HashMap;
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

/// Steps that are read at once: frames of many containers are large.
const STEPS_AT_ONCE: u32 = 32;
/// Limit on the frames that are read for those steps. The history picks a resolution that fits.
const FRAMES_AT_ONCE: usize = 128;
/// Limit on the container names that are remembered.
const MOST_NAMES: usize = 10_000;

/// History store that another thread writes; opened at the first request.
pub(super) struct StorePast {
    path: PathBuf,
    reader: Option<Reader>,
    names: HashMap<u64, String>,
}

impl StorePast {
    pub fn new(path: PathBuf) -> StorePast {
        StorePast {
            path,
            reader: None,
            names: HashMap::new(),
        }
    }

    fn reader(&mut self) -> Result<&mut Reader, PastError> {
        // Another store may have replaced it.
        if self
            .reader
            .take_if(|reader| !reader.is_in_place())
            .is_some()
        {
            self.names.clear();
        }
        match &mut self.reader {
            Some(reader) => Ok(reader),
            none => {
                let opened = Reader::open(&self.path);
                Ok(none.insert(opened.map_err(|e| PastError(e.to_string()))?))
            }
        }
    }
}

impl Past for StorePast {
    fn extent(&mut self) -> Result<Option<(SystemTime, SystemTime)>, PastError> {
        let extent = self.reader()?.extent();
        extent.map_err(|e| PastError(e.to_string()))
    }

    fn at(&mut self, at: SystemTime) -> Result<Option<AccountingRecord>, PastError> {
        let frame = self.reader()?.frame_at(at);
        let frame = frame.map_err(|e| PastError(e.to_string()))?;
        Ok(frame.map(|frame| frame.record))
    }

    fn visit(
        &mut self,
        from: SystemTime,
        to: SystemTime,
        step: Duration,
        visit: &mut dyn FnMut(Points<'_>),
    ) -> Result<(), PastError> {
        let mut begin = from;
        while begin < to {
            let end = (begin + step * STEPS_AT_ONCE).min(to);
            let frames = self.reader()?.frames(begin, end, FRAMES_AT_ONCE);
            for frame in frames.map_err(|e| PastError(e.to_string()))? {
                self.remember(&frame);
                visit(Points {
                    time: frame.end,
                    length: frame.length,
                    points: &points(&frame.record, None),
                });
            }
            begin = end;
        }
        Ok(())
    }

    fn name(&mut self, cgroup_id: u64) -> Option<String> {
        self.names.get(&cgroup_id).cloned()
    }
}

impl StorePast {
    fn remember(&mut self, frame: &Frame) {
        if self.names.len() > MOST_NAMES {
            self.names.clear();
        }
        for c in &frame.record.containers {
            let named = || c.name.clone();
            self.names.entry(c.cgroup_id).or_insert_with(named);
        }
    }
}
