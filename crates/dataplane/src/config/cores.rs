//! CPUs and queues of a dataplane's cores.

use super::raw::{RawCore, RawDevice, RawMode};
use super::value::Wrong;
use crate::tuning::MOST_CORES;
use crate::tuning::memory::LEAST_FRAMES;
use cofferdam_types::CpuId;
use toml::Spanned;

/// One core of a dataplane.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Core {
    /// CPU of its loop; `None`: any CPU.
    pub cpu: Option<usize>,
    /// Queue of the device for sending. The first core of a queue also receives from it.
    pub queue: u32,
}

/// Cores of a file: its `[[core]]` entries, or the one in `[device]`.
pub(super) fn cores(
    device: &RawDevice,
    given: &[Spanned<RawCore>],
    frames: u32,
) -> Result<Vec<Core>, Wrong> {
    let one = Core {
        cpu: device.cpu.as_ref().map(|cpu| *cpu.get_ref()),
        queue: device.queue.as_ref().map_or(0, |queue| *queue.get_ref()),
    };
    let [first, .., last] = given else {
        return match given {
            [] => Ok(vec![one]),
            [only, ..] => {
                refuse_both(device)?;
                Ok(vec![core(only.get_ref())])
            }
        };
    };
    refuse_both(device)?;
    if matches!(device.mode, RawMode::Tap) {
        let why = "a tap device has one queue: with mode = \"tap\" there is one [[core]]";
        return Err((last.span(), why.to_owned()));
    }
    let count = given.len();
    if count > MOST_CORES {
        let why = format!("{count} [[core]] entries: a dataplane has at most {MOST_CORES} cores");
        return Err((last.span(), why));
    }
    if (frames as usize) / count < LEAST_FRAMES as usize {
        let why = format!(
            "device.frames = {frames} is too few for {count} cores: each needs {LEAST_FRAMES}"
        );
        return Err((first.span(), why));
    }
    for (n, other) in given.iter().enumerate() {
        let Some(cpu) = &other.get_ref().cpu else {
            continue;
        };
        let before = given.iter().take(n);
        let same = |c: &Spanned<RawCore>| {
            let earlier = c.get_ref().cpu.as_ref();
            earlier.is_some_and(|earlier| earlier.get_ref() == cpu.get_ref())
        };
        if before.clone().any(same) {
            let why = format!("cpu {} is used by two [[core]] entries", cpu.get_ref());
            return Err((cpu.span(), why));
        }
    }
    Ok(given.iter().map(|c| core(c.get_ref())).collect())
}

/// Refuses a CPU that is not online. Refuses none if the online CPUs are unknown.
pub(super) fn refuse_offline(
    device: &RawDevice,
    given: &[Spanned<RawCore>],
    online: Option<&[CpuId]>,
) -> Result<(), Wrong> {
    let Some(online) = online else { return Ok(()) };
    let is_online = |cpu: usize| online.iter().any(|one| one.0 as usize == cpu);
    let of_cores = given.iter().filter_map(|core| core.get_ref().cpu.as_ref());
    let mut all = device.cpu.iter().chain(of_cores);
    match all.find(|cpu| !is_online(*cpu.get_ref())) {
        None => Ok(()),
        Some(cpu) => Err((
            cpu.span(),
            format!(
                "cpu = {}: this host has no such CPU online; its CPUs are in \
                    /sys/devices/system/cpu/online",
                cpu.get_ref()
            ),
        )),
    }
}

fn core(raw: &RawCore) -> Core {
    Core {
        cpu: raw.cpu.as_ref().map(|cpu| *cpu.get_ref()),
        queue: raw.queue,
    }
}

/// Refuses a CPU or a queue in `[device]` together with `[[core]]` entries.
fn refuse_both(device: &RawDevice) -> Result<(), Wrong> {
    let cpu = device.cpu.as_ref().map(|cpu| (cpu.span(), "cpu"));
    let queue = device.queue.as_ref().map(|queue| (queue.span(), "queue"));
    match cpu.or(queue) {
        None => Ok(()),
        Some((span, key)) => Err((
            span,
            format!("device.{key} conflicts with the [[core]] entries: set it there"),
        )),
    }
}
