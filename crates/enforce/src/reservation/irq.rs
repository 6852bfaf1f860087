//! Keeps device interrupts and receive packet steering off the reserved CPUs.

use super::cpuset::{Cpus, read_list, spell};
use crate::journal::{Form, Journal, Target};
use cofferdam_host::HostFs;
use cofferdam_types::{CpuId, Degraded};
use std::collections::BTreeSet;
use std::path::PathBuf;

/// Moves what can be moved from `reserved` to `shared` CPUs; puts everything back when nothing
/// is reserved. What the kernel refuses is named.
pub(super) fn apply(
    fs: &HostFs,
    journal: &mut Journal,
    reserved: &Cpus,
    shared: &Cpus,
) -> Option<Degraded> {
    let mut refused = Vec::new();
    for (path, form) in files(fs) {
        let Ok(target) = Target::file(&fs.path(&path)) else {
            continue;
        };
        let before = match journal.before(&target) {
            Some(text) => text.to_owned(),
            None => match fs.read_text(&path) {
                Ok(text) => text.trim().to_owned(),
                Err(_) => continue,
            },
        };
        let before = match form {
            Form::CpuMask => mask(&before),
            _ => read_list(&before),
        };
        // An empty mask means that steering is off: there is nothing to move.
        let Some(before) = before else { continue };
        if before.is_disjoint(reserved) {
            journal.undo(&target);
            continue;
        }
        let rest: Cpus = before.difference(reserved).copied().collect();
        let wanted = if rest.is_empty() { shared } else { &rest };
        let text = match form {
            Form::CpuMask => spell_mask(wanted),
            _ => spell(wanted),
        };
        if journal
            .set(&target, form, &text)
            .is_err_and(|e| !e.vanished())
        {
            refused.push(path.display().to_string());
        }
    }
    let first = refused.first()?;
    Some(Degraded {
        name: "irq_refused".to_owned(),
        text: format!(
            "{} interrupts or queues stay on reserved CPUs ({first}{}): the kernel manages them \
             and refuses to move them; boot with irqaffinity= to keep them off",
            refused.len(),
            if refused.len() > 1 { ", …" } else { "" }
        ),
    })
}

fn files(fs: &HostFs) -> Vec<(PathBuf, Form)> {
    let mut files = vec![(
        PathBuf::from("/proc/irq/default_smp_affinity"),
        Form::CpuMask,
    )];
    let irqs = PathBuf::from("/proc/irq");
    for number in fs.directories(&irqs).unwrap_or_default() {
        let path = irqs.join(number).join("smp_affinity_list");
        files.push((path, Form::CpuList));
    }
    let devices = PathBuf::from("/sys/class/net");
    for device in fs.names(&devices).unwrap_or_default() {
        let queues = devices.join(device).join("queues");
        for queue in fs.directories(&queues).unwrap_or_default() {
            if queue.to_str().is_some_and(|name| name.starts_with("rx-")) {
                files.push((queues.join(queue).join("rps_cpus"), Form::CpuMask));
            }
        }
    }
    files.sort_by(|a, b| a.0.cmp(&b.0));
    files
}

/// CPUs of a mask such as `1,00000003`; `None` when there are none.
fn mask(text: &str) -> Option<Cpus> {
    let mut cpus = BTreeSet::new();
    for (i, group) in text.trim().rsplit(',').enumerate() {
        let bits = u32::from_str_radix(group.trim(), 16).ok()?;
        let first = u32::try_from(i).ok()?.checked_mul(32)?;
        cpus.extend(
            (0..32)
                .filter(|b| bits >> b & 1 == 1)
                .map(|b| CpuId(first + b)),
        );
    }
    (!cpus.is_empty()).then_some(cpus)
}

fn spell_mask(cpus: &Cpus) -> String {
    let groups = cpus.last().map_or(0, |last| last.0 / 32);
    let group = |n: u32| {
        let bits = cpus.iter().filter(|c| c.0 / 32 == n);
        format!("{:08x}", bits.fold(0u32, |all, c| all | 1 << (c.0 % 32)))
    };
    let all: Vec<String> = (0..=groups).rev().map(group).collect();
    all.join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn masks_are_read_and_written() {
        let cpus: Cpus = [0, 1, 32, 63].into_iter().map(CpuId).collect();
        assert_eq!(spell_mask(&cpus), "80000001,00000003");
        assert_eq!(mask("80000001,00000003"), Some(cpus));
        assert_eq!(mask("00000000,00000000"), None);
        assert_eq!(mask("no"), None);
    }
}
