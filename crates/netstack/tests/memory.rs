//! Absence of allocations after the start, and the memory of a connection.

mod support;

use cofferdam_netstack::*;
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use support::faults::Faults;
use support::node::{ALLOCATIONS, Node};
use support::segment::{Segment, flags};
use support::transfer::{assert_complete, transfer};
use support::world::World;
use support::{at, config};

/// Allocator that counts this thread's allocations and live bytes.
struct Counting;

thread_local! {
    static LIVE_BYTES: Cell<i64> = const { Cell::new(0) };
}

// SAFETY: all memory comes from and goes back to `System`, with the layouts given; the counters are
// thread-local cells without destructor, so touching them neither allocates nor fails.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.set(ALLOCATIONS.get() + 1);
        LIVE_BYTES.set(LIVE_BYTES.get() + layout.size() as i64);
        // SAFETY: the caller keeps `alloc`'s contract, which is `System`'s.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        LIVE_BYTES.set(LIVE_BYTES.get() - layout.size() as i64);
        // SAFETY: `at` came from `alloc` above, so from `System`, with this layout.
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Promise 56.
#[test]
fn nothing_is_allocated_after_the_start() {
    let before = ALLOCATIONS.get();
    drop(std::hint::black_box(Box::new(1)));
    assert_eq!(ALLOCATIONS.get(), before + 1, "the allocator counts");
    // Every call of the stack in these transfers checks the count: see `support::node`.
    let faults = Faults {
        loss_pct: 5,
        reorder_pct: 20,
        duplicate_pct: 5,
        corrupt_pct: 2,
        ..Faults::default()
    };
    for (v6, half_open) in [(false, 256), (true, 256), (false, 0)] {
        let mut configs = [config(0), config(1)];
        configs[1].limits.half_open = half_open;
        let (mut world, mut apps) = transfer(
            World::with(faults, 3, configs),
            [300_000, 200_000],
            4000,
            v6,
        );
        assert_complete(&mut world, &mut apps);
        let counters = world.nodes[1].stack.counters();
        assert_eq!(counters.cookies_accepted > 0, half_open == 0);
        assert!(counters.out_of_order > 0);
    }
    let mut nodes = [0, 1].map(|n| Node::new(config(n), Time::ZERO));
    datagrams(&mut nodes);
}

/// Sends datagrams in both directions, with timers and refused commands.
fn datagrams(nodes: &mut [Node; 2]) {
    let udp = nodes.each_mut().map(|node| {
        node.call(|stack| stack.udp_bind(at_any(), 1))
            .expect("free")
    });
    let to = at(1, false, 53);
    let mut received = 0;
    for turn in 0..2000 {
        let now = Time::from_nanos(turn * 100_000);
        let chunk = nodes[0].memory.data(&[7; 100]);
        let _ =
            nodes[0].call(|stack| stack.udp_sendv(now, udp[0], None, to, &[chunk], chunk.buffer.0));
        let timer = nodes[0].call(|stack| stack.set_timer(now, turn));
        assert_eq!(timer.is_none(), turn > 1_000_000);
        for side in 0..2 {
            nodes[side].call(|stack| stack.handle_timers(now));
            while let Some(frame) = nodes[side].transmit(now) {
                nodes[1 - side].receive(now, &frame);
            }
            while let Some(event) = nodes[side].event() {
                match event {
                    Event::UdpSent { token, .. } => nodes[side].memory.free(BufferId(token)),
                    Event::UdpRecv { udp, chunk, .. } => {
                        received += 1;
                        nodes[side].memory.free(chunk.buffer);
                        nodes[side].call(|stack| stack.udp_recv_done(udp, 1));
                    }
                    _ => {}
                }
            }
        }
    }
    assert_eq!(received, 2000);
}

fn at_any() -> SocketAddr {
    SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 53)
}

const MANY: u32 = 100_000;
/// Largest size of an idle connection in bytes.
const IDLE_BYTES: i64 = 2 << 10;

fn settings(connections: u32) -> Config {
    let mut settings = config(0);
    settings.limits = Limits {
        connections,
        chunks: 4096,
        half_open: 1000,
        ..settings.limits
    };
    settings
}

/// Live bytes added by `make`, and its result.
fn bytes_of<T>(make: impl FnOnce() -> T) -> (i64, T) {
    let before = LIVE_BYTES.get();
    let value = make();
    (LIVE_BYTES.get() - before, value)
}

/// Promise 56.
#[test]
fn an_idle_connection_uses_at_most_2_kib() {
    let now = Time::from_nanos(1);
    let (few, _) = bytes_of(|| Stack::new(settings(1), now).expect("settings that work"));
    let (many, stack) = bytes_of(|| Stack::new(settings(MANY), now).expect("settings that work"));
    let each = (many - few) / i64::from(MANY - 1);
    println!("{each} bytes a connection");
    assert!(each <= IDLE_BYTES, "{each} bytes a connection");
    let mut node = Node::of(stack);
    node.stack.listen(at(0, false, 80), MANY, 1).expect("free");
    let before = LIVE_BYTES.get();
    let (mut ids, peers) = (Vec::new(), 250);
    for n in 0..MANY {
        // The loop opens 400 connections from each of 250 peers.
        let from = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 2 + (n % peers) as u8));
        open(&mut node, now, from, 1024 + (n / peers) as u16);
        while let Some(event) = node.event() {
            let Event::Knock { connection, .. } = event else {
                panic!("{event:?}")
            };
            node.call(|stack| stack.accept(now, connection, u64::from(n)))
                .expect("knocked");
            ids.push(connection);
        }
    }
    ids.shrink_to_fit();
    let harness = (ids.capacity() * size_of::<ConnectionId>()) as i64;
    assert_eq!(ids.len() as u32, MANY);
    assert_eq!(node.stack.usage().connections, MANY);
    assert!(
        LIVE_BYTES.get() - before <= harness + 4096,
        "opening them took memory"
    );
    // The stack finds every connection by its handle.
    for (n, id) in ids.iter().enumerate().step_by(997) {
        let info = node.stack.connection(*id).expect("open");
        assert_eq!(info.remote.port(), 1024 + (n as u32 / peers) as u16);
        assert_eq!(info.state, "ESTABLISHED");
    }
    // One connection more does not fit: its SYN is answered with a cookie, and its ACK is refused.
    open(&mut node, now, IpAddr::V4(Ipv4Addr::new(10, 0, 0, 2)), 1000);
    assert_eq!(node.event(), None);
    assert!(node.stack.counters().cookies_sent == 1 && node.stack.counters().backlog_full > 0);
}

/// Performs a peer's handshake.
fn open(node: &mut Node, now: Time, from: IpAddr, port: u16) {
    let macs = [[2, 0, 0, 0, 0, 2], [2, 0, 0, 0, 0, 1]];
    let to = support::ip(0, false);
    let syn = Segment {
        from: port,
        to: 80,
        flags: flags("S"),
        window: 1000,
        ..Segment::default()
    };
    node.receive(now, &syn.write(macs, from, to));
    let mut answer = None;
    while let Some(frame) = node.transmit(now) {
        answer = Segment::read(&frame).or(answer);
    }
    let answer = answer.expect("SYN+ACK");
    assert_eq!((answer.flags, answer.to), (flags("S."), port));
    let ack = Segment {
        seq: 1,
        ack: answer.seq.wrapping_add(1),
        flags: flags("."),
        ..syn
    };
    node.receive(now, &ack.write(macs, from, to));
    // The stack also asks for the peer's address; nothing answers here.
    while node.transmit(now).is_some() {}
}
