//! Server on the dataplane, behind protection keys.

use super::attached::of_status;
use super::service::DataplaneServer;
use super::work::Work;
use super::{Args, Control, Failure, Idle, Setup, config, report};
use crate::worker::control::Counter;
use cofferdam_dataplane::pkey::{Program, bind_now, is_bound_now, ordinary};
use cofferdam_dataplane::{Application, Event, Session, compiled, status};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// Configuration of its application; the program is replaced.
const OF_NOBODY: &str = "user = \"65534\"\ndomain = \"pkey\"\nprogram = \"echo 0.0.0.0:1\"\n";

/// Parameters of the application: the dataplane makes it by a function without arguments.
static MADE_OF: OnceLock<(Work, u16, u16, Counter)> = OnceLock::new();

/// Server that counts its requests in the worker's counters.
struct CountedServer {
    served: DataplaneServer,
    counter: Counter,
    counted: u64,
}

impl Application for CountedServer {
    fn start(&mut self, session: &mut Session) {
        self.served.start(session);
    }

    fn event(&mut self, session: &mut Session, event: Event) {
        self.served.event(session, event);
    }

    /// Called after each batch of events.
    fn failure(&self) -> Option<&str> {
        self.served.failure()
    }

    fn batch_done(&mut self) {
        let requests = self.served.requests();
        self.counter.count(requests - self.counted, 0);
        self.counted = requests;
    }
}

fn make_application() -> Box<dyn Application> {
    let (work, port, ports, counter) = MADE_OF.get().expect("set before the dataplane is run");
    Box::new(CountedServer {
        served: DataplaneServer::new(*work, *port, *ports),
        counter: counter.clone(),
        counted: 0,
    })
}

/// Runs loop and application on one thread, the application behind protection keys. Counts
/// requests. Arguments: those of [`Setup`] and `--port P --ports N --work W --socket PATH --idle
/// I`.
pub(super) fn serve(mut args: Args, control: &mut Control) -> Result<(), Failure> {
    if !is_bound_now() {
        return Err(format!("cannot start itself again: {}", bind_now()));
    }
    let setup = Setup::take(&mut args)?;
    let (port, ports) = (args.need("port")?, args.need("ports")?);
    let work: Work = args.need("work")?;
    let socket: String = args.need("socket")?;
    let idle: Idle = args.need("idle")?;
    args.finish()?;
    let mut config = config(&setup, &socket, &["any".to_owned()], idle, OF_NOBODY)?;
    for application in &mut config.applications {
        application.program = Some(Program::new(make_application));
    }
    let _ = MADE_OF.set((work, port, ports, control.counter()));
    control.start()?;
    let stop = Arc::new(AtomicBool::new(false));
    let at = config.socket.clone();
    let stopped = stop.clone();
    // In another thread, because this one keeps no rights to the dataplane's memory.
    let runs = std::thread::spawn(move || {
        let outcome = compiled::serve(&config, &stopped, &|_| ());
        stopped.store(true, Ordering::Relaxed);
        // For a thread without those rights.
        ordinary(|| outcome.map_err(|e| e.to_string()))
    });
    while !control.done() && !stop.load(Ordering::Relaxed) {
        std::thread::sleep(Duration::from_millis(5));
    }
    let shown = status(&at);
    stop.store(true, Ordering::Relaxed);
    runs.join().map_err(|_| "a thread panicked".to_owned())??;
    report(&of_status(&shown.map_err(|e| e.to_string())?))
}
