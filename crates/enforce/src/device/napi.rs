//! Threads of a device's NAPI instances over netlink, which works even if the namespace's sysfs is
//! read-only.

use super::{DeviceId, Inside, not_found, unsupported};
use cofferdam_host::inside;
use cofferdam_host::netlink::{NAPI_ID, NAPI_SET, NAPI_THREADED, Napi, Netdev, attribute};
use std::io;

impl Inside {
    /// Whether the device's NAPI instances poll in threads: one word for all, `0` or `1`, or one
    /// word each if they differ. Unsupported before Linux 6.17.
    pub fn napis_threaded(&self, device: &DeviceId) -> io::Result<String> {
        let napis = self.napis(device)?;
        let words: Option<Vec<String>> = napis
            .iter()
            .map(|n| n.threaded.map(|t| t.to_string()))
            .collect();
        let mut words = words.ok_or_else(|| {
            unsupported(
                "this kernel has no netlink request for NAPI threads (Linux 6.17 and newer)".into(),
            )
        })?;
        words.dedup();
        match words.len() {
            1 => Ok(words.remove(0)),
            _ => Ok(napis
                .iter()
                .map(|n| n.threaded.unwrap_or(0).to_string())
                .collect::<Vec<_>>()
                .join(" ")),
        }
    }

    /// Sets the value that [`Inside::napis_threaded`] returns.
    pub fn set_napis_threaded(&self, device: &DeviceId, value: &str) -> io::Result<()> {
        let napis = self.napis(device)?;
        let words: Option<Vec<u32>> = value.split(' ').map(|word| word.parse().ok()).collect();
        let words = words
            .filter(|words| words.len() == 1 || words.len() == napis.len())
            .ok_or(io::ErrorKind::InvalidInput)?;
        let ids = napis.iter().map(|napi| napi.id);
        let values: Vec<(u32, u32)> = ids.zip(words.into_iter().cycle()).collect();
        cofferdam_host::in_namespace(&self.namespace, || set_threaded(&values))?
    }

    /// NAPI instances of the device by number. Not found if it has none, as a device that is down.
    fn napis(&self, device: &DeviceId) -> io::Result<Vec<Napi>> {
        let mut napis = cofferdam_host::in_namespace(&self.namespace, inside::napis)??;
        napis.retain(|napi| napi.ifindex == device.ifindex.0);
        napis.sort_by_key(|napi| napi.id);
        match napis.is_empty() {
            true => Err(not_found("the network device no longer has NAPI")),
            false => Ok(napis),
        }
    }

    /// Threads in which the device's NAPI instances poll, if the kernel reports them (Linux 6.8
    /// on).
    pub fn napi_threads(&self, device: &DeviceId) -> Vec<u32> {
        let napis = self.napis(device).unwrap_or_default();
        napis.into_iter().filter_map(|napi| napi.thread).collect()
    }
}

/// Gives NAPI instances a thread (1) or removes it (0), by number. Requires Linux 6.17; earlier
/// kernels return `EOPNOTSUPP` or `EINVAL`.
fn set_threaded(values: &[(u32, u32)]) -> io::Result<()> {
    let mut netdev = Netdev::open()?;
    values.iter().try_for_each(|(id, threaded)| {
        let attributes = [
            attribute(NAPI_ID, &id.to_ne_bytes()),
            attribute(NAPI_THREADED, &threaded.to_ne_bytes()),
        ];
        netdev.request(NAPI_SET, &attributes.concat())
    })
}
