//! The application behind the gate: its ordinary memory, and the calls into it.

use crate::session::{Application, Session, hand_out};
use cofferdam_pkey::{Gate, ordinary};
use std::any::Any;
use std::ffi::c_void;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Outcome of a call. The guest writes it, and may write any bytes.
#[derive(Clone, Copy)]
#[repr(C)]
struct Answer {
    outcome: u32,
    len: u32,
    text: [u8; 240],
}

const IDLE: u32 = 0;
const WORKED: u32 = 1;
const FAILED: u32 = 2;

/// State in ordinary memory.
struct Outside {
    session: Session,
    application: Box<dyn Application>,
    answer: Answer,
}

/// Handle of the dataplane on its application. The state outside is never dropped, because that
/// would run the application's code with the dataplane's rights.
pub(super) struct Guest(*mut Outside);

// SAFETY: given to the loop's thread before the guest has run, and used there alone.
unsafe impl Send for Guest {}

impl Guest {
    /// A guest whose application `make` creates in ordinary memory. None of its own code runs
    /// before [`Guest::start`]. `session` lies in ordinary memory.
    pub fn new(session: Session, make: impl FnOnce() -> Box<dyn Application>) -> Guest {
        ordinary(|| {
            Guest(Box::into_raw(Box::new(Outside {
                session,
                application: make(),
                answer: Answer {
                    outcome: IDLE,
                    len: 0,
                    text: [0; 240],
                },
            })))
        })
    }

    /// Starts the application.
    ///
    /// # Errors
    /// Description of its fault or failure.
    pub fn start(&mut self, gate: &mut Gate) -> Result<bool, String> {
        self.call(gate, start)
    }

    /// Makes the application handle all conditions. Returns whether there were any.
    ///
    /// # Errors
    /// Errors of [`Guest::start`].
    #[inline]
    pub fn turn(&mut self, gate: &mut Gate) -> Result<bool, String> {
        self.call(gate, turn)
    }

    #[inline]
    fn call(
        &mut self,
        gate: &mut Gate,
        function: extern "C" fn(*mut c_void),
    ) -> Result<bool, String> {
        // SAFETY: the functions take what `new` has allocated.
        unsafe { gate.call(function, self.0.cast()) }.map_err(|fault| fault.to_string())?;
        // SAFETY: allocated by `new` and never freed; the guest does not run now.
        match unsafe { (&raw const (*self.0).answer.outcome).read_volatile() } {
            IDLE => Ok(false),
            WORKED => Ok(true),
            _ => Err(self.failure()),
        }
    }

    #[cold]
    fn failure(&self) -> String {
        // SAFETY: as in `call`; copied once, so that what is checked is what is used.
        let answer = unsafe { (&raw const (*self.0).answer).read_volatile() };
        let len = (answer.len as usize).min(answer.text.len());
        String::from_utf8_lossy(&answer.text[..len]).into_owned()
    }
}

extern "C" fn start(outside: *mut c_void) {
    run(outside, |outside| {
        outside.application.start(&mut outside.session);
        outside.session.flush();
        true
    });
}

extern "C" fn turn(outside: *mut c_void) {
    run(outside, |outside| {
        hand_out(&mut outside.session, outside.application.as_mut())
    });
}

/// Body of a call, with the guest's rights.
#[inline]
fn run(outside: *mut c_void, body: impl FnOnce(&mut Outside) -> bool) {
    // SAFETY: what `Guest::new` allocated; only one call at a time has it.
    let outside = unsafe { &mut *outside.cast::<Outside>() };
    let outcome = catch_unwind(AssertUnwindSafe(|| body(outside)));
    let outcome = match outcome {
        Ok(worked) => {
            let failure = outside.application.failure();
            failure.map_or(Ok(worked), |why| Err(why.to_owned()))
        }
        Err(payload) => Err(format!("it panicked: {}", words(payload.as_ref()))),
    };
    let answer = &mut outside.answer;
    match outcome {
        Ok(worked) => answer.outcome = if worked { WORKED } else { IDLE },
        Err(why) => {
            let len = why.len().min(answer.text.len());
            answer.text[..len].copy_from_slice(&why.as_bytes()[..len]);
            answer.len = len as u32;
            answer.outcome = FAILED;
        }
    }
}

fn words(payload: &(dyn Any + Send)) -> &str {
    let text = payload.downcast_ref::<&str>().copied();
    let text = text.or_else(|| payload.downcast_ref::<String>().map(String::as_str));
    text.unwrap_or("no reason given")
}
