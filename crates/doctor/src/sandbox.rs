//! Probes that need a network device: a veth pair in a namespace that ends with the probe.

use super::Check;
use super::bpf::{Program, judge, own};
use cofferdam_host::netlink::{Rtnetlink, attribute, u32_at};
use libbpf_rs::libbpf_sys as sys;
use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, unshare};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::Path;
use std::ptr::null;

const DEVICE: &str = "cfprobe0";
const PEER: &str = "cfprobe1";

/// Checks of XDP, tc, tcx and threaded NAPI on a veth pair.
pub(super) fn probe() -> Vec<Check> {
    let result = std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().name("cofferdam-probe".into());
        let handle = thread.spawn_scoped(scope, || {
            unshare(CloneFlags::CLONE_NEWNET)?;
            let index = make_pair()?;
            Ok(outcomes(|what| attempt(what, index)))
        })?;
        handle
            .join()
            .unwrap_or_else(|_| Err(io::Error::other("the probe's thread died")))
    });
    result.unwrap_or_else(|e: io::Error| {
        // Every check fails for the same reason: there is no device for it.
        let (kind, text) = (e.kind(), format!("no veth pair to test it on: {e}"));
        outcomes(|_| Err(io::Error::new(kind, text.clone())))
    })
}

#[derive(Clone, Copy)]
enum Feature {
    XdpNative,
    XdpGeneric,
    Tc,
    Tcx,
    Napi,
}

fn outcomes(mut attempt: impl FnMut(Feature) -> io::Result<()>) -> Vec<Check> {
    let drops = "drops a flood before it costs CPU";
    let mut check = |id, name: &str, enables: &str, what| {
        judge(
            Check::new(id, name, enables),
            attempt(what),
            "works on a veth pair",
        )
    };
    vec![
        check("xdp-native", "XDP in the driver", drops, Feature::XdpNative),
        check("xdp-generic", "XDP, generic", drops, Feature::XdpGeneric),
        check(
            "tc",
            "tc programs (clsact)",
            "drops packets at a device's ingress and egress",
            Feature::Tc,
        ),
        check(
            "tcx",
            "tc programs (tcx)",
            "the same, alongside other users of tc",
            Feature::Tcx,
        ),
        check(
            "veth-napi",
            "threaded NAPI on veth (GRO on)",
            "the kernel itself charges a container for its packets",
            Feature::Napi,
        ),
    ]
}

fn attempt(feature: Feature, index: u32) -> io::Result<()> {
    let index = i32::try_from(index).map_err(io::Error::other)?;
    match feature {
        Feature::XdpNative => xdp(index, sys::XDP_FLAGS_DRV_MODE),
        Feature::XdpGeneric => xdp(index, sys::XDP_FLAGS_SKB_MODE),
        Feature::Tc => tc(index),
        Feature::Tcx => tcx(index),
        Feature::Napi => napi(),
    }
}

fn xdp(index: i32, flags: u32) -> io::Result<()> {
    let pass = Program {
        kind: sys::BPF_PROG_TYPE_XDP,
        ..Program::returning(2)
    }
    .load()?;
    // SAFETY: plain integers, no options.
    check(unsafe { sys::bpf_xdp_attach(index, pass.as_raw_fd(), flags, null()) })?;
    // SAFETY: as above; -1 detaches the program.
    check(unsafe { sys::bpf_xdp_attach(index, -1, flags, null()) })
}

fn classifier(attach: sys::bpf_attach_type) -> io::Result<OwnedFd> {
    Program {
        kind: sys::BPF_PROG_TYPE_SCHED_CLS,
        attach,
        ..Program::returning(0)
    }
    .load()
}

fn tc(index: i32) -> io::Result<()> {
    let program = classifier(0)?;
    let mut hook = sys::bpf_tc_hook {
        sz: size_of::<sys::bpf_tc_hook>() as sys::size_t,
        ifindex: index,
        attach_point: sys::BPF_TC_INGRESS,
        ..Default::default()
    };
    let mut options = sys::bpf_tc_opts {
        sz: size_of::<sys::bpf_tc_opts>() as sys::size_t,
        prog_fd: program.as_raw_fd(),
        ..Default::default()
    };
    // SAFETY: both structures are initialised, state their sizes and outlive the calls.
    check(unsafe { sys::bpf_tc_hook_create(&raw mut hook) })?;
    // SAFETY: as above.
    let attached = check(unsafe { sys::bpf_tc_attach(&raw const hook, &raw mut options) });
    // The namespace removes everything, but some time after the probe has ended.
    hook.attach_point = sys::BPF_TC_INGRESS | sys::BPF_TC_EGRESS;
    // SAFETY: as above.
    check(unsafe { sys::bpf_tc_hook_destroy(&raw mut hook) })?;
    attached
}

fn tcx(index: i32) -> io::Result<()> {
    let program = classifier(sys::BPF_TCX_INGRESS)?;
    // SAFETY: plain integers, no options; the descriptor is owned at once.
    let link =
        unsafe { sys::bpf_link_create(program.as_raw_fd(), index, sys::BPF_TCX_INGRESS, null()) };
    own(link).map(drop)
}

/// Tests threaded NAPI: GRO gives a veth its NAPI, and `threaded` gives that its own thread.
fn napi() -> io::Result<()> {
    super::net::set_gro(DEVICE, true)?;
    // `/sys/class/net` shows the namespace in which it was mounted: a private mount shows this one.
    let sys = private_mount("sysfs", Path::new("/sys"))?;
    let file = sys.join("class/net").join(DEVICE).join("threaded");
    std::fs::write(&file, "1")?;
    match std::fs::read_to_string(&file)?.trim() {
        "1" => Ok(()),
        other => Err(io::Error::other(format!("'threaded' stays '{other}'"))),
    }
}

/// Mounts a kernel file system over `target`, in a mount namespace of the calling thread.
pub(super) fn private_mount(fs_type: &str, target: &Path) -> io::Result<std::path::PathBuf> {
    unshare(CloneFlags::CLONE_NEWNS)?;
    let none: Option<&str> = None;
    mount(none, "/", none, MsFlags::MS_REC | MsFlags::MS_PRIVATE, none)?;
    mount(Some(fs_type), target, Some(fs_type), MsFlags::empty(), none)?;
    Ok(target.to_owned())
}

fn check(result: i32) -> io::Result<()> {
    if result < 0 {
        Err(io::Error::from_raw_os_error(result.saturating_neg()))
    } else {
        Ok(())
    }
}

/// Creates the pair with both ends up; returns the index of [`DEVICE`].
fn make_pair() -> io::Result<u32> {
    const VETH_INFO_PEER: u16 = 1;
    const IFLA_INFO_DATA: u16 = 2;
    let name = |name: &str| attribute(libc::IFLA_IFNAME, &[name.as_bytes(), b"\0"].concat());
    let mut netlink = Rtnetlink::open()?;
    let peer = attribute(VETH_INFO_PEER, &[link_header(0), name(PEER)].concat());
    let info = [
        attribute(libc::IFLA_INFO_KIND, b"veth"),
        attribute(IFLA_INFO_DATA, &peer),
    ];
    let link = [
        link_header(0),
        name(DEVICE),
        attribute(libc::IFLA_LINKINFO, &info.concat()),
    ];
    let create = libc::NLM_F_CREATE | libc::NLM_F_EXCL;
    netlink.request(libc::RTM_NEWLINK, create, &link.concat())?;
    let mut device = None;
    for link in netlink.links()? {
        if link.name == DEVICE || link.name == PEER {
            netlink.request(libc::RTM_NEWLINK, 0, &link_header(link.index))?;
            device = device.or((link.name == DEVICE).then_some(link.index));
        }
    }
    device.ok_or_else(|| io::Error::other("the pair is not listed"))
}

/// Header `struct ifinfomsg` that brings up the device `index`; 0 for a device that is being
/// created.
fn link_header(index: u32) -> Vec<u8> {
    let up = if index == 0 {
        0
    } else {
        libc::IFF_UP.cast_unsigned()
    };
    let mut bytes = vec![0; 4];
    bytes.extend(index.to_ne_bytes());
    bytes.extend(up.to_ne_bytes());
    bytes.extend(up.to_ne_bytes());
    debug_assert_eq!(u32_at(&bytes, 4), Some(index));
    bytes
}

/// Lockdown mode. securityfs is mounted for the reading where the system did not mount it.
pub(super) fn lockdown() -> io::Result<String> {
    let target = Path::new("/sys/kernel/security");
    if let Ok(text) = std::fs::read_to_string(target.join("lockdown")) {
        return Ok(text);
    }
    std::thread::scope(|scope| {
        let look =
            || std::fs::read_to_string(private_mount("securityfs", target)?.join("lockdown"));
        let handle = std::thread::Builder::new().spawn_scoped(scope, look)?;
        handle
            .join()
            .unwrap_or_else(|_| Err(io::Error::other("the probe's thread died")))
    })
}
