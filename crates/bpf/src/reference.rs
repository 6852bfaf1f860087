//! An independent clock of softirq and hardirq time, to check the ledger.

use crate::cost::{ProgramCost, read_cost};
use crate::hooks::HookDescriptors;
use crate::load::{LoadError, loading};
use crate::skeleton::{ReferenceSkel, ReferenceSkelBuilder, reference_types::cf_reference};
use crate::support::kernel_has_tracepoint;
use libbpf_rs::skel::{OpenSkel, Skel, SkelBuilder};
use libbpf_rs::{MapCore, MapFlags, OpenObject};
use std::io;
use std::mem::{MaybeUninit, offset_of};
use std::os::fd::AsFd;

/// Time on one CPU since the clock started, nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReferenceTime {
    /// Time in softirqs of all vectors, without hardirqs.
    pub softirq_ns: u64,
    /// Time in device hardirqs.
    pub hardirq_ns: u64,
    /// Number of softirqs that ended.
    pub softirqs: u64,
}

/// Running clock; dropping it detaches its programs.
pub struct ReferenceClock {
    skeleton: ReferenceSkel<'static>,
}

pub(crate) fn load(wanted: impl Fn(&str) -> bool) -> Result<ReferenceSkel<'static>, LoadError> {
    loading("load the reference programs", || try_load(wanted))
}

fn try_load(wanted: impl Fn(&str) -> bool) -> libbpf_rs::Result<ReferenceSkel<'static>> {
    // The skeleton borrows this small block for its life; each start leaks one.
    let storage = Box::leak(Box::new(MaybeUninit::<OpenObject>::uninit()));
    let mut open = ReferenceSkelBuilder::default().open(storage)?;
    let cpus = crate::possible_cpus();
    open.maps.reference_cpus.set_max_entries(cpus)?;
    for mut program in open.open_object_mut().progs_mut() {
        let name = program.name().to_string_lossy().into_owned();
        program.set_autoload(wanted(&name));
    }
    let mut skeleton = open.load()?;
    skeleton.attach()?;
    Ok(skeleton)
}

/// Program of [`Gate`](crate::Gate).
pub(crate) const GATE: &str = "gate_hold";
const EMPTY: &str = "reference_empty";
const EMPTY_SWITCH: &str = "reference_empty_switch";
/// Prefix of the names of the programs in [`EmptyMarkers`], before the tracepoint's name.
const MARKER: &str = "reference_marker_";
/// Prefix of the names of the programs in [`EmptyHooks`].
const HOOK: &str = "reference_hook_";

/// Empty program that runs at each received packet or at each context switch. Its cost by the
/// kernel's statistics is the statistics' own.
pub struct EmptyProgram {
    skeleton: ReferenceSkel<'static>,
    name: &'static str,
}

impl EmptyProgram {
    /// Loads and attaches the one that runs at each received packet.
    pub fn start() -> Result<EmptyProgram, LoadError> {
        Ok(EmptyProgram {
            skeleton: load(|name| name == EMPTY)?,
            name: EMPTY,
        })
    }

    /// Loads and attaches the one that runs at each context switch.
    pub fn start_at_switches() -> Result<EmptyProgram, LoadError> {
        Ok(EmptyProgram {
            skeleton: load(|name| name == EMPTY_SWITCH)?,
            name: EMPTY_SWITCH,
        })
    }

    /// Reads its runs and their time.
    pub fn cost(&self) -> io::Result<ProgramCost> {
        let programs = &self.skeleton.progs;
        let program = match self.name {
            EMPTY_SWITCH => programs.reference_empty_switch.as_fd(),
            _ => programs.reference_empty.as_fd(),
        };
        read_cost(self.name, program)
    }
}

/// Empty programs at the tracepoints of the accounting's markers, except for the markers of
/// sockets. Their cost is that of any programs there. Dropping it detaches them.
pub struct EmptyMarkers {
    #[allow(dead_code, reason = "held: dropping it detaches the programs")]
    skeleton: ReferenceSkel<'static>,
}

impl EmptyMarkers {
    /// Loads and attaches those for which this kernel has a tracepoint.
    ///
    /// # Errors
    /// The errors of the accounting's programs.
    pub fn start() -> Result<EmptyMarkers, LoadError> {
        let wanted = |name: &str| {
            let tracepoint = name.strip_prefix(MARKER);
            tracepoint.is_some_and(|name| kernel_has_tracepoint(name) != Some(false))
        };
        Ok(EmptyMarkers {
            skeleton: load(wanted)?,
        })
    }
}

/// Empty programs where packets enter and leave devices (tcx, Linux 6.6).
pub struct EmptyHooks {
    skeleton: ReferenceSkel<'static>,
}

impl EmptyHooks {
    /// Loads them; nothing is attached yet.
    ///
    /// # Errors
    /// [`LoadError`] if this kernel or this caller cannot load them.
    pub fn load() -> Result<EmptyHooks, LoadError> {
        Ok(EmptyHooks {
            skeleton: load(|name| name.starts_with(HOOK))?,
        })
    }

    /// Returns their descriptors, for attaching them.
    pub fn programs(&self) -> HookDescriptors {
        let programs = &self.skeleton.progs;
        HookDescriptors::of(
            programs.reference_hook_ingress.as_fd(),
            programs.reference_hook_egress.as_fd(),
        )
    }
}

impl ReferenceClock {
    /// Loads and attaches the clock's four programs.
    pub fn start() -> Result<ReferenceClock, LoadError> {
        let others = [EMPTY, EMPTY_SWITCH, GATE];
        let wanted = |name: &str| {
            !others.contains(&name) && !name.starts_with(MARKER) && !name.starts_with(HOOK)
        };
        Ok(ReferenceClock {
            skeleton: load(wanted)?,
        })
    }

    /// Returns the number of softirqs that ended, on all CPUs.
    pub fn softirqs(&self) -> Result<u64, libbpf_rs::Error> {
        let cpus = 0..crate::possible_cpus();
        cpus.map(|cpu| self.read(cpu).map(|time| time.softirqs))
            .sum()
    }

    /// Reads the time on CPU `cpu` so far.
    pub fn read(&self, cpu: u32) -> Result<ReferenceTime, libbpf_rs::Error> {
        let value = self
            .skeleton
            .maps
            .reference_cpus
            .lookup(&cpu.to_ne_bytes(), MapFlags::ANY)?;
        let value = value.unwrap_or_default();
        let field = |offset: usize| {
            value
                .get(offset..offset + 8)
                .and_then(|b| b.try_into().ok())
                .map_or(0, u64::from_ne_bytes)
        };
        Ok(ReferenceTime {
            softirq_ns: field(offset_of!(cf_reference, softirq_ns)),
            hardirq_ns: field(offset_of!(cf_reference, hardirq_ns)),
            softirqs: field(offset_of!(cf_reference, softirqs)),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::markers::is_marker;
    use crate::skeleton::AccountingSkelBuilder;
    use cofferdam_types::SOCKET_TRACEPOINTS;
    use std::collections::BTreeSet;

    /// Promise 47.
    #[test]
    fn each_marker_of_packets_has_an_empty_program() {
        let (mut one, mut other) = (MaybeUninit::uninit(), MaybeUninit::uninit());
        let reference = ReferenceSkelBuilder::default().open(&mut one).unwrap();
        let accounting = AccountingSkelBuilder::default().open(&mut other).unwrap();
        let names = |object: &libbpf_rs::OpenObject| -> Vec<String> {
            let programs = object.progs();
            programs
                .map(|program| program.name().to_string_lossy().into_owned())
                .collect()
        };
        let markers: BTreeSet<String> = names(accounting.open_object())
            .into_iter()
            .filter(|name| is_marker(name) && !SOCKET_TRACEPOINTS.contains(&name.as_str()))
            .collect();
        let nothing: BTreeSet<String> = names(reference.open_object())
            .iter()
            .filter_map(|name| Some(name.strip_prefix(MARKER)?.to_owned()))
            .collect();
        assert!(markers.len() > 5);
        assert_eq!(nothing, markers);
    }
}
