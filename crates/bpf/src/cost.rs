//! Cost of the programs themselves, as the kernel measures it.

use libbpf_rs::{MapCore, MapType, Object, libbpf_sys};
use std::io;
use std::mem::size_of_val;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

/// Runs and time of one program since it was loaded.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct ProgramCost {
    /// Marker to which it is attached.
    pub name: String,
    /// Number of runs; 0 unless [`RuntimeStatistics`] are on.
    pub runs: u64,
    /// Total time of the runs, nanoseconds.
    pub run_time_ns: u64,
    /// Runs that the kernel skipped because the program was already running on that CPU.
    pub misses: u64,
    /// Bytes of machine code.
    pub code_bytes: u32,
}

pub(crate) fn read_cost(name: &str, program: BorrowedFd<'_>) -> io::Result<ProgramCost> {
    let mut info = libbpf_sys::bpf_prog_info::default();
    let mut length = size_of_val(&info) as u32;
    // SAFETY: `info` is a plain struct of `length` bytes, which the kernel fills in. All its
    // pointers are null, so nothing else is written.
    let status = unsafe {
        libbpf_sys::bpf_obj_get_info_by_fd(
            program.as_raw_fd(),
            (&raw mut info).cast(),
            &raw mut length,
        )
    };
    if status != 0 {
        return Err(io::Error::from_raw_os_error(-status));
    }
    Ok(ProgramCost {
        name: name.to_owned(),
        runs: info.run_cnt,
        run_time_ns: info.run_time_ns,
        misses: info.recursion_misses,
        code_bytes: info.jited_prog_len,
    })
}

/// Reads the cost of every loaded program of `object`.
pub(crate) fn program_costs(object: &Object) -> io::Result<Vec<ProgramCost>> {
    object
        .progs()
        .filter(|program| program.autoload())
        .map(|program| read_cost(&program.name().to_string_lossy(), program.as_fd()))
        .collect()
}

/// Returns the memory of all maps of `object`, bytes.
pub(crate) fn memory_bytes(object: &Object) -> u64 {
    let bytes = |map: libbpf_rs::Map<'_>| {
        let entry = u64::from(map.key_size()) + u64::from(map.value_size());
        // A preallocated hash element has a header of 48 bytes and a bucket of 16.
        let overhead = match map.map_type() {
            MapType::Hash => 64,
            _ => 0,
        };
        match map.map_type() {
            MapType::RingBuf => u64::from(map.max_entries()),
            _ => u64::from(map.max_entries()) * (entry + overhead),
        }
    };
    object.maps().map(bytes).sum()
}

/// Makes the kernel time every BPF program of the host, until dropped. Adds about 25 ns a run.
#[derive(Debug)]
pub struct RuntimeStatistics {
    _enabled: OwnedFd,
}

impl RuntimeStatistics {
    /// Switches the statistics on.
    pub fn enable() -> io::Result<RuntimeStatistics> {
        // SAFETY: takes no pointer; returns a new descriptor or a negative errno.
        let fd = unsafe { libbpf_sys::bpf_enable_stats(libbpf_sys::BPF_STATS_RUN_TIME) };
        if fd < 0 {
            return Err(io::Error::from_raw_os_error(-fd));
        }
        // SAFETY: `fd` is open, new, and owned by nothing else.
        let enabled = unsafe { OwnedFd::from_raw_fd(fd) };
        Ok(RuntimeStatistics { _enabled: enabled })
    }
}
