//! Windows of measurement: a thread attaches the programs that see packets, and detaches them.
//!
//! A separate thread, because detaching may wait for the kernel (a grace period, more than 100 ms),
//! and because a busy reader must not lengthen a window. The reader must have taken a window's
//! counts before the next one begins: [`Windows::taken`].

use cofferdam_bpf::Markers;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Longest time after a window for work that began in it: a softirq takes 2 ms, a NAPI poll less.
/// Longer work (the hypervisor has the CPU) is cut off.
const DRAIN_LIMIT: Duration = Duration::from_millis(20);
/// Upper limit for the run of one program.
const PROGRAM_RUN: Duration = Duration::from_millis(1);

/// Timing of the windows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WindowOptions {
    /// Length of a window; default 50 ms.
    pub window: Duration,
    /// Time that has one window, at a random place; default 1 s.
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

/// Message from the thread to the reader.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Notice {
    /// A window has ended; the counts include the time from `opened` to `closed`.
    Window { opened: Instant, closed: Instant },
    /// Everything is counted from `opened` on.
    Exact { opened: Instant },
    /// Everything was counted until `closed`; windows follow.
    Closed { closed: Instant },
    /// The programs could not be attached; the thread will retry.
    Failed(String),
}

/// The reader's side of the thread. Dropping it detaches the programs.
pub(crate) struct Windows {
    shared: Arc<SharedOrders>,
    notices: Receiver<Notice>,
    wake: UnixStream,
    thread: Option<JoinHandle<()>>,
}

struct SharedOrders {
    orders: Mutex<Orders>,
    changed: Condvar,
}

/// Orders to the thread.
#[derive(Clone, Copy, Debug)]
struct Orders {
    options: WindowOptions,
    /// Whether every packet must be counted.
    exact: bool,
    /// Whether a window must begin now.
    look: bool,
    /// Whether the programs must look up the cgroups of receiving sockets.
    sockets: bool,
    /// Number of notices that the reader has handled.
    taken: u64,
    end: bool,
}

impl SharedOrders {
    fn orders(&self) -> MutexGuard<'_, Orders> {
        self.orders.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Windows {
    /// Starts a thread that waits for the programs.
    ///
    /// # Errors
    /// No thread or descriptor is available.
    pub(crate) fn prepare() -> io::Result<WaitingThread> {
        let (wake, worker_end) = UnixStream::pair()?;
        wake.set_nonblocking(true)?;
        worker_end.set_nonblocking(true)?;
        let (hand_over, worker) = channel::<Worker>();
        let thread = std::thread::Builder::new()
            .name("cofferdam-windows".into())
            .spawn(move || worker.into_iter().for_each(Worker::run))?;
        Ok(WaitingThread {
            wake,
            worker_end,
            hand_over,
            thread,
        })
    }

    fn order(&self, change: impl FnOnce(&mut Orders)) {
        change(&mut self.shared.orders());
        self.shared.changed.notify_all();
    }

    /// Chooses between counting everything and counting in windows.
    pub(crate) fn set_exact(&self, exact: bool) {
        self.order(|orders| orders.exact = exact);
    }

    /// Starts the next window now.
    pub(crate) fn look_now(&self) {
        self.order(|orders| orders.look = true);
    }

    pub(crate) fn set_options(&self, options: WindowOptions) {
        self.order(|orders| orders.options = options);
    }

    /// Sets whether the cgroups of sockets are looked up, from now or from the next window on.
    pub(crate) fn look_up_sockets(&self, wanted: bool) {
        self.order(|orders| orders.sockets = wanted);
    }

    /// Returns a descriptor that is readable when there are notices.
    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.wake.as_fd()
    }

    /// Takes the next notice, if there is one. The caller must call [`Windows::taken`] afterwards.
    pub(crate) fn notice(&mut self) -> Option<Notice> {
        let mut bytes = [0; 64];
        while matches!(self.wake.read(&mut bytes), Ok(n) if n == bytes.len()) {}
        self.notices.try_recv().ok()
    }

    /// Confirms that a notice has been handled: the counts may continue.
    pub(crate) fn taken(&self) {
        self.order(|orders| orders.taken += 1);
    }
}

/// Thread that waits for the programs. Nothing after it can fail. Dropping it ends the thread.
pub(crate) struct WaitingThread {
    wake: UnixStream,
    worker_end: UnixStream,
    hand_over: Sender<Worker>,
    thread: JoinHandle<()>,
}

impl WaitingThread {
    /// Hands over `markers`, which are attached and open. Everything is counted until
    /// [`Windows::set_exact`] chooses windows.
    pub(crate) fn start(self, markers: Markers, options: WindowOptions) -> Windows {
        let sockets = markers.is_looking_up_sockets();
        let (sender, notices) = channel();
        let shared = Arc::new(SharedOrders {
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
        // The thread waits for the message, so sending cannot fail.
        let _ = self.hand_over.send(Worker {
            markers,
            shared: shared.clone(),
            notices: sender,
            wake: self.worker_end,
            sent: 0,
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
            // If the thread has panicked, that has detached the programs too.
            let _ = thread.join();
        }
    }
}

/// Reason for the end of a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum WaitEnd {
    /// The time is over.
    Time,
    /// The orders meet the condition.
    Order,
    /// The thread has to end.
    End,
}

struct Worker {
    markers: Markers,
    shared: Arc<SharedOrders>,
    notices: Sender<Notice>,
    wake: UnixStream,
    /// Number of notices sent.
    sent: u64,
    /// Current setting of the markers.
    sockets: bool,
}

impl Worker {
    fn run(mut self) {
        loop {
            if self.wait(None, |orders| !orders.exact) == WaitEnd::End {
                return;
            }
            let closed = self.close();
            if self.notify(Notice::Closed { closed }) == WaitEnd::End || !self.take_windows() {
                return;
            }
        }
    }

    /// Takes windows until every packet must be counted. Returns false if the thread has to end.
    fn take_windows(&mut self) -> bool {
        let mut period_began = Instant::now();
        loop {
            let WindowOptions { window, period } = self.shared.orders().options;
            let room = period.saturating_sub(window);
            let begin = period_began + room.mul_f64(fastrand::f64());
            if self.wait(Some(begin), |orders| orders.exact || orders.look) == WaitEnd::End {
                return false;
            }
            self.shared.orders().look = false;
            period_began = (period_began + period).max(Instant::now());
            if let Err(why) = self.markers.attach() {
                self.markers.detach();
                if self.notify(Notice::Failed(why.to_string())) == WaitEnd::End {
                    return false;
                }
                continue;
            }
            self.markers.open();
            let opened = Instant::now();
            match self.wait(Some(opened + window), |orders| orders.exact) {
                WaitEnd::End => return false,
                WaitEnd::Order => return self.notify(Notice::Exact { opened }) != WaitEnd::End,
                WaitEnd::Time => {}
            }
            let closed = self.close();
            if self.notify(Notice::Window { opened, closed }) == WaitEnd::End {
                return false;
            }
        }
    }

    /// Ends a window and returns its end. Waits before for all work that began in it, and detaches
    /// the programs.
    fn close(&mut self) -> Instant {
        self.markers.close();
        let closed = Instant::now();
        // A running program may have seen the window open. It takes about 1 µs.
        std::thread::sleep(PROGRAM_RUN);
        // Work that is still in flight then is cut off, as is work that cannot be read.
        let _ = self.markers.wait_idle(DRAIN_LIMIT);
        self.markers.detach();
        closed
    }

    /// Sends a notice and waits until the reader has handled it.
    fn notify(&mut self, notice: Notice) -> WaitEnd {
        self.sent += 1;
        // The reader joins this thread before it drops the channel.
        let _ = self.notices.send(notice);
        // A full pipe wakes the reader as well.
        let _ = self.wake.write(&[1]);
        let sent = self.sent;
        self.wait(None, |orders| orders.taken >= sent)
    }

    /// Waits until `until`, or until the orders meet the condition `awaited`.
    fn wait(&mut self, until: Option<Instant>, awaited: impl Fn(&Orders) -> bool) -> WaitEnd {
        let shared = self.shared.clone();
        let mut orders = shared.orders();
        loop {
            if orders.end {
                return WaitEnd::End;
            }
            if orders.sockets != self.sockets {
                self.sockets = orders.sockets;
                drop(orders);
                // If this fails, packets of the host's sockets have no owner, and the ledger says
                // so.
                let _ = self.markers.look_up_sockets(self.sockets);
                orders = shared.orders();
                continue;
            }
            if awaited(&orders) {
                return WaitEnd::Order;
            }
            orders = match until {
                None => shared
                    .changed
                    .wait(orders)
                    .unwrap_or_else(PoisonError::into_inner),
                Some(until) => {
                    let left = until.saturating_duration_since(Instant::now());
                    if left.is_zero() {
                        return WaitEnd::Time;
                    }
                    let waited = shared.changed.wait_timeout(orders, left);
                    waited.unwrap_or_else(PoisonError::into_inner).0
                }
            };
        }
    }
}
