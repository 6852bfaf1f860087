//! `cofferdam dataplane serve`: runs a small server on a running dataplane, in a separate process.

use crate::args::{DataplaneServeArgs, Server};
use crate::exit::{Failure, Outcome, one_line};
use crate::interrupt::Interrupt;
use cofferdam_dataplane::applications::{Echo, Http, Memcached};
use cofferdam_dataplane::{Application, EventLoop, RequestError, Session};
use nix::unistd::{Gid, Uid, User, geteuid, setgid, setgroups, setuid};
use std::io::{self, ErrorKind, Write, stderr};
use std::path::Path;
use std::time::{Duration, Instant};

/// Memory for the values of `serve memcached`, bytes.
const MEMCACHED_BYTES: usize = 64 << 20;
/// Longest time until a signal is noticed.
const PATIENCE: Duration = Duration::from_millis(20);

/// Serves until a signal or the end of the dataplane.
pub fn run(args: &DataplaneServeArgs, interrupt: &Interrupt) -> Outcome {
    if let Some(user) = &args.attach.user {
        become_user(user)?;
    }
    let session = attach(&args.attach.socket, &args.name, args.attach.wait, interrupt)?;
    let address = args.address;
    let ended = match args.server {
        Server::Echo => turns(session, Echo::new(address), interrupt),
        Server::Http => turns(session, Http::new(address), interrupt),
        Server::Memcached => turns(session, Memcached::new(address, MEMCACHED_BYTES), interrupt),
    };
    match ended {
        Ok(()) => Ok(()),
        // A dataplane that ends in order removes its socket. A killed one leaves it, and one that
        // has only ended this application still listens.
        Err(e) if e.kind() == ErrorKind::ConnectionAborted && !args.attach.socket.exists() => {
            let _ = writeln!(
                stderr(),
                "cofferdam: the dataplane has ended, and this server with it"
            );
            Ok(())
        }
        Err(e) => Err(Failure::failed(e.to_string())),
    }
}

fn turns(session: Session, application: impl Application, interrupt: &Interrupt) -> io::Result<()> {
    EventLoop::new(session, application).run(PATIENCE, |_| interrupt.raised())
}

/// Attaches as soon as a dataplane listens: it may be starting.
pub(super) fn attach(
    socket: &Path,
    name: &str,
    wait: Duration,
    interrupt: &Interrupt,
) -> Result<Session, Failure> {
    let until = Instant::now() + wait;
    let mut is_reported = false;
    loop {
        let error = match Session::attach(socket, name) {
            Ok(session) => return Ok(session),
            Err(error) => error,
        };
        let left = until.saturating_duration_since(Instant::now());
        if !is_absent(&error) || left.is_zero() {
            let waited = match is_reported {
                true => format!(" (waited {})", humantime::format_duration(wait)),
                false => String::new(),
            };
            return Err(Failure::failed(format!("{error}{waited}")));
        }
        if !std::mem::replace(&mut is_reported, true) {
            let text = format!(
                "no dataplane listens on {} yet: waiting up to {}",
                socket.display(),
                humantime::format_duration(wait)
            );
            let _ = writeln!(stderr(), "cofferdam: {}", one_line(&text));
        }
        std::thread::sleep(PATIENCE.min(left));
        if interrupt.raised() {
            return Err(Failure::Interrupted(None));
        }
    }
}

/// Whether no dataplane listens: the socket does not exist, or a killed dataplane left it.
fn is_absent(error: &RequestError) -> bool {
    let absent = [ErrorKind::NotFound, ErrorKind::ConnectionRefused];
    matches!(error, RequestError::Connect { source, .. } if absent.contains(&source.kind()))
}

/// Switches to the rights of `user`, for good and in all threads.
pub(super) fn become_user(user: &str) -> Outcome {
    let found = match user.parse() {
        Ok(uid) => User::from_uid(Uid::from_raw(uid)).map(|user| {
            let gid = user.map_or(Gid::from_raw(uid), |user| user.gid);
            Some((Uid::from_raw(uid), gid))
        }),
        Err(_) => User::from_name(user).map(|user| user.map(|user| (user.uid, user.gid))),
    };
    let (uid, gid) = match found {
        Ok(Some(found)) => found,
        Ok(None) => {
            return Err(Failure::Usage(format!("no user '{user}' on this host")));
        }
        Err(e) => {
            return Err(Failure::failed(format!(
                "cannot look up user '{user}': {e}"
            )));
        }
    };
    if uid == geteuid() {
        return Ok(());
    }
    // The groups first: without root's rights they could not be changed.
    let become_it = setgroups(&[gid])
        .and_then(|()| setgid(gid))
        .and_then(|()| setuid(uid));
    become_it.map_err(|errno| {
        let text = format!("cannot switch to user '{user}': {errno}");
        match errno {
            nix::errno::Errno::EPERM => {
                Failure::Unsupported(format!("{text}: run it with sudo, or as that user"))
            }
            _ => Failure::failed(text),
        }
    })
}
