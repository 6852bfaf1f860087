//! Windows of measurement: a thread that attaches the programs which see packets, and detaches them.
//!
//! A thread of its own, because detaching may wait for the kernel (a grace period: 136 ms were seen), and
//! because a window must not last longer for a reader that is busy. The reader must have taken what a
//! window counted before the next one begins: [`Windows::taken`].

use cofferdam_bpf::Markers;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// What has begun in a window may go on so long after it: a softirq takes 2 ms, a NAPI poll less. What
/// takes longer (the hypervisor has the CPU) is cut off.
const SETTLES: Duration = Duration::from_millis(20);
/// Longer than a program runs.
const A_PROGRAM: Duration = Duration::from_millis(1);

/// When windows are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WindowOptions {
    /// Length of a window; default 50 ms.
    pub window: Duration,
    /// Time of which one window is taken, at a random place in it; default 1 s.
    pub period: Duration,
}

impl Default for WindowOptions {
    fn default() -> WindowOptions {
        WindowOptions {
            window: Duration::from_millis(50),
            period: Duration::from_secs(1),
        }
    }
}

/// What has happened.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Notice {
    /// A window has ended: the counts have what happened from `opened` to `closed`.
    Window { opened: Instant, closed: Instant },
    /// Everything is counted, from `opened` on.
    Exact { opened: Instant },
    /// Everything was counted until `closed`; windows follow.
    Closed { closed: Instant },
    /// The programs could not be attached; it is tried again.
    Failed(String),
}

/// The thread, from its reader's side. Dropping it detaches the programs.
pub(crate) struct Windows {
    shared: Arc<Shared>,
    notices: Receiver<Notice>,
    wake: UnixStream,
    thread: Option<JoinHandle<()>>,
}

struct Shared {
    orders: Mutex<Orders>,
    changed: Condvar,
}

/// What the thread shall do.
#[derive(Clone, Copy, Debug)]
struct Orders {
    options: WindowOptions,
    /// Everything shall be counted.
    exact: bool,
    /// A window shall begin now.
    look: bool,
    /// Sockets shall be asked.
    sockets: bool,
    /// Notices that the reader has dealt with.
    taken: u64,
    end: bool,
}

impl Shared {
    fn orders(&self) -> MutexGuard<'_, Orders> {
        self.orders.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Windows {
    /// A thread that waits for the programs.
    ///
    /// # Errors
    /// No thread or no descriptor is to be had.
    pub(crate) fn prepare() -> io::Result<Prepared> {
        let (wake, told) = UnixStream::pair()?;
        wake.set_nonblocking(true)?;
        told.set_nonblocking(true)?;
        let (hand_over, worker) = channel::<Worker>();
        let thread = std::thread::Builder::new()
            .name("cofferdam-windows".into())
            .spawn(move || worker.into_iter().for_each(Worker::run))?;
        Ok(Prepared {
            wake,
            told,
            hand_over,
            thread,
        })
    }

    fn order(&self, change: impl FnOnce(&mut Orders)) {
        change(&mut self.shared.orders());
        self.shared.changed.notify_all();
    }

    /// Has everything counted, or windows only.
    pub(crate) fn set_exact(&self, exact: bool) {
        self.order(|orders| orders.exact = exact);
    }

    /// Has the next window begin now.
    pub(crate) fn look_now(&self) {
        self.order(|orders| orders.look = true);
    }

    pub(crate) fn set_options(&self, options: WindowOptions) {
        self.order(|orders| orders.options = options);
    }

    /// Whether sockets are asked, from now on or from the next window on.
    pub(crate) fn ask_sockets(&self, wanted: bool) {
        self.order(|orders| orders.sockets = wanted);
    }

    /// Readable when there are notices.
    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.wake.as_fd()
    }

    /// The next notice, if there is one; [`Windows::taken`] must follow.
    pub(crate) fn notice(&mut self) -> Option<Notice> {
        let mut bytes = [0; 64];
        while matches!(self.wake.read(&mut bytes), Ok(n) if n == bytes.len()) {}
        self.notices.try_recv().ok()
    }

    /// A notice has been dealt with: the counts may go on.
    pub(crate) fn taken(&self) {
        self.order(|orders| orders.taken += 1);
    }
}

/// All that may fail has succeeded: see [`Windows::prepare`]. Dropping it ends the thread.
pub(crate) struct Prepared {
    wake: UnixStream,
    told: UnixStream,
    hand_over: Sender<Worker>,
    thread: JoinHandle<()>,
}

impl Prepared {
    /// Takes over `markers`, which are attached and open; everything is counted until
    /// [`Windows::set_exact`] says otherwise.
    pub(crate) fn start(self, markers: Markers, options: WindowOptions) -> Windows {
        let sockets = markers.asks_sockets();
        let (tell, notices) = channel();
        let shared = Arc::new(Shared {
            orders: Mutex::new(Orders {
                options,
                exact: true,
                look: false,
                sockets,
                taken: 0,
                end: false,
            }),
            changed: Condvar::new(),
        });
        // The thread waits for it.
        let _ = self.hand_over.send(Worker {
            markers,
            shared: shared.clone(),
            tell,
            wake: self.told,
            told: 0,
            sockets,
        });
        Windows {
            shared,
            notices,
            wake: self.wake,
            thread: Some(self.thread),
        }
    }
}

impl Drop for Windows {
    fn drop(&mut self) {
        self.order(|orders| orders.end = true);
        if let Some(thread) = self.thread.take() {
            // A panic of it has detached the programs as well.
            let _ = thread.join();
        }
    }
}

/// What ended a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Woken {
    /// The time is over.
    Time,
    /// The orders are as awaited.
    Order,
    /// The thread shall end.
    End,
}

struct Worker {
    markers: Markers,
    shared: Arc<Shared>,
    tell: Sender<Notice>,
    wake: UnixStream,
    /// Notices sent.
    told: u64,
    /// As the markers know it.
    sockets: bool,
}

impl Worker {
    fn run(mut self) {
        loop {
            if self.wait(None, |orders| !orders.exact) == Woken::End {
                return;
            }
            let closed = self.close();
            if self.tell(Notice::Closed { closed }) == Woken::End || !self.take_windows() {
                return;
            }
        }
    }

    /// Takes windows until everything shall be counted; false: the thread shall end.
    fn take_windows(&mut self) -> bool {
        let mut period_began = Instant::now();
        loop {
            let WindowOptions { window, period } = self.shared.orders().options;
            let room = period.saturating_sub(window);
            let begin = period_began + room.mul_f64(fastrand::f64());
            if self.wait(Some(begin), |orders| orders.exact || orders.look) == Woken::End {
                return false;
            }
            self.shared.orders().look = false;
            period_began = (period_began + period).max(Instant::now());
            if let Err(why) = self.markers.attach() {
                self.markers.detach();
                if self.tell(Notice::Failed(why.to_string())) == Woken::End {
                    return false;
                }
                continue;
            }
            self.markers.open();
            let opened = Instant::now();
            match self.wait(Some(opened + window), |orders| orders.exact) {
                Woken::End => return false,
                Woken::Order => return self.tell(Notice::Exact { opened }) != Woken::End,
                Woken::Time => {}
            }
            let closed = self.close();
            if self.tell(Notice::Window { opened, closed }) == Woken::End {
                return false;
            }
        }
    }

    /// Ends a window: returns when, after all that began in it has ended and the programs are detached.
    fn close(&mut self) -> Instant {
        self.markers.close();
        let closed = Instant::now();
        // A program that is running may have seen the window open. It takes a microsecond.
        std::thread::sleep(A_PROGRAM);
        // What is still under way then is cut off, as is what cannot be read.
        let _ = self.markers.wait_idle(SETTLES);
        self.markers.detach();
        closed
    }

    /// Sends a notice and waits until it has been dealt with.
    fn tell(&mut self, notice: Notice) -> Woken {
        self.told += 1;
        // The reader waits for this thread's end before it goes.
        let _ = self.tell.send(notice);
        // A full pipe wakes as well.
        let _ = self.wake.write(&[1]);
        let told = self.told;
        self.wait(None, |orders| orders.taken >= told)
    }

    /// Waits until `until`, or until the orders are as `awaited`.
    fn wait(&mut self, until: Option<Instant>, awaited: impl Fn(&Orders) -> bool) -> Woken {
        let shared = self.shared.clone();
        let mut orders = shared.orders();
        loop {
            if orders.end {
                return Woken::End;
            }
            if orders.sockets != self.sockets {
                self.sockets = orders.sockets;
                drop(orders);
                // Without them packets of the host's sockets have no owner, which the ledger says.
                let _ = self.markers.ask_sockets(self.sockets);
                orders = shared.orders();
                continue;
            }
            if awaited(&orders) {
                return Woken::Order;
            }
            orders = match until {
                None => shared
                    .changed
                    .wait(orders)
                    .unwrap_or_else(PoisonError::into_inner),
                Some(until) => {
                    let left = until.saturating_duration_since(Instant::now());
                    if left.is_zero() {
                        return Woken::Time;
                    }
                    let waited = shared.changed.wait_timeout(orders, left);
                    waited.unwrap_or_else(PoisonError::into_inner).0
                }
            };
        }
    }
}
