//! `send` and related calls on UDP sockets.

use super::UdpSocket;
use super::replacement::{give_address, toward};
use super::takeover::take_over;
use crate::control;
use crate::heading::{self, Heading};
use crate::inside;
use crate::process;
use crate::pump::SendOutcome;
use crate::real;
use cofferdam_bsd::{Result, parse_address};
use libc::{c_int, c_void, iovec, msghdr, sockaddr, socklen_t, ssize_t};
use nix::errno::Errno;
use std::io::IoSlice;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::RawFd;

/// Arguments of a call that sends.
pub struct Message<'a> {
    pub parts: &'a [IoSlice<'a>],
    pub to: (*const sockaddr, socklen_t),
    pub control: (*mut c_void, usize),
    pub flags: c_int,
}

/// Sends one datagram. Returns `None` if the dataplane neither serves the socket nor serves it from
/// now on. The caller is already inside.
///
/// # Safety
///
/// The contract of `sendmsg(2)`, except that the memory must be valid.
pub unsafe fn send(fd: RawFd, message: &Message<'_>) -> Option<Result<ssize_t>> {
    let served = super::served(fd);
    if served.is_none() && message.to.0.is_null() {
        return None;
    }
    // SAFETY: as the caller guarantees.
    let to = match unsafe { address(message.to) } {
        Ok(to) => to,
        Err(_) if served.is_none() => return None,
        Err(error) => return Some(Err(error)),
    };
    let found = match (served, to) {
        (Some(found), _) => found,
        (None, Some(to)) => match toward(fd, to) {
            Ok(found) => found?,
            Err(error) => return Some(Err(error)),
        },
        (None, None) => return None,
    };
    // SAFETY: as the caller guarantees.
    Some(unsafe { send_from(&found, to, message) })
}

unsafe fn address((to, len): (*const sockaddr, socklen_t)) -> Result<Option<SocketAddr>> {
    if to.is_null() {
        return Ok(None);
    }
    // SAFETY: as the caller guarantees.
    let bytes = unsafe { std::slice::from_raw_parts(to.cast::<u8>(), len as usize) };
    parse_address(bytes).map(Some)
}

unsafe fn send_from(
    found: &UdpSocket,
    to: Option<SocketAddr>,
    message: &Message<'_>,
) -> Result<ssize_t> {
    let flags = message.flags;
    if flags & (libc::MSG_OOB | libc::MSG_MORE) != 0 {
        return Err(Errno::EOPNOTSUPP);
    }
    if to.is_some_and(|to| to.is_ipv6()) && !found.is_v6 {
        return Err(Errno::EAFNOSUPPORT);
    }
    if found.shown.is_over() {
        return Err(Errno::ENETDOWN);
    }
    if found.shown.is_shut_for_writing() {
        return Err(Errno::EPIPE);
    }
    // SAFETY: all zeros are a valid value.
    let mut own: msghdr = unsafe { std::mem::zeroed() };
    (own.msg_control, own.msg_controllen) = message.control;
    let source = match own.msg_control.is_null() {
        true => None,
        // SAFETY: as the caller guarantees.
        false => unsafe { control::read(&own) }?.source,
    };
    let len = message.parts.iter().map(|part| part.len()).sum::<usize>() as ssize_t;
    match try_session(found, message.parts, to, source)? {
        SendOutcome::Done => Ok(len),
        SendOutcome::Kernel(kernel) => {
            (own.msg_name, own.msg_namelen) = (message.to.0.cast_mut().cast(), message.to.1);
            own.msg_iov = message.parts.as_ptr().cast_mut().cast();
            own.msg_iovlen = message.parts.len();
            Errno::result(real::sendmsg(kernel, &raw const own, flags))
        }
        SendOutcome::Pair(heading) => {
            match through_pair(found.fd, &heading, message.parts, flags) {
                Err(Errno::EPIPE | Errno::ECONNRESET) => {
                    let found = take_over(found)?;
                    // SAFETY: as the caller guarantees.
                    unsafe { send_from(&found, to, message) }
                }
                sent => sent,
            }
        }
        SendOutcome::NeedsAddress(_) => Err(Errno::EADDRNOTAVAIL),
    }
}

fn try_session(
    found: &UdpSocket,
    parts: &[IoSlice<'_>],
    to: Option<SocketAddr>,
    source: Option<IpAddr>,
) -> Result<SendOutcome> {
    if !found.shown.is_here() {
        // The process with the library's end sends the datagram.
        let state = found.shown.state();
        let remote = to.or(state.peer.map(|peer| peer.remote));
        let remote = remote.ok_or(Errno::EDESTADDRREQ)?;
        return Ok(SendOutcome::Pair(Heading {
            remote,
            local: source.unwrap_or(crate::calls::any(remote.is_ipv6())),
            interface: 0,
            scope: 0,
            error: 0,
        }));
    }
    let at = (found.shown.name(), found.inode);
    let send = || {
        let sent = process::with_pump(|pump| pump.udp_send(at, parts, to, source));
        sent.unwrap_or(Err(Errno::ENETDOWN))
    };
    match send()? {
        SendOutcome::NeedsAddress(remote) => {
            give_address(found, remote)?;
            send()
        }
        sending => Ok(sending),
    }
}

/// Sends through the pair. Blocks as the program's calls on the socket do.
fn through_pair(
    fd: RawFd,
    heading: &Heading,
    parts: &[IoSlice<'_>],
    flags: c_int,
) -> Result<ssize_t> {
    let heading = heading.encode();
    let mut all = Vec::with_capacity(1 + parts.len());
    all.push(IoSlice::new(&heading));
    all.extend(parts.iter().map(|part| IoSlice::new(part)));
    // SAFETY: all zeros are a valid value.
    let mut message: msghdr = unsafe { std::mem::zeroed() };
    message.msg_iov = all.as_mut_ptr().cast::<iovec>();
    message.msg_iovlen = all.len();
    let flags = flags & libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
    let sent = inside::outside(|| real::sendmsg(fd, &raw const message, flags));
    Ok(Errno::result(sent)? - heading::BYTES as ssize_t)
}
