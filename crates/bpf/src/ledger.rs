//! The ledger's memory, mapped: reading a row costs a few cache lines and no system call.

use crate::skeleton::types::cf_row;
use std::io;
use std::mem::size_of;
use std::os::fd::BorrowedFd;
use std::ptr::NonNull;

/// One row on one CPU. Nanoseconds, packets and bytes, cumulative since load.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(
    missing_docs,
    reason = "field names are those of struct cf_row, explained there"
)]
pub struct RowReading {
    pub rx_ns: u64,
    pub tx_ns: u64,
    pub hardirq_ns: u64,
    pub rx_packets: u64,
    pub rx_bytes: u64,
    pub tx_packets: u64,
    pub tx_bytes: u64,
    pub charged_network_ns: u64,
    pub charged_other_ns: u64,
}

/// Reads the rows of every CPU.
pub struct LedgerReader {
    rows: NonNull<cf_row>,
    rows_per_cpu: u32,
    cpus: u32,
}

impl LedgerReader {
    /// Maps the ledger of `fd` for reading.
    pub(crate) fn map(fd: BorrowedFd<'_>, rows_per_cpu: u32, cpus: u32) -> io::Result<Self> {
        use std::os::fd::AsRawFd;
        let bytes = Self::bytes(rows_per_cpu, cpus);
        // SAFETY: a fresh shared read-only mapping of a BPF array of at least `bytes` bytes
        // (checked by the kernel); no existing memory is touched.
        let address = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                bytes,
                libc::PROT_READ,
                libc::MAP_SHARED,
                fd.as_raw_fd(),
                0,
            )
        };
        if address == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let rows = NonNull::new(address.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(LedgerReader {
            rows,
            rows_per_cpu,
            cpus,
        })
    }

    fn bytes(rows_per_cpu: u32, cpus: u32) -> usize {
        rows_per_cpu as usize * cpus as usize * size_of::<cf_row>()
    }

    /// Row `row` as CPU `cpu` has counted it. Out of range reads as zero.
    pub fn read(&self, cpu: u32, row: u32) -> RowReading {
        if cpu >= self.cpus || row >= self.rows_per_cpu {
            return RowReading::default();
        }
        let index = (cpu * self.rows_per_cpu + row) as usize;
        // SAFETY: `index` is inside the mapping (checked above), which lives as long as self
        // and is aligned to a page. The kernel writes it meanwhile, hence volatile; each
        // field is an aligned u64 and cannot tear on 64-bit machines.
        RowReading::of(&unsafe { self.rows.as_ptr().add(index).read_volatile() })
    }
}

impl RowReading {
    /// Of a row as the programs write it.
    pub fn of(row: &cf_row) -> RowReading {
        RowReading {
            rx_ns: row.rx_ns,
            tx_ns: row.tx_ns,
            hardirq_ns: row.hardirq_ns,
            rx_packets: row.rx_packets,
            rx_bytes: row.rx_bytes,
            tx_packets: row.tx_packets,
            tx_bytes: row.tx_bytes,
            charged_network_ns: row.charged_network_ns,
            charged_other_ns: row.charged_other_ns,
        }
    }
}

impl Drop for LedgerReader {
    fn drop(&mut self) {
        let bytes = Self::bytes(self.rows_per_cpu, self.cpus);
        // SAFETY: exactly the mapping made in `map`; no reference into it outlives self.
        unsafe { libc::munmap(self.rows.as_ptr().cast(), bytes) };
    }
}
