//! Invalid settings.

use crate::NOW;
use crate::support::{at, config, ip};
use cofferdam_netstack::*;
use std::net::{IpAddr, SocketAddr};

/// The error names the invalid setting.
/// Promise 75.
#[test]
fn wrong_settings_are_refused() {
    let refused = |change: fn(&mut Config)| {
        let mut settings = config(0);
        change(&mut settings);
        Stack::new(settings, NOW)
            .expect_err("cannot work")
            .to_string()
    };
    let mtu = refused(|settings| settings.interfaces[0].mtu_bytes = 1000);
    assert_eq!(mtu, "MTU 1000 is outside 1280..=65535");
    assert!(
        refused(|settings| settings.interfaces[0].mac = MacAddress::BROADCAST)
            .contains("ff:ff:ff:ff:ff:ff")
    );
    assert!(
        refused(|settings| settings.interfaces[0].addresses[0].prefix_len = 33)
            .contains("10.0.0.1/33")
    );
    assert!(
        refused(|settings| settings.interfaces[0].addresses[0].ip = ip_of("224.0.0.1"))
            .contains("224.0.0.1")
    );
    assert!(
        refused(|settings| settings.interfaces[0].gateways.push(ip_of("10.9.0.1")))
            .contains("10.9.0.1")
    );
    assert!(refused(|settings| settings.limits.connections = 0).contains("connections = 0"));
    assert!(refused(|settings| settings.interfaces.clear()).contains("0 interfaces"));
    let mut stack = Stack::new(config(0), NOW).expect("settings that work");
    assert_eq!(
        stack.listen(SocketAddr::new(ip(0, false), 0), 1, 0),
        Err(BindError::NoPort)
    );
    assert_eq!(
        stack.listen(at(1, false, 80), 1, 0),
        Err(BindError::NotOurs(ip(1, false)))
    );
    let far = SocketAddr::new(ip_of("192.0.2.1"), 80);
    assert_eq!(
        stack.connect(NOW, None, far, 0),
        Err(ConnectError::NoRoute(far.ip()))
    );
    assert_eq!(
        stack.connect(NOW, None, at(0, false, 80), 0),
        Err(ConnectError::Remote(at(0, false, 80)))
    );
}

fn ip_of(text: &str) -> IpAddr {
    text.parse().expect("an address")
}
