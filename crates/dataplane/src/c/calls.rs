//! C functions by which an application uses its dataplane: addresses, connections, datagrams, kept
//! data and timers.

use super::{cofferdam_address, cofferdam_session, from_handle, to_handle};
use crate::session::BoundAddress;
use std::time::Duration;

/// Accepts connections to `local`, of which `backlog` may be pending. The handler `bound` reports
/// the outcome. Returns the name that `bound` and `knock` pass; 0 if the address is invalid.
///
/// # Safety
/// Both pointers are valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cofferdam_listen(
    session: *mut cofferdam_session,
    local: *const cofferdam_address,
    backlog: u32,
) -> u64 {
    // SAFETY: as the caller guarantees.
    let (application, local) = unsafe { (&mut *session, *local) };
    match local.get() {
        Some(local) => application.session.listen(local, backlog).0 + 1,
        None => 0,
    }
}

/// Receives datagrams for `local`; otherwise as `cofferdam_listen`.
///
/// # Safety
/// Both pointers are valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cofferdam_udp_bind(
    session: *mut cofferdam_session,
    local: *const cofferdam_address,
) -> u64 {
    // SAFETY: as the caller guarantees.
    let (application, local) = unsafe { (&mut *session, *local) };
    match local.get() {
        Some(local) => application.session.udp_bind(local).0 + 1,
        None => 0,
    }
}

/// Releases an address.
///
/// # Safety
/// `session` is valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cofferdam_unbind(session: *mut cofferdam_session, bound: u64) {
    // SAFETY: as the caller guarantees.
    let application = unsafe { &mut *session };
    application
        .session
        .unbind(BoundAddress(bound.wrapping_sub(1)));
}

/// Opens a connection to `peer`. The handler `connected` or `dead` reports the outcome. Returns its
/// name; 0 if the address is invalid.
///
/// # Safety
/// Both pointers are valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cofferdam_dial(
    session: *mut cofferdam_session,
    peer: *const cofferdam_address,
) -> u64 {
    // SAFETY: as the caller guarantees.
    let (application, peer) = unsafe { (&mut *session, *peer) };
    peer.get()
        .map_or(0, |peer| to_handle(application.session.connect(peer)))
}

/// Copies `len` bytes and sends them. Bytes beyond the peer's window are queued. Returns the number
/// of bytes taken: fewer if all memory is in use (resume when `sent` is called), 0 if the
/// connection has ended.
///
/// # Safety
/// `session` is valid; `data` has `len` bytes, or `len` is 0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cofferdam_send(
    session: *mut cofferdam_session,
    connection: u64,
    data: *const u8,
    len: usize,
) -> usize {
    if len == 0 {
        return 0;
    }
    // SAFETY: as the caller guarantees; received data, which may be sent back, lies in other memory
    // than the session's.
    let (application, data) = unsafe { (&mut *session, std::slice::from_raw_parts(data, len)) };
    application.session.send(from_handle(connection), data)
}

/// Returns memory for `len` bytes (at most 16384), to be sent without a copy by
/// `cofferdam_send_reserved`; null if all memory is in use. A second call releases the memory of
/// the first.
///
/// # Safety
/// `session` is valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cofferdam_reserve(session: *mut cofferdam_session, len: usize) -> *mut u8 {
    // SAFETY: as the caller guarantees.
    let application = unsafe { &mut *session };
    if let Some(old) = application.reserved.take() {
        application.session.give_back(old);
    }
    let Some(buffer) = application.session.buffer(len) else {
        return std::ptr::null_mut();
    };
    let buffer = application.reserved.insert(buffer);
    application.session.bytes_mut(buffer).as_mut_ptr()
}

/// Sends the memory of `cofferdam_reserve`, all of it. Returns false if the connection has ended,
/// or nothing is reserved.
///
/// # Safety
/// `session` is valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cofferdam_send_reserved(
    session: *mut cofferdam_session,
    connection: u64,
) -> bool {
    // SAFETY: as the caller guarantees.
    let application = unsafe { &mut *session };
    let Some(buffer) = application.reserved.take() else {
        return false;
    };
    application
        .session
        .send_buffer(from_handle(connection), buffer)
}

/// Number of bytes of a connection that are queued or unacknowledged.
///
/// # Safety
/// `session` is valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cofferdam_unsent(
    session: *mut cofferdam_session,
    connection: u64,
) -> usize {
    // SAFETY: as the caller guarantees.
    let application = unsafe { &mut *session };
    application.session.unsent_bytes(from_handle(connection))
}

/// Sends one datagram from `bound`. Returns false if all memory is in use, or the address is not
/// bound.
///
/// # Safety
/// The pointers are valid; `data` has `len` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cofferdam_send_datagram(
    session: *mut cofferdam_session,
    bound: u64,
    peer: *const cofferdam_address,
    data: *const u8,
    len: usize,
) -> bool {
    // SAFETY: as the caller guarantees; a null `data` is allowed with no bytes.
    let (application, peer, data) = unsafe {
        let data = if len == 0 {
            &[]
        } else {
            std::slice::from_raw_parts(data, len)
        };
        (&mut *session, *peer, data)
    };
    let bound = BoundAddress(bound.wrapping_sub(1));
    peer.get()
        .is_some_and(|peer| application.session.send_datagram(bound, peer, data))
}

/// Keeps the data of the running handler after it returns. Returns a name for
/// `cofferdam_recv_done`; 0 if no handler with data runs, or the data is kept already.
///
/// # Safety
/// `session` is valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cofferdam_keep(session: *mut cofferdam_session) -> u32 {
    // SAFETY: as the caller guarantees.
    let application = unsafe { &mut *session };
    let Some(data) = application.current.take() else {
        return 0;
    };
    let place = application.free.pop().unwrap_or_else(|| {
        application.kept.push(None);
        application.kept.len() as u32 - 1
    });
    if let Some(entry) = application.kept.get_mut(place as usize) {
        *entry = Some(data);
    }
    place + 1
}

/// Releases kept data, which opens the connection's window. An unknown name is ignored.
///
/// # Safety
/// `session` is valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cofferdam_recv_done(session: *mut cofferdam_session, kept: u32) {
    // SAFETY: as the caller guarantees.
    let application = unsafe { &mut *session };
    let place = kept.wrapping_sub(1);
    if application
        .kept
        .get_mut(place as usize)
        .and_then(Option::take)
        .is_some()
    {
        application.free.push(place);
    }
}

/// Ends this side of a connection after the queued data. The peer may continue to send.
///
/// # Safety
/// `session` is valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cofferdam_shutdown(session: *mut cofferdam_session, connection: u64) {
    // SAFETY: as the caller guarantees.
    unsafe { &mut *session }
        .session
        .shutdown(from_handle(connection));
}

/// Ends a connection after the queued data. The handler `dead` follows.
///
/// # Safety
/// `session` is valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cofferdam_close(session: *mut cofferdam_session, connection: u64) {
    // SAFETY: as the caller guarantees.
    unsafe { &mut *session }
        .session
        .close(from_handle(connection));
}

/// Ends a connection at once. The handler `dead` follows.
///
/// # Safety
/// `session` is valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cofferdam_abort(session: *mut cofferdam_session, connection: u64) {
    // SAFETY: as the caller guarantees.
    unsafe { &mut *session }
        .session
        .abort(from_handle(connection));
}

/// Calls the handler `timer` with `cookie` (48 bits) after `delay_ns` nanoseconds.
///
/// # Safety
/// `session` is valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cofferdam_timer(
    session: *mut cofferdam_session,
    delay_ns: u64,
    cookie: u64,
) {
    // SAFETY: as the caller guarantees.
    let application = unsafe { &mut *session };
    application
        .session
        .timer(Duration::from_nanos(delay_ns), cookie);
}
