//! The ledger's figures against what is known: rates at a ratio, and costs measured alone.

mod common;

use cofferdam_testkit::traffic::{self, Udp};
use cofferdam_testkit::{FakeContainer, Forked};
use common::*;
use std::net::{SocketAddr, UdpSocket};
use std::sync::mpsc;
use std::time::Duration;

/// Rounds of each measurement: the machine is shared, and single rounds say little.
const ROUNDS: usize = 9;
/// Turns of a millisecond each.
const TURNS: usize = 400;

/// A bound socket that nobody reads: every packet costs the same, no task is woken.
fn deaf(place: &FakeContainer, at: SocketAddr) -> Forked {
    use cofferdam_testkit::Place;
    let mut socket = place.spot().fork(Some(SENDER_CPU), move |child| {
        let _socket = std::net::UdpSocket::bind(("0.0.0.0", at.port()))?;
        child.ready(0)?;
        loop {
            std::thread::park();
        }
    });
    socket.wait_ready();
    socket
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// Sends from the source to each address at its own rate at the same time, for about a
/// quarter of a second.
fn send(source: &Source, flows: &[(SocketAddr, usize, u64)]) {
    let senders: Vec<_> = flows
        .iter()
        .map(|(to, bytes, rate)| {
            let udp = Udp::to(*to)
                .bytes(*bytes)
                .rate(*rate)
                .burst(64)
                .packets(rate / 4);
            traffic::udp_send(&source.namespace, Some(SENDER_CPU), udp)
        })
        .collect();
    for sender in senders {
        sender.finish();
    }
}

#[test]
fn packet_rates_at_one_to_three_cost_one_to_three() {
    alone(180, || {
        let (one, three) = (FakeContainer::new("one"), FakeContainer::new("three"));
        let mut source = Source::new();
        let (a, b) = (
            source.join(one.namespace(), 9000),
            source.join(three.namespace(), 9000),
        );
        let _sockets = (deaf(&one, a), deaf(&three, b));
        let mut accountant = accountant();
        let ratios = (0..ROUNDS).map(|_| {
            let ((), interval) = during(&mut accountant, || {
                send(&source, &[(a, 200, 20_000), (b, 200, 60_000)]);
            });
            assert_conserved(&interval);
            let (one, three) = (ledger(&interval, one.id()), ledger(&interval, three.id()));
            let packets = three.rx_packets as f64 / one.rx_packets as f64;
            assert!(
                (2.9..3.1).contains(&packets),
                "the traffic is not what was asked: {packets}"
            );
            (three.caused_rx_ns as f64 / one.caused_rx_ns as f64) / packets
        });
        let ratio = median(ratios.collect());
        assert!(
            (0.95..=1.05).contains(&ratio),
            "cost ratio ÷ packet ratio = {ratio:.3}"
        );
    });
}

/// What to send in one go: to whom, payload bytes, packets.
type Load = Vec<(SocketAddr, usize, usize)>;

/// A thread in the source's namespace that sends what it is told, flow after flow in bursts of
/// 32, and says when it is done.
struct Sender {
    order: mpsc::Sender<Load>,
    done: mpsc::Receiver<()>,
}

impl Sender {
    fn new(source: &Source) -> Sender {
        let (order, orders) = mpsc::channel::<Load>();
        let (finished, done) = mpsc::channel();
        source.namespace.thread(move || {
            let socket = UdpSocket::bind("0.0.0.0:0").expect("a socket");
            let payload = [0u8; 1472];
            for mut load in orders {
                while load.iter().any(|(_, _, left)| *left > 0) {
                    for (to, bytes, left) in &mut load {
                        for _ in 0..32.min(*left) {
                            socket.send_to(&payload[..*bytes], *to).expect("sends");
                            *left -= 1;
                        }
                    }
                }
                if finished.send(()).is_err() {
                    break;
                }
            }
        });
        Sender { order, done }
    }

    /// Sends, and waits until all has been received.
    fn send(&self, load: Load) {
        self.order.send(load).expect("the sender lives");
        self.done.recv().expect("the sender lives");
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn mixed_traffic_costs_each_what_it_costs_alone() {
    alone(180, || {
        let (small, large) = (FakeContainer::new("small"), FakeContainer::new("large"));
        let mut source = Source::new();
        let a = source.join(small.namespace(), 9000);
        let b = source.join(large.namespace(), 9000);
        let _sockets = (deaf(&small, a), deaf(&large, b));
        let sender = Sender::new(&source);
        let mut accountant = accountant();
        let mut cost = |load: Load, who: u64| {
            let before = snapshot(&mut accountant);
            sender.send(load);
            let interval = snapshot(&mut accountant).since(&before);
            ledger(&interval, who).ns_per_packet()
        };
        // A packet costs this machine twice as much in one moment as in the next. So: short
        // turns, a millisecond each, hundreds of them, and the medians of both.
        let (s, l) = ((a, 16, 256), (b, 1400, 256));
        for (name, flow, who) in [("16 bytes", s, small.id()), ("1400 bytes", l, large.id())] {
            let (mut alone, mut mixed) = (Vec::new(), Vec::new());
            for _ in 0..TURNS {
                // As many packets in both cases, so that batches are alike.
                alone.extend(cost(vec![flow, flow], who));
                mixed.extend(cost(vec![s, l], who));
            }
            let (alone, mixed) = (median(alone), median(mixed));
            let ratio = mixed / alone;
            println!("{name}: mixed {mixed:.0} ns, alone {alone:.0} ns a packet: {ratio:.3}");
            assert!(
                (0.95..=1.05).contains(&ratio),
                "{name}: mixed ÷ alone = {ratio:.3}"
            );
        }
    });
}
