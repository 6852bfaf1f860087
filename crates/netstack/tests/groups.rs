//! Two stacks of one address, as on two cores, and a peer: the move of a flow group, and the
//! assignment of frames to the stacks.

mod support;

use cofferdam_netstack::*;
use std::time::Duration;
use support::node::Node;
use support::{at, config};

const NOW: Time = Time::from_nanos(1_000_000_000);

/// Offset of TCP's flags in an IPv4 frame without options.
const FLAGS: usize = 14 + 20 + 13;
const RST: u8 = 4;
const ACK: u8 = 16;

/// A client, and two stacks that listen on one address.
fn scene() -> (Node, [Node; 2]) {
    let mut servers = [Node::new(config(1), NOW), Node::new(config(1), NOW)];
    for server in &mut servers {
        let listener = server.stack.listen(at(1, false, 7), 8, 5);
        listener.expect("the address is free");
    }
    (Node::new(config(0), NOW), servers)
}

/// Delivers all frames that `from` sends now. Returns them with the steering of the receiver.
fn pass(from: &mut Node, to: &mut Node) -> Vec<(Steering, Vec<u8>)> {
    let mut passed = Vec::new();
    while let Some(frame) = from.transmit(NOW) {
        passed.push((to.stack.steering(&frame), frame.clone()));
        to.receive(NOW, &frame);
    }
    passed
}

/// Flow group of the only segment among the frames.
fn group(passed: &[(Steering, Vec<u8>)]) -> u8 {
    match passed {
        [(Steering::Group(group), _)] => *group,
        other => panic!("not one segment: {other:?}"),
    }
}

fn shift(group: u8, from: &mut Node, to: &mut Node) -> Vec<(ConnectionId, ConnectionId)> {
    assert!(from.event().is_none(), "it has reported all before");
    let taken = from.stack.take_group(group);
    to.stack.put_group(NOW, taken).expect("room")
}

/// Promise 54.
#[test]
fn connections_in_every_state_move_with_their_group() {
    let (mut client, [mut first, mut second]) = scene();
    let ours = client.stack.connect(NOW, None, at(1, false, 7), 1);
    let ours = ours.expect("a port");
    pass(&mut client, &mut first);
    pass(&mut first, &mut client);
    let number = group(&pass(&mut client, &mut first));
    assert_eq!(first.stack.usage().connections, 1, "half-open");

    // The SYN+ACK came from the first stack; its ACK goes to the second.
    pass(&mut first, &mut client);
    assert_eq!(shift(number, &mut first, &mut second).len(), 1);
    assert!(first.event().is_none(), "what has left ends in silence");
    assert!(first.transmit(NOW).is_none());
    assert_eq!(first.stack.usage().connections, 0);
    pass(&mut client, &mut second);
    let knock = second.event();
    assert!(matches!(knock, Some(Event::Knock { .. })), "{knock:?}");

    // The connection waits for `accept` in the stack that has it at that time.
    let moved = shift(number, &mut second, &mut first);
    assert!(second.event().is_none() && second.transmit(NOW).is_none());
    assert_eq!(second.stack.usage().connections, 0);
    let theirs = moved[0].1;
    assert!(first.event().is_none(), "it has knocked");
    assert_eq!(first.stack.group_of(theirs), Some(number));
    first.stack.accept(NOW, theirs, 9).expect("it is here");
    let connected = client.event();
    assert!(
        matches!(connected, Some(Event::Connected { .. })),
        "{connected:?}"
    );
    let data = client.memory.data(b"hello");
    let taken = client.stack.sendv(NOW, ours, &[data]);
    assert_eq!(taken, Ok(5));
    pass(&mut client, &mut first);
    match first.event() {
        Some(Event::Recv {
            chunk, cookie: 9, ..
        }) => assert_eq!(first.memory.read(chunk), b"hello"),
        other => panic!("no data: {other:?}"),
    }
    first.stack.recv_done(NOW, theirs, 5, 1).expect("open");

    // The side that closes first ends in TIME_WAIT and accepts the peer's FIN again.
    first.stack.close(NOW, theirs).expect("open");
    pass(&mut first, &mut client);
    client.stack.close(NOW, ours).expect("open");
    let last = pass(&mut client, &mut first);
    pass(&mut first, &mut client);
    while first.event().is_some() {}
    assert_eq!(first.stack.usage().time_wait, 1);
    assert!(shift(number, &mut first, &mut second).is_empty());
    let time_wait = [&first, &second].map(|server| server.stack.usage().time_wait);
    assert_eq!(time_wait, [0, 1]);
    let (_, fin) = last.last().expect("the peer's FIN");
    second.receive(NOW, fin);
    // The second stack may have to resolve the peer's Ethernet address first.
    let answer = second.transmit(NOW).expect("an answer");
    assert_eq!(answer[FLAGS] & (RST | ACK), ACK, "{answer:?}");
    let ended = NOW + Duration::from_secs(61);
    second.stack.handle_timers(ended);
    assert_eq!(second.stack.usage().time_wait, 0);
}

/// Promise 54.
#[test]
fn a_waiting_connection_is_reset_without_a_listener() {
    let (mut client, [mut first, _]) = scene();
    let mut deaf = Node::new(config(1), NOW);
    client
        .stack
        .connect(NOW, None, at(1, false, 7), 1)
        .expect("a port");
    pass(&mut client, &mut first);
    pass(&mut first, &mut client);
    let number = group(&pass(&mut client, &mut first));
    pass(&mut first, &mut client);
    let moved = shift(number, &mut first, &mut deaf);
    assert_eq!(moved.len(), 1);
    // The stack may have to resolve the peer's Ethernet address first.
    for _ in 0..3 {
        pass(&mut deaf, &mut client);
        pass(&mut client, &mut deaf);
    }
    let events: Vec<Event> = std::iter::from_fn(|| client.event()).collect();
    let is_dead = |event: &Event| {
        matches!(
            event,
            Event::Dead {
                reason: DeadReason::Reset,
                ..
            }
        )
    };
    assert!(events.iter().any(is_dead), "{events:?}");
    while deaf.event().is_some() {}
    assert_eq!(deaf.stack.usage().connections, 0);
}

/// Promise 54.
#[test]
fn each_frame_is_for_one_stack_or_for_all() {
    let (mut client, [mut first, second]) = scene();
    client
        .stack
        .connect(NOW, None, at(1, false, 7), 1)
        .expect("a port");
    let asked = pass(&mut client, &mut first);
    assert!(
        matches!(asked[..], [(Steering::Any, _)]),
        "a request: {asked:?}"
    );
    let answered = pass(&mut first, &mut client);
    assert!(
        matches!(answered[..], [(Steering::All, _)]),
        "an answer: {answered:?}"
    );
    let syn = pass(&mut client, &mut first);
    let number = group(&syn);
    let (_, mut frame) = syn[0].clone();
    assert_eq!(
        second.stack.steering(&frame),
        Steering::Group(number),
        "both agree"
    );
    // This bit is "more fragments" of the IPv4 header.
    frame[14 + 6] |= 0x20;
    assert_eq!(second.stack.steering(&frame), Steering::First);
    // An error about a datagram may concern any stack.
    let udp = client.stack.udp_bind(at(0, false, 99), 1).expect("free");
    let data = client.memory.data(b"?");
    let sent = client
        .stack
        .udp_sendv(NOW, udp, None, at(1, false, 98), &[data], 0);
    sent.expect("sent");
    let datagram = pass(&mut client, &mut first);
    assert!(
        matches!(datagram[..], [(Steering::Group(_), _)]),
        "{datagram:?}"
    );
    let errors = pass(&mut first, &mut client);
    assert!(
        errors
            .iter()
            .any(|(steering, _)| *steering == Steering::All),
        "{errors:?}"
    );
    // Received frames may contain any bytes.
    let mut random = 7_u64;
    for _ in 0..20_000 {
        let mut bytes = syn[0].1.clone();
        for _ in 0..4 {
            random = random
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            let place = (random >> 33) as usize % bytes.len();
            bytes[place] = (random >> 20) as u8;
        }
        bytes.truncate((random >> 40) as usize % (bytes.len() + 1));
        if let Steering::Group(number) = first.stack.steering(&bytes) {
            assert!(number < FLOW_GROUPS);
        }
    }
}
