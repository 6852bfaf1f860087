//! Checks of this host's network devices, without changing one of them.

use super::{Check, Status};
use cofferdam_host::netlink::Netdev;
use cofferdam_host::{HostFs, device_request};
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::os::unix::net::UnixDatagram;
use std::path::Path;

const CLASS: &str = "/sys/class/net";
/// Most devices that are listed by name; a host of a thousand containers has a thousand veths.
const MAX_LISTED: usize = 12;

struct Device {
    name: String,
    index: u32,
    driver: String,
    /// Value of `threaded`; `None` where the kernel has no such file.
    threaded: Option<bool>,
    up: bool,
}

/// Whether a device has NAPI.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Napi {
    Yes,
    No,
    /// The kernel reports only devices that are up.
    Down,
    /// Testing failed.
    Unknown,
}

/// Checks of threaded NAPI, XDP and veth GRO on the existing devices.
pub(super) fn devices(fs: &HostFs) -> Vec<Check> {
    let all: Vec<Device> = fs
        .names(CLASS)
        .unwrap_or_default()
        .iter()
        .filter_map(|name| device(fs, name.to_str()?))
        .collect();
    let (veths, others): (Vec<_>, Vec<_>) = all.into_iter().partition(|d| d.driver == "veth");
    let mut netdev = Netdev::open().ok();
    let features = netdev.as_mut().and_then(|n| n.xdp_features().ok());
    let napi = netdev.as_mut().and_then(|n| n.with_napi().ok());
    vec![
        threaded(others.iter().map(|d| (d, has_napi(fs, d, napi.as_ref())))),
        xdp(&others, features.as_ref()),
        gro(&veths),
    ]
}

fn device(fs: &HostFs, name: &str) -> Option<Device> {
    let directory = Path::new(CLASS).join(name);
    let read = |file: &str| {
        fs.read_text(directory.join(file))
            .ok()
            .map(|text| text.trim().to_owned())
    };
    let loopback: u32 = 772; // ARPHRD_LOOPBACK
    if read("type")?.parse() == Ok(loopback) {
        return None;
    }
    let index = read("ifindex")?.parse().ok()?;
    let kind = read("uevent").and_then(|text| {
        text.lines()
            .find_map(|l| l.strip_prefix("DEVTYPE=").map(str::to_owned))
    });
    let driver = std::fs::read_link(fs.path(directory.join("device/driver")))
        .ok()
        .and_then(|target| Some(target.file_name()?.to_str()?.to_owned()))
        .or(kind)
        .or_else(|| driver_name(name).ok())
        .unwrap_or_else(|| "unknown driver".to_owned());
    let threaded = read("threaded").map(|text| text != "0");
    Some(Device {
        name: name.to_owned(),
        index,
        driver,
        threaded,
        up: read("flags")
            .and_then(|text| u32::from_str_radix(text.trim_start_matches("0x"), 16).ok())
            .is_some_and(|flags| flags & libc::IFF_UP.cast_unsigned() != 0),
    })
}

/// Whether a device has NAPI. Kernels from 6.8 on report it in `reported`.
///
/// Otherwise the file `threaded` is written with its present value: the kernel compares, changes
/// nothing, and refuses where there is no NAPI (net/core/net-sysfs.c, modify_napi_threaded).
fn has_napi(fs: &HostFs, device: &Device, reported: Option<&BTreeSet<u32>>) -> Napi {
    match (reported, device.threaded) {
        (_, None) => Napi::No,
        (Some(reported), _) if reported.contains(&device.index) => Napi::Yes,
        (Some(_), _) if device.up => Napi::No,
        (Some(_), _) => Napi::Down,
        (None, Some(on)) => {
            let file = fs.path(Path::new(CLASS).join(&device.name).join("threaded"));
            match std::fs::write(file, if on { "1" } else { "0" }) {
                Ok(()) => Napi::Yes,
                Err(e) if e.raw_os_error() == Some(libc::EOPNOTSUPP) => Napi::No,
                Err(_) => Napi::Unknown,
            }
        }
    }
}

/// Detail of both checks of real devices on a host without any, such as a small virtual machine.
const NO_DEVICE: &str = "no device other than loopback and veth to examine";

fn threaded<'a>(devices: impl Iterator<Item = (&'a Device, Napi)>) -> Check {
    let devices: Vec<(&Device, Napi)> = devices.collect();
    let check = Check::new(
        "threaded-napi",
        "threaded NAPI, per device",
        "moves receive work to a thread that can be charged and placed",
    );
    if devices.is_empty() {
        return check.is(Status::Partly, NO_DEVICE);
    }
    let of = |napi: Napi| devices.iter().filter(move |(_, n)| *n == napi);
    let name = |(d, _): &(&Device, Napi)| format!("{} ({})", d.name, d.driver);
    let detail = [
        listed(of(Napi::Yes).map(|d| {
            let state = if d.0.threaded == Some(true) {
                "on"
            } else {
                "off"
            };
            format!("{}: {state}", name(d))
        })),
        labelled("without NAPI", listed(of(Napi::No).map(name))),
        labelled(
            "down, so the kernel does not report it",
            listed(of(Napi::Down).map(name)),
        ),
        labelled("could not be tested", listed(of(Napi::Unknown).map(name))),
    ];
    let detail: Vec<String> = detail.into_iter().filter(|part| !part.is_empty()).collect();
    let has = |napi: Napi| of(napi).next().is_some();
    let status = match (has(Napi::Yes), has(Napi::Down) || has(Napi::Unknown)) {
        (true, _) => Status::Yes,
        (false, true) => Status::Partly,
        (false, false) => Status::No,
    };
    if !has(Napi::Yes) && has(Napi::Unknown) && !super::bpf::privileged() {
        return check.not_permitted(status, detail.join("; "));
    }
    let check = check.is(status, detail.join("; "));
    if devices.iter().all(|(d, _)| d.threaded.is_none()) {
        check.or("use a kernel with /sys/class/net/DEV/threaded (Linux 5.12 on)")
    } else if has(Napi::Down) {
        check.or("turn the device on: ip link set DEV up")
    } else if has(Napi::Unknown) {
        check.or("run it as root, where /sys can be written")
    } else {
        check.or("use a device whose driver has NAPI")
    }
}

fn labelled(what: &str, names: String) -> String {
    if names.is_empty() {
        names
    } else {
        format!("{what}: {names}")
    }
}

/// Feature bits of the kernel's `netdev` family, with their names there.
const XDP_BITS: [(u64, &str); 6] = [
    (1, "basic"),
    (2, "redirect"),
    (4, "ndo-xmit"),
    (8, "zero-copy"),
    (16, "offload"),
    (32, "multi-buffer"),
];

fn xdp(devices: &[Device], features: Option<&BTreeMap<u32, u64>>) -> Check {
    let check = Check::new(
        "xdp-devices",
        "XDP, per device",
        "drops a flood before it costs CPU, on real devices",
    );
    if devices.is_empty() {
        return check.is(Status::Partly, NO_DEVICE);
    }
    let Some(features) = features else {
        let names = listed(devices.iter().map(|d| format!("{} ({})", d.name, d.driver)));
        return check.is(
            Status::Partly,
            format!("unknown on this kernel (before 6.3); at least generic XDP: {names}"),
        );
    };
    let mut native = 0;
    let text = listed(devices.iter().map(|d| {
        let bits = features.get(&d.index).copied().unwrap_or(0);
        if bits & 1 == 0 {
            return format!("{} ({}): generic only", d.name, d.driver);
        }
        native += 1;
        let names: Vec<&str> = XDP_BITS
            .iter()
            .filter(|(bit, _)| bits & bit != 0)
            .map(|(_, name)| *name)
            .collect();
        format!("{} ({}): native ({})", d.name, d.driver, names.join(", "))
    }));
    match native {
        0 => check.is(Status::Partly, text),
        n if n >= devices.len() => check.is(Status::Yes, text),
        _ => check.is(Status::Partly, text),
    }
}

fn gro(veths: &[Device]) -> Check {
    let check = Check::new(
        "veth-gro",
        "GRO on veth devices",
        "a veth with GRO has NAPI of its own, which can be threaded",
    );
    if veths.is_empty() {
        return check.is(
            Status::Partly,
            "no veth device on this host now; GRO is off by default",
        );
    }
    let on: Vec<&Device> = veths
        .iter()
        .filter(|d| gro_of(&d.name).unwrap_or(false))
        .collect();
    let detail = format!(
        "on for {} of {}: {}",
        on.len(),
        veths.len(),
        listed(veths.iter().map(|d| {
            let state = if on.iter().any(|o| o.name == d.name) {
                "on"
            } else {
                "off"
            };
            format!("{} {state}", d.name)
        }))
    );
    let status = match on.len() {
        0 => Status::No,
        n if n == veths.len() => Status::Yes,
        _ => Status::Partly,
    };
    check
        .is(status, detail)
        .or("nothing to do: enforcement enables it where needed")
}

fn listed(items: impl Iterator<Item = String>) -> String {
    let items: Vec<String> = items.collect();
    let more = items.len().saturating_sub(MAX_LISTED);
    let shown = items
        .iter()
        .take(MAX_LISTED)
        .map(String::as_str)
        .collect::<Vec<_>>()
        .join(", ");
    if more == 0 {
        shown
    } else {
        format!("{shown} and {more} more")
    }
}

const ETHTOOL_GDRVINFO: u32 = 0x03;
const ETHTOOL_GGRO: u32 = 0x2b;
const ETHTOOL_SGRO: u32 = 0x2c;

/// Whether GRO of `device` is on.
fn gro_of(device: &str) -> io::Result<bool> {
    let mut value = [ETHTOOL_GGRO, 0];
    ethtool(device, &mut value)?;
    Ok(value[1] != 0)
}

/// Turns GRO of a sandbox device on or off.
pub(super) fn set_gro(device: &str, on: bool) -> io::Result<()> {
    ethtool(device, &mut [ETHTOOL_SGRO, u32::from(on)])
}

fn driver_name(device: &str) -> io::Result<String> {
    // struct ethtool_drvinfo: cmd, then driver[32], in 196 bytes.
    let mut info = [0u32; 49];
    info[0] = ETHTOOL_GDRVINFO;
    ethtool(device, &mut info)?;
    let bytes: Vec<u8> = info[1..9]
        .iter()
        .flat_map(|word| word.to_ne_bytes())
        .collect();
    let name = bytes.split(|b| *b == 0).next().unwrap_or(&[]);
    Ok(String::from_utf8_lossy(name).into_owned())
}

/// Sends one ethtool request to a device of the calling thread's namespace. `words` begins with the
/// command and is as large as that command's structure.
fn ethtool<const N: usize>(device: &str, words: &mut [u32; N]) -> io::Result<()> {
    let socket = UnixDatagram::unbound()?;
    // SAFETY: each command's structure is as large as `words`, whose length its caller (in this
    // file) took from linux/ethtool.h.
    unsafe { device_request(&socket, device, libc::SIOCETHTOOL, words) }.map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn device(threaded: Option<bool>) -> Device {
        Device {
            name: "eth0".to_owned(),
            index: 2,
            driver: "virtio_net".to_owned(),
            threaded,
            up: false,
        }
    }

    /// Linux 6.1 has threaded NAPI, but no netlink message that reports it: the file is written
    /// with its current value.
    /// Promise 24.
    #[test]
    fn where_the_kernel_does_not_report_napi_it_is_probed() {
        let root = tempfile::tempdir().unwrap();
        let file = root.path().join("sys/class/net/eth0/threaded");
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(&file, "1").unwrap();
        let fs = HostFs::below(root.path());
        let eth0 = device(Some(true));
        assert_eq!(has_napi(&fs, &eth0, None), Napi::Yes);
        assert_eq!(std::fs::read_to_string(file).unwrap(), "1");
        let check = threaded([(&eth0, Napi::Yes)].into_iter());
        assert_eq!(
            (check.status, check.detail.as_str()),
            (Status::Yes, "eth0 (virtio_net): on")
        );
    }

    /// Promise 24.
    #[test]
    fn a_newer_kernel_is_the_remedy_only_without_the_file() {
        for (napi, on, status, remedy) in [
            (Napi::No, Some(false), Status::No, "driver"),
            (Napi::Down, Some(false), Status::Partly, "up"),
            (Napi::Unknown, Some(false), Status::Partly, "root"),
            (Napi::No, None, Status::No, "5.12"),
        ] {
            let check = threaded([(&device(on), napi)].into_iter());
            let remedy_text = check.remedy.unwrap_or_default();
            assert_eq!(check.status, status, "{napi:?}");
            assert!(remedy_text.contains(remedy), "{napi:?}: {remedy_text}");
        }
        let reported = BTreeSet::from([3]);
        let fs = HostFs::below("/nowhere");
        assert_eq!(
            has_napi(&fs, &device(Some(false)), Some(&reported)),
            Napi::Down
        );
    }
}
