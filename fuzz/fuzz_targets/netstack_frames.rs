//! Frames, segments near the windows of open connections, calls and time, in any order: nothing
//! panics, memory stays bounded, every buffer is released.
#![no_main]

use cofferdam_netstack::*;
use libfuzzer_sys::fuzz_target;
use std::collections::HashSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

const PORT: u16 = 80;

/// Input, read a few bytes at a time; zeros after its end.
struct Input<'a>(&'a [u8]);

impl Input<'_> {
    fn byte(&mut self) -> u8 {
        let Some((first, rest)) = self.0.split_first() else {
            return 0;
        };
        self.0 = rest;
        *first
    }

    fn word(&mut self) -> u16 {
        u16::from_be_bytes([self.byte(), self.byte()])
    }

    fn take(&mut self, len: usize) -> Vec<u8> {
        let (head, rest) = self.0.split_at(len.min(self.0.len()));
        self.0 = rest;
        head.to_vec()
    }
}

/// Buffers that the stack owns.
#[derive(Default)]
struct Pool {
    held: HashSet<u64>,
    next: u64,
}

impl BufferPool for Pool {
    fn copy_in(&mut self, _bytes: &[u8]) -> Option<BufferId> {
        self.next += 1;
        self.held.insert(self.next);
        Some(BufferId(self.next))
    }
}

struct Run {
    stack: Stack,
    pool: Pool,
    now: Time,
    connections: Vec<ConnectionId>,
    /// Last sequence number and acknowledgement that the stack sent.
    last: (u32, u32),
}

impl Run {
    fn new() -> Self {
        let addresses = vec![
            InterfaceAddress {
                ip: Ipv4Addr::new(10, 0, 0, 1).into(),
                prefix_len: 24,
            },
            InterfaceAddress {
                ip: Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 1).into(),
                prefix_len: 64,
            },
        ];
        let mut config = Config::new(MacAddress([2, 0, 0, 0, 0, 1]), addresses, [3; 16]);
        config.interfaces[0].segmentation = true;
        // A second link, which also delivers frames for the first one's addresses.
        let second = InterfaceAddress {
            ip: Ipv4Addr::new(10, 1, 0, 1).into(),
            prefix_len: 24,
        };
        config
            .interfaces
            .push(Interface::new(MacAddress([2, 0, 0, 0, 0, 3]), vec![second]));
        // Checksums count as verified, so that the input need not compute them.
        config.received_checksums_verified = true;
        config.tcp.ecn = Ecn::On;
        config.tcp.fast_open.most_pending = 2;
        config.tcp.fast_open.without_cookie = true;
        // Small tables: each input makes a stack, and fills them.
        config.limits = Limits {
            connections: 8,
            spare_connections: 2,
            time_wait: 4,
            half_open: 4,
            chunks: 64,
            kept: 16,
            listeners: 2,
            udp: 2,
            udp_backlog: 4,
            udp_sends: 4,
            timers: 4,
            neighbours: 4,
            replies: 16,
            reassemblies: 2,
        };
        let mut stack = Stack::new(config, Time::ZERO).expect("settings that work");
        for ip in [
            IpAddr::V4(Ipv4Addr::UNSPECIFIED),
            IpAddr::V6(Ipv6Addr::UNSPECIFIED),
        ] {
            stack.listen(SocketAddr::new(ip, PORT), 4, 1).expect("free");
            stack.udp_bind(SocketAddr::new(ip, 53), 1).expect("free");
        }
        Self {
            stack,
            pool: Pool::default(),
            now: Time::ZERO,
            connections: Vec::new(),
            last: (0, 0),
        }
    }

    fn receive(&mut self, interface: u8, frame: &[u8]) {
        self.pool.next += 1;
        let buffer = self.pool.next;
        self.pool.held.insert(buffer);
        match self.stack.handle_frame(
            self.now,
            InterfaceId(interface),
            frame,
            BufferId(buffer),
            &mut self.pool,
        ) {
            Disposition::Free => {
                assert!(self.pool.held.remove(&buffer), "free, but released before")
            }
            Disposition::Held => {}
        }
    }

    fn back(&mut self, buffer: BufferId) {
        assert!(self.pool.held.remove(&buffer.0), "a buffer comes back once");
    }

    fn ip(&mut self, input: &mut Input<'_>, protocol: u8, payload: &[u8]) {
        let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2];
        let choice = input.byte();
        if choice & 1 == 0 {
            let total = (20 + payload.len() as u16).to_be_bytes();
            let [fragment, offset] = if choice & 2 == 0 {
                [0, 0]
            } else {
                input.word().to_be_bytes()
            };
            frame.extend([
                8, 0, 0x45, 0, total[0], total[1], 0, choice, fragment, offset, 64, protocol, 0, 0,
            ]);
            frame.extend([10, 0, 0, 2 + (choice >> 6), 10, 0, 0, 1]);
        } else {
            let total = (payload.len() as u16).to_be_bytes();
            frame.extend([0x86, 0xdd, 0x60, 0, 0, 0, total[0], total[1], protocol, 255]);
            for last in [2 + (choice >> 6), 1] {
                frame.extend([0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, last]);
            }
        }
        frame.extend(payload);
        self.receive(0, &frame);
    }

    fn segment(&mut self, input: &mut Input<'_>) {
        let near = |base: u32, input: &mut Input<'_>| {
            base.wrapping_add(i32::from(input.word() as i16) as u32)
        };
        let (seq, ack) = (near(self.last.1, input), near(self.last.0, input));
        let (port, flags) = (1 + u16::from(input.byte() & 3), input.byte());
        let options = usize::from(input.byte() % 11) * 4;
        let mut tcp = Vec::new();
        tcp.extend(port.to_be_bytes());
        tcp.extend(PORT.to_be_bytes());
        tcp.extend(seq.to_be_bytes());
        tcp.extend(ack.to_be_bytes());
        tcp.extend([((20 + options) as u8 / 4) << 4, flags]);
        tcp.extend(input.word().to_be_bytes());
        tcp.extend([0, 0, 0, input.byte()]);
        tcp.extend(input.take(options));
        tcp.resize(20 + options, 0);
        let len = usize::from(input.byte());
        tcp.resize(20 + options + len, 7);
        self.ip(input, 6, &tcp);
    }

    fn call(&mut self, input: &mut Input<'_>) {
        let (what, which) = (input.byte(), usize::from(input.byte()));
        let Some(id) = self
            .connections
            .get(which % self.connections.len().max(1))
            .copied()
        else {
            let remote = SocketAddr::new(Ipv4Addr::new(10, 0, 0, 2).into(), PORT);
            let _ = self
                .stack
                .connect(self.now, None, remote, 3)
                .map(|id| self.connections.push(id));
            return;
        };
        let chunk = Chunk {
            buffer: BufferId(0),
            offset: 0,
            len: u32::from(input.word()),
        };
        let (stack, now) = (&mut self.stack, self.now);
        match what % 12 {
            0 => drop(stack.accept(now, id, 9)),
            1 => drop(stack.reject(now, id)),
            2 => drop(stack.sendv(now, id, &[chunk, chunk])),
            3 => drop(stack.recv_done(now, id, chunk.len, 1)),
            4 => drop(stack.shutdown(now, id)),
            5 => drop(stack.close(now, id)),
            6 => drop(stack.abort(now, id)),
            // Half of the places: groups that moved out free theirs only after the next poll.
            7 if stack.usage().connections <= 4 => {
                let group = stack.connection(id).map_or(0, |info| info.flow_group);
                let taken = stack.take_group(group);
                let handles = stack.put_group(now, taken).expect("room");
                self.connections
                    .extend(handles.into_iter().map(|handle| handle.1));
            }
            8 => stack.set_reader(id, which as u8 & 1),
            9 => stack.stop_reader(which as u8 & 1),
            10 => stack.resume_reader(which as u8 & 1),
            _ => drop(stack.connection(ConnectionId::from_bits(u64::from(chunk.len) << 20))),
        }
    }

    fn drain(&mut self) {
        while let Some(event) = self.stack.poll_event() {
            match event {
                Event::Knock { connection, .. } => self.connections.push(connection),
                Event::Recv { chunk, .. } | Event::UdpRecv { chunk, .. } => self.back(chunk.buffer),
                Event::Release { buffer } => self.back(buffer),
                Event::Dead { connection, .. } => self.connections.retain(|id| *id != connection),
                _ => {}
            }
        }
        let mut header = [0; MAX_HEADER_BYTES];
        for _ in 0..1000 {
            let Some(transmit) = self.stack.poll_transmit(self.now, &mut header) else {
                return;
            };
            let (header_len, payload_len) = (transmit.header_len, transmit.payload.len());
            assert!(header_len <= MAX_HEADER_BYTES && transmit.len() <= 65_535 + 14);
            let segment_len = transmit.cut.map_or(payload_len, usize::from);
            assert!(header_len + segment_len <= 1514);
            if transmit.cut.is_some() {
                assert!(payload_len > segment_len && payload_len % segment_len == 0);
                assert!(Train::begin(&header, &transmit).is_some_and(|train| train.segments() > 1));
            }
            if let Some(buffer) = transmit.release {
                self.back(buffer);
            }
            let at = if header[12] == 8 { 34 } else { 54 };
            if header[at - 11] == 6 || header[20] == 6 {
                let long = |at: usize| {
                    u32::from_be_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]])
                };
                self.last = (long(at + 4).wrapping_add(1), long(at + 8));
            }
        }
        panic!("it sends without end");
    }
}

fuzz_target!(|bytes: &[u8]| {
    let mut run = Run::new();
    let mut input = Input(bytes);
    while !input.0.is_empty() {
        match input.byte() % 8 {
            0 => {
                let (interface, len) = (input.byte() % 3, usize::from(input.byte()));
                let frame = input.take(len);
                run.receive(interface, &frame);
            }
            1 => {
                let (protocol, len) = (input.byte(), usize::from(input.byte()));
                let payload = input.take(len);
                run.ip(&mut input, protocol, &payload);
            }
            2 => {
                run.now = run.now + Duration::from_micros(u64::from(input.word()) * 100);
                run.stack.handle_timers(run.now);
            }
            3 => run.call(&mut input),
            4 => run.drain(),
            _ => run.segment(&mut input),
        }
    }
    // Data that a reader has not accepted waits for it, and the connection's end too.
    (0..2).for_each(|reader| run.stack.resume_reader(reader));
    for id in std::mem::take(&mut run.connections) {
        let _ = run.stack.abort(run.now, id);
    }
    // The rest times out: the longest wait is that for a retransmission.
    let end = run.now + Duration::from_secs(2000);
    run.drain();
    while let Some(at) = run.stack.poll_at().filter(|at| *at <= end) {
        // At least one tick after now: time passes, whatever the wheel says.
        run.now = at.max(run.now + Duration::from_micros(20));
        run.stack.handle_timers(run.now);
        run.drain();
    }
    let usage = run.stack.usage();
    assert_eq!(
        [usage.connections, usage.time_wait, usage.chunks, usage.kept],
        [0; 4],
        "{usage:?}"
    );
    assert!(run.pool.held.is_empty(), "buffers are kept");
});
