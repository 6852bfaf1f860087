//! A program that delays packets by a known time, to check measurements.

use crate::load::{LoadError, loading};
use crate::skeleton::{DelaySkel, DelaySkelBuilder};
use cofferdam_types::{IfIndex, NetnsId};
use libbpf_rs::OpenObject;
use libbpf_rs::skel::{OpenSkel, Skel, SkelBuilder};
use std::mem::MaybeUninit;

/// Delays the packets that one device receives. Dropping it ends the delay.
pub struct Delay {
    skeleton: DelaySkel<'static>,
}

impl Delay {
    /// Loads it and attaches it behind every program that is attached already, with a delay of 0.
    pub fn attach(netns: NetnsId, device: IfIndex) -> Result<Delay, LoadError> {
        // The skeleton borrows this small block for its life; each attach leaks one.
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

    /// Delays each packet by `ns`; 0 turns it off. Resets the mean of [`Delay::held_ns`].
    pub fn hold(&mut self, ns: u64) {
        if let Some(bss) = self.skeleton.maps.bss_data.as_deref_mut() {
            bss.delay_ns = ns;
            bss.runs = 0;
            bss.held_ns = 0;
        }
    }

    /// Returns the mean delay since the last [`Delay::hold`], ns; `None` without packets.
    pub fn held_ns(&self) -> Option<f64> {
        let bss = self.skeleton.maps.bss_data.as_deref()?;
        (bss.runs > 0).then(|| bss.held_ns as f64 / bss.runs as f64)
    }
}
