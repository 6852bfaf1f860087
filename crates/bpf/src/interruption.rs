//! Time of the softirqs and device interrupts that interrupt one thread: see `bpf/interruption`.

use crate::load::{LoadError, loading};
use crate::skeleton::{InterruptionSkel, InterruptionSkelBuilder};
use crate::support::failed;
use libbpf_rs::skel::{OpenSkel, Skel, SkelBuilder};
use libbpf_rs::{Link, OpenObject};
use std::io;
use std::mem::MaybeUninit;
use std::os::unix::fs::MetadataExt;
use std::time::Duration;

/// Interruptions of one thread, as tracepoints show them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SeenInterruptions {
    /// Time in softirqs of all kinds, and in device interrupts.
    pub time: Duration,
    /// Number of network softirqs, without any that directly followed another softirq.
    pub interruptions: u64,
}

/// Programs that are loaded once, and attached while a thread watches.
pub struct Interruptions {
    skeleton: InterruptionSkel<'static>,
}

impl Interruptions {
    /// Loads the programs; nothing is attached yet.
    ///
    /// [`LoadError`] if this kernel or this caller cannot load them.
    /// [`LoadError`] when this kernel or this caller cannot.
    pub fn load() -> Result<Interruptions, LoadError> {
        // The skeleton borrows this small block for its life; each load leaks one.
        let storage = Box::leak(Box::new(MaybeUninit::<OpenObject>::uninit()));
        let skeleton = loading("load the programs that time interruptions", || {
            InterruptionSkelBuilder::default().open(storage)?.load()
        })?;
        Ok(Interruptions { skeleton })
    }

    /// Runs `work`, which must stay on one CPU. `work` may ask at any time for the interruptions of
    /// the calling thread since its start.
    ///
    /// # Errors [`LoadError`] if the programs cannot be attached, or if `/proc` does not identify
    /// this thread.
    pub fn watch<T>(
        &mut self,
        work: impl FnOnce(&dyn Fn() -> SeenInterruptions) -> T,
    ) -> Result<T, LoadError> {
        let (thread, device, inode) = this_thread().map_err(LoadError::Map)?;
        let attach = |program: libbpf_rs::ProgramMut<'_>| program.attach();
        let programs = self.skeleton.object_mut().progs_mut();
        let links: Result<Vec<Link>, _> = programs.map(attach).collect();
        let _links = links.map_err(failed("attach the programs that time interruptions"))?;
        let Some(bss) = self.skeleton.maps.bss_data.as_deref_mut() else {
            return Ok(work(&SeenInterruptions::default));
        };
        (bss.namespace_device, bss.namespace_inode) = (device, inode);
        (bss.seen_ns, bss.interruptions) = (0, 0);
        (bss.softirq_start_ns, bss.hardirq_start_ns) = (0, 0);
        bss.softirq_end_ns = 0;
        bss.thread = thread;
        let counts = std::ptr::from_ref(bss);
        let done = work(&|| {
            // SAFETY: the mapping outlives this borrow of self. The programs write whole fields
            // there at the same time, so each is read by a volatile load of an aligned integer.
            let (ns, interruptions) = unsafe {
                (
                    (&raw const (*counts).seen_ns).read_volatile(),
                    (&raw const (*counts).interruptions).read_volatile(),
                )
            };
            SeenInterruptions {
                time: Duration::from_nanos(ns),
                interruptions,
            }
        });
        if let Some(bss) = self.skeleton.maps.bss_data.as_deref_mut() {
            bss.thread = 0;
        }
        Ok(done)
    }
}

/// Returns the kernel's identity of the calling thread: its id in its process namespace, and that
/// namespace's device (in the kernel's own encoding) and inode.
fn this_thread() -> io::Result<(u32, u64, u64)> {
    let namespace = std::fs::metadata("/proc/self/ns/pid")?;
    let device =
        (u64::from(libc::major(namespace.dev())) << 20) | u64::from(libc::minor(namespace.dev()));
    // SAFETY: gettid takes nothing and cannot fail.
    let thread = unsafe { libc::gettid() };
    Ok((thread.cast_unsigned(), device, namespace.ino()))
}
