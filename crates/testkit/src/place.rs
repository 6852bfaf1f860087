//! Where code runs: a network namespace, a cgroup, a CPU.

use crate::cgroup::Cgroup;
use crate::net::{Host, Namespace};
use crate::undo::Undo;
use nix::sched::{CloneFlags, CpuSet, sched_setaffinity, setns};
use nix::sys::prctl::set_pdeathsig;
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::{ForkResult, Pid, fork};
use std::fs::File;
use std::io::{PipeWriter, Read, Write};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Something that code can be run inside of.
pub trait Place {
    /// The namespace and cgroup, opened.
    fn spot(&self) -> Spot;
}

/// A namespace and a cgroup, held open.
#[derive(Default)]
pub struct Spot {
    /// Network namespace; `None` stays in the caller's.
    pub(crate) netns: Option<File>,
    /// `cgroup.procs` files, opened for writing.
    pub(crate) cgroups: Vec<File>,
}

impl Place for Host {
    fn spot(&self) -> Spot {
        Spot::default()
    }
}

impl Place for Namespace {
    fn spot(&self) -> Spot {
        let file = self
            .file()
            .try_clone()
            .expect("an open namespace can be opened again");
        Spot {
            netns: Some(file),
            cgroups: Vec::new(),
        }
    }
}

/// In the cgroup, in the caller's network namespace: a host-network container.
impl Place for Cgroup {
    fn spot(&self) -> Spot {
        Spot {
            netns: None,
            cgroups: self.procs_files(),
        }
    }
}

impl Spot {
    /// Moves the calling thread into the namespace, and its process into the cgroup.
    fn enter(&self) -> std::io::Result<()> {
        for mut procs in &self.cgroups {
            procs.write_all(b"0")?;
        }
        if let Some(netns) = &self.netns {
            setns(netns, CloneFlags::CLONE_NEWNET)?;
        }
        Ok(())
    }

    /// For `Command::pre_exec`: enters the spot between fork and exec.
    pub(crate) fn pre_exec(self, command: &mut std::process::Command) {
        use std::os::unix::process::CommandExt;
        // SAFETY: between fork and exec only write and setns are called on files that are open
        // already: system calls, no lock, no memory.
        unsafe {
            command.pre_exec(move || self.enter());
        }
    }

    /// Runs `body` in a child process inside the spot, pinned to `cpu`. Its return values come
    /// back through [`Forked::finish`]. The child ends with the calling thread at the latest. `body` must not print and must not take a lock that
    /// another thread of the test may hold.
    #[track_caller]
    pub fn fork(
        self,
        cpu: Option<usize>,
        body: impl FnOnce(&mut Child) -> std::io::Result<Vec<u64>>,
    ) -> Forked {
        let (reader, writer) = std::io::pipe().expect("a test process can open a pipe");
        // SAFETY: the child runs only `body` and then leaves by _exit. glibc makes malloc usable
        // in the child of a threaded process; std's sockets and files take no global lock; the
        // contract above forbids the others (stdio). A panic in `body` ends in _exit as well.
        match unsafe { fork() } {
            Ok(ForkResult::Child) => {
                drop(reader);
                let mut child = Child { pipe: writer };
                let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                    // A test that is killed takes its children along. The kernel sends the
                    // signal when the forking thread ends, not the process.
                    set_pdeathsig(Signal::SIGKILL)?;
                    pin(cpu)?;
                    self.enter()?;
                    body(&mut child)
                }));
                let code = match result {
                    Ok(Ok(values)) => child.send(b'v', &values),
                    Ok(Err(e)) => child.fail(&e.to_string()),
                    Err(_) => child.fail("it panicked"),
                };
                // SAFETY: _exit ends the process; no destructor of the parent's may run here.
                unsafe { libc::_exit(code) }
            }
            Ok(ForkResult::Parent { child }) => {
                drop(writer);
                let state = Arc::new(Mutex::new(Some(child)));
                let ours = state.clone();
                Forked {
                    pid: child,
                    state,
                    reader,
                    _undo: Undo::new(move || end(&ours)),
                }
            }
            Err(e) => panic!("cannot fork: {e}"),
        }
    }
}

/// Pins the calling thread to one CPU.
pub(crate) fn pin(cpu: Option<usize>) -> std::io::Result<()> {
    if let Some(cpu) = cpu {
        let mut set = CpuSet::new();
        set.set(cpu)?;
        sched_setaffinity(Pid::from_raw(0), &set)?;
    }
    Ok(())
}

/// The child's side of [`Spot::fork`].
pub struct Child {
    pipe: PipeWriter,
}

impl Child {
    /// Tells the test that the child is ready, with one number (a port, say).
    pub fn ready(&mut self, value: u64) -> std::io::Result<()> {
        self.pipe.write_all(b"r")?;
        self.pipe.write_all(&value.to_ne_bytes())
    }

    fn send(&mut self, tag: u8, values: &[u64]) -> i32 {
        // The count goes first: end of file may be late when another thread forked meanwhile
        // and its child holds the pipe as well.
        let mut bytes = vec![tag];
        bytes.extend((values.len() as u64).to_ne_bytes());
        bytes.extend(values.iter().flat_map(|v| v.to_ne_bytes()));
        i32::from(self.pipe.write_all(&bytes).is_err())
    }

    fn fail(&mut self, why: &str) -> i32 {
        let _ = self.pipe.write_all(b"e");
        let _ = self.pipe.write_all(why.as_bytes());
        1
    }
}

/// A child process made by [`Spot::fork`]; killed and waited for when dropped.
pub struct Forked {
    pid: Pid,
    state: Arc<Mutex<Option<Pid>>>,
    reader: std::io::PipeReader,
    _undo: Undo,
}

impl Forked {
    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.pid.as_raw().cast_unsigned()
    }

    /// Waits until the child calls [`Child::ready`]; the number it passed.
    #[track_caller]
    pub fn wait_ready(&mut self) -> u64 {
        let mut tag = [0];
        match self.reader.read_exact(&mut tag) {
            Ok(()) if tag[0] == b'r' => self.number(),
            Ok(()) if tag[0] == b'e' => panic!("the child failed: {}", self.rest_as_text()),
            _ => panic!("the child ended before it was ready"),
        }
    }

    /// Waits for the child's end; what it returned.
    #[track_caller]
    pub fn finish(mut self) -> Vec<u64> {
        let mut tag = [0];
        match self.reader.read_exact(&mut tag).map(|()| tag[0]) {
            Ok(b'v') => {}
            Ok(b'r') => {
                self.number();
                return self.finish();
            }
            Ok(_) => panic!("the child failed: {}", self.rest_as_text()),
            Err(_) => panic!("the child was killed before it returned anything"),
        }
        let count = self.number();
        (0..count).map(|_| self.number()).collect()
    }

    #[track_caller]
    fn number(&mut self) -> u64 {
        let mut bytes = [0; 8];
        self.reader
            .read_exact(&mut bytes)
            .expect("a number follows its tag");
        u64::from_ne_bytes(bytes)
    }

    fn rest_as_text(&mut self) -> String {
        let mut text = String::new();
        let _ = self.reader.read_to_string(&mut text);
        text
    }

    /// True until it has ended.
    pub fn is_alive(&self) -> bool {
        let mut state = lock(&self.state);
        let Some(pid) = *state else { return false };
        match waitpid(pid, Some(WaitPidFlag::WNOHANG)) {
            Ok(WaitStatus::StillAlive) => true,
            _ => {
                *state = None;
                false
            }
        }
    }
}

fn end(state: &Mutex<Option<Pid>>) {
    // Taken out under the lock: once waited for, the id may belong to a stranger.
    let mut state = lock(state);
    let Some(pid) = state.take() else { return };
    // SIGKILL cannot be caught, so the wait that follows ends.
    let _ = kill(pid, Signal::SIGKILL);
    while waitpid(pid, None) == Err(nix::errno::Errno::EINTR) {
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn lock(state: &Mutex<Option<Pid>>) -> std::sync::MutexGuard<'_, Option<Pid>> {
    state
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner)
}
