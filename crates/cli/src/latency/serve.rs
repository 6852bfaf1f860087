//! `cofferdam latency serve`.

use super::args::{ServeArgs, StartPoint};
use crate::exit::{Failure, Outcome};
use crate::interrupt::Interrupt;
use anyhow::Context;
use cofferdam_host::{HostFs, host_netns};
use cofferdam_latency::serve::{Limits, Live, Server, netns_of};
use cofferdam_latency::{LatencySizes, Meter, Start};
use std::fs::{self, Permissions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

/// Serves until a signal comes.
pub fn run(args: &ServeArgs, interrupt: &Interrupt) -> Outcome {
    let host = host_netns(&HostFs::host()).map_err(|e| Failure::failed(e.to_string()))?;
    let start = match args.start {
        StartPoint::Queue => Start::Queue,
        StartPoint::Send => Start::Send,
    };
    let meter = Meter::load(LatencySizes::default(), start)?;
    let source = Live::new(meter, host)?;
    let limits = Limits {
        clients_per_netns: args.clients as usize,
        samples_per_netns: args.keep as usize,
        ..Limits::default()
    };
    let (listener, _socket) = bind(&args.socket)?;
    let mut server = Server::new(listener, source, limits, Box::new(netns_of))
        .context("cannot listen")
        .map_err(Failure::from)?;
    server
        .run(interrupt.fd())
        .context("cannot wait for clients")?;
    Err(Failure::Interrupted(None))
}

/// The socket's file; removed when dropped.
struct SocketFile(PathBuf);

impl Drop for SocketFile {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

/// Makes the socket, which every user of a container may use. One that a killed server left
/// behind is replaced; one that answers is not.
fn bind(path: &Path) -> Result<(UnixListener, SocketFile), Failure> {
    let place = || format!("cannot make the socket {}", path.display());
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder).with_context(place)?;
    }
    let listener = match UnixListener::bind(path) {
        Err(e) if e.kind() == ErrorKind::AddrInUse => {
            replace_dead(path).with_context(place)?;
            UnixListener::bind(path)
        }
        other => other,
    };
    let listener = listener.with_context(place)?;
    let file = SocketFile(path.to_owned());
    fs::set_permissions(path, Permissions::from_mode(0o666)).with_context(place)?;
    Ok((listener, file))
}

fn replace_dead(path: &Path) -> io::Result<()> {
    if !fs::symlink_metadata(path)?.file_type().is_socket() {
        return Err(io::Error::other(
            "something else has that name; give another --socket",
        ));
    }
    match UnixStream::connect(path) {
        Ok(_) => Err(io::Error::other(
            "another 'cofferdam latency serve' answers there; stop it, or give another --socket",
        )),
        Err(_) => fs::remove_file(path),
    }
}
