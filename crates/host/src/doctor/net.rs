//! What the network devices of this host can do, without touching one of them.

use super::genetlink::Netdev;
use super::{Check, Status};
use crate::fs::HostFs;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::Path;

const CLASS: &str = "/sys/class/net";
/// Devices listed by name, at most; a host of a thousand containers has a thousand veths.
const MAX_LISTED: usize = 12;

struct Device {
    name: String,
    index: u32,
    driver: String,
    /// Value of `threaded`; `None` where the kernel has no such file.
    threaded: Option<bool>,
}

/// Threaded NAPI, XDP and veth GRO of the devices that exist.
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
        threaded(&others, napi.as_ref()),
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
    })
}

/// What both checks of real devices say of a host, such as a small virtual machine, with none.
const NO_DEVICE: &str = "no device besides loopback and veth to look at";

fn threaded(devices: &[Device], napi: Option<&BTreeSet<u32>>) -> Check {
    let check = Check::new(
        "threaded-napi",
        "threaded NAPI, per device",
        "receive work in a thread that can be charged and placed",
    );
    if devices.is_empty() {
        return check.is(Status::Partly, NO_DEVICE);
    }
    let (able, unable): (Vec<_>, Vec<_>) = devices
        .iter()
        .partition(|d| d.threaded.is_some() && napi.is_none_or(|napi| napi.contains(&d.index)));
    let on = |d: &&Device| match d.threaded {
        Some(true) => format!("{} ({}): on", d.name, d.driver),
        _ => format!("{} ({}): off", d.name, d.driver),
    };
    let mut detail = listed(able.iter().map(on));
    if !unable.is_empty() {
        let names = listed(unable.iter().map(|d| format!("{} ({})", d.name, d.driver)));
        detail = [detail, format!("without NAPI: {names}")]
            .into_iter()
            .filter(|part| !part.is_empty())
            .collect::<Vec<_>>()
            .join("; ");
    }
    let status = match (able.is_empty(), napi.is_some()) {
        (true, _) => Status::No,
        // The file is there for every device, whether it has NAPI or not.
        (false, false) => Status::Partly,
        (false, true) => Status::Yes,
    };
    check
        .is(status, detail)
        .or("use a kernel from 5.12 on, and a device whose driver has NAPI")
}

/// Feature bits of the `netdev` family, by their names there.
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
        "drops of a flood before it costs CPU, on real devices",
    );
    if devices.is_empty() {
        return check.is(Status::Partly, NO_DEVICE);
    }
    let Some(features) = features else {
        let names = listed(devices.iter().map(|d| format!("{} ({})", d.name, d.driver)));
        return check.is(
            Status::Partly,
            format!("this kernel does not tell (before 6.3); generic XDP at least: {names}"),
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
        .or("nothing to do: it is turned on where enforcement needs it")
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

/// Whether GRO is on.
fn gro_of(device: &str) -> io::Result<bool> {
    let mut value = [ETHTOOL_GGRO, 0];
    ethtool(device, &mut value)?;
    Ok(value[1] != 0)
}

/// Turns GRO on or off, on a device of the sandbox.
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

/// One ethtool request on a device of the calling thread's namespace; `words` begins with the
/// command and is as large as that command's structure.
fn ethtool<const N: usize>(device: &str, words: &mut [u32; N]) -> io::Result<()> {
    crate::device::request(device, crate::device::SIOCETHTOOL, words)
}
