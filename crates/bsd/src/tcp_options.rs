//! Options of `IPPROTO_TCP`, and `SO_KEEPALIVE`, with Linux's bounds.

use crate::Result;
use cofferdam_netstack::{ConnectionOptions, Keepalive};
use libc::c_int;
use nix::errno::Errno;
use std::time::Duration;

/// Upper bounds of TCP_KEEPIDLE and TCP_KEEPINTVL, of TCP_KEEPCNT and of TCP_SYNCNT
/// (include/net/tcp.h).
const MOST_KEEP_S: c_int = 32_767;
const MOST_PROBES: c_int = 127;
/// Bounds of TCP_MAXSEG (include/net/tcp.h).
const SEGMENT_BYTES: std::ops::RangeInclusive<c_int> = 88..=32_767;
/// Value of TCP_MAXSEG without a connection (TCP_MSS_DEFAULT).
const UNKNOWN_SEGMENT_BYTES: u32 = 536;

/// Default of TCP_LINGER2 in seconds (TCP_FIN_TIMEOUT).
const FIN_WAIT_2_S: c_int = 60;

/// Linux's default times of keepalive (Documentation/networking/ip-sysctl.rst).
pub const KEEPALIVE: Keepalive = Keepalive {
    idle: Duration::from_secs(7200),
    interval: Duration::from_secs(75),
    probes: 9,
};

/// Values that apply where a socket's options name none.
#[derive(Clone, Copy, Debug)]
pub struct Defaults {
    /// Small segments wait for acknowledgements (Nagle's algorithm).
    pub nagle: bool,
    /// Times of keepalive.
    pub keepalive: Keepalive,
    /// Retransmissions of a SYN.
    pub syn_retries: u8,
    /// Payload of a full segment; `None` without a connection.
    pub segment_bytes: Option<u32>,
}

/// Options of one socket.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TcpOptions {
    /// TCP_NODELAY.
    pub no_delay: bool,
    /// TCP_CORK: only full segments leave.
    pub cork: bool,
    /// SO_KEEPALIVE.
    pub keepalive: bool,
    /// TCP_KEEPIDLE.
    pub keep_idle: Option<Duration>,
    /// TCP_KEEPINTVL.
    pub keep_interval: Option<Duration>,
    /// TCP_KEEPCNT.
    pub keep_count: Option<u8>,
    /// TCP_USER_TIMEOUT. None or zero: the stack's timeout.
    pub user_timeout: Option<Duration>,
    /// TCP_SYNCNT.
    pub syn_retries: Option<u8>,
    /// TCP_MAXSEG, as set.
    pub most_segment_bytes: Option<u32>,
    /// Hints that are only read back: the stack has its own times for them.
    quick_ack: Option<c_int>,
    defer_accept: c_int,
    linger: c_int,
}

/// Converts a whole number of seconds.
fn seconds(value: c_int) -> Result<Option<Duration>> {
    match value {
        1..=MOST_KEEP_S => Ok(Some(Duration::from_secs(value as u64))),
        _ => Err(Errno::EINVAL),
    }
}

fn count(value: c_int) -> Result<Option<u8>> {
    match value {
        1..=MOST_PROBES => Ok(Some(value as u8)),
        _ => Err(Errno::EINVAL),
    }
}

fn in_seconds(time: Duration) -> c_int {
    c_int::try_from(time.as_secs()).unwrap_or(c_int::MAX)
}

impl TcpOptions {
    /// Sets an option of `IPPROTO_TCP`.
    ///
    /// # Errors
    /// `EINVAL` for a value outside Linux's bounds; `ENOPROTOOPT` for an unknown option.
    pub fn set(&mut self, name: c_int, value: c_int) -> Result<()> {
        match name {
            libc::TCP_NODELAY => self.no_delay = value != 0,
            libc::TCP_CORK => self.cork = value != 0,
            libc::TCP_KEEPIDLE => self.keep_idle = seconds(value)?,
            libc::TCP_KEEPINTVL => self.keep_interval = seconds(value)?,
            libc::TCP_KEEPCNT => self.keep_count = count(value)?,
            libc::TCP_SYNCNT => self.syn_retries = count(value)?,
            libc::TCP_USER_TIMEOUT => {
                let time = u64::try_from(value).map_err(|_| Errno::EINVAL)?;
                let time = Duration::from_millis(time);
                self.user_timeout = Some(time).filter(|time| !time.is_zero());
            }
            libc::TCP_MAXSEG => {
                if value != 0 && !SEGMENT_BYTES.contains(&value) {
                    return Err(Errno::EINVAL);
                }
                self.most_segment_bytes = Some(value as u32).filter(|bytes| *bytes > 0);
            }
            libc::TCP_QUICKACK => self.quick_ack = Some((value != 0).into()),
            libc::TCP_DEFER_ACCEPT => self.defer_accept = value,
            libc::TCP_LINGER2 => self.linger = value,
            _ => return Err(Errno::ENOPROTOOPT),
        }
        Ok(())
    }

    /// Value that `getsockopt` returns; `None` for an unknown option.
    pub fn value(&self, name: c_int, defaults: &Defaults) -> Option<c_int> {
        let keepalive = &defaults.keepalive;
        Some(match name {
            libc::TCP_NODELAY => (self.no_delay || !defaults.nagle).into(),
            libc::TCP_CORK => self.cork.into(),
            libc::TCP_KEEPIDLE => in_seconds(self.keep_idle.unwrap_or(keepalive.idle)),
            libc::TCP_KEEPINTVL => in_seconds(self.keep_interval.unwrap_or(keepalive.interval)),
            libc::TCP_KEEPCNT => self.keep_count.unwrap_or(keepalive.probes).into(),
            libc::TCP_SYNCNT => self.syn_retries.unwrap_or(defaults.syn_retries).into(),
            libc::TCP_USER_TIMEOUT => {
                let time = self.user_timeout.unwrap_or_default();
                c_int::try_from(time.as_millis()).unwrap_or(c_int::MAX)
            }
            libc::TCP_MAXSEG => {
                let set = self.most_segment_bytes.unwrap_or(UNKNOWN_SEGMENT_BYTES);
                defaults.segment_bytes.unwrap_or(set) as c_int
            }
            libc::TCP_QUICKACK => self.quick_ack.unwrap_or(1),
            libc::TCP_DEFER_ACCEPT => self.defer_accept,
            libc::TCP_LINGER2 if self.linger == 0 => FIN_WAIT_2_S,
            libc::TCP_LINGER2 => self.linger,
            _ => return None,
        })
    }

    /// The options as the stack takes them.
    pub fn of_connection(&self) -> ConnectionOptions {
        ConnectionOptions {
            syn_retries: self.syn_retries,
            user_timeout: self.user_timeout,
            keepalive: self.keepalive.then(|| Keepalive {
                idle: self.keep_idle.unwrap_or(KEEPALIVE.idle),
                interval: self.keep_interval.unwrap_or(KEEPALIVE.interval),
                probes: self.keep_count.unwrap_or(KEEPALIVE.probes),
            }),
            segment_bytes: (self.most_segment_bytes).and_then(|bytes| bytes.try_into().ok()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DEFAULTS: Defaults = Defaults {
        nagle: true,
        keepalive: KEEPALIVE,
        syn_retries: 6,
        segment_bytes: None,
    };

    /// Promise 53.
    #[test]
    fn values_come_back_and_those_out_of_bounds_are_refused() {
        let mut options = TcpOptions::default();
        for (name, before, good, bad) in [
            (libc::TCP_KEEPIDLE, 7200, 32_767, 32_768),
            (libc::TCP_KEEPINTVL, 75, 1, 0),
            (libc::TCP_KEEPCNT, 9, 127, 128),
            (libc::TCP_SYNCNT, 6, 1, 0),
            (libc::TCP_USER_TIMEOUT, 0, 1500, -1),
            (libc::TCP_MAXSEG, 536, 88, 87),
        ] {
            assert_eq!(options.value(name, &DEFAULTS), Some(before));
            assert_eq!(options.set(name, bad), Err(Errno::EINVAL));
            assert_eq!(options.value(name, &DEFAULTS), Some(before));
            assert_eq!(options.set(name, good), Ok(()));
            assert_eq!(options.value(name, &DEFAULTS), Some(good));
        }
        assert_eq!(options.set(libc::TCP_MD5SIG, 1), Err(Errno::ENOPROTOOPT));
        assert_eq!(options.value(libc::TCP_MD5SIG, &DEFAULTS), None);
    }

    #[test]
    fn keepalive_has_its_times_only_while_it_is_on() {
        let mut options = TcpOptions::default();
        assert_eq!(options.set(libc::TCP_KEEPINTVL, 2), Ok(()));
        assert_eq!(options.of_connection().keepalive, None);
        options.keepalive = true;
        let expected = Keepalive {
            interval: Duration::from_secs(2),
            ..KEEPALIVE
        };
        assert_eq!(options.of_connection().keepalive, Some(expected));
    }
}
