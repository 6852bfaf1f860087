//! Thread of the control plane. It admits applications, detects their end, serves the counters, and
//! moves flow groups by request and by load. Nothing here can delay a loop.

mod clients;
mod counts;
mod door;
mod meter;
mod moves;
mod queue;
mod scaler;
mod watch;

use crate::attach::{Answer, INTERFACE_VERSION, Request, answer};
use crate::config::{Config, Elastic};
use crate::engine::cores::Hub;
use crate::engine::{CoreTally, Life, Maker, Offence, Order, Tally};
use crate::metrics;
use crate::notice::Notice;
use crate::served::{ServedDevice, ServedNetwork};
use crate::tuning::control::{BUSY_WAIT_MS, LONGEST_WAIT_MS};
use clients::{ClientRequest, Clients};
use cofferdam_exporter::{Exporter, Exposition, Format};
use cofferdam_xsk::{Facts, PortError};
use door::Door;
use meter::Meter;
use moves::Moves;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use queue::{AttachQueue, AttachRequest};
use scaler::Scaler;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use watch::{DeviceWatch, OffenceWatch};

/// Format of the metrics address.
const FORMAT: Format = Format {
    metrics: Exposition::Text,
    index: "<!doctype html><title>cofferdam dataplane</title><p><a href=\"/metrics\">metrics</a>\n",
};

/// The control plane of one dataplane.
pub(crate) struct Control {
    /// Dropped before `door`, which removes a folder of its own.
    root_door: Door,
    door: Door,
    metrics: Option<Exporter>,
    clients: Clients,
    attach_queue: AttachQueue,
    /// Random keys of the configured applications. Attached applications know their own.
    keys: Vec<String>,
    config: Config,
    hub: Arc<Hub>,
    maker: Maker,
    moves: Moves,
    meter: Meter,
    /// Elastic cores, if they are configured.
    scaler: Option<Scaler>,
    devices: Vec<DeviceWatch>,
    /// Facts of the devices for applications.
    served: Vec<ServedDevice>,
    offences: OffenceWatch,
}

impl Control {
    /// Opens the sockets. Replaces the socket file of a killed dataplane.
    ///
    /// # Errors
    /// Another dataplane listens there; missing rights; the metrics address is in use.
    pub fn open(
        config: Config,
        devices: &[Facts],
        hub: Arc<Hub>,
        maker: Maker,
    ) -> io::Result<Control> {
        let door = Door::open(&config.socket)?;
        let root_door = Door::open_for_root(&config.socket)?;
        let metrics = match config.metrics {
            None => None,
            Some(address) => {
                let metrics = Exporter::bind(address, FORMAT).map_err(|e| {
                    io::Error::new(e.kind(), format!("cannot serve metrics on {address}: {e}"))
                })?;
                Some(metrics)
            }
        };
        let keys: io::Result<Vec<String>> = config.applications.iter().map(|_| new_key()).collect();
        let elastic = config.elastic.unwrap_or_else(|| Elastic::for_cores(1));
        Ok(Control {
            meter: Meter::new(elastic.interval, hub.count()),
            scaler: (config.elastic).map(|elastic| Scaler::new(elastic, config.connections)),
            root_door,
            door,
            metrics,
            clients: Clients::default(),
            attach_queue: AttachQueue::default(),
            keys: keys?,
            moves: Moves::new(hub.clone()),
            devices: (config.links.iter().zip(devices))
                .map(|(link, facts)| DeviceWatch::new(link.name.clone(), facts.index))
                .collect(),
            served: (config.links.iter().zip(devices))
                .map(|(link, facts)| ServedDevice {
                    name: link.name.clone(),
                    mtu_bytes: facts.mtu_bytes,
                    addresses: link.addresses.iter().map(|own| own.ip).collect(),
                })
                .collect(),
            config,
            hub,
            maker,
            offences: OffenceWatch::default(),
        })
    }

    /// Serves until `stop`, and passes notices to `notify`.
    ///
    /// # Errors
    /// [`PortError::Gone`] if a device is gone.
    pub fn run(mut self, stop: &AtomicBool, notify: impl Fn(Notice)) -> Result<(), PortError> {
        let mut outcome = Ok(());
        while outcome.is_ok() && !stop.load(Ordering::Relaxed) {
            self.turn();
            let (tally, _) = self.counted();
            self.offences.report_new(tally, &notify);
            self.follow_load(&notify);
            outcome = self
                .devices
                .iter_mut()
                .try_for_each(|one| one.report_change(&notify));
        }
        // No client can attach any more.
        drop(self.root_door);
        drop(self.door);
        outcome
    }

    /// Reads the cores when an interval is over, and continues a plan.
    fn follow_load(&mut self, notify: impl Fn(Notice)) {
        if self.meter.left().is_zero() {
            let reading = self.meter.read(&self.hub.shown());
            let is_moving = self.moves.on_its_way().is_some();
            if let (Some(scaler), false) = (&mut self.scaler, is_moving) {
                scaler.consider(&reading, &self.hub.owners());
            }
        }
        if let Some(scaler) = &mut self.scaler {
            scaler.resume_plan(&mut self.moves, notify);
        }
    }

    fn counted(&self) -> (Tally, Vec<CoreTally>) {
        counts::counted(&self.hub, &self.config.cores, &self.meter)
    }

    /// Moves a flow group by request. Returns the core that had it.
    fn move_group(&mut self, group: u8, core: u8) -> Result<u8, String> {
        let from = self.moves.make(group, core)?;
        if let Some(scaler) = &mut self.scaler {
            scaler.moved_by_hand(group);
        }
        Ok(from)
    }

    fn turn(&mut self) {
        let mut fds = vec![
            PollFd::new(self.root_door.as_fd(), PollFlags::POLLIN),
            PollFd::new(self.door.as_fd(), PollFlags::POLLIN),
            PollFd::new(self.hub.control().as_fd(), PollFlags::POLLIN),
        ];
        fds.extend(self.clients.poll_fds());
        let metrics_at = fds.len();
        fds.extend(self.metrics.iter().flat_map(Exporter::poll_fds));
        if poll(&mut fds, self.poll_timeout()).is_err() {
            return;
        }
        let ready: Vec<bool> = fds.iter().map(|fd| fd.any().unwrap_or(false)).collect();
        let (control, scrapers) = ready.split_at(metrics_at);
        let [of_root, newcomers, ended, others @ ..] = control else {
            return;
        };
        if *ended {
            // Only this process has the descriptor, so that nobody else can make it block.
            let _ = self.hub.control().read();
        }
        let (mut requests, has_ended) = self.clients.take(others);
        self.hub.bury();
        if has_ended {
            // The application ends on the other cores as well.
            self.hub.wake_cores();
        }
        // Root comes first: nobody else can fill its socket.
        for (is_ready, door) in [(*of_root, &self.root_door), (*newcomers, &self.door)] {
            if is_ready {
                requests.extend(self.clients.accept(door));
            }
        }
        requests.into_iter().for_each(|request| self.serve(request));
        // One request a turn: requests of others are served in between.
        if let Some(request) = self.attach_queue.next() {
            self.serve_attach(request);
        }
        if let Some(mut metrics) = self.metrics.take() {
            metrics.serve(scrapers, |_| self.metrics_text());
            self.metrics = Some(metrics);
        }
    }

    /// Time to wait for a client. It is short enough to notice `stop` and the end of an interval.
    fn poll_timeout(&self) -> PollTimeout {
        if !self.attach_queue.is_empty() {
            return PollTimeout::ZERO;
        }
        if self.scaler.as_ref().is_some_and(Scaler::is_at_work) {
            return PollTimeout::from(BUSY_WAIT_MS);
        }
        // Rounded up, because a zero would poll without pause.
        let left = self.meter.left() + Duration::from_millis(1);
        let longest = PollTimeout::from(LONGEST_WAIT_MS);
        PollTimeout::try_from(left).map_or(longest, |left| left.min(longest))
    }

    fn serve(&mut self, ClientRequest { fd, uid, bytes }: ClientRequest) {
        let reply = match serde_json::from_slice(&bytes) {
            Ok(Request::Status {} | Request::Move { .. })
                if uid != 0 && uid != nix::unistd::getuid().as_raw() =>
            {
                Answer::Refused("only root may do that".to_owned())
            }
            Ok(Request::Status {}) => Answer::Status(self.status()),
            Ok(Request::Move { group, core }) => match self.move_group(group, core) {
                Ok(from) => Answer::Moved { from },
                Err(why) => Answer::Refused(why),
            },
            Ok(Request::Attach {
                version,
                application,
                key,
            }) => {
                let request = AttachRequest {
                    fd,
                    uid,
                    version,
                    application,
                    key,
                };
                if let Err(request) = self.attach_queue.push(request) {
                    let why = "too many requests to attach wait: try again later".to_owned();
                    let _ = answer(&request.fd, &Answer::Refused(why), None);
                }
                return;
            }
            Err(e) => Answer::Refused(format!("this is not a request: {e}")),
        };
        // A client that does not read the answer needs none.
        let _ = answer(&fd, &reply, None);
    }

    fn serve_attach(&mut self, request: AttachRequest) {
        let AttachRequest {
            fd,
            uid,
            version,
            application,
            key,
        } = request;
        match self.attach(&fd, (uid, key), version, &application) {
            Ok(life) => self.clients.attach(fd, life),
            Err(why) => {
                // A client that does not read the answer needs none.
                let _ = answer(&fd, &Answer::Refused(why), None);
            }
        }
    }

    fn attach(
        &self,
        fd: &OwnedFd,
        (uid, key): (u32, Option<String>),
        version: u32,
        name: &str,
    ) -> Result<Arc<Life>, String> {
        if version != INTERFACE_VERSION {
            return Err(format!(
                "its interface has version {INTERFACE_VERSION}, this application has version \
                    {version}"
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
        if client.program.is_some() {
            return Err(format!(
                "application '{name}' is part of the dataplane (domain = \"pkey\")"
            ));
        }
        let own_key = self.keys.get(usize::from(place));
        let own_key = own_key.map(String::as_str).unwrap_or_default();
        let is_known = key.is_some_and(|key| !key.is_empty() && key == own_key);
        if client.uid != uid && !is_known {
            return Err(format!(
                "application '{name}' belongs to user {}, not to user {uid}",
                client.uid
            ));
        }
        let life = Arc::new(Life::default());
        let shared = self
            .maker
            .make(place, name, client.rights.clone(), life.clone());
        let (domains, outside) = shared.map_err(|e| format!("cannot attach: {e}"))?;
        if let (Some(first), None) = (domains.first(), self.config.guest()) {
            let (life, hub) = (life.clone(), self.hub.clone());
            let offend = move || {
                life.accuse(Offence::Bell);
                life.end();
                hub.wake_control();
                hub.wake_cores();
            };
            // An application behind keys could write to the thread's stack, so that it has no such
            // thread.
            let started = first.start_bell(offend);
            started.map_err(|e| format!("cannot attach: no thread: {e}"))?;
        }
        for (core, domain) in domains.into_iter().enumerate() {
            if !self.hub.order(core, Order::Attach(Box::new(domain))) {
                return Err("it is stopping".to_owned());
            }
        }
        let mut sizes = outside.sizes.clone();
        own_key.clone_into(&mut sizes.key);
        sizes.served = ServedNetwork {
            addresses: (self.config.addresses().map(|a| (a.ip, a.prefix_len))).collect(),
            gateways: (self.config.links.iter())
                .flat_map(|link| link.gateways.clone())
                .collect(),
            connect: client.rights.connect,
            congestion: self.config.congestion.name().to_owned(),
            devices: self.served.clone(),
        };
        answer(fd, &Answer::Attached(sizes), Some(&outside)).map_err(|e| {
            life.end();
            self.hub.wake_cores();
            format!("the answer cannot be sent: {e}")
        })?;
        Ok(life)
    }

    fn status(&self) -> serde_json::Value {
        let (tally, cores) = self.counted();
        let elastic = self.scaler.as_ref().map(Scaler::status);
        metrics::status(&tally, &cores, elastic.as_ref(), &self.config.links)
    }

    fn metrics_text(&self) -> String {
        let (tally, cores) = self.counted();
        let elastic = self.scaler.as_ref().map(Scaler::status);
        metrics::text(&tally, &cores, elastic.as_ref(), &self.config.links)
    }
}

/// A random key of 128 bits.
fn new_key() -> io::Result<String> {
    let bytes = crate::run::secret()?;
    Ok(format!("{:032x}", u128::from_ne_bytes(bytes)))
}

#[cfg(test)]
mod tests;
