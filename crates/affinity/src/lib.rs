//! CPU affinity and priority of threads: the only code that sets them.
//!
//! The crate depends neither on the loader of BPF programs nor on the readers of the host, so that
//! code that binds a thread needs neither.
#![forbid(unsafe_code)]

mod urgent;

pub use urgent::Urgent;

use cofferdam_types::CpuId;
use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::unistd::Pid;
use std::io;

/// Argument by which `sched_setaffinity(2)` and `sched_getaffinity(2)` mean the calling thread.
const THIS_THREAD: Pid = Pid::from_raw(0);

/// A set of CPUs that a thread may run on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Affinity(CpuSet);

impl Affinity {
    /// Set of the given CPUs, which need not exist.
    ///
    /// # Errors
    /// `EINVAL` for a number beyond the largest set, 1023.
    pub fn to(cpus: impl IntoIterator<Item = CpuId>) -> io::Result<Affinity> {
        let mut set = CpuSet::new();
        for cpu in cpus {
            set.set(cpu.0 as usize)?;
        }
        Ok(Affinity(set))
    }

    /// CPUs that the calling thread may run on now, without offline ones.
    ///
    /// # Errors
    /// On a machine with more CPUs than the largest set.
    pub fn of_this_thread() -> io::Result<Affinity> {
        Ok(Affinity(sched_getaffinity(THIS_THREAD)?))
    }

    /// This set without `cpu`.
    ///
    /// # Errors
    /// The errors of [`Affinity::to`].
    pub fn without(mut self, cpu: CpuId) -> io::Result<Affinity> {
        self.0.unset(cpu.0 as usize)?;
        Ok(self)
    }

    /// Binds the calling thread, and the threads and processes that it starts from now on.
    ///
    /// # Errors
    /// `EINVAL` when none of the CPUs is online and in the cpuset of the thread's cgroup.
    pub fn bind_this_thread(&self) -> io::Result<()> {
        Ok(sched_setaffinity(THIS_THREAD, &self.0)?)
    }

    /// Binds the thread `tid`.
    ///
    /// # Errors
    /// The errors of [`Affinity::bind_this_thread`]; `ESRCH` when the thread is gone, `EPERM` when
    /// it is another user's.
    pub fn bind_thread(&self, tid: u32) -> io::Result<()> {
        Ok(sched_setaffinity(
            Pid::from_raw(tid.cast_signed()),
            &self.0,
        )?)
    }
}

/// Binds the calling thread, and the threads and processes that it starts from now on, to one CPU.
///
/// # Errors
/// The errors of [`Affinity::bind_this_thread`].
pub fn run_on(cpu: CpuId) -> io::Result<()> {
    Affinity::to([cpu])?.bind_this_thread()
}

#[cfg(test)]
#[allow(
    clippy::unwrap_used,
    reason = "a thread that cannot be bound is a failed test"
)]
mod tests {
    use super::*;

    /// First CPU that this process may use.
    fn usable() -> CpuId {
        let all = Affinity::of_this_thread().unwrap();
        let has = |n: &u32| all.0.is_set(*n as usize).unwrap_or(false);
        CpuId((0..1024).find(has).unwrap())
    }

    #[test]
    fn a_thread_is_bound_and_released_again() {
        std::thread::spawn(|| {
            let before = Affinity::of_this_thread().unwrap();
            let cpu = usable();
            run_on(cpu).unwrap();
            let bound = Affinity::of_this_thread().unwrap();
            assert_eq!(bound, Affinity::to([cpu]).unwrap());
            // Binds a thread of this process by its number.
            let tid = nix::unistd::gettid().as_raw().cast_unsigned();
            before.bind_thread(tid).unwrap();
            assert_eq!(Affinity::of_this_thread().unwrap(), before);
        })
        .join()
        .unwrap();
    }

    #[test]
    fn an_impossible_set_is_refused() {
        let code = |e: io::Error| e.raw_os_error();
        let beyond = Affinity::to([CpuId(u32::MAX)]).unwrap_err();
        assert_eq!(code(beyond), Some(nix::errno::Errno::EINVAL as i32));
        let none = Affinity::to([usable()]).unwrap().without(usable()).unwrap();
        let refused = none.bind_this_thread().unwrap_err();
        assert_eq!(code(refused), Some(nix::errno::Errno::EINVAL as i32));
    }
}
