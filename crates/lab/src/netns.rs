//! Network namespaces and their settings.

use crate::command::{output, run_argv, split};
use crate::place::Spot;
use crate::{LabError, UndoStack, run};
use std::fs::File;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};

/// Directory of named namespaces.
pub const FOLDER: &str = "/run/netns";

/// Named network namespace, or that of this process.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Netns {
    name: Option<String>,
}

impl Netns {
    /// Namespace of this process: the host's.
    pub const HOST: Netns = Netns { name: None };

    /// Existing namespace of this name.
    pub fn named(name: &str) -> Netns {
        Netns {
            name: Some(name.to_owned()),
        }
    }

    /// Makes a namespace with loopback up.
    pub fn make(name: &str, undo: &mut UndoStack) -> Result<Netns, LabError> {
        run(&format!("ip netns add {name}"))?;
        Netns::with_removal(name, undo)
    }

    /// Gives the namespace of a process a name.
    pub fn attach(name: &str, pid: u32, undo: &mut UndoStack) -> Result<Netns, LabError> {
        run(&format!("ip netns attach {name} {pid}"))?;
        Netns::with_removal(name, undo)
    }

    fn with_removal(name: &str, undo: &mut UndoStack) -> Result<Netns, LabError> {
        let owned = name.to_owned();
        undo.push(format!("network namespace {name}"), move || {
            run(&format!("ip netns delete {owned}"))
        });
        let netns = Netns::named(name);
        netns.up("lo")?;
        Ok(netns)
    }

    /// Disables IPv6 on new devices: router solicitations and duplicate address detection would be
    /// packets that no experiment sent.
    pub fn without_ipv6(self) -> Result<Netns, LabError> {
        // A kernel without IPv6 has no such file, and nothing to turn off.
        self.script("f=/proc/sys/net/ipv6/conf/default/disable_ipv6; [ ! -e $f ] || echo 1 > $f")?;
        Ok(self)
    }

    /// Name as `ip netns` lists it; `None` for the host's.
    pub fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }

    /// Path of the namespace's file.
    pub fn path(&self) -> PathBuf {
        match &self.name {
            Some(name) => Path::new(FOLDER).join(name),
            None => "/proc/self/ns/net".into(),
        }
    }

    /// Opens the namespace's file.
    pub fn open(&self) -> Result<File, LabError> {
        File::open(self.path()).map_err(LabError::host("open", self.path()))
    }

    /// Spot from which commands can be started inside.
    pub fn spot(&self) -> Result<Spot, LabError> {
        match &self.name {
            Some(_) => Spot::open(Some(&self.path()), &[]),
            None => Ok(Spot::default()),
        }
    }

    /// Runs a command, split at spaces, inside. `/sys` still shows the caller's devices: `ip netns
    /// exec` would change that, but stay as a process in between.
    pub fn run(&self, line: &str) -> Result<String, LabError> {
        self.run_with_input(line, "")
    }

    /// Runs a command like [`Netns::run`], with `input` on its standard input.
    pub fn run_with_input(&self, line: &str, input: &str) -> Result<String, LabError> {
        let mut command = split(line);
        self.spot()?.pre_exec(&mut command);
        let shown = match &self.name {
            Some(name) => format!("ip netns exec {name} {line}"),
            None => line.to_owned(),
        };
        output(command, &shown, input)
    }

    /// Runs a shell script inside, with `/sys` showing the namespace's devices.
    pub fn script(&self, text: &str) -> Result<String, LabError> {
        match &self.name {
            Some(name) => run_argv(&["ip", "netns", "exec", name, "sh", "-ec", text]),
            None => run_argv(&["sh", "-ec", text]),
        }
    }

    /// Runs `ip ARGS` inside.
    pub fn ip(&self, args: &str) -> Result<String, LabError> {
        self.tool("ip", args)
    }

    /// Runs `tc ARGS` inside.
    pub fn tc(&self, args: &str) -> Result<String, LabError> {
        self.tool("tc", args)
    }

    fn tool(&self, tool: &str, args: &str) -> Result<String, LabError> {
        match &self.name {
            Some(name) => run(&format!("{tool} -n {name} {args}")),
            None => run(&format!("{tool} {args}")),
        }
    }

    /// Brings a device up.
    pub fn up(&self, device: &str) -> Result<(), LabError> {
        self.ip(&format!("link set {device} up")).map(drop)
    }

    /// Adds an address such as `10.0.0.1/24` or `fd00::1/64`, usable at once: without duplicate
    /// address detection.
    pub fn add_address(&self, device: &str, address: &str) -> Result<(), LabError> {
        let nodad = if address.contains(':') { " nodad" } else { "" };
        self.ip(&format!("address add {address} dev {device}{nodad}"))
            .map(drop)
    }

    /// Gives a device its /24 address and brings it up.
    pub fn address(&self, device: &str, address: Ipv4Addr) -> Result<(), LabError> {
        self.add_address(device, &format!("{address}/24"))?;
        self.up(device)
    }

    /// Adds a route, such as `default via 10.0.0.1`.
    pub fn route(&self, route: &str) -> Result<(), LabError> {
        let family = if route.contains(':') { "-6" } else { "-4" };
        self.ip(&format!("{family} route add {route}")).map(drop)
    }

    /// Writes a file of `/proc/sys/net` or `/sys/class/net` of this namespace.
    pub fn write(&self, path: &str, value: &str) -> Result<(), LabError> {
        self.script(&format!("echo {value} > {path}")).map(drop)
    }

    /// Sets a network sysctl, such as `net/ipv4/ip_forward`.
    pub fn sysctl(&self, key: &str, value: &str) -> Result<(), LabError> {
        self.write(&format!("/proc/sys/{key}"), value)
    }

    /// Index of a device.
    pub fn ifindex(&self, device: &str) -> Result<u32, LabError> {
        let args = format!("-o link show dev {device}");
        let shown = self.ip(&args)?;
        let index = shown.split(':').next().and_then(|n| n.trim().parse().ok());
        index.ok_or_else(|| LabError::Command {
            command: format!("ip {args}"),
            reason: format!("no index in '{}'", shown.trim()),
        })
    }

    /// Turns offloads on or off, such as `tso off gso off`; see `ethtool -K`.
    pub fn offload(&self, device: &str, features: &str) -> Result<(), LabError> {
        self.run(&format!("ethtool -K {device} {features}"))
            .map(drop)
    }

    /// Steers the receive work of a device to CPUs (RPS), flow by flow, as a NIC that interrupts
    /// those CPUs would. With an empty list it stays with the sender.
    pub fn steer(&self, device: &str, cpus: &[u32]) -> Result<(), LabError> {
        let mask = mask(cpus);
        self.script(&format!(
            "for q in /sys/class/net/{device}/queues/rx-*; do echo {mask} > $q/rps_cpus; done"
        ))
        .map(drop)
    }

    /// Adds one HTB class for all packets that leave `device`, such as `rate = "1gbit"`; `more` are
    /// further options of the class.
    pub fn shape(&self, device: &str, rate: &str, more: &str) -> Result<(), LabError> {
        self.tc(&format!(
            "qdisc replace dev {device} root handle 1: htb default 1"
        ))?;
        self.tc(&format!(
            "class replace dev {device} parent 1: classid 1:1 htb rate {rate} ceil {rate} {more}"
        ))
        .map(drop)
    }
}

/// The kernel's mask of these CPUs: groups of 32 bits in hexadecimal, highest first.
fn mask(cpus: &[u32]) -> String {
    let group = |n: u32| {
        let bits = cpus.iter().filter(|cpu| *cpu / 32 == n);
        bits.fold(0, |bits, cpu| bits | 1_u32 << (cpu % 32))
    };
    let highest = cpus.iter().max().map_or(0, |cpu| cpu / 32);
    let first = format!("{:x}", group(highest));
    let rest = (0..highest).rev();
    rest.fold(first, |mask, n| format!("{mask},{:08x}", group(n)))
}

#[cfg(test)]
mod tests {
    #[test]
    fn masks() {
        assert_eq!(super::mask(&[0]), "1");
        assert_eq!(super::mask(&[31]), "80000000");
        assert_eq!(super::mask(&[33]), "2,00000000");
        assert_eq!(super::mask(&[64]), "1,00000000,00000000");
        assert_eq!(super::mask(&[1, 0, 34, 3]), "4,0000000b");
        assert_eq!(super::mask(&[]), "0");
    }
}
