//! The programs that run with every packet, softirq or task switch, attached and detached as one.
//!
//! A detached program costs nothing: the kernel patches the tracepoint's call out of its code. So
//! the accounting can count in windows, and between them the host runs without it. A flag that each
//! program tests first would not be enough: near saturation the number of programs that a packet
//! passes decides.

use crate::link::tracepoint_open;
use crate::mapped::MappedWord;
use crate::skeleton::AccountingSkel;
use crate::skeleton::types::{cf_cpu, cf_mode, data};
use cofferdam_types::SOCKET_TRACEPOINTS;
use libbpf_rs::skel::Skel;
use libbpf_rs::{MapCore, MapFlags, MapHandle};
use std::ffi::CString;
use std::io;
use std::mem::{offset_of, size_of};
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

/// Programs that report containers that come and go: always attached, and rare.
const LIFECYCLE: [&str; 4] = [
    "cgroup_mkdir",
    "cgroup_rmdir",
    "cgroup_attach_task",
    "sched_process_exec",
];
/// Time between two looks at a CPU.
const LOOK: Duration = Duration::from_millis(1);
/// Raw tracepoints, whose name is needed to attach a program.
const RAW: [&str; 1] = [cofferdam_types::WAKE_TRACEPOINT];

/// Whether `program` is one of [`Markers`].
pub(crate) fn is_marker(program: &str) -> bool {
    !LIFECYCLE.contains(&program)
}

/// The programs, attached or not. Another thread than the reader of the counts may use it. Dropping
/// it detaches them.
pub struct Markers {
    markers: Vec<Marker>,
    window: MappedWord,
    cpus: MapHandle,
    attached: bool,
    /// Whether the markers are wanted that report a received packet's socket.
    sockets: bool,
}

struct Marker {
    name: String,
    program: OwnedFd,
    raw: Option<CString>,
    link: Option<OwnedFd>,
}

impl Markers {
    /// Takes the markers of a loaded skeleton; nothing is attached yet.
    pub(crate) fn of(skeleton: &AccountingSkel<'_>) -> io::Result<Markers> {
        let mut markers = Vec::new();
        for program in skeleton.object().progs() {
            let name = program.name().to_string_lossy().into_owned();
            // A program without autoload has no tracepoint on this kernel.
            if program.autoload() && is_marker(&name) {
                let raw = RAW.contains(&name.as_str());
                markers.push(Marker {
                    raw: raw.then(|| CString::new(name.as_str())).transpose()?,
                    program: program.as_fd().try_clone_to_owned()?,
                    name,
                    link: None,
                });
            }
        }
        let maps = &skeleton.maps;
        Ok(Markers {
            markers,
            window: MappedWord::map(maps.data.as_fd(), offset_of!(data, window_open))?,
            cpus: MapHandle::try_from(&maps.cpus).map_err(io::Error::other)?,
            attached: false,
            sockets: false,
        })
    }

    /// Attaches all wanted markers, unless they are attached. Takes about 1 ms, and may wait for a
    /// grace period of the kernel (tens of milliseconds) after a [`Markers::detach`].
    ///
    /// # Errors
    /// The kernel's; markers that were attached before stay attached.
    pub fn attach(&mut self) -> io::Result<()> {
        if !self.attached {
            self.clear_interrupted_work()?;
        }
        self.attached = true;
        self.update_attachments()
    }

    /// Detaches all. Call [`Markers::close`] and [`Markers::wait_idle`] before, so that no run is
    /// cut off.
    pub fn detach(&mut self) {
        self.attached = false;
        // Only attaching can fail.
        let _ = self.update_attachments();
    }

    /// Whether the markers are attached.
    pub fn is_attached(&self) -> bool {
        self.attached
    }

    /// Sets whether the markers are wanted that report a received packet's socket. They run once
    /// per packet, and are useful only if the device does not identify the owner. They are attached
    /// with the others.
    ///
    /// # Errors
    /// The kernel's.
    pub fn look_up_sockets(&mut self, wanted: bool) -> io::Result<()> {
        self.sockets = wanted;
        self.update_attachments()
    }

    /// Whether the markers of sockets are wanted.
    pub fn is_looking_up_sockets(&self) -> bool {
        self.sockets
    }

    /// Opens the window: work that begins from now on is measured.
    pub fn open(&self) {
        self.window.set(1);
    }

    /// Closes the window: only work that has already begun is measured, to its end.
    pub fn close(&self) {
        self.window.set(0);
    }

    /// Waits after [`Markers::close`] until no CPU has work that [`Markers::detach`] would cut off.
    /// Returns false if that takes longer than `at_most`.
    ///
    /// # Errors
    /// The map's.
    pub fn wait_idle(&self, at_most: Duration) -> io::Result<bool> {
        let until = Instant::now() + at_most;
        // An idle CPU stays idle while the window is closed.
        for cpu in 0..self.cpus.max_entries() {
            while !self.state(cpu)?.1.is_idle() {
                if Instant::now() >= until {
                    return Ok(false);
                }
                std::thread::sleep(LOOK);
            }
        }
        Ok(true)
    }

    fn update_attachments(&mut self) -> io::Result<()> {
        for marker in &mut self.markers {
            let is_socket = SOCKET_TRACEPOINTS.contains(&marker.name.as_str());
            if !self.attached || (is_socket && !self.sockets) {
                marker.link = None;
            } else if marker.link.is_none() {
                let link = tracepoint_open(marker.program.as_fd(), marker.raw.as_deref());
                let named =
                    |e: io::Error| io::Error::new(e.kind(), format!("{}: {e}", marker.name));
                marker.link = Some(link.map_err(named)?);
            }
        }
        Ok(())
    }

    /// Clears work that was cut off nevertheless (the hypervisor took the CPU, for example): it
    /// must not continue when the markers are attached again. No program runs now.
    fn clear_interrupted_work(&self) -> io::Result<()> {
        for cpu in 0..self.cpus.max_entries() {
            let (mut value, doing) = self.state(cpu)?;
            if !doing.is_idle() {
                doing.clear(&mut value);
                let updated = self.cpus.update(&cpu.to_ne_bytes(), &value, MapFlags::ANY);
                updated.map_err(io::Error::other)?;
            }
        }
        Ok(())
    }

    fn state(&self, cpu: u32) -> io::Result<(Vec<u8>, Doing)> {
        let value = self.cpus.lookup(&cpu.to_ne_bytes(), MapFlags::ANY);
        let value = value.map_err(io::Error::other)?.unwrap_or_default();
        let doing = Doing::of(&value).ok_or(io::ErrorKind::UnexpectedEof)?;
        Ok((value, doing))
    }
}

/// Fields of a CPU's state that show work in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Doing([u32; 4]);

/// Offsets of these fields.
const DOING: [usize; 4] = [
    offset_of!(cf_cpu, mode),
    offset_of!(cf_cpu, in_hardirq),
    offset_of!(cf_cpu, watch),
    offset_of!(cf_cpu, napi_thread),
];

impl Doing {
    fn of(value: &[u8]) -> Option<Doing> {
        const { assert!(cf_mode::CF_IDLE.0 == 0) };
        let mut fields = [0; 4];
        for (field, at) in fields.iter_mut().zip(DOING) {
            let bytes = value.get(at..at + size_of::<u32>())?;
            *field = u32::from_ne_bytes(bytes.try_into().ok()?);
        }
        Some(Doing(fields))
    }

    fn is_idle(self) -> bool {
        self == Doing([0; 4])
    }

    fn clear(self, value: &mut [u8]) {
        for at in DOING {
            value[at..at + size_of::<u32>()].fill(0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_busy_cpu_is_found_and_cleared() {
        let mut value = vec![0; size_of::<cf_cpu>()];
        assert!(Doing::of(&value).unwrap().is_idle());
        value[offset_of!(cf_cpu, packets)] = 7;
        for at in DOING {
            value[at] = 1;
            let doing = Doing::of(&value).unwrap();
            assert!(!doing.is_idle());
            doing.clear(&mut value);
            assert!(Doing::of(&value).unwrap().is_idle());
        }
        assert_eq!(value[offset_of!(cf_cpu, packets)], 7, "counts stay");
        assert_eq!(Doing::of(&value[..8]), None, "too short");
    }
}
