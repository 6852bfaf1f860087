//! `bind` and `listen`.

use super::{Inet, any, done, inet, is_tcp, kernel_name, udp};
use crate::errors::{of_refusal, say_once};
use crate::inside::Inside;
use crate::internal::Internal;
use crate::pump::{Name, Pump, Source};
use crate::settings::ANSWER_PATIENCE;
use crate::table::{self, Kind, ListenerState, Sock};
use crate::{process, real, unix};
use cofferdam_bsd::{Result, read_address};
use cofferdam_dataplane::Refusal;
use libc::{c_int, sockaddr, socklen_t};
use nix::errno::Errno;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::RawFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

/// `bind(2)`.
///
/// # Safety
/// The contract of the system call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bind(fd: c_int, address: *const sockaddr, len: socklen_t) -> c_int {
    let Some(_inside) = Inside::enter() else {
        return real::bind(fd, address, len);
    };
    if table::find(fd).is_some() {
        // The socket is already bound.
        return done(Err(Errno::EINVAL));
    }
    let is_v6 = match inet(fd) {
        Some((Inet::Tcp, is_v6)) => is_v6,
        Some((Inet::Udp, is_v6)) => return udp::bind(fd, is_v6, address, len),
        None => return real::bind(fd, address, len),
    };
    let Ok(local) = read_address(address, len) else {
        return real::bind(fd, address, len);
    };
    process::with_pump(Pump::sweep);
    if local.ip().is_loopback() || local.ip().is_unspecified() {
        return real::bind(fd, address, len);
    }
    match process::attached(|pump| pump.last_served().is_own(local.ip())) {
        Ok(false) => real::bind(fd, address, len),
        Ok(true) => done(bind_own(fd, local, is_v6)),
        Err(error) => done(Err(error)),
    }
}

/// Stores the address, which the dataplane binds when the socket listens or connects.
fn bind_own(fd: RawFd, local: SocketAddr, is_v6: bool) -> Result<()> {
    let inode = real::inode(fd).ok_or(Errno::ENOTSOCK)?;
    if kernel_name(fd).is_ok_and(|bound| bound.port() != 0) {
        return Err(Errno::EINVAL);
    }
    let kind = Kind::Bound(local);
    table::put(inode, Sock { kind, is_v6 });
    Ok(())
}

/// `listen(2)`.
#[unsafe(no_mangle)]
pub extern "C" fn listen(fd: c_int, backlog: c_int) -> c_int {
    let Some(_inside) = Inside::enter() else {
        return real::listen(fd, backlog);
    };
    match table::find(fd) {
        Some(Sock { kind, is_v6 }) => done(match kind {
            Kind::Bound(local) => serve(fd, local, is_v6, backlog, false).map(drop),
            // A listener keeps its backlog.
            Kind::Listener(_) => Ok(()),
            Kind::Connection(_) => Err(Errno::EINVAL),
            Kind::Udp(_) => Err(Errno::EOPNOTSUPP),
        }),
        None => {
            let is_v6 = is_tcp(fd);
            let wide = kernel_name(fd);
            let wide = wide
                .ok()
                .filter(|at| at.ip().is_unspecified() && at.port() > 0);
            let (Some(is_v6), Some(local)) = (is_v6, wide) else {
                return real::listen(fd, backlog);
            };
            // The kernel's socket listens too: at loopback and the host's own addresses.
            if real::listen(fd, backlog) != 0 {
                return -1;
            }
            done(serve(fd, local, is_v6, backlog, true).map(drop))
        }
    }
}

/// Binds an address of a listener, and waits for the dataplane's answer.
fn ask(
    listener: Name,
    at: SocketAddr,
    backlog: u32,
    is_standby: bool,
) -> Result<std::result::Result<(), Refusal>> {
    let bound = process::attached(|pump| pump.ask(listener, at, backlog, is_standby))??;
    process::wait(ANSWER_PATIENCE, |pump| pump.answer(bound))
}

/// A random name for a new group of processes that share addresses.
fn group() -> u64 {
    let mut bytes = [0; 8];
    // SAFETY: the buffer has that size. If the call fails, the group has no other member.
    unsafe { libc::getrandom(bytes.as_mut_ptr().cast(), bytes.len(), libc::GRND_NONBLOCK) };
    u64::from_ne_bytes(bytes)
}

/// Lets a process serve a listener that it has inherited: the process attaches its own session and
/// shares the listener's addresses. If it may not, the process that listened still serves it.
pub fn serve_inherited_listener(fd: RawFd) {
    if !table::inherits_listeners() {
        return;
    }
    let _one = ReplacementGuard::enter();
    if let Some(Sock {
        kind: Kind::Listener(listening),
        is_v6,
    }) = table::find(fd)
        && !listening.is_here()
        && listening.group != 0
    {
        let _ = serve_inherited(fd, &listening, is_v6);
    }
}

/// Serves a listener whose original process has ended. If this process may not, nobody can connect
/// any more, and the descriptor stays silent.
///
/// # Errors
///
/// `EINVAL`, as for a listener that was shut down.
pub fn take_over(fd: RawFd) -> Result<()> {
    serve_inherited_listener(fd);
    let Some(sock) = table::find(fd) else {
        return Err(Errno::EINVAL);
    };
    if matches!(&sock.kind, Kind::Listener(listening) if listening.is_here()) {
        return Ok(());
    }
    say_once(
        "the process that listened has ended, and this process, which inherited its listener, \
         cannot serve it: nobody can connect any more; restart the program",
    );
    silence(fd, sock)?;
    Err(Errno::EINVAL)
}

/// Replaces the socket under a descriptor whose other end is gone by a new pair: every poll would
/// report the ended one.
///
/// # Errors
///
/// If no descriptor is free.
pub fn silence(fd: RawFd, sock: Sock) -> Result<()> {
    let before = real::inode(fd).ok_or(Errno::ENOTSOCK)?;
    let (theirs, ours, inode) = unix::pair(libc::SOCK_SEQPACKET)?;
    // The library's end stays open until the process ends.
    std::mem::forget(Internal::new(ours)?);
    unix::replace_watched(fd, theirs)?;
    table::remove(before);
    table::put(inode, sock);
    Ok(())
}

/// Process one of whose threads has the [`ReplacementGuard`], or 0. It is no mutex, because a child
/// could inherit a locked mutex.
static REPLACING_PROCESS: AtomicU32 = AtomicU32::new(0);

/// Guard that lets one thread of the process at a time replace sockets under descriptors.
pub struct ReplacementGuard;

impl ReplacementGuard {
    pub fn enter() -> ReplacementGuard {
        let own = std::process::id();
        loop {
            let owner = REPLACING_PROCESS.load(Ordering::Relaxed);
            let order = (Ordering::Acquire, Ordering::Relaxed);
            if owner != own
                && REPLACING_PROCESS
                    .compare_exchange(owner, own, order.0, order.1)
                    .is_ok()
            {
                return ReplacementGuard;
            }
            std::thread::yield_now();
        }
    }
}

impl Drop for ReplacementGuard {
    fn drop(&mut self) {
        REPLACING_PROCESS.store(0, Ordering::Release);
    }
}

fn serve_inherited(fd: RawFd, inherited: &ListenerState, is_v6: bool) -> Result<()> {
    let addresses = inherited.addresses().clone();
    let (theirs, ours, inode) = unix::pair(libc::SOCK_SEQPACKET)?;
    let queue = real::copy_above(fd, 0)?;
    let listening = Arc::new(inherited.inherited());
    let (shown, backlog) = (listening.clone(), process::MOST_BACKLOG);
    let added = process::attached(|pump| {
        let source = Some(Source::Queue(queue));
        pump.add_listener((ours, inode), shown, source, (is_v6, backlog))
    });
    let name = added??;
    for at in &addresses {
        let answer = ask(name, *at, backlog, false);
        if !matches!(answer, Ok(Ok(()))) {
            process::with_pump(|pump| pump.drop_listener(name));
            return Err(Errno::EADDRINUSE);
        }
    }
    unix::replace_watched(fd, theirs)?;
    listening.addresses().clone_from(&addresses);
    let kind = Kind::Listener(listening);
    table::put(inode, Sock { kind, is_v6 });
    process::with_pump(|pump| pump.source_ready(name));
    Ok(())
}

/// Result of binding an address.
type Answer = Result<std::result::Result<(), Refusal>>;

/// Binds all addresses of the families of a kernel socket: the unspecified address, or each address
/// if the application may bind only some.
///
/// # Errors
///
/// `ENETDOWN` if the dataplane is not running.
pub fn ask_all(
    fd: RawFd,
    is_v6: bool,
    port: u16,
    ask: impl Fn(SocketAddr) -> Answer,
) -> Result<Vec<Answer>> {
    let own = process::attached(|pump| pump.served().map(|served| served.addresses.clone()))?;
    let own: Vec<IpAddr> = (own.ok_or(Errno::ENETDOWN)?.iter())
        .map(|(ip, _)| *ip)
        .collect();
    let is_only = || real::int_option(fd, libc::IPPROTO_IPV6, libc::IPV6_V6ONLY) != Ok(0);
    let families: &[bool] = match is_v6 {
        true if !is_only() => &[true, false],
        true => &[true],
        false => &[false],
    };
    let mut answers = Vec::new();
    for family in families {
        match ask(SocketAddr::new(any(*family), port)) {
            Ok(Err(Refusal::Forbidden)) => {
                for ip in own.iter().filter(|ip| ip.is_ipv6() == *family) {
                    answers.push(ask(SocketAddr::new(*ip, port)));
                }
            }
            answer => answers.push(answer),
        }
    }
    Ok(answers)
}

/// Listens at the dataplane in place of the kernel socket `fd`. Returns `false` if the dataplane
/// serves none of the addresses, so that only the kernel listens.
fn serve(
    fd: RawFd,
    local: SocketAddr,
    is_v6: bool,
    backlog: c_int,
    with_kernel: bool,
) -> Result<bool> {
    let backlog = u32::try_from(backlog).unwrap_or(process::MOST_BACKLOG);
    let backlog = backlog.clamp(1, process::MOST_BACKLOG);
    let before = real::inode(fd).ok_or(Errno::ENOTSOCK)?;
    let (theirs, ours, inode) = unix::pair(libc::SOCK_SEQPACKET)?;
    let kernel = match with_kernel {
        true => Some(real::copy_above(fd, 0)?),
        false => None,
    };
    let (options, buffers) = (super::options::of_kernel(fd), unix::adopt(fd, &theirs));
    let listening = Arc::new(ListenerState::new(local, options, buffers, group()));
    let shown = listening.clone();
    let added = process::attached(|pump| {
        let source = kernel.map(Source::Kernel);
        pump.add_listener((ours, inode), shown, source, (is_v6, backlog))
    });
    let name = added??;
    let mut refused = None;
    let mut is_served = false;
    // The processes that inherit the listener and serve it have precedence over this one.
    let ask = |at: SocketAddr| {
        let answer = ask(name, at, backlog, true);
        if matches!(answer, Ok(Ok(()))) {
            let _held = table::hold();
            listening.addresses().push(at);
        }
        answer
    };
    let answers = match with_kernel {
        false => vec![ask(local)],
        true => ask_all(fd, is_v6, local.port(), ask)?,
    };
    for answer in answers {
        match answer {
            Ok(Ok(())) => is_served = true,
            Ok(Err(refusal)) => {
                let error = of_refusal(refusal);
                if refused != Some(Errno::EADDRINUSE) {
                    refused = Some(error);
                }
            }
            Err(error) => refused = Some(error),
        }
    }
    let in_use = refused == Some(Errno::EADDRINUSE);
    if !is_served || in_use {
        process::with_pump(|pump| pump.drop_listener(name));
        let by_kernel = matches!(refused, Some(Errno::EACCES | Errno::EADDRNOTAVAIL) | None);
        return match refused {
            // The dataplane does not serve the address, so only the kernel listens.
            _ if with_kernel && by_kernel => Ok(false),
            Some(error) => Err(error),
            None => Err(Errno::EADDRNOTAVAIL),
        };
    }
    unix::replace(fd, theirs)?;
    process::with_pump(|pump| pump.source_ready(name));
    table::remove(before);
    let kind = Kind::Listener(listening);
    table::put(inode, Sock { kind, is_v6 });
    Ok(true)
}
