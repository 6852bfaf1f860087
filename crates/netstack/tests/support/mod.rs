//! Two stacks and a wire between them, with a simulated clock.
#![allow(dead_code)] // each test binary uses a part

pub mod app;
pub mod faults;
pub mod neighbour;
pub mod node;
pub mod script;
pub mod segment;
pub mod transfer;
pub mod world;

use cofferdam_netstack::*;
use std::net::{IpAddr, SocketAddr};

/// Address of node `n` in a family.
pub fn ip(n: usize, v6: bool) -> IpAddr {
    if v6 {
        format!("fd00::{}", n + 1).parse().expect("an address")
    } else {
        format!("10.0.0.{}", n + 1).parse().expect("an address")
    }
}

/// Settings of node `n` with both families. Node 0 sends packets of several segments, which are
/// cut.
pub fn config(n: usize) -> Config {
    let addresses = vec![
        InterfaceAddress {
            ip: ip(n, false),
            prefix_len: 24,
        },
        InterfaceAddress {
            ip: ip(n, true),
            prefix_len: 64,
        },
    ];
    let limits = Limits {
        connections: 64,
        time_wait: 64,
        chunks: 4096,
        timers: 16,
        ..Limits::default()
    };
    let mac = MacAddress([2, 0, 0, 0, 0, n as u8 + 1]);
    let interface = Interface {
        segmentation: n == 0,
        ..Interface::new(mac, addresses)
    };
    Config {
        limits,
        interfaces: vec![interface],
        ..Config::new(mac, Vec::new(), [n as u8 + 7; 16])
    }
}

pub fn at(n: usize, v6: bool, port: u16) -> SocketAddr {
    SocketAddr::new(ip(n, v6), port)
}
