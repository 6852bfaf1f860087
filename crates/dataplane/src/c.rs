//! The interface for C, in the spirit of libix: dial, listen, receive, send, a callback for sent
//! data, timers. `include/cofferdam_dataplane.h` is generated from this file, and a test compares
//! them.
//!
//! A handler may call every function here except `cofferdam_run` and `cofferdam_detach`, so that no
//! reference into the session is alive while a handler runs.

#![allow(
    non_camel_case_types,
    reason = "C's spelling: this file becomes a C header"
)]

mod address;
mod calls;
mod error;

pub use address::{cofferdam_address, cofferdam_parse_address};
pub use calls::*;

use crate::session::{Buffer, Connection, Event, ReceivedData, Session};
use error::{fail, text};
use std::ffi::{c_char, c_void};
use std::path::Path;
use std::time::Duration;

/// An application that is attached to its dataplane. One thread at a time uses it.
pub struct cofferdam_session {
    session: Session,
    handlers: cofferdam_handlers,
    user: *mut c_void,
    /// Data of the running handler's event, for `cofferdam_keep`.
    current: Option<ReceivedData>,
    kept: Vec<Option<ReceivedData>>,
    free: Vec<u32>,
    reserved: Option<Buffer>,
    is_running: bool,
}

/// Handlers of events. Any may be null. `user` is the argument of `cofferdam_attach`. A handler
/// must not call `cofferdam_run` or `cofferdam_detach`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct cofferdam_handlers {
    /// Answer to `cofferdam_listen` or `cofferdam_udp_bind`: 0 bound, 1 in use, 2 not an address of
    /// the dataplane, 3 not granted to this application by the configuration, 4 table full, 5 not
    /// an address that can be bound.
    pub bound: Option<
        extern "C" fn(session: *mut cofferdam_session, user: *mut c_void, bound: u64, refusal: u32),
    >,
    /// A peer has opened a connection: true accepts it, false refuses it. Null accepts all.
    pub knock: Option<
        extern "C" fn(
            session: *mut cofferdam_session,
            user: *mut c_void,
            bound: u64,
            peer: *const cofferdam_address,
        ) -> bool,
    >,
    /// A connection is open: one that was accepted, with the address at which it arrived, or one
    /// that `cofferdam_dial` opened, with 0.
    pub connected: Option<
        extern "C" fn(
            session: *mut cofferdam_session,
            user: *mut c_void,
            connection: u64,
            bound: u64,
        ),
    >,
    /// Data, in order, where the device put it. It is valid until the handler returns or, after
    /// `cofferdam_keep`, until `cofferdam_recv_done`. The window is smaller by its length
    /// meanwhile.
    pub received: Option<
        extern "C" fn(
            session: *mut cofferdam_session,
            user: *mut c_void,
            connection: u64,
            data: *const u8,
            len: usize,
        ),
    >,
    /// The peer has acknowledged `bytes`, or its window has grown. `window` bytes can be sent at
    /// once; more are queued.
    pub sent: Option<
        extern "C" fn(
            session: *mut cofferdam_session,
            user: *mut c_void,
            connection: u64,
            bytes: u32,
            window: u32,
        ),
    >,
    /// The peer has ended its side. This side may continue to send.
    pub peer_closed:
        Option<extern "C" fn(session: *mut cofferdam_session, user: *mut c_void, connection: u64)>,
    /// A connection has ended: 1 closed by both sides, 2 reset, 3 refused by the peer, 4 timed out,
    /// 5 no route to the peer, 6 ended by this side, 7 no place in the dataplane, 8 this
    /// application may not connect.
    pub dead: Option<
        extern "C" fn(
            session: *mut cofferdam_session,
            user: *mut c_void,
            connection: u64,
            reason: u32,
        ),
    >,
    /// A datagram. Its data is valid as that of `received`.
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

/// Reason of the last failure on this thread. Valid until the next one.
#[unsafe(no_mangle)]
pub extern "C" fn cofferdam_error() -> *const c_char {
    error::last()
}

/// Name of a connection for C: one more than its cookie, so that 0 means none.
fn to_handle(connection: Connection) -> u64 {
    connection.0 + 1
}

/// Connection with this name for C.
fn from_handle(handle: u64) -> Connection {
    Connection(handle.wrapping_sub(1))
}

/// Attaches to the dataplane that listens on `socket` (usually `/run/cofferdam/dataplane.sock`) as
/// application `name` of its configuration. Null on failure: see `cofferdam_error`.
///
/// # Safety
/// Both texts end with a zero byte. `handlers` is null (no event is reported) or valid. All must
/// live as long as this call.
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

/// Detaches from the dataplane. Connections are reset, and buffers that `cofferdam_keep` retained
/// are released. Null is ignored.
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

/// Handles all pending events. Waits for the first one at most `wait_ns` nanoseconds (0: not at
/// all; `UINT64_MAX`: without limit). Returns the number of events, or -1 if the dataplane has
/// ended or has ended this application: see `cofferdam_error`. Calls before this and in handlers
/// reach the dataplane together.
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
    let mut has_failed = false;
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
        if handled > 0 || has_failed {
            break;
        }
        if wait_ns == 0 {
            if let Err(e) = own.session.check() {
                fail(e);
                has_failed = true;
            }
            break;
        }
        let limit = (wait_ns != u64::MAX).then(|| Duration::from_nanos(wait_ns));
        match own.session.wait(limit) {
            Ok(()) if own.session.is_empty() => break,
            Ok(()) => {}
            Err(e) => {
                fail(e);
                has_failed = true;
            }
        }
    }
    // SAFETY: see above.
    unsafe { (*session).is_running = false };
    if has_failed { -1 } else { handled }
}

/// Calls the handler of one event.
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
                    handler(session, user, to_handle(connection), bound);
                }
            } else {
                own().session.reject(&knock);
            }
        }
        Event::Connected { connection, .. } => {
            if let Some(handler) = handlers.connected {
                handler(session, user, to_handle(connection), 0);
            }
        }
        Event::Received { connection, data } => {
            let (first, len) = (data.as_ptr(), data.len());
            own().current = Some(data);
            if let Some(handler) = handlers.received {
                handler(session, user, to_handle(connection), first, len);
            }
            own().current = None;
        }
        Event::PeerClosed(connection) => {
            if let Some(handler) = handlers.peer_closed {
                handler(session, user, to_handle(connection));
            }
        }
        Event::Sent {
            connection,
            bytes,
            window_bytes,
        } => {
            if let Some(handler) = handlers.sent {
                handler(session, user, to_handle(connection), bytes, window_bytes);
            }
        }
        Event::Dead { connection, reason } => {
            if let Some(handler) = handlers.dead {
                handler(session, user, to_handle(connection), reason as u32);
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
        // C has no call that asks for it.
        Event::Info { .. } => {}
        Event::Timer(cookie) => {
            if let Some(handler) = handlers.timer {
                handler(session, user, cookie);
            }
        }
    }
}
