//! Settings of sockets and of the network namespace as the stack has them.

use super::errors::Result;
use super::settings::Settings;
use super::{File, Host, Role};
use cofferdam_netstack::{Congestion, ConnectionOptions, Keepalive};
use nix::errno::Errno;
use std::time::Duration;

/// Linux's times (Documentation/networking/ip-sysctl.rst).
pub(super) const KEEPALIVE: Keepalive = Keepalive {
    idle: Duration::from_secs(7200),
    interval: Duration::from_secs(75),
    probes: 9,
};

/// A socket's settings in the stack's words.
fn options(settings: &Settings) -> ConnectionOptions {
    let keepalive = settings.keepalive.then(|| Keepalive {
        idle: settings.keep_idle.unwrap_or(KEEPALIVE.idle),
        interval: settings.keep_interval.unwrap_or(KEEPALIVE.interval),
        probes: settings.keep_count.unwrap_or(KEEPALIVE.probes),
    });
    ConnectionOptions {
        syn_retries: settings.syn_retries,
        user_timeout: settings.user_timeout,
        keepalive,
        segment_bytes: (settings.most_segment_bytes).and_then(|bytes| bytes.try_into().ok()),
    }
}

impl Host {
    /// The name of the congestion control.
    pub(super) fn congestion_name(&self) -> &'static str {
        match self.stack.config().tcp.congestion {
            Congestion::NewReno => "reno",
            Congestion::Cubic => "cubic",
        }
    }

    /// TCP_CONGESTION, for connections to come.
    pub(super) fn choose_congestion(&mut self, name: &[u8]) -> Result<()> {
        let name = name.split(|byte| *byte == 0).next().unwrap_or_default();
        let mut tcp = self.stack.config().tcp.clone();
        tcp.congestion = match name {
            b"cubic" => Congestion::Cubic,
            b"reno" => Congestion::NewReno,
            _ => return Err(Errno::ENOENT),
        };
        self.stack.set_tcp_config(tcp).map_err(|_| Errno::EINVAL)
    }

    /// Reads the sysctls again: a script may change them at any time.
    pub(super) fn refresh(&mut self) {
        if let Some(sysctls) = &self.sysctls {
            let tcp = sysctls.apply(&self.stack.config().tcp);
            // What the stack cannot do (a window of 32 MiB) it keeps as it was.
            let _ = self.stack.set_tcp_config(tcp);
        }
    }

    /// Tells the stack of a socket's settings, where it has a connection.
    pub(super) fn settings_changed(&mut self, file: i32) {
        self.set_fast_open_backlog(file);
        let nagle = self.stack.config().tcp.nagle;
        let Some(File::Socket(socket)) = self.files.get(&file) else {
            return;
        };
        let settings = socket.settings.clone();
        let options = options(&settings);
        if let Role::Listening { id, .. } = socket.role {
            self.stack.set_listener_options(id, options);
        }
        let Role::Connection(bits) = socket.role else {
            return;
        };
        let now = self.now;
        if let Some(place) = self.connections.get_mut(&bits) {
            let nagle = nagle && !settings.no_delay;
            let written = place.out.written();
            place.notices.stamping(settings.timestamping, written);
            place.out.nagle = nagle;
            let _ = self.stack.set_nagle(place.id, nagle);
            let _ = self.stack.set_options(now, place.id, options);
            self.flush_corked(bits, settings.cork && !settings.no_delay);
            self.turn();
        }
    }
}
