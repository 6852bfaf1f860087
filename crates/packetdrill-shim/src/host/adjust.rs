//! Applies socket options and sysctls to the stack.

use super::errors::Result;
use super::{File, Host, Role};
use cofferdam_netstack::Congestion;
use nix::errno::Errno;

impl Host {
    /// Name of the congestion control algorithm.
    pub(super) fn congestion_name(&self) -> &'static str {
        self.stack.config().tcp.congestion.name()
    }

    /// TCP_CONGESTION, for future connections.
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

    /// Reads the sysctls again, which a script may change at any time.
    pub(super) fn refresh(&mut self) {
        if let Some(sysctls) = &self.sysctls {
            let tcp = sysctls.apply(&self.stack.config().tcp);
            // The stack keeps its old settings if it does not support the new ones (a window of 32
            // MiB).
            let _ = self.stack.set_tcp_config(tcp);
        }
    }

    /// Passes a socket's options on to its connection, if it has one.
    pub(super) fn settings_changed(&mut self, file: i32) {
        self.set_fast_open_backlog(file);
        let nagle = self.stack.config().tcp.nagle;
        let Some(File::Socket(socket)) = self.files.get(&file) else {
            return;
        };
        let settings = socket.settings.clone();
        let options = settings.tcp.of_connection();
        if let Role::Listening { id, .. } = socket.role {
            self.stack.set_listener_options(id, options);
        }
        let Role::Connection(bits) = socket.role else {
            return;
        };
        let now = self.now;
        if let Some(conn) = self.connections.get_mut(&bits) {
            let nagle = nagle && !settings.tcp.no_delay;
            let written = conn.out.written();
            conn.notices.stamping(settings.timestamping, written);
            conn.out.nagle = nagle;
            let _ = self.stack.set_nagle(conn.id, nagle);
            let _ = self.stack.set_options(now, conn.id, options);
            self.flush_corked(bits, settings.tcp.cork && !settings.tcp.no_delay);
            self.turn();
        }
    }
}
