//! Changes of settings while the stack runs.

use super::Stack;
use crate::api::{
    Config, ConfigError, ConnectionId, ConnectionOptions, GoneError, ListenerId, TcpConfig, Time,
};

impl Stack {
    /// Replaces the settings of TCP. New connections use all of them; existing connections use the
    /// ones that a handshake does not fix.
    ///
    /// # Errors
    ///
    /// If a setting is out of range; then nothing changes.
    pub fn set_tcp_config(&mut self, tcp: TcpConfig) -> Result<(), ConfigError> {
        let config = Config {
            tcp,
            ..self.config.clone()
        };
        config.check()?;
        self.config = config;
        Ok(())
    }

    /// Sets the options of future connections of this listener. Returns `false` if the handle is
    /// stale.
    pub fn set_listener_options(
        &mut self,
        listener: ListenerId,
        options: ConnectionOptions,
    ) -> bool {
        let slot = self.listeners.check(listener.slot, listener.generation);
        if let Some(slot) = slot {
            self.listeners.get_mut(slot).set_options(options);
        }
        slot.is_some()
    }

    /// Turns Nagle's algorithm on or off for this connection (RFC 9293, 3.7.4). Turning it off may
    /// release a delayed segment.
    ///
    /// # Errors
    ///
    /// If the connection has ended.
    pub fn set_nagle(&mut self, connection: ConnectionId, nagle: bool) -> Result<(), GoneError> {
        let slot = self.slot_of(connection).ok_or(GoneError)?;
        self.connections.tcb_mut(slot).set_nagle(nagle);
        self.update_tables(slot);
        Ok(())
    }

    /// Sets the options of this connection, which replace those of the stack.
    ///
    /// # Errors
    ///
    /// If the connection has ended.
    pub fn set_options(
        &mut self,
        now: Time,
        connection: ConnectionId,
        options: ConnectionOptions,
    ) -> Result<(), GoneError> {
        let slot = self.slot_of(connection).ok_or(GoneError)?;
        let tcb = self.connections.tcb_mut(slot);
        tcb.set_options(options, &self.config.tcp, now);
        self.update_tables(slot);
        Ok(())
    }
}
