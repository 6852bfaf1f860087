//! What an application asks of its dataplane.

use super::{cofferdam_address, cofferdam_session, of, out};
use crate::session::Bound;
use std::time::Duration;

/// Accepts connections to `local`; `backlog` may wait. The handler `bound` reports whether it
/// worked. Returns the name that it and `knock` give; 0 when the address makes no sense.
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
    let (own, local) = unsafe { (&mut *session, *local) };
    match local.get() {
        Some(local) => own.session.listen(local, backlog).0 + 1,
        None => 0,
    }
}

/// Takes the datagrams for `local`; as `cofferdam_listen`.
///
/// # Safety
/// Both pointers are valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cofferdam_udp_bind(
    session: *mut cofferdam_session,
    local: *const cofferdam_address,
) -> u64 {
    // SAFETY: as the caller guarantees.
    let (own, local) = unsafe { (&mut *session, *local) };
    match local.get() {
        Some(local) => own.session.udp_bind(local).0 + 1,
        None => 0,
    }
}

/// Gives an address back.
///
/// # Safety
/// `session` is valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cofferdam_unbind(session: *mut cofferdam_session, bound: u64) {
    // SAFETY: as the caller guarantees.
    let own = unsafe { &mut *session };
    own.session.unbind(Bound(bound.wrapping_sub(1)));
}

/// Opens a connection to `peer`; the handler `connected` or `dead` follows. Returns its name; 0
/// when the address makes no sense.
///
/// # Safety
/// Both pointers are valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cofferdam_dial(
    session: *mut cofferdam_session,
    peer: *const cofferdam_address,
) -> u64 {
    // SAFETY: as the caller guarantees.
    let (own, peer) = unsafe { (&mut *session, *peer) };
    peer.get().map_or(0, |peer| out(own.session.connect(peer)))
}

/// Copies `len` bytes and sends them; what the peer's window does not take yet is queued. Returns
/// the bytes taken: fewer when all memory is in use (resume when `sent` is called), 0 when the
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
    let (own, data) = unsafe { (&mut *session, std::slice::from_raw_parts(data, len)) };
    own.session.send(of(connection), data)
}

/// A place to write `len` bytes (at most 16384) that are to be sent without a copy by
/// `cofferdam_send_reserved`; null when all memory is in use. One at a time: the one before is
/// given back.
///
/// # Safety
/// `session` is valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cofferdam_reserve(session: *mut cofferdam_session, len: usize) -> *mut u8 {
    // SAFETY: as the caller guarantees.
    let own = unsafe { &mut *session };
    if let Some(old) = own.reserved.take() {
        own.session.give_back(old);
    }
    let Some(buffer) = own.session.buffer(len) else {
        return std::ptr::null_mut();
    };
    let buffer = own.reserved.insert(buffer);
    own.session.bytes_mut(buffer).as_mut_ptr()
}

/// Sends what was written to the place that `cofferdam_reserve` gave, all of it. False when the
/// connection has ended, or nothing was reserved.
///
/// # Safety
/// `session` is valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cofferdam_send_reserved(
    session: *mut cofferdam_session,
    connection: u64,
) -> bool {
    // SAFETY: as the caller guarantees.
    let own = unsafe { &mut *session };
    let Some(buffer) = own.reserved.take() else {
        return false;
    };
    own.session.send_buffer(of(connection), buffer)
}

/// Bytes of a connection that are queued or not acknowledged.
///
/// # Safety
/// `session` is valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cofferdam_unsent(
    session: *mut cofferdam_session,
    connection: u64,
) -> usize {
    // SAFETY: as the caller guarantees.
    let own = unsafe { &mut *session };
    own.session.unsent_bytes(of(connection))
}

/// Sends one datagram from `bound`. False when memory is in use everywhere, or the address is not
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
    let (own, peer, data) = unsafe {
        let data = if len == 0 {
            &[]
        } else {
            std::slice::from_raw_parts(data, len)
        };
        (&mut *session, *peer, data)
    };
    let bound = Bound(bound.wrapping_sub(1));
    peer.get()
        .is_some_and(|peer| own.session.send_datagram(bound, peer, data))
}

/// Keeps the data that the handler was given after it returns. Returns a name for
/// `cofferdam_recv_done`; 0 when no handler with data runs, or it is kept already.
///
/// # Safety
/// `session` is valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cofferdam_keep(session: *mut cofferdam_session) -> u32 {
    // SAFETY: as the caller guarantees.
    let own = unsafe { &mut *session };
    let Some(data) = own.current.take() else {
        return 0;
    };
    let place = own.free.pop().unwrap_or_else(|| {
        own.kept.push(None);
        own.kept.len() as u32 - 1
    });
    if let Some(kept) = own.kept.get_mut(place as usize) {
        *kept = Some(data);
    }
    place + 1
}

/// Gives kept data back: the connection's window opens by it. A name that names nothing is
/// ignored.
///
/// # Safety
/// `session` is valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cofferdam_recv_done(session: *mut cofferdam_session, kept: u32) {
    // SAFETY: as the caller guarantees.
    let own = unsafe { &mut *session };
    let place = kept.wrapping_sub(1);
    if own
        .kept
        .get_mut(place as usize)
        .and_then(Option::take)
        .is_some()
    {
        own.free.push(place);
    }
}

/// Ends this side of a connection after what is queued; the peer may still send.
///
/// # Safety
/// `session` is valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cofferdam_shutdown(session: *mut cofferdam_session, connection: u64) {
    // SAFETY: as the caller guarantees.
    unsafe { &mut *session }.session.shutdown(of(connection));
}

/// Ends a connection after what is queued; the handler `dead` follows.
///
/// # Safety
/// `session` is valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cofferdam_close(session: *mut cofferdam_session, connection: u64) {
    // SAFETY: as the caller guarantees.
    unsafe { &mut *session }.session.close(of(connection));
}

/// Ends a connection at once; the handler `dead` follows.
///
/// # Safety
/// `session` is valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cofferdam_abort(session: *mut cofferdam_session, connection: u64) {
    // SAFETY: as the caller guarantees.
    unsafe { &mut *session }.session.abort(of(connection));
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
    let own = unsafe { &mut *session };
    own.session.timer(Duration::from_nanos(delay_ns), cookie);
}
