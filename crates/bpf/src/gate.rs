//! A gate in front of a CPU's softirqs: packets sent while it is shut are handled as one batch.

use crate::load::LoadError;
use crate::reference::{self, GATE};
use crate::skeleton::{ReferenceSkel, reference_types::bss};
use cofferdam_affinity::run_on;
use cofferdam_types::CpuId;
use libbpf_rs::libbpf_sys;
use std::io;
use std::mem::size_of_val;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Longest wait of the thread at the gate for its CPU.
const REACH: Duration = Duration::from_secs(5);

/// Failure of the gate.
#[derive(Debug, thiserror::Error)]
pub enum GateError {
    /// The program was refused: `bpf_loop` needs Linux 5.17.
    #[error("cannot load the gate's program (it needs Linux 5.17): {0}")]
    Load(#[from] LoadError),
    /// A system call failed.
    #[error("cannot hold softirqs off on CPU {cpu}: {source}")]
    Hold {
        /// CPU of the gate.
        cpu: u32,
        /// Cause of the failure.
        source: io::Error,
    },
}

/// Holds softirqs off on one CPU while a batch is sent to it. Dropping it unloads the program.
pub struct Gate {
    cpu: u32,
    // First in drop order: the thread ends when its command channel closes.
    orders: Option<mpsc::Sender<()>>,
    answers: mpsc::Receiver<io::Result<()>>,
    keeper: Option<JoinHandle<()>>,
    skeleton: ReferenceSkel<'static>,
}

impl Gate {
    /// Loads the program and starts a thread on `cpu` that runs it on request.
    pub fn start(cpu: u32) -> Result<Gate, GateError> {
        let skeleton = reference::load(|name| name == GATE)?;
        let hold = |source| GateError::Hold { cpu, source };
        let program = skeleton.progs.gate_hold.as_fd();
        let program = program.try_clone_to_owned().map_err(hold)?;
        let (orders, inbox) = mpsc::channel::<()>();
        let (outbox, answers) = mpsc::channel();
        let keeper = std::thread::Builder::new()
            .name("cofferdam-gate".into())
            .spawn(move || {
                if outbox.send(run_on(CpuId(cpu))).is_err() {
                    return;
                }
                for () in inbox {
                    if outbox.send(hold_once(&program)).is_err() {
                        return;
                    }
                }
            })
            .map_err(hold)?;
        let gate = Gate {
            cpu,
            orders: Some(orders),
            answers,
            keeper: Some(keeper),
            skeleton,
        };
        gate.await_answer()?;
        Ok(gate)
    }

    /// Shuts the gate, runs `send`, opens the gate, and waits until the CPU has handled the
    /// packets. `None` if the gate gave up (after 20 ms) before `send` was done: then there was no
    /// single batch.
    ///
    /// Call it from another CPU.
    pub fn batch<T>(&mut self, send: impl FnOnce() -> T) -> Result<Option<T>, GateError> {
        let gave_up = self.timeouts().load(Ordering::Acquire);
        self.open().store(0, Ordering::Release);
        self.reached().store(0, Ordering::Release);
        let until = Instant::now() + REACH;
        if self.orders.as_ref().is_none_or(|o| o.send(()).is_err()) {
            return Err(self.hold_error("its thread has ended"));
        }
        while self.reached().load(Ordering::Acquire) == 0 {
            if Instant::now() > until {
                self.open().store(1, Ordering::Release);
                return Err(self.hold_error("the CPU did not run it for 5 s"));
            }
            std::hint::spin_loop();
        }
        let value = send();
        self.open().store(1, Ordering::Release);
        self.await_answer()?;
        Ok((self.timeouts().load(Ordering::Acquire) == gave_up).then_some(value))
    }

    fn await_answer(&self) -> Result<(), GateError> {
        let source = match self.answers.recv() {
            Ok(Ok(())) => return Ok(()),
            Ok(Err(source)) => source,
            Err(_) => io::Error::other("its thread has ended"),
        };
        Err(GateError::Hold {
            cpu: self.cpu,
            source,
        })
    }

    fn hold_error(&self, why: &str) -> GateError {
        GateError::Hold {
            cpu: self.cpu,
            source: io::Error::other(why.to_owned()),
        }
    }

    fn bss(&self) -> &bss {
        self.skeleton
            .maps
            .bss_data
            .as_deref()
            .expect("libbpf maps the program's variables at load")
    }

    fn open(&self) -> &AtomicU32 {
        shared_u32(&self.bss().gate_open)
    }

    fn reached(&self) -> &AtomicU32 {
        shared_u32(&self.bss().gate_reached)
    }

    fn timeouts(&self) -> &AtomicU64 {
        // SAFETY: an aligned word of a shared mapping that lives as long as self. Only the BPF
        // program writes it, and here it is accessed only by atomics.
        unsafe { AtomicU64::from_ptr((&raw const self.bss().gate_timeouts).cast_mut()) }
    }
}

fn shared_u32(word: &u32) -> &AtomicU32 {
    // SAFETY: as in `timeouts`: an aligned word of the mapping, accessed only by atomics.
    unsafe { AtomicU32::from_ptr(std::ptr::from_ref(word).cast_mut()) }
}

impl Drop for Gate {
    fn drop(&mut self) {
        self.open().store(1, Ordering::Release);
        self.orders = None;
        if let Some(keeper) = self.keeper.take() {
            // The thread panicked or ended; in both cases it no longer runs.
            let _ended = keeper.join();
        }
    }
}

/// Runs the program once on this thread's CPU; pending softirqs run before it returns.
fn hold_once(program: &OwnedFd) -> io::Result<()> {
    let packet = [0_u8; 64];
    let mut options = libbpf_sys::bpf_test_run_opts {
        data_in: packet.as_ptr().cast(),
        data_size_in: packet.len() as u32,
        repeat: 1,
        ..Default::default()
    };
    options.sz = size_of_val(&options) as libbpf_sys::size_t;
    // SAFETY: `options` has its own size and points to `packet`; both outlive the call.
    let status = unsafe { libbpf_sys::bpf_prog_test_run_opts(program.as_raw_fd(), &mut options) };
    match status {
        0 => Ok(()),
        errno => Err(io::Error::from_raw_os_error(-errno)),
    }
}
