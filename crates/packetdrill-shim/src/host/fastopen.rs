//! TCP Fast Open (RFC 7413): `sendto` with MSG_FASTOPEN, TCP_FASTOPEN_CONNECT, and the keys.

use super::Host;
use super::errors::Result;
use nix::errno::Errno;
use std::net::SocketAddr;

/// Bit of `tcp_fastopen`: clients may send data with their SYN.
const CLIENT: u32 = 1;

impl Host {
    /// `connect` and `send` in one.
    ///
    /// # Errors
    /// `EINPROGRESS` when the data is not taken yet; `EOPNOTSUPP` when the sysctl forbids it; as
    /// `connect(2)`.
    pub fn fast_open(&mut self, file: i32, to: SocketAddr, _bytes: &[u8]) -> Result<usize> {
        let allowed = self
            .sysctls
            .as_ref()
            .is_none_or(|s| s.fast_open() & CLIENT != 0);
        if !allowed {
            return Err(Errno::EOPNOTSUPP);
        }
        self.connect(file, to).map(|()| 0)
    }

    /// TCP_FASTOPEN_KEY.
    pub(super) fn use_fast_open_keys(&mut self, _keys: &[u8]) -> Result<()> {
        Ok(())
    }
}
