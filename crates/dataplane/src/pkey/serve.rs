//! Threads of a dataplane that runs its application behind protection keys.
//!
//! | thread | stack and thread-local storage | rights |
//! |---|---|---|
//! | the first | ordinary; the application may read the stack | as started |
//! | control | in the region | as started |
//! | core 0 | loop: in the region; application: ordinary | application's user, listed calls |

use super::guest::Guest;
use crate::config::{Client, Config};
use crate::control::Control;
use crate::engine::Engine;
use crate::notice::Notice;
use crate::run::{RunError, pin};
use cofferdam_pkey::{Gate, Region, SealError, SealedProcess, Thread, User, ordinary};
use cofferdam_xsk::{Facts, Port};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

/// Time within which the loop's thread learns of `stop`.
const LOOK: Duration = Duration::from_millis(20);
/// Time that the application may delay the end of the loop's thread.
const PATIENCE: Duration = Duration::from_secs(2);

/// Report of the loop's thread.
enum Report<P> {
    Ready,
    Refused(SealError),
    Failed(io::Error),
    /// The thread has ended. It returns the engine to a thread that may unmap.
    Ended(Box<Engine<P>>),
}

/// Serves until `stop`.
pub(crate) fn serve<P: Port + Send + 'static>(
    region: &Region,
    mut engine: Engine<P>,
    facts: &[Facts],
    config: &Config,
    stop: &AtomicBool,
    notify: &(impl Fn(Notice) + Send + Sync),
) -> Result<(), RunError> {
    let Some((place, client, program)) = config.guest() else {
        return Err(io::Error::other("no application is to run behind protection keys").into());
    };
    let hub = engine.hub();
    let control = Control::open(config.clone(), facts, hub.clone(), engine.maker())?;
    let (session, place) = engine.guest(place, &client.name, client.rights.clone())?;
    let guest = Guest::new(session, || program.make());
    let refused = |source| RunError::Seal {
        application: client.name.clone(),
        source,
    };
    let sealed = region.seal().map_err(refused)?;
    // The application could write to the caller's flag.
    let ends = Arc::new(AtomicBool::new(false));
    let (reports, reported) = channel();
    let (go, start) = channel();
    let core = Core {
        engine: Box::new(engine),
        guest,
        place,
        ends: ends.clone(),
        reports,
    };
    let user = User {
        uid: client.uid,
        gid: client.gid,
    };
    let own = config.clone();
    // The application reads the thread's own facts too, such as its name.
    let started = ordinary(|| {
        let thread = std::thread::Builder::new().name("core 0".to_owned());
        thread.spawn(move || {
            if start.recv().is_ok() {
                core.run(&own, user, &sealed);
            }
        })
    });
    started?;
    // The thread allocates in the region from here on.
    let _ = go.send(());
    let mut outcome = Ok(());
    let body = || {
        outcome = control.run(&ends, notify);
        ends.store(true, Ordering::Relaxed);
    };
    // SAFETY: dropped below, before all that it borrows.
    let thread = unsafe { Thread::spawn("control", body) }?;
    let ended = wait(&reported, stop, &ends, client, notify, || hub.wake_cores());
    ends.store(true, Ordering::Relaxed);
    drop(thread);
    ended.and(outcome.map_err(RunError::from))
}

/// Waits on the first thread until the loop's thread has ended, or does not return.
fn wait<P>(
    reported: &Receiver<Report<P>>,
    stop: &AtomicBool,
    ends: &AtomicBool,
    client: &Client,
    notify: &impl Fn(Notice),
    look: impl Fn(),
) -> Result<(), RunError> {
    let mut until = None;
    loop {
        match reported.recv_timeout(LOOK) {
            Ok(Report::Ready) => notify(Notice::Ready),
            Ok(Report::Ended(engine)) => {
                drop(engine);
                return Ok(());
            }
            Ok(Report::Failed(e)) => return Err(e.into()),
            Ok(Report::Refused(source)) => {
                return Err(RunError::Seal {
                    application: client.name.clone(),
                    source,
                });
            }
            Err(RecvTimeoutError::Disconnected) => {
                return Err(io::Error::other("the loop's thread has ended").into());
            }
            Err(RecvTimeoutError::Timeout) => {}
        }
        if stop.load(Ordering::Relaxed) || ends.load(Ordering::Relaxed) {
            ends.store(true, Ordering::Relaxed);
            look();
            let until = *until.get_or_insert_with(|| Instant::now() + PATIENCE);
            if Instant::now() > until {
                return Err(RunError::Stuck {
                    application: client.name.clone(),
                });
            }
        }
    }
}

/// Arguments of the loop's thread.
struct Core<P> {
    engine: Box<Engine<P>>,
    guest: Guest,
    place: u8,
    ends: Arc<AtomicBool>,
    reports: Sender<Report<P>>,
}

impl<P: Port + Send + 'static> Core<P> {
    /// Body of the thread. Returns only if the application is refused.
    fn run(self, config: &Config, user: User, sealed: &SealedProcess) {
        if let Err(e) = pin(config, 0) {
            let _ = self.reports.send(Report::Failed(e));
            return;
        }
        match sealed.enter(user) {
            Ok(signal_stack) => Gate::enter(signal_stack, |gate| self.turns(gate)),
            Err(refused) => {
                let _ = self.reports.send(Report::Refused(refused));
            }
        }
    }

    /// Runs turns on the loop's stack.
    fn turns(mut self, gate: &mut Gate) {
        if let Err(fault) = self.guest.start(gate) {
            self.engine.terminate(self.place, fault);
        }
        let _ = self.reports.send(Report::Ready);
        while !self.ends.load(Ordering::Relaxed) {
            let (guest, place) = (&mut self.guest, self.place);
            let worked = self.engine.turn_with(|domains| {
                let domain = domains.get_mut(place);
                // Another application may have its place after its end.
                let domain = domain.filter(|domain| domain.is_guest() && !domain.is_leaving());
                // Without a condition the application has nothing to do, so that the gate is not
                // passed.
                let Some(domain) = domain.filter(|domain| domain.is_behind()) else {
                    return false;
                };
                guest.turn(gate).unwrap_or_else(|fault| {
                    domain.terminate_faulty(fault);
                    true
                })
            });
            self.engine.wait_for_work(worked);
        }
        let _ = self.reports.send(Report::Ended(self.engine));
    }
}
