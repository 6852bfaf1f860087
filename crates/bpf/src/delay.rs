//! A program that holds packets for a known time, to check measurements against.

use crate::load::{LoadError, loading};
use crate::skeleton::{DelaySkel, DelaySkelBuilder};
use cofferdam_types::{IfIndex, NetnsId};
use libbpf_rs::OpenObject;
use libbpf_rs::skel::{OpenSkel, Skel, SkelBuilder};
use std::mem::MaybeUninit;

/// Holds what one device receives. Dropping it lets go.
pub struct Delay {
    skeleton: DelaySkel<'static>,
}

impl Delay {
    /// Loads and attaches it behind every program that is attached already; holds nothing yet.
    pub fn attach(netns: NetnsId, device: IfIndex) -> Result<Delay, LoadError> {
        // The skeleton borrows this small block for its life; it is leaked once an attach.
        let storage = Box::leak(Box::new(MaybeUninit::<OpenObject>::uninit()));
        let skeleton = loading("load the delaying program", || {
            let mut skeleton = DelaySkelBuilder::default().open(storage)?.load()?;
            if let Some(bss) = skeleton.maps.bss_data.as_deref_mut() {
                bss.target_netns = netns.0;
                bss.target_ifindex = device.0;
            }
            skeleton.attach()?;
            Ok(skeleton)
        })?;
        Ok(Delay { skeleton })
    }

    /// Holds each packet for `ns`; 0 for not at all. Forgets what it held before.
    pub fn hold(&mut self, ns: u64) {
        if let Some(bss) = self.skeleton.maps.bss_data.as_deref_mut() {
            bss.delay_ns = ns;
            bss.runs = 0;
            bss.held_ns = 0;
        }
    }

    /// Mean time that packets were held since, ns; `None` when none was.
    pub fn held_ns(&self) -> Option<f64> {
        let bss = self.skeleton.maps.bss_data.as_deref()?;
        (bss.runs > 0).then(|| bss.held_ns as f64 / bss.runs as f64)
    }
}
