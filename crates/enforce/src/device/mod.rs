//! Network devices in any namespace: their sysfs files and their offloads.
//!
//! A device is identified by its namespace and index, never by its name: names change, and every
//! container has an `eth0`.

mod ethtool;
mod namespace_cache;
mod napi;
mod superblock;
mod sys;

use cofferdam_types::{IfIndex, NetnsId};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::fs::File;
use std::io::{self, Read, Write};
use std::net::UdpSocket;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::rc::Rc;

pub(crate) use namespace_cache::NamespaceCache;

/// Network device; valid while its namespace lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct DeviceId {
    /// Inode number of its namespace; reused after the namespace is gone.
    pub netns: NetnsId,
    /// Cookie of the namespace, never reused; `None` before Linux 5.14.
    pub netns_cookie: Option<u64>,
    /// Index in that namespace.
    pub ifindex: IfIndex,
}

impl fmt::Display for DeviceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "device {} in net:[{}]", self.ifindex, self.netns)
    }
}

/// View of a namespace from inside: its sysfs, and a socket for requests. It keeps the namespace
/// alive, so keep it only for a moment.
pub(crate) struct Inside {
    namespace: File,
    sysfs: OwnedFd,
    socket: UdpSocket,
    cookie: Option<u64>,
}

impl Inside {
    /// Enters the namespace of a device. Not found if it is gone, or its number now belongs to
    /// another one.
    pub fn of(device: &DeviceId) -> io::Result<Rc<Inside>> {
        let inside = Inside::find(device.netns, None)?;
        if device.netns_cookie.is_some() && inside.cookie != device.netns_cookie {
            return Err(not_found(
                "this number belongs to a different namespace by now",
            ));
        }
        Ok(inside)
    }

    /// Enters the namespace with this number; `pid` is a process that is probably in it.
    pub fn find(netns: NetnsId, pid: Option<u32>) -> io::Result<Rc<Inside>> {
        namespace_cache::or_enter(netns, || {
            Inside::enter(&cofferdam_host::find_namespace(netns, pid)?)
        })
    }

    /// Enters the namespace of `file`.
    fn enter(file: &File) -> io::Result<Inside> {
        cofferdam_host::in_namespace(file, || {
            let socket = UdpSocket::bind(("0.0.0.0", 0))?;
            let cookie = sys::netns_cookie(&socket).ok();
            Ok(Inside {
                namespace: file.try_clone()?,
                sysfs: sys::mount_sysfs()?,
                socket,
                cookie,
            })
        })?
    }

    /// Identity of a device in this namespace.
    pub fn device(&self, netns: NetnsId, ifindex: IfIndex) -> DeviceId {
        DeviceId {
            netns,
            netns_cookie: self.cookie,
            ifindex,
        }
    }

    /// Current name of the device.
    pub fn name(&self, device: &DeviceId) -> io::Result<String> {
        sys::interface_name(&self.socket, device.ifindex.0)
    }

    /// Reads a file of the device's sysfs directory.
    pub fn read(&self, device: &DeviceId, file: &Path) -> io::Result<String> {
        let mut text = String::new();
        self.open(device, file, false)?
            .take(64 << 10)
            .read_to_string(&mut text)?;
        Ok(text.trim().to_owned())
    }

    /// Writes a file of the device's sysfs directory.
    pub fn write(&self, device: &DeviceId, file: &Path, value: &str) -> io::Result<()> {
        self.open(device, file, true)?.write_all(value.as_bytes())
    }

    /// Whether its sysfs is read-only for all mounts, ours included.
    pub fn is_read_only(&self) -> io::Result<bool> {
        superblock::is_read_only(&self.sysfs)
    }

    /// Makes its sysfs writable or read-only. Mounts that are read-only themselves stay so.
    pub fn set_read_only(&self, read_only: bool) -> io::Result<()> {
        superblock::set_read_only(&self.sysfs, read_only)
    }

    fn open(&self, device: &DeviceId, file: &Path, write: bool) -> io::Result<File> {
        sys::open_below(&self.sysfs, &self.directory(device)?.join(file), write)
    }

    fn directory(&self, device: &DeviceId) -> io::Result<PathBuf> {
        Ok(Path::new("class/net").join(self.name(device)?))
    }

    /// Number of the device's receive queues.
    pub fn rx_queues(&self, device: &DeviceId) -> io::Result<u32> {
        let directory = self.directory(device)?.join("queues");
        let mut queues = 0;
        while sys::open_below(
            &self.sysfs,
            &directory.join(format!("rx-{queues}/rps_cpus")),
            false,
        )
        .is_ok()
        {
            queues += 1;
        }
        Ok(queues)
    }

    /// Whether an offload is requested.
    pub fn feature(&self, device: &DeviceId, name: &str) -> io::Result<bool> {
        let features = ethtool::Features::read(&self.socket, &self.name(device)?)?;
        features
            .is_requested(name)
            .ok_or_else(|| unsupported(format!("this kernel has no offload {name}")))
    }

    /// Names of the requested offloads.
    pub fn features(&self, device: &DeviceId) -> io::Result<Vec<String>> {
        let features = ethtool::Features::read(&self.socket, &self.name(device)?)?;
        Ok(features.requested_names())
    }

    /// Turns an offload on or off.
    pub fn set_feature(&self, device: &DeviceId, name: &str, on: bool) -> io::Result<()> {
        ethtool::Features::read(&self.socket, &self.name(device)?)?.set(&self.socket, name, on)
    }
}

pub(crate) fn not_found(why: &str) -> io::Error {
    io::Error::new(io::ErrorKind::NotFound, why.to_owned())
}

fn unsupported(why: String) -> io::Error {
    io::Error::new(io::ErrorKind::Unsupported, why)
}
