//! Settings that change while the stack runs.

use super::Stack;
use crate::api::{
    Config, ConfigError, ConnectionId, ConnectionOptions, GoneError, ListenerId, TcpConfig, Time,
};

impl Stack {
    /// Other settings for TCP: connections to come take all of them, those that there are what is
    /// not agreed on in a handshake.
    ///
    /// # Errors
    /// When one is out of range; nothing has changed then.
    pub fn set_tcp_config(&mut self, tcp: TcpConfig) -> Result<(), ConfigError> {
        let config = Config {
            tcp,
            ..self.config.clone()
        };
        config.check()?;
        self.config = config;
        Ok(())
    }

    /// Settings of the connections that this listener will get. `false` when the handle names none.
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

    /// Whether this connection holds small segments back (RFC 9293, 3.7.4); what it held back may
    /// leave then.
    ///
    /// # Errors
    /// When the connection has ended.
    pub fn set_nagle(&mut self, connection: ConnectionId, nagle: bool) -> Result<(), GoneError> {
        let slot = self.slot_of(connection).ok_or(GoneError)?;
        self.connections.tcb_mut(slot).set_nagle(nagle);
        self.settle(slot);
        Ok(())
    }

    /// Settings of this connection in place of the stack's.
    ///
    /// # Errors
    /// When the connection has ended.
    pub fn set_options(
        &mut self,
        now: Time,
        connection: ConnectionId,
        options: ConnectionOptions,
    ) -> Result<(), GoneError> {
        let slot = self.slot_of(connection).ok_or(GoneError)?;
        let tcb = self.connections.tcb_mut(slot);
        tcb.set_options(options, &self.config.tcp, now);
        self.settle(slot);
        Ok(())
    }
}
