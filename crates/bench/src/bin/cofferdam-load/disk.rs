//! Disk load: blocks of a real file at a given rate, by O_DIRECT or through the page cache.

use crate::Failure;
use crate::meter::Meter;
use crate::pace::Pace;
use crate::params::Params;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::thread::JoinHandle;
use std::time::Duration;

/// `O_DIRECT` of `<asm/fcntl.h>` on x86-64; other architectures have other numbers.
#[cfg(target_arch = "x86_64")]
const O_DIRECT: i32 = 0o40000;
#[cfg(not(target_arch = "x86_64"))]
const O_DIRECT: i32 = 0o200_000;
/// Bytes of one operation, and their alignment: a page, and a multiple of every sector size.
const BLOCK: usize = 4096;
/// Write operations between two fsyncs of a buffered load: durable, as a log is.
const SYNC_EVERY: u64 = 32;

/// `path=P size=BYTES iops=R write_pct=W direct=0|1 threads=N`.
pub struct Disk {
    file: Arc<File>,
    blocks: u64,
    iops: f64,
    write_pct: u64,
    direct: bool,
    threads: u32,
}

impl Disk {
    /// Opens the file. Writes it first, block by block, unless it exists with this size.
    pub fn prepare(mut params: Params) -> Result<Disk, Failure> {
        let path: String = params.need("path")?;
        let size: u64 = params.need("size")?;
        let iops = params.need("iops")?;
        let write_pct = params.need("write_pct")?;
        let direct = params.need::<u8>("direct")? != 0;
        let threads = params.need("threads")?;
        params.finish()?;
        let blocks = size / BLOCK as u64;
        if blocks == 0 {
            return Err(format!("size={size} is less than a block of {BLOCK}"));
        }
        fill(&path, blocks).map_err(|e| format!("cannot write {path}: {e}"))?;
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .custom_flags(if direct { O_DIRECT } else { 0 })
            .open(&path)
            .map_err(|e| match direct {
                true => format!("cannot open {path} with O_DIRECT: {e}"),
                false => format!("cannot open {path}: {e}"),
            })?;
        Ok(Disk {
            file: Arc::new(file),
            blocks,
            iops,
            write_pct,
            direct,
            threads,
        })
    }

    pub fn start(&self, meter: &Arc<Meter>) -> Vec<JoinHandle<()>> {
        let next = Arc::new(AtomicU64::new(0));
        (0..self.threads)
            .map(|_| {
                let worker = Worker {
                    file: self.file.clone(),
                    blocks: self.blocks,
                    pace: Pace::new(self.iops),
                    write_pct: self.write_pct,
                    direct: self.direct,
                    next: next.clone(),
                    meter: meter.clone(),
                };
                std::thread::spawn(move || worker.work())
            })
            .collect()
    }
}

fn fill(path: &str, blocks: u64) -> std::io::Result<()> {
    let size = blocks * BLOCK as u64;
    if std::fs::metadata(path).is_ok_and(|m| m.len() == size) {
        return Ok(());
    }
    let mut file = File::create(path)?;
    let mut block = vec![0_u8; BLOCK];
    for i in 0..blocks {
        block[..8].copy_from_slice(&i.to_ne_bytes());
        file.write_all(&block)?;
    }
    file.sync_all()
}

struct Worker {
    file: Arc<File>,
    blocks: u64,
    pace: Option<Pace>,
    write_pct: u64,
    direct: bool,
    /// Index of the next operation of all threads together.
    next: Arc<AtomicU64>,
    meter: Arc<Meter>,
}

impl Worker {
    fn work(&self) {
        // O_DIRECT needs an aligned buffer: a buffer of twice the size contains one.
        let mut space = vec![0_u8; 2 * BLOCK];
        let from = space.as_ptr().align_offset(BLOCK);
        let block = &mut space[from..from + BLOCK];
        while !self.meter.ended() {
            let index = self.next.fetch_add(1, Relaxed);
            let due = match self.pace {
                None => self.meter.elapsed(),
                Some(pace) => {
                    let first = pace.first_in_time(self.meter.elapsed());
                    if index < first {
                        let skipped = self.next.fetch_max(first, Relaxed);
                        self.meter.lose(1 + first.saturating_sub(skipped));
                        continue;
                    }
                    let due = pace.due(index);
                    if let Some(early) = due.checked_sub(self.meter.elapsed()) {
                        std::thread::sleep(early.min(Duration::from_secs(1)));
                    }
                    due
                }
            };
            if self.meter.ended() {
                return;
            }
            match self.operate(index, block) {
                Ok(()) => {
                    self.meter.count(1, BLOCK as u64);
                    self.meter.latency(self.meter.elapsed().saturating_sub(due));
                }
                Err(_) => self.meter.lose(1),
            }
        }
    }

    fn operate(&self, index: u64, block: &mut [u8]) -> std::io::Result<()> {
        let chance = scatter(index);
        let at = (chance >> 8) % self.blocks * BLOCK as u64;
        if chance % 100 >= self.write_pct {
            return self.file.read_exact_at(block, at);
        }
        block[..8].copy_from_slice(&index.to_ne_bytes());
        self.file.write_all_at(block, at)?;
        if !self.direct && index.is_multiple_of(SYNC_EVERY) {
            self.file.sync_data()?;
        }
        Ok(())
    }
}

/// Pseudo-random number of an index (SplitMix64): block and direction are the same in every run.
fn scatter(index: u64) -> u64 {
    let mut x = index.wrapping_add(0x9e37_79b9_7f4a_7c15);
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}
