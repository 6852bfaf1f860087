//! The control plane's thread: lets applications in, notices when they go, tells what was
//! counted, moves flow groups, by hand and by load. Nothing it does can delay a loop.

mod clients;
mod cores;
pub(crate) mod elastic;
mod meter;

use crate::attach::{Answer, INTERFACE_VERSION, Request, answer};
use crate::config::{Config, Elastic};
use crate::engine::cores::Hub;
use crate::engine::{Life, Maker, Order};
use crate::metrics;
use crate::run::Notice;
use clients::{Asked, Clients};
use cofferdam_exporter::{Exporter, Format};
use cofferdam_xsk::{LinkState, PortError, link_state};
use cores::OnItsWay;
use elastic::Scaler;
use meter::Meter;
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::socket::{
    AddressFamily, Backlog, SockFlag, SockType, UnixAddr, bind, listen, socket,
};
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// The Prometheus text format.
const FORMAT: Format = Format {
    content_type: "text/plain; version=0.0.4; charset=utf-8",
    index: "<!doctype html><title>cofferdam dataplane</title><p><a href=\"/metrics\">metrics</a>\n",
};

/// The control plane of one dataplane.
pub(crate) struct Control {
    listener: OwnedFd,
    metrics: Option<Exporter>,
    clients: Clients,
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
                let metrics = Exporter::bind(address, FORMAT).map_err(|e| {
                    io::Error::new(e.kind(), format!("cannot serve metrics on {address}: {e}"))
                })?;
                Some(metrics)
            }
        };
        let elastic = config.elastic.unwrap_or_else(|| Elastic::for_cores(1));
        Ok(Control {
            meter: Meter::new(elastic.interval, hub.count()),
            scaler: (config.elastic).map(|elastic| Scaler::new(elastic, config.connections)),
            listener,
            metrics,
            clients: Clients::default(),
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
        cofferdam_host::leave_run_folder(&self.config.socket);
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
        let mut fds = vec![
            PollFd::new(self.listener.as_fd(), PollFlags::POLLIN),
            PollFd::new(self.hub.control().as_fd(), PollFlags::POLLIN),
        ];
        fds.extend(self.clients.poll_fds());
        let metrics_at = fds.len();
        fds.extend(self.metrics.iter().flat_map(Exporter::poll_fds));
        if poll(&mut fds, self.rest()).is_err() {
            return;
        }
        let ready: Vec<bool> = fds.iter().map(|fd| fd.any().unwrap_or(false)).collect();
        let (control, scrapers) = ready.split_at(metrics_at);
        let [newcomers, ended, others @ ..] = control else {
            return;
        };
        if *ended {
            // Of this process alone: nobody else can make it block.
            let _ = self.hub.control().read();
        }
        let (asked, has_ended) = self.clients.take(others);
        if has_ended {
            // On the other cores as well.
            self.hub.look();
        }
        asked.into_iter().for_each(|asked| self.asked(asked));
        if *newcomers {
            self.clients.accept(&self.listener);
        }
        if let Some(mut metrics) = self.metrics.take() {
            metrics.serve(scrapers, |_| self.metrics_text());
            self.metrics = Some(metrics);
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

    fn asked(&mut self, Asked { fd, uid, bytes }: Asked) {
        let outcome = match serde_json::from_slice(&bytes) {
            Ok(Request::Status {} | Request::Move { .. })
                if uid != 0 && uid != nix::unistd::getuid().as_raw() =>
            {
                Err(Answer::Refused("only root may do that".to_owned()))
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
            Err(e) => Err(Answer::Refused(format!("this is not a request: {e}"))),
        };
        match outcome {
            Ok(life) => self.clients.attach(fd, life),
            Err(said) => {
                // Who does not listen to the answer needs none.
                let _ = answer(&fd, &said, None);
            }
        }
    }

    fn attach(
        &self,
        fd: &OwnedFd,
        uid: u32,
        version: u32,
        name: &str,
    ) -> Result<Arc<Life>, String> {
        if version != INTERFACE_VERSION {
            return Err(format!(
                "it speaks version {INTERFACE_VERSION} of the interface, and you speak version {version}"
            ));
        }
        let clients = (0_u8..).zip(&self.config.applications);
        let client = clients.into_iter().find(|(_, c)| c.name == name);
        let (place, client) = client.ok_or_else(|| {
            format!(
                "its configuration has no application '{}'",
                name.escape_debug()
            )
        })?;
        if client.uid != uid {
            return Err(format!(
                "application '{name}' belongs to user {}, and you are user {uid}",
                client.uid
            ));
        }
        let life = Arc::new(Life::default());
        let made = self
            .maker
            .make(place, name, client.rights.clone(), life.clone());
        let (domains, outside) = made.map_err(|e| format!("it cannot attach you: {e}"))?;
        for (core, domain) in domains.into_iter().enumerate() {
            if !self.hub.order(core, Order::Attach(Box::new(domain))) {
                return Err("it is ending".to_owned());
            }
        }
        answer(fd, &Answer::Attached(outside.sizes.clone()), Some(&outside)).map_err(|e| {
            life.end();
            self.hub.look();
            format!("the answer cannot be sent: {e}")
        })?;
        Ok(life)
    }

    fn status(&self) -> serde_json::Value {
        let (tally, cores) = self.counted();
        let elastic = self.scaler.as_ref().map(Scaler::shown);
        metrics::status(&tally, &cores, elastic.as_ref(), &self.config.device.name)
    }

    fn metrics_text(&self) -> String {
        let (tally, cores) = self.counted();
        let elastic = self.scaler.as_ref().map(Scaler::shown);
        metrics::text(&tally, &cores, elastic.as_ref(), &self.config.device.name)
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
                "another dataplane listens there: stop it first, or set another `socket` here";
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
    cofferdam_host::refuse_descriptors(&fd);
    listen(&fd, Backlog::MAXCONN)?;
    Ok(fd)
}

#[cfg(test)]
mod tests;
