//! What the softirqs and device interrupts take that interrupt one thread: see `bpf/interruption`.

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
    /// In softirqs of all kinds, and in device interrupts.
    pub time: Duration,
    /// Softirqs that received packets, those that followed another at once left out.
    pub interruptions: u64,
}

/// Loaded once, attached while a thread watches.
pub struct Interruptions {
    skeleton: InterruptionSkel<'static>,
}

impl Interruptions {
    /// Loads the programs; nothing is attached yet.
    ///
    /// # Errors
    /// [`LoadError`] when this kernel or this caller cannot.
    pub fn load() -> Result<Interruptions, LoadError> {
        // The skeleton borrows this small block for its life; it is leaked once a load.
        let storage = Box::leak(Box::new(MaybeUninit::<OpenObject>::uninit()));
        let skeleton = loading("load the programs that time interruptions", || {
            InterruptionSkelBuilder::default().open(storage)?.load()
        })?;
        Ok(Interruptions { skeleton })
    }

    /// Runs `work`, which must keep to one CPU, and tells it at any time what has interrupted the calling
    /// thread since it began.
    ///
    /// # Errors
    /// [`LoadError`] when the programs cannot be attached, or `/proc` does not tell which thread this is.
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
            // SAFETY: the mapping outlives this borrow of self; the programs write there meanwhile, whole
            // fields, so each is read by a volatile load of an aligned integer.
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

/// The calling thread as the kernel tells it to a program: its id in its process namespace, and that
/// namespace's device, in the kernel's own encoding, and inode.
fn this_thread() -> io::Result<(u32, u64, u64)> {
    let namespace = std::fs::metadata("/proc/self/ns/pid")?;
    let device =
        (u64::from(libc::major(namespace.dev())) << 20) | u64::from(libc::minor(namespace.dev()));
    // SAFETY: gettid takes nothing and cannot fail.
    let thread = unsafe { libc::gettid() };
    Ok((thread.cast_unsigned(), device, namespace.ino()))
}
