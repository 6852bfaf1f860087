//! A tap device as a cable to the kernel.

use cofferdam_lab::fixtures::run;
use cofferdam_xsk::{Frame, Memory, Packet, Port, Tap};
use std::net::IpAddr;

/// Name of the kernel's end.
pub const DEVICE: &str = "cfstack0";

/// This process's end of the cable.
pub struct Cable {
    port: Tap,
    memory: Memory,
}

impl Cable {
    /// Creates the device in this thread's namespace, which is called `namespace`. The kernel gets
    /// these addresses.
    pub fn new(namespace: &str, mac: [u8; 6], addresses: &[IpAddr]) -> Cable {
        let port = Tap::open(DEVICE, mac).expect("a tap device");
        for ip in addresses {
            let len = if ip.is_ipv4() { 24 } else { 64 };
            let address = format!("{ip}/{len}");
            run(&[
                "ip", "-n", namespace, "addr", "add", &address, "dev", DEVICE, "nodad",
            ]);
        }
        run(&["ip", "-n", namespace, "link", "set", DEVICE, "up"]);
        Cable {
            port,
            memory: Memory::new(256, 2048).expect("memory"),
        }
    }

    /// Frames that the kernel has sent since the last call, at most 32.
    pub fn receive(&mut self) -> Vec<Vec<u8>> {
        let empty = Packet {
            frame: Frame(0),
            start: 0,
            len: 0,
        };
        let mut packets = [empty; 32];
        let got = self.port.receive(&mut self.memory, &mut packets);
        let frames = packets[..got].iter().map(|packet| {
            let bytes = self.memory.packet(*packet).to_vec();
            self.memory.give(packet.frame);
            bytes
        });
        frames.collect()
    }

    /// Sends a frame to the kernel.
    pub fn send(&mut self, bytes: &[u8]) {
        let frame = self.memory.take().expect("a free frame");
        self.memory.bytes_mut(frame)[..bytes.len()].copy_from_slice(bytes);
        let packet = Packet {
            frame,
            start: 0,
            len: bytes.len() as u32,
        };
        if !self.port.transmit(&mut self.memory, packet) {
            self.memory.give(frame);
        }
        self.port.flush(&mut self.memory).expect("the device is up");
        self.port.reclaim(&mut self.memory);
    }
}
