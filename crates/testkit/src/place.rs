//! Where code runs: a network namespace, a cgroup, a CPU.

use crate::cgroup::Cgroup;
use crate::must;
use crate::net::{Host, Namespace};
use cofferdam_lab::UndoStack;
use cofferdam_lab::place::{Spot, run_on};
use nix::sys::prctl::set_pdeathsig;
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::{ForkResult, Pid};
use std::io::{self, PipeWriter, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Something that code can be run inside of.
pub trait Place {
    /// The namespace and cgroup, opened.
    fn spot(&self) -> Spot;
}

impl Place for Host {
    fn spot(&self) -> Spot {
        Spot::default()
    }
}

impl Place for Namespace {
    fn spot(&self) -> Spot {
        open(Some(&self.path()), &[])
    }
}

/// In the cgroup, in the caller's network namespace: a host-network container.
impl Place for Cgroup {
    fn spot(&self) -> Spot {
        open(None, self.dirs())
    }
}

/// As [`Spot::open`]; panics when the host refuses.
#[track_caller]
pub(crate) fn open(netns: Option<&Path>, cgroups: &[PathBuf]) -> Spot {
    must(Spot::open(netns, cgroups))
}

/// Runs `body` in a child process inside `place`, pinned to `cpu`. Its return values come back
/// through [`Forked::finish`]. The child ends with the calling thread at the latest. `body` must
/// not print and must not take a lock that another thread of the test may hold.
#[track_caller]
pub fn fork(
    place: &dyn Place,
    cpu: Option<usize>,
    body: impl FnOnce(&mut Child) -> io::Result<Vec<u64>>,
) -> Forked {
    let spot = place.spot();
    let (reader, writer) = io::pipe().expect("a test process can open a pipe");
    // SAFETY: the child runs only `body` and then leaves by _exit. glibc makes malloc usable
    // in the child of a threaded process; std's sockets and files take no global lock; the
    // contract above forbids the others (stdio). A panic in `body` ends in _exit as well.
    match unsafe { nix::unistd::fork() } {
        Ok(ForkResult::Child) => {
            drop(reader);
            let mut child = Child { pipe: writer };
            let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                // A test that is killed takes its children along. The kernel sends the
                // signal when the forking thread ends, not the process.
                set_pdeathsig(Signal::SIGKILL)?;
                cpu.map_or(Ok(()), |cpu| run_on(&[cpu]))?;
                spot.enter().map_err(io::Error::other)?;
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
            let mut undo = UndoStack::default();
            undo.push(format!("process {child}"), move || {
                end(&ours);
                Ok::<_, String>(())
            });
            Forked {
                pid: child,
                state,
                reader,
                _undo: undo,
            }
        }
        Err(e) => panic!("cannot fork: {e}"),
    }
}

/// The child's side of [`fork`].
pub struct Child {
    pipe: PipeWriter,
}

impl Child {
    /// Tells the test that the child is ready, with one number (a port, say).
    pub fn ready(&mut self, value: u64) -> io::Result<()> {
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

/// A child process made by [`fork`]; killed and waited for when dropped.
pub struct Forked {
    pid: Pid,
    state: Arc<Mutex<Option<Pid>>>,
    reader: io::PipeReader,
    _undo: UndoStack,
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
