//! The interface for C, in the spirit of libix: dial, listen, receive, send, a callback for what
//! was sent, timers. `include/cofferdam_dataplane.h` is generated from this file; a test compares.
//!
//! A handler may call every function here but `cofferdam_run` and `cofferdam_detach`, so no
//! reference into the session is held while one runs.

#![allow(
    non_camel_case_types,
    reason = "C's spelling: this file becomes a C header"
)]

mod address;
mod calls;
mod error;

pub use address::{cofferdam_address, cofferdam_parse_address};
pub use calls::*;

use crate::session::{Buffer, Connection, Event, Received, Session};
use error::{fail, text};
use std::ffi::{c_char, c_void};
use std::path::Path;
use std::time::Duration;

/// An application attached to its dataplane. One thread at a time uses it.
pub struct cofferdam_session {
    session: Session,
    handlers: cofferdam_handlers,
    user: *mut c_void,
    /// What the handler that runs was given; `cofferdam_keep` takes it.
    current: Option<Received>,
    kept: Vec<Option<Received>>,
    free: Vec<u32>,
    reserved: Option<Buffer>,
    is_running: bool,
}

/// What an application does about each event. Any may be null; `user` is what
/// `cofferdam_attach` was given. A handler must not call `cofferdam_run` or `cofferdam_detach`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct cofferdam_handlers {
    /// The answer to `cofferdam_listen` or `cofferdam_udp_bind`: 0 given, 1 in use, 2 not an
    /// address of the dataplane, 3 not given to this application by the configuration, 4 no room,
    /// 5 no address that can be bound.
    pub bound: Option<
        extern "C" fn(session: *mut cofferdam_session, user: *mut c_void, bound: u64, refusal: u32),
    >,
    /// A peer opened a connection: true accepts it, false refuses it. Null accepts all.
    pub knock: Option<
        extern "C" fn(
            session: *mut cofferdam_session,
            user: *mut c_void,
            bound: u64,
            peer: *const cofferdam_address,
        ) -> bool,
    >,
    /// A connection is open: one that was accepted, with the address it came to, or one that
    /// `cofferdam_dial` began, with 0.
    pub connected: Option<
        extern "C" fn(
            session: *mut cofferdam_session,
            user: *mut c_void,
            connection: u64,
            bound: u64,
        ),
    >,
    /// Data, in order, where the device put it: valid until the handler returns, or, after
    /// `cofferdam_keep`, until `cofferdam_recv_done`. Meanwhile the window is smaller by it.
    pub received: Option<
        extern "C" fn(
            session: *mut cofferdam_session,
            user: *mut c_void,
            connection: u64,
            data: *const u8,
            len: usize,
        ),
    >,
    /// The peer has acknowledged `bytes`, or its window has grown: `window` bytes go out at once
    /// now, more is queued.
    pub sent: Option<
        extern "C" fn(
            session: *mut cofferdam_session,
            user: *mut c_void,
            connection: u64,
            bytes: u32,
            window: u32,
        ),
    >,
    /// The peer sends no more; this side may.
    pub peer_closed:
        Option<extern "C" fn(session: *mut cofferdam_session, user: *mut c_void, connection: u64)>,
    /// A connection has ended: 1 closed by both, 2 reset by the peer, 3 refused by the peer,
    /// 4 the peer did not answer, 5 no way to the peer, 6 ended by this side, 7 no room,
    /// 8 this application may not connect.
    pub dead: Option<
        extern "C" fn(
            session: *mut cofferdam_session,
            user: *mut c_void,
            connection: u64,
            reason: u32,
        ),
    >,
    /// A datagram; its data is as that of `received`.
    pub datagram: Option<
        extern "C" fn(
            session: *mut cofferdam_session,
            user: *mut c_void,
            bound: u64,
            peer: *const cofferdam_address,
            data: *const u8,
            len: usize,
        ),
    >,
    /// A timer of `cofferdam_timer` is due.
    pub timer:
        Option<extern "C" fn(session: *mut cofferdam_session, user: *mut c_void, cookie: u64)>,
}

/// Why the last call on this thread failed. Valid until the next call that fails.
#[unsafe(no_mangle)]
pub extern "C" fn cofferdam_error() -> *const c_char {
    error::last()
}

/// A connection's handle is one more than its cookie, so that 0 is "none".
fn out(connection: Connection) -> u64 {
    connection.0 + 1
}

fn of(handle: u64) -> Connection {
    Connection(handle.wrapping_sub(1))
}

/// Attaches to the dataplane that listens on `socket` (usually
/// `/run/cofferdam/dataplane.sock`) as application `name` of its configuration. Null when that
/// fails: see `cofferdam_error`.
///
/// # Safety
/// Both texts end with a zero byte; `handlers` is null (no event is reported) or valid. All outlive
/// this call only.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cofferdam_attach(
    socket: *const c_char,
    name: *const c_char,
    handlers: *const cofferdam_handlers,
    user: *mut c_void,
) -> *mut cofferdam_session {
    // SAFETY: as this function's callers guarantee.
    let words = unsafe { (text(socket, "the socket"), text(name, "the name")) };
    let (Some(socket), Some(name)) = words else {
        return std::ptr::null_mut();
    };
    match Session::attach(Path::new(socket), name) {
        Ok(session) => Box::into_raw(Box::new(cofferdam_session {
            session,
            // SAFETY: null or valid, as callers guarantee.
            handlers: unsafe { handlers.as_ref() }.copied().unwrap_or_default(),
            user,
            current: None,
            kept: Vec::new(),
            free: Vec::new(),
            reserved: None,
            is_running: false,
        })),
        Err(e) => {
            fail(e);
            std::ptr::null_mut()
        }
    }
}

/// Leaves the dataplane: connections are reset, kept data is given back. Null is ignored.
///
/// # Safety
/// `session` is null or came from `cofferdam_attach` and is not used again; no handler runs.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cofferdam_detach(session: *mut cofferdam_session) {
    if !session.is_null() {
        // SAFETY: it came from `Box::into_raw` above and is given up by the caller.
        drop(unsafe { Box::from_raw(session) });
    }
}

/// Handles all events that are there, and waits for the first one at most `wait_ns` nanoseconds
/// (0: not at all; `UINT64_MAX`: without end). Returns how many, or -1 when the dataplane is gone
/// or has ended this application: `cofferdam_error` says which, and why.
/// Calls made before and by handlers are shown to the dataplane together.
///
/// # Safety
/// `session` is valid, and no handler runs.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cofferdam_run(session: *mut cofferdam_session, wait_ns: u64) -> i32 {
    // SAFETY: the caller guarantees for `session`. This reference, and each one below, ends before
    // a handler is called, so that handlers may make their own.
    let own = unsafe { &mut *session };
    if std::mem::replace(&mut own.is_running, true) {
        fail("a handler must not call cofferdam_run");
        return -1;
    }
    let mut handled = 0_i32;
    let mut gone = false;
    loop {
        // SAFETY: see above.
        let own = unsafe { &mut *session };
        if let Some(event) = own.session.next_event() {
            handled = handled.saturating_add(1);
            // SAFETY: the session is valid; no reference to it is used until this returns.
            unsafe { handle(session, event) };
            continue;
        }
        own.session.flush();
        if handled > 0 || gone {
            break;
        }
        if wait_ns == 0 {
            if let Err(e) = own.session.check() {
                fail(e);
                gone = true;
            }
            break;
        }
        let limit = (wait_ns != u64::MAX).then(|| Duration::from_nanos(wait_ns));
        match own.session.wait(limit) {
            Ok(()) if own.session.is_empty() => break,
            Ok(()) => {}
            Err(e) => {
                fail(e);
                gone = true;
            }
        }
    }
    // SAFETY: see above.
    unsafe { (*session).is_running = false };
    if gone { -1 } else { handled }
}

/// Tells one event.
///
/// # Safety
/// `session` is valid and no reference to it is alive.
unsafe fn handle(session: *mut cofferdam_session, event: Event) {
    // SAFETY: valid; only copies are kept.
    let (handlers, user) = unsafe { ((*session).handlers, (*session).user) };
    // SAFETY: each use ends before a handler is called.
    let own = || unsafe { &mut *session };
    match event {
        Event::Bound { bound, result } => {
            if let Some(handler) = handlers.bound {
                handler(
                    session,
                    user,
                    bound.0 + 1,
                    result.err().map_or(0, |why| why as u32),
                );
            }
        }
        Event::Knock(knock) => {
            let (bound, peer) = (knock.listener.0 + 1, cofferdam_address::from(knock.remote));
            if handlers
                .knock
                .is_none_or(|f| f(session, user, bound, &peer))
            {
                let connection = own().session.accept(&knock);
                if let Some(handler) = handlers.connected {
                    handler(session, user, out(connection), bound);
                }
            } else {
                own().session.reject(&knock);
            }
        }
        Event::Connected { connection, .. } => {
            if let Some(handler) = handlers.connected {
                handler(session, user, out(connection), 0);
            }
        }
        Event::Received { connection, data } => {
            let (first, len) = (data.as_ptr(), data.len());
            own().current = Some(data);
            if let Some(handler) = handlers.received {
                handler(session, user, out(connection), first, len);
            }
            own().current = None;
        }
        Event::PeerClosed(connection) => {
            if let Some(handler) = handlers.peer_closed {
                handler(session, user, out(connection));
            }
        }
        Event::Sent {
            connection,
            bytes,
            window_bytes,
        } => {
            if let Some(handler) = handlers.sent {
                handler(session, user, out(connection), bytes, window_bytes);
            }
        }
        Event::Dead { connection, reason } => {
            if let Some(handler) = handlers.dead {
                handler(session, user, out(connection), reason as u32);
            }
        }
        Event::Datagram {
            bound,
            data,
            remote,
            ..
        } => {
            let (first, len, peer) = (data.as_ptr(), data.len(), remote.into());
            own().current = Some(data);
            if let Some(handler) = handlers.datagram {
                handler(session, user, bound.0 + 1, &peer, first, len);
            }
            own().current = None;
        }
        // Nothing of C's asks for it.
        Event::Info { .. } => {}
        Event::Timer(cookie) => {
            if let Some(handler) = handlers.timer {
                handler(session, user, cookie);
            }
        }
    }
}
