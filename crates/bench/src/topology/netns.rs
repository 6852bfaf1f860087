//! Network namespaces and veth pairs, by iproute2.

use crate::error::BenchError;
use cofferdam_lab::UndoStack;
use cofferdam_lab::command::{run, run_with_input};
use std::net::Ipv4Addr;

/// A named network namespace of our own.
pub(crate) struct Netns {
    pub name: String,
}

impl Netns {
    /// Makes it, without IPv6: router solicitations and duplicate address detection would be
    /// packets that no experiment sent.
    pub fn make(name: &str, undo: &mut UndoStack) -> Result<Netns, BenchError> {
        run(&format!("ip netns add {name}"))?;
        Netns::named(name, undo)
    }

    /// Gives the namespace of a process a name.
    pub fn attach(name: &str, pid: &str, undo: &mut UndoStack) -> Result<Netns, BenchError> {
        run(&format!("ip netns attach {name} {pid}"))?;
        Netns::named(name, undo)
    }

    fn named(name: &str, undo: &mut UndoStack) -> Result<Netns, BenchError> {
        let owned = name.to_owned();
        undo.push(format!("network namespace {name}"), move || {
            run(&format!("ip netns delete {owned}"))
        });
        let netns = Netns {
            name: name.to_owned(),
        };
        netns.ip("link set lo up")?;
        // A kernel without IPv6 has no such file, and nothing to switch off.
        netns
            .script("f=/proc/sys/net/ipv6/conf/default/disable_ipv6; [ ! -e $f ] || echo 1 > $f")?;
        Ok(netns)
    }

    /// `ip ARGS` inside.
    pub fn ip(&self, args: &str) -> Result<String, BenchError> {
        Ok(run(&format!("ip -n {} {args}", self.name))?)
    }

    /// Runs a command inside, with this namespace's `/sys`.
    pub fn exec(&self, command: &str) -> Result<String, BenchError> {
        Ok(run(&format!("ip netns exec {} {command}", self.name))?)
    }

    /// Runs a shell script inside.
    pub fn script(&self, text: &str) -> Result<String, BenchError> {
        Ok(run_with_input(
            &format!("ip netns exec {} sh -e", self.name),
            text,
        )?)
    }

    /// Writes a file of `/proc/sys/net` or `/sys/class/net` as this namespace has it.
    pub fn write(&self, path: &str, value: &str) -> Result<(), BenchError> {
        self.script(&format!("echo {value} > {path}\n")).map(drop)
    }

    /// Gives a device its /24 address and sets it up.
    pub fn address(&self, device: &str, address: Ipv4Addr) -> Result<(), BenchError> {
        self.ip(&format!("address add {address}/24 dev {device}"))?;
        self.ip(&format!("link set {device} up")).map(drop)
    }

    /// Steers a device's receive work to one CPU.
    pub fn steer(&self, device: &str, cpu: u32) -> Result<(), BenchError> {
        self.spread(device, &[cpu])
    }

    /// Spreads a device's receive work over CPUs, flow by flow; none: it stays with the sender.
    pub fn spread(&self, device: &str, cpus: &[u32]) -> Result<(), BenchError> {
        self.write(
            &format!("/sys/class/net/{device}/queues/rx-0/rps_cpus"),
            &mask(cpus),
        )
    }
}

/// A veth pair with one queue each between two namespaces. One queue: `rps_cpus` of rx-0 is
/// then all there is.
pub(crate) fn link(a: &Netns, a_device: &str, b: &Netns, b_device: &str) -> Result<(), BenchError> {
    let queues = "numrxqueues 1 numtxqueues 1";
    run(&format!(
        "ip link add {a_device} netns {} {queues} type veth peer name {b_device} netns {} {queues}",
        a.name, b.name
    ))?;
    Ok(())
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
