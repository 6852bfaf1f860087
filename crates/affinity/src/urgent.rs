//! Priority over the other threads of a cgroup, for a while.

use rustix::process::{getpriority_process, setpriority_process};

/// Niceness of the most urgent ordinary threads, `nice(2)`.
const FIRST: i32 = -20;

/// Priority of the calling thread over all others of its cgroup, with the weight of nice -20, until
/// this is dropped. It is for work that is short, rare, and wanted most when the CPUs are full: at
/// the usual priority such work waits behind every spinning thread each time it sleeps.
///
/// Threads that it starts meanwhile inherit the priority and keep it. Without CAP_SYS_NICE the
/// priority stays as it is, and the work only takes longer.
#[derive(Debug)]
pub struct Urgent {
    /// Niceness before, from -20 to 19.
    before: i32,
}

impl Urgent {
    /// Raises the priority of the calling thread.
    #[must_use = "the thread is urgent until this is dropped"]
    pub fn begin() -> Urgent {
        // Reading one's own niceness cannot fail.
        let before = niceness().unwrap_or(0);
        let _ = setpriority_process(None, FIRST);
        Urgent { before }
    }
}

impl Drop for Urgent {
    fn drop(&mut self) {
        let _ = setpriority_process(None, self.before);
    }
}

/// Niceness of the calling thread, from -20 to 19.
fn niceness() -> rustix::io::Result<i32> {
    getpriority_process(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise 35.
    #[test]
    fn an_urgent_thread_gets_its_old_niceness_back() {
        std::thread::spawn(|| {
            let before = niceness();
            let outer = Urgent::begin();
            assert_eq!(niceness(), Ok(FIRST));
            drop(Urgent::begin());
            assert_eq!(niceness(), Ok(FIRST), "the outer one still counts");
            drop(outer);
            assert_eq!(niceness(), before);
        })
        .join()
        .unwrap();
    }
}
