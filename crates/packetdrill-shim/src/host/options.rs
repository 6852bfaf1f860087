//! Socket options. An option without effect here is rejected rather than ignored, unless it has no
//! effect on the wire in Linux either.

use super::errors::Result;
use super::settings::{
    LEAST_RECEIVE_BUFFER_BYTES, LEAST_SEND_BUFFER_BYTES, SO_MEMINFO, Settings, TCP_CC_INFO,
    TCP_FASTOPEN_KEY, TCP_FASTOPEN_NO_COOKIE, TCP_INQ,
};
use super::{File, Host, Role};
use crate::control::Control;
use cofferdam_bsd::{Defaults, KEEPALIVE};
use libc::{IPPROTO_IP, IPPROTO_IPV6, IPPROTO_TCP, SOL_SOCKET};
use nix::errno::Errno;
use std::net::SocketAddr;

/// Reads a C integer of up to four bytes (`IP_TOS` accepts one).
fn integer(value: &[u8]) -> Result<i32> {
    match value {
        [byte] => Ok((*byte).into()),
        _ => {
            let (first, _) = value.split_first_chunk().ok_or(Errno::EINVAL)?;
            Ok(i32::from_ne_bytes(*first))
        }
    }
}

impl Host {
    /// Value of an option, in the layout of `getsockopt`.
    ///
    /// # Errors
    /// `ENOPROTOOPT` for an option that is not supported.
    pub fn option(&mut self, file: i32, level: i32, name: i32) -> Result<Vec<u8>> {
        let is_datagrams = matches!(self.socket_of(file)?.role, Role::Datagrams(_));
        if is_datagrams && level == IPPROTO_TCP {
            return Err(Errno::EOPNOTSUPP);
        }
        match (level, name) {
            (SOL_SOCKET, SO_MEMINFO) => return self.memory_info(file),
            (SOL_SOCKET, libc::SO_LINGER) => {
                let on = i32::from(self.socket_of(file)?.settings.close_resets);
                return Ok([on.to_ne_bytes(), 0_i32.to_ne_bytes()].concat());
            }
            (IPPROTO_TCP, libc::TCP_INFO) => return self.tcp_info(file),
            // Neither algorithm of the stack reports anything, as reno and cubic in Linux.
            (IPPROTO_TCP, TCP_CC_INFO) => return Ok(Vec::new()),
            (IPPROTO_TCP, libc::TCP_CONGESTION) => {
                let mut name = self.congestion_name().as_bytes().to_vec();
                name.resize(16, 0);
                return Ok(name);
            }
            (IPPROTO_TCP, TCP_FASTOPEN_KEY) => {
                return Ok(self.socket_of(file)?.settings.fast_open_keys.clone());
            }
            _ => {}
        }
        let value = match level {
            SOL_SOCKET => self.socket_option(file, name)?,
            IPPROTO_IP | IPPROTO_IPV6 => self.ip_option(file, level, name)?,
            IPPROTO_TCP => self.tcp_option(file, name)?,
            _ => return Err(Errno::ENOPROTOOPT),
        };
        Ok(value.to_ne_bytes().to_vec())
    }

    fn socket_option(&mut self, file: i32, name: i32) -> Result<i32> {
        let config = &self.stack.config().tcp;
        let (send, receive) = (config.send_window_bytes, config.receive_window_bytes);
        let socket = self.socket_of(file)?;
        let settings = &socket.settings;
        let bytes = |bytes: u32| i32::try_from(bytes).unwrap_or(i32::MAX);
        Ok(match name {
            libc::SO_ERROR => {
                let before = socket.error.take();
                let error = match self.connection_of(file) {
                    Ok(conn) => conn.error.take(),
                    Err(_) => before,
                };
                error.map_or(0, |error| error as i32)
            }
            libc::SO_TYPE => match socket.role {
                Role::Datagrams(_) => libc::SOCK_DGRAM,
                _ => libc::SOCK_STREAM,
            },
            libc::SO_DOMAIN if socket.is_v6 => libc::AF_INET6,
            libc::SO_DOMAIN => libc::AF_INET,
            libc::SO_PROTOCOL => match socket.role {
                Role::Datagrams(_) => libc::IPPROTO_UDP,
                _ => libc::IPPROTO_TCP,
            },
            libc::SO_REUSEADDR => settings.reuse_address.into(),
            libc::SO_REUSEPORT => settings.reuse_port.into(),
            libc::SO_ACCEPTCONN => matches!(socket.role, Role::Listening { .. }).into(),
            libc::SO_KEEPALIVE => settings.tcp.keepalive.into(),
            libc::SO_SNDBUF => bytes(settings.send_buffer_bytes.unwrap_or(send)),
            libc::SO_RCVBUF => bytes(settings.receive_buffer_bytes.unwrap_or(receive)),
            libc::SO_PRIORITY => settings.priority,
            libc::SO_MARK => settings.mark,
            libc::SO_ZEROCOPY => settings.zero_copy.into(),
            libc::SO_TIMESTAMPING => settings.timestamping as i32,
            libc::SO_RCVLOWAT => bytes(settings.least_readable_bytes()),
            libc::SO_BROADCAST | libc::SO_OOBINLINE | libc::SO_DONTROUTE => {
                settings.stored_value(SOL_SOCKET, name)
            }
            _ => return Err(Errno::ENOPROTOOPT),
        })
    }

    fn ip_option(&mut self, file: i32, level: i32, name: i32) -> Result<i32> {
        let socket = self.socket_of(file)?;
        let settings = &socket.settings;
        Ok(match (level, name) {
            (IPPROTO_IP, libc::IP_PKTINFO) | (IPPROTO_IPV6, libc::IPV6_RECVPKTINFO) => {
                match &socket.role {
                    Role::Datagrams(datagrams) => datagrams.tells_address.into(),
                    _ => return Err(Errno::ENOPROTOOPT),
                }
            }
            (IPPROTO_IP, libc::IP_TOS) | (IPPROTO_IPV6, libc::IPV6_TCLASS) => {
                settings.traffic_class.into()
            }
            (IPPROTO_IP, libc::IP_MTU_DISCOVER) | (IPPROTO_IPV6, libc::IPV6_MTU_DISCOVER) => {
                settings.path_mtu_discovery
            }
            (IPPROTO_IP, libc::IP_RECVERR) | (IPPROTO_IPV6, libc::IPV6_RECVERR) => {
                settings.receives_errors.into()
            }
            (IPPROTO_IP, libc::IP_FREEBIND) => settings.stored_value(level, name),
            (IPPROTO_IPV6, libc::IPV6_V6ONLY) => 0,
            _ => return Err(Errno::ENOPROTOOPT),
        })
    }

    fn tcp_option(&mut self, file: i32, name: i32) -> Result<i32> {
        let config = &self.stack.config().tcp;
        let defaults = Defaults {
            nagle: config.nagle,
            keepalive: config.keepalive.unwrap_or(KEEPALIVE),
            syn_retries: config.syn_retries,
            segment_bytes: None,
        };
        let conn = self.connection_of(file).ok().map(|conn| conn.id);
        let info = conn.and_then(|id| self.stack.connection(id));
        let settings = &self.socket_of(file)?.settings;
        Ok(match name {
            TCP_INQ => settings.tells_queue.into(),
            libc::TCP_NOTSENT_LOWAT => settings.not_sent_low_bytes.unwrap_or(0) as i32,
            libc::TCP_FASTOPEN => settings.fast_open_backlog as i32,
            libc::TCP_FASTOPEN_CONNECT => settings.fast_open_connect.into(),
            TCP_FASTOPEN_NO_COOKIE => settings.fast_open_without_cookie.into(),
            _ => {
                let segment_bytes = info.map(|info| info.mss_bytes);
                let defaults = Defaults {
                    segment_bytes,
                    ..defaults
                };
                let value = settings.tcp.value(name, &defaults);
                return value.ok_or(Errno::ENOPROTOOPT);
            }
        })
    }

    /// Sets an option.
    ///
    /// # Errors
    /// `EINVAL` for a value of the wrong size or out of range; `ENOPROTOOPT` for an option that is
    /// not supported.
    pub fn set_option(&mut self, file: i32, level: i32, name: i32, value: &[u8]) -> Result<()> {
        let socket = self.socket_of(file)?;
        let is_datagrams = matches!(socket.role, Role::Datagrams(_));
        if is_datagrams && level == IPPROTO_TCP {
            return Err(Errno::EOPNOTSUPP);
        }
        if (level, name) == (IPPROTO_TCP, TCP_FASTOPEN_KEY) {
            // The current key, or the current and the previous key.
            if ![16, 32].contains(&value.len()) {
                return Err(Errno::EINVAL);
            }
            socket.settings.fast_open_keys = value.to_vec();
            self.settings_changed(file);
            return Ok(());
        }
        if (level, name) == (IPPROTO_TCP, libc::TCP_CONGESTION) {
            return self.choose_congestion(value);
        }
        let first = integer(value)?;
        match level {
            SOL_SOCKET => set_socket_option(&mut socket.settings, name, first, value)?,
            IPPROTO_IP | IPPROTO_IPV6 => self.set_ip_option(file, level, name, first)?,
            IPPROTO_TCP => self.set_tcp_option(file, name, first)?,
            _ => return Err(Errno::ENOPROTOOPT),
        }
        self.settings_changed(file);
        Ok(())
    }

    fn set_ip_option(&mut self, file: i32, level: i32, name: i32, first: i32) -> Result<()> {
        let socket = self.socket_of(file)?;
        let settings = &mut socket.settings;
        match (level, name) {
            (IPPROTO_IP, libc::IP_PKTINFO) | (IPPROTO_IPV6, libc::IPV6_RECVPKTINFO) => {
                match &mut socket.role {
                    Role::Datagrams(datagrams) => datagrams.tells_address = first != 0,
                    _ => return Err(Errno::ENOPROTOOPT),
                }
            }
            (IPPROTO_IP, libc::IP_TOS) | (IPPROTO_IPV6, libc::IPV6_TCLASS) => {
                // The stack sets the ECN bits itself.
                settings.traffic_class = first as u8 & !3;
            }
            (IPPROTO_IP, libc::IP_MTU_DISCOVER) | (IPPROTO_IPV6, libc::IPV6_MTU_DISCOVER) => {
                if !(libc::IP_PMTUDISC_DONT..=libc::IP_PMTUDISC_OMIT).contains(&first) {
                    return Err(Errno::EINVAL);
                }
                settings.path_mtu_discovery = first;
            }
            (IPPROTO_IP, libc::IP_RECVERR) | (IPPROTO_IPV6, libc::IPV6_RECVERR) => {
                settings.receives_errors = first != 0;
            }
            (IPPROTO_IP, libc::IP_FREEBIND) => {
                settings.stored.insert((level, name), (first != 0).into());
            }
            _ => return Err(Errno::ENOPROTOOPT),
        }
        Ok(())
    }

    fn set_tcp_option(&mut self, file: i32, name: i32, first: i32) -> Result<()> {
        let is_fresh = matches!(self.socket_of(file)?.role, Role::Fresh);
        let may_fast_open = self.may_fast_open();
        let settings = &mut self.socket_of(file)?.settings;
        match name {
            TCP_INQ => {
                if ![0, 1].contains(&first) {
                    return Err(Errno::EINVAL);
                }
                settings.tells_queue = first == 1;
            }
            libc::TCP_NOTSENT_LOWAT => {
                settings.not_sent_low_bytes = Some(first as u32).filter(|bytes| *bytes > 0);
            }
            libc::TCP_FASTOPEN => {
                settings.fast_open_backlog = u32::try_from(first).map_err(|_| Errno::EINVAL)?;
            }
            libc::TCP_FASTOPEN_CONNECT | TCP_FASTOPEN_NO_COOKIE => {
                if ![0, 1].contains(&first) || (!is_fresh && name == libc::TCP_FASTOPEN_CONNECT) {
                    return Err(Errno::EINVAL);
                }
                if !may_fast_open {
                    return Err(Errno::EOPNOTSUPP);
                }
                match name {
                    libc::TCP_FASTOPEN_CONNECT => settings.fast_open_connect = first == 1,
                    _ => settings.fast_open_without_cookie = first == 1,
                }
            }
            _ => return settings.tcp.set(name, first),
        }
        Ok(())
    }

    /// Control message with the readable bytes, if TCP_INQ is set (tcp(7)).
    ///
    /// # Errors
    /// `EBADF`, `ENOTSOCK`.
    pub(super) fn queue_message(&mut self, file: i32) -> Result<Option<Control>> {
        if !self.socket_of(file)?.settings.tells_queue {
            return Ok(None);
        }
        let conn = self.connection_of(file)?;
        // Linux reports at least 1 until the end of the stream has been read.
        let left = conn.unread_bytes().max(conn.peer_has_closed.into());
        let left = i32::try_from(left).unwrap_or(i32::MAX);
        Ok(Some(Control {
            level: IPPROTO_TCP,
            kind: TCP_INQ,
            data: left.to_ne_bytes().to_vec(),
        }))
    }

    /// Whether the socket shows IPv4 addresses as IPv4-mapped IPv6 addresses (RFC 4291, 2.5.5.2).
    pub fn shows_mapped(&self, file: i32, address: SocketAddr) -> bool {
        let is_v6 = matches!(self.files.get(&file), Some(File::Socket(socket)) if socket.is_v6);
        is_v6 && address.is_ipv4()
    }
}

fn set_socket_option(settings: &mut Settings, name: i32, first: i32, value: &[u8]) -> Result<()> {
    let doubled = |least: u32| Some((first.max(0) as u32).saturating_mul(2).max(least));
    match name {
        libc::SO_REUSEADDR => settings.reuse_address = first != 0,
        libc::SO_REUSEPORT => settings.reuse_port = first != 0,
        libc::SO_KEEPALIVE => settings.tcp.keepalive = first != 0,
        libc::SO_LINGER => {
            let seconds = value.get(4..8).ok_or(Errno::EINVAL)?;
            // Closing never blocks here; only a time of zero makes a difference.
            settings.close_resets = first != 0 && integer(seconds)? == 0;
        }
        libc::SO_SNDBUF | libc::SO_SNDBUFFORCE => {
            settings.send_buffer_bytes = doubled(LEAST_SEND_BUFFER_BYTES)
        }
        libc::SO_RCVBUF | libc::SO_RCVBUFFORCE => {
            settings.receive_buffer_bytes = doubled(LEAST_RECEIVE_BUFFER_BYTES);
        }
        libc::SO_BROADCAST | libc::SO_OOBINLINE | libc::SO_DONTROUTE => {
            settings
                .stored
                .insert((SOL_SOCKET, name), (first != 0).into());
        }
        // A negative value means the maximum and zero means 1, as in Linux.
        libc::SO_RCVLOWAT => {
            let bytes = if first < 0 { i32::MAX } else { first.max(1) };
            settings.stored.insert((SOL_SOCKET, name), bytes);
        }
        libc::SO_PRIORITY => settings.priority = first,
        libc::SO_MARK => settings.mark = first,
        libc::SO_ZEROCOPY => {
            if ![0, 1].contains(&first) {
                return Err(Errno::EINVAL);
            }
            settings.zero_copy = first == 1;
        }
        libc::SO_TIMESTAMPING => settings.timestamping = first as u32,
        _ => return Err(Errno::ENOPROTOOPT),
    }
    Ok(())
}

impl Settings {
    /// SO_RCVLOWAT: minimum number of bytes for which the socket counts as readable.
    pub(super) fn least_readable_bytes(&self) -> u32 {
        let threshold = self.stored_value(SOL_SOCKET, libc::SO_RCVLOWAT);
        threshold.max(1).unsigned_abs()
    }

    pub(super) fn stored_value(&self, level: i32, name: i32) -> i32 {
        self.stored.get(&(level, name)).copied().unwrap_or(0)
    }
}
