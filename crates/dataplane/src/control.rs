//! The control plane's thread: lets applications in, notices when they go, tells what was
//! counted, moves flow groups, by hand and by load. Nothing it does can delay a loop.

mod cores;
pub(crate) mod elastic;
mod meter;

use crate::attach::{Answer, LARGEST, Request, VERSION, answer};
use crate::config::{Config, Elastic};
use crate::engine::cores::Hub;
use crate::engine::{Maker, Order};
use crate::metrics;
use crate::run::Notice;
use cofferdam_xsk::{LinkState, PortError, link_state};
use cores::OnItsWay;
use elastic::Scaler;
use meter::Meter;
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::socket::{
    AddressFamily, Backlog, MsgFlags, SockFlag, SockType, UnixAddr, accept4, bind, getsockopt,
    listen, recv, socket, sockopt,
};
use std::io::{self, Read, Write};
use std::net::TcpListener;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Sockets that wait for their request or are attached, at most.
const MOST_CLIENTS: usize = 64;
/// Who connects must ask within this time.
const PATIENCE: Duration = Duration::from_secs(1);

enum Client {
    /// Connected; has not asked yet.
    Asking(OwnedFd, Instant),
    /// Attached: its end ends the application.
    Attached(OwnedFd, Arc<AtomicBool>),
}

/// The control plane of one dataplane.
pub(crate) struct Control {
    listener: OwnedFd,
    metrics: Option<TcpListener>,
    clients: Vec<Client>,
    config: Config,
    hub: Arc<Hub>,
    maker: Maker,
    /// The flow group that is on its way.
    moving: Option<OnItsWay>,
    meter: Meter,
    /// Elastic cores, where the configuration has them.
    scaler: Option<Scaler>,
    /// Index of the device; 0 when it is none of the kernel's.
    device: u32,
    link: LinkState,
    offences: u64,
}

impl Control {
    /// Opens the sockets. A socket file that a killed dataplane left is replaced.
    ///
    /// # Errors
    /// Another dataplane listens there; no rights; the metrics' address is taken.
    pub fn open(config: Config, device: u32, hub: Arc<Hub>, maker: Maker) -> io::Result<Control> {
        let listener = open_socket(&config.socket)?;
        let metrics = match config.metrics {
            None => None,
            Some(address) => {
                let metrics = TcpListener::bind(address).map_err(|e| {
                    io::Error::new(e.kind(), format!("cannot serve metrics on {address}: {e}"))
                })?;
                metrics.set_nonblocking(true)?;
                Some(metrics)
            }
        };
        let elastic = config.elastic.unwrap_or_else(|| Elastic::for_cores(1));
        Ok(Control {
            meter: Meter::new(elastic.interval, hub.count()),
            scaler: (config.elastic).map(|elastic| Scaler::new(elastic, config.connections)),
            listener,
            metrics,
            clients: Vec::new(),
            config,
            hub,
            maker,
            moving: None,
            device,
            // It was opened, so it is there; a device that is down is told of at once.
            link: LinkState::Up,
            offences: 0,
        })
    }

    /// Serves until `stop`, and tells `say` what changes.
    ///
    /// # Errors
    /// [`PortError::Gone`] when the device is gone.
    pub fn run(mut self, stop: &AtomicBool, say: impl Fn(Notice)) -> Result<(), PortError> {
        let mut outcome = Ok(());
        while outcome.is_ok() && !stop.load(Ordering::Relaxed) {
            self.turn();
            self.look_at_offences(&say);
            self.look_at_load(&say);
            outcome = self.look_at_device(&say);
        }
        let _ = std::fs::remove_file(&self.config.socket);
        outcome
    }

    fn look_at_device(&mut self, say: impl Fn(Notice)) -> Result<(), PortError> {
        let link = match self.device {
            0 => LinkState::Up,
            index => link_state(index),
        };
        if link == LinkState::Gone {
            return Err(PortError::Gone(self.config.device.name.clone()));
        }
        if link != self.link {
            self.link = link;
            say(Notice::Device(link));
        }
        Ok(())
    }

    /// Applications that broke the rules, at most one notice a turn.
    fn look_at_offences(&mut self, say: impl Fn(Notice)) {
        let (tally, _) = self.counted();
        let count = tally.offences.saturating_sub(self.offences);
        if let (1.., Some(last)) = (count, tally.last_offence) {
            self.offences = tally.offences;
            say(Notice::Offence { count, last });
        }
    }

    fn turn(&mut self) {
        let mut fds = vec![PollFd::new(self.listener.as_fd(), PollFlags::POLLIN)];
        for client in &self.clients {
            let (Client::Asking(fd, _) | Client::Attached(fd, _)) = client;
            fds.push(PollFd::new(fd.as_fd(), PollFlags::POLLIN));
        }
        if let Some(metrics) = &self.metrics {
            fds.push(PollFd::new(metrics.as_fd(), PollFlags::POLLIN));
        }
        if poll(&mut fds, self.rest()).is_err() {
            return;
        }
        let ready: Vec<bool> = fds.iter().map(|fd| fd.any().unwrap_or(false)).collect();
        let mut clients = Vec::new();
        for (i, client) in std::mem::take(&mut self.clients).into_iter().enumerate() {
            let is_ready = ready.get(i + 1).copied().unwrap_or(false);
            clients.extend(self.serve(client, is_ready));
        }
        self.clients = clients;
        if ready.first() == Some(&true) {
            self.accept();
        }
        if let (Some(metrics), Some(true)) = (&self.metrics, ready.last()) {
            while let Ok((stream, _)) = metrics.accept() {
                self.scrape(stream);
            }
        }
    }

    /// How long to wait for somebody: so short that `stop` is seen, and no interval is missed.
    fn rest(&self) -> PollTimeout {
        if self.scaler.as_ref().is_some_and(Scaler::is_at_work) {
            return PollTimeout::from(1_u8);
        }
        // Rounded up: a zero would poll in vain.
        let left = self.meter.left() + Duration::from_millis(1);
        let longest = PollTimeout::from(50_u8);
        PollTimeout::try_from(left).map_or(longest, |left| left.min(longest))
    }

    fn accept(&mut self) {
        let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
        while let Ok(fd) = accept4(self.listener.as_raw_fd(), flags) {
            // SAFETY: the kernel has just made this descriptor for us.
            let fd = unsafe { OwnedFd::from_raw_fd(fd) };
            if self.clients.len() < MOST_CLIENTS {
                self.clients
                    .push(Client::Asking(fd, Instant::now() + PATIENCE));
            }
        }
    }

    /// Goes on with a client; `None` when it is done with.
    fn serve(&mut self, client: Client, is_ready: bool) -> Option<Client> {
        match client {
            Client::Attached(_, gone) if is_ready => {
                // An attached application says nothing: this is its end, or no way to behave.
                gone.store(true, Ordering::Relaxed);
                self.hub.look();
                None
            }
            Client::Asking(_, until) if !is_ready => (Instant::now() < until).then_some(client),
            Client::Asking(fd, until) => {
                let mut bytes = [0; LARGEST];
                match recv(fd.as_raw_fd(), &mut bytes, MsgFlags::MSG_DONTWAIT) {
                    Err(Errno::EAGAIN) => Some(Client::Asking(fd, until)),
                    Err(_) | Ok(0) => None,
                    Ok(len) => self.asked(fd, &bytes[..len]),
                }
            }
            attached => Some(attached),
        }
    }

    fn asked(&mut self, fd: OwnedFd, bytes: &[u8]) -> Option<Client> {
        let uid = getsockopt(&fd, sockopt::PeerCredentials).ok()?.uid();
        let outcome = match serde_json::from_slice(bytes) {
            Ok(Request::Status {} | Request::Move { .. })
                if uid != 0 && uid != nix::unistd::getuid().as_raw() =>
            {
                Err(Answer::Refused("only root may ask".to_owned()))
            }
            Ok(Request::Status {}) => Err(Answer::Status(self.status())),
            Ok(Request::Move { group, core }) => Err(match self.move_group(group, core) {
                Ok(from) => Answer::Moved { from },
                Err(why) => Answer::Refused(why),
            }),
            Ok(Request::Attach {
                version,
                application,
            }) => self
                .attach(&fd, uid, version, &application)
                .map_err(Answer::Refused),
            Err(e) => Err(Answer::Refused(format!("this is no request: {e}"))),
        };
        match outcome {
            Ok(gone) => Some(Client::Attached(fd, gone)),
            Err(said) => {
                // Who does not listen to the answer needs none.
                let _ = answer(&fd, &said, None);
                None
            }
        }
    }

    fn attach(
        &self,
        fd: &OwnedFd,
        uid: u32,
        version: u32,
        name: &str,
    ) -> Result<Arc<AtomicBool>, String> {
        if version != VERSION {
            return Err(format!(
                "it speaks version {VERSION} of the interface, you version {version}"
            ));
        }
        let client = self.config.applications.iter().find(|c| c.name == name);
        let client = client.ok_or_else(|| {
            format!(
                "its configuration names no application '{}'",
                name.escape_debug()
            )
        })?;
        if client.uid != uid {
            return Err(format!(
                "application '{name}' is of user {}, and you are user {uid}",
                client.uid
            ));
        }
        let gone = Arc::new(AtomicBool::new(false));
        let made = self.maker.make(name, client.rights.clone(), gone.clone());
        let (domains, outside) = made.map_err(|e| format!("it cannot take you in: {e}"))?;
        for (core, domain) in domains.into_iter().enumerate() {
            if !self.hub.order(core, Order::Attach(Box::new(domain))) {
                return Err("it is ending".to_owned());
            }
        }
        answer(fd, &Answer::Attached(outside.sizes.clone()), Some(&outside)).map_err(|e| {
            gone.store(true, Ordering::Relaxed);
            format!("the answer cannot be sent: {e}")
        })?;
        Ok(gone)
    }

    fn status(&self) -> serde_json::Value {
        let (tally, cores) = self.counted();
        let elastic = self.scaler.as_ref().map(Scaler::shown);
        metrics::status(&tally, &cores, elastic.as_ref(), &self.config.device.name)
    }

    /// Answers one scrape. A client that is slow loses its answer, not our time.
    fn scrape(&self, mut stream: std::net::TcpStream) {
        let limit = Some(Duration::from_millis(200));
        if stream.set_nonblocking(false).is_err()
            || stream.set_read_timeout(limit).is_err()
            || stream.set_write_timeout(limit).is_err()
        {
            return;
        }
        let mut request = [0; 4096];
        let len = stream.read(&mut request).unwrap_or(0);
        let is_metrics = request[..len].starts_with(b"GET /metrics");
        let (tally, cores) = self.counted();
        let (code, body) = if is_metrics {
            let elastic = self.scaler.as_ref().map(Scaler::shown);
            let device = &self.config.device.name;
            let text = metrics::text(&tally, &cores, elastic.as_ref(), device);
            ("200 OK", text)
        } else {
            ("404 Not Found", "the metrics are at /metrics\n".to_owned())
        };
        let head = format!(
            "HTTP/1.1 {code}\r\nContent-Type: text/plain; version=0.0.4\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
            body.len()
        );
        let _ = stream.write_all(head.as_bytes());
        let _ = stream.write_all(body.as_bytes());
    }
}

fn open_socket(path: &Path) -> io::Result<OwnedFd> {
    let named = |e: io::Error| io::Error::new(e.kind(), format!("{}: {e}", path.display()));
    let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
    let make = || socket(AddressFamily::Unix, SockType::SeqPacket, flags, None);
    let address = UnixAddr::new(path)
        .map_err(io::Error::from)
        .map_err(named)?;
    let probe = make()?;
    match nix::sys::socket::connect(probe.as_raw_fd(), &address) {
        Ok(()) | Err(Errno::EAGAIN) => {
            let text =
                "another dataplane listens there: stop it first, or give this one another `socket`";
            return Err(named(io::Error::new(io::ErrorKind::AddrInUse, text)));
        }
        Err(_) => {}
    }
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder).map_err(named)?;
    }
    if let Err(e) = std::fs::remove_file(path)
        && e.kind() != io::ErrorKind::NotFound
    {
        return Err(named(e));
    }
    let fd = make()?;
    bind(fd.as_raw_fd(), &address)
        .map_err(io::Error::from)
        .map_err(named)?;
    // Anybody may ask; the configuration says who is let in.
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o666)).map_err(named)?;
    listen(&fd, Backlog::new(16)?)?;
    Ok(fd)
}

#[cfg(test)]
mod tests;
