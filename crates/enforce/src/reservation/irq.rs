//! Moves device interrupts and receive packet steering off the reserved CPUs.

use crate::cpus::{Cpus, read_list, read_mask, spell, spell_mask};
use crate::journal::{Form, Journal, Target};
use cofferdam_host::HostFs;
use cofferdam_types::Degradation;
use std::path::PathBuf;

/// Moves interrupts and queues from `reserved` to `shared` CPUs if possible; reverts all when
/// nothing is reserved. Returns the ones that the kernel refuses to move.
pub(super) fn apply(
    fs: &HostFs,
    journal: &mut Journal,
    reserved: &Cpus,
    shared: &Cpus,
) -> Option<Degradation> {
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
            Form::CpuMask => read_mask(&before),
            _ => read_list(&before),
        };
        // An empty mask means that steering is off: nothing to move.
        let Some(before) = before else { continue };
        if before.is_disjoint(reserved) {
            journal.revert(&target);
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
    Some(Degradation {
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
