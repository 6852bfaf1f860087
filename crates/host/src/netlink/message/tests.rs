use super::*;

fn new_link(attributes: &[Vec<u8>]) -> Vec<u8> {
    let mut payload = vec![0; 2];
    payload.extend(libc::ARPHRD_ETHER.to_ne_bytes());
    payload.extend(7u32.to_ne_bytes());
    payload.extend(libc::IFF_UP.cast_unsigned().to_ne_bytes());
    payload.extend([0; 4]);
    payload.extend(attributes.concat());
    request(libc::RTM_NEWLINK, 0, 3, &payload)
}

#[test]
fn a_link_is_read_back() {
    let kind = attribute(libc::IFLA_INFO_KIND, b"veth\0");
    let bytes = new_link(&[
        attribute(libc::IFLA_IFNAME, b"eth0\0"),
        attribute(4000, b"of a newer kernel"),
        attribute(libc::IFLA_LINK, &9u32.to_ne_bytes()),
        attribute(libc::IFLA_MASTER, &3u32.to_ne_bytes()),
        attribute(libc::IFLA_LINK_NETNSID, &(-1i32).to_ne_bytes()),
        attribute(libc::IFLA_LINKINFO | 0x8000, &kind),
    ]);
    let two = [bytes.clone(), bytes].concat();
    let links: Vec<_> = netlink_messages(&two)
        .filter_map(|m| link_message(&m))
        .collect();
    let expected = LinkMessage {
        index: 7,
        name: "eth0".into(),
        kind: "veth".into(),
        peer: Some(9),
        peer_nsid: Some(-1),
        master: Some(3),
        tunnel_port: None,
        loopback: false,
        ethernet: true,
        up: true,
        removed: false,
    };
    assert_eq!(links, [expected.clone(), expected.clone()]);
    assert!(expected.is_pair() && expected.is_in_use());
}

/// Promise 32.
#[test]
fn a_tunnel_is_told_by_its_kind_and_port() {
    let link = |kind: &[u8], data: &[Vec<u8>], elsewhere: bool| {
        let info = [
            attribute(libc::IFLA_INFO_KIND, kind),
            attribute(libc::IFLA_INFO_DATA, &data.concat()),
        ];
        let mut all = vec![
            attribute(libc::IFLA_IFNAME, b"t0\0"),
            attribute(libc::IFLA_LINKINFO, &info.concat()),
        ];
        if elsewhere {
            all.push(attribute(libc::IFLA_LINK_NETNSID, &2i32.to_ne_bytes()));
        }
        let bytes = new_link(&all);
        let message = netlink_messages(&bytes).next().unwrap();
        link_message(&message).unwrap().tunnel()
    };
    let port = |kind| attribute(kind, &8472u16.to_be_bytes());
    let vxlan = |elsewhere| link(b"vxlan\0", &[port(IFLA_VXLAN_PORT)], elsewhere);
    assert_eq!(vxlan(false), Some(Tunnel::Vxlan(8472)));
    assert_eq!(vxlan(true), None, "its packets come by another namespace");
    let geneve = link(b"geneve\0", &[port(IFLA_GENEVE_PORT)], false);
    assert_eq!(geneve, Some(Tunnel::Geneve(8472)));
    assert_eq!(link(b"ipip\0", &[], false), Some(Tunnel::Ip));
    // A port of another kind's attribute, no port at all, and one cut short.
    assert_eq!(link(b"veth\0", &[port(IFLA_VXLAN_PORT)], false), None);
    assert_eq!(link(b"vxlan\0", &[], false), None);
    let short = attribute(IFLA_VXLAN_PORT, &[1]);
    assert_eq!(link(b"vxlan\0", &[short], false), None);
}

#[test]
fn broken_messages_end_the_datagram() {
    let good = new_link(&[attribute(libc::IFLA_IFNAME, b"eth0\0")]);
    for cut in 0..good.len() {
        assert_eq!(netlink_messages(&good[..cut]).count(), 0, "cut at {cut}");
    }
    for length in [0u32, 1, 15, u32::MAX] {
        let mut bad = good.clone();
        bad[..4].copy_from_slice(&length.to_ne_bytes());
        assert_eq!(netlink_messages(&bad).count(), 0, "length {length}");
    }
    assert_eq!(attributes(&[3, 0, 1, 0, 0, 0, 0, 0]).count(), 0);
    assert_eq!(
        link_message(&Message {
            kind: 16,
            flags: 0,
            sequence: 0,
            payload: &[]
        }),
        None
    );
}

#[test]
fn unused_tunnels_are_not_devices_of_a_container() {
    let tunnel = LinkMessage {
        kind: "sit".into(),
        name: "sit0".into(),
        ..Default::default()
    };
    assert!(!tunnel.is_in_use());
    assert!(LinkMessage { up: true, ..tunnel }.is_in_use());
}

#[test]
fn nsids() {
    let payload = [vec![0; 4], attribute(NETNSA_NSID, &5i32.to_ne_bytes())].concat();
    let bytes = request(libc::RTM_DELNSID, 0, 1, &payload);
    let message = netlink_messages(&bytes).next().unwrap();
    assert_eq!(nsid_message(&message), Some((libc::RTM_DELNSID, 5)));
}
