//! Random packets and random calls: the host never panics, and no resources are left at the end.

mod support;

use cofferdam_lab::fixtures::time_limit;
use cofferdam_packetdrill_shim::control::Control;
use cofferdam_packetdrill_shim::host::{Flags, Host};
use cofferdam_packetdrill_shim::{CommandLine, parse_flags};
use std::time::Duration;
use support::segment::{Segment, frame};

const MACS: [[u8; 6]; 2] = [[2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2]];
const STEPS: u32 = 30_000;

/// Reproducible random numbers (SplitMix64).
struct Random(u64);

impl Random {
    fn below(&mut self, most: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % most
    }
}

/// A random packet: mostly a segment near the windows of existing connections, or plain noise.
fn packet(random: &mut Random, isn: u32) -> Vec<u8> {
    if random.below(10) == 0 {
        return (0..random.below(100))
            .map(|_| random.below(256) as u8)
            .collect();
    }
    let near = |random: &mut Random| {
        [0, 1, 2, 50, u32::MAX, random.below(1 << 32) as u32][random.below(6) as usize]
    };
    let (from, to) = ([192, 0, 2, 1].into(), [192, 168, 0, 2].into());
    if random.below(4) == 0 {
        // A datagram to the bound port or to an ephemeral port.
        let port = [8080, 49_152][random.below(2) as usize];
        let data = vec![3; random.below(60) as usize];
        let ports = [5000, port, 8 + data.len() as u16, 0];
        let udp = [ports.map(u16::to_be_bytes).concat(), data].concat();
        return frame(MACS, from, to, 17, &udp)[14..].to_vec();
    }
    let segment = Segment {
        from: 5000 + random.below(4) as u16,
        to: 8080,
        seq: near(random),
        ack: isn.wrapping_add(near(random)),
        flags: random.below(64) as u8,
        window: random.below(65_536) as u16,
        data: vec![7; random.below(60) as usize],
        ..Segment::default()
    };
    let mut bytes = segment.write(MACS, from, to)[14..].to_vec();
    if random.below(5) == 0 {
        let at = random.below(bytes.len() as u64) as usize;
        bytes[at] ^= 1 << random.below(8);
        bytes.truncate(bytes.len() - random.below(9) as usize);
    }
    bytes
}

/// Makes a random call whose arguments may be wrong.
fn call(host: &mut Host, random: &mut Random, files: &mut Vec<i32>) {
    let file = match files.get(random.below(files.len() as u64 + 1) as usize) {
        Some(file) => *file,
        None => random.below(30_000) as i32,
    };
    let peer = ([192, 0, 2, 1], 5000 + random.below(4) as u16).into();
    match random.below(14) {
        0 if files.len() < 40 => {
            let kind = [libc::SOCK_STREAM, libc::SOCK_DGRAM][random.below(2) as usize];
            files.extend(host.socket(libc::AF_INET, kind, 0));
        }
        1 if files.len() < 40 => files.extend(host.epoll_create()),
        2 => drop(host.bind(
            file,
            ([192, 168, 0, 2], 8080 + random.below(2) as u16).into(),
        )),
        3 => drop(host.listen(file, random.below(4) as i32 - 1)),
        4 => files.extend(host.accept(file).map(|(file, _)| file)),
        5 => drop(host.connect(file, peer)),
        6 => drop(host.read(file, random.below(100) as usize, random.below(5) == 0)),
        7 => {
            let flags = Flags {
                more: random.below(4) == 0,
                end_of_record: random.below(4) == 0,
                zero_copy: random.below(2) == 0,
                ..Flags::default()
            };
            let _ = host.write(file, &vec![9; random.below(5000) as usize], flags);
        }
        8 => drop(host.shutdown(file, random.below(4) as i32)),
        9 if random.below(4) == 0 => {
            let _ = host.close(file);
            files.retain(|other| *other != file);
        }
        10 => {
            let wanted = Some((random.below(1 << 32) as u32, 1));
            let (epoll, operation) = (file, random.below(5) as i32);
            let other = files.first().copied().unwrap_or(0);
            let _ = host.epoll_control(epoll, operation, other, wanted);
            drop(host.epoll_ready(epoll, 3));
        }
        11 => {
            let to = (random.below(2) == 0).then_some(peer);
            let kind = [libc::IP_PKTINFO, 1][random.below(2) as usize];
            let control = [Control {
                level: libc::IPPROTO_IP,
                kind,
                data: vec![0; random.below(20) as usize],
            }];
            let data = vec![4; random.below(2000) as usize];
            let control = &control[random.below(2) as usize..];
            let _ = host.send_datagram(file, &data, to, control);
        }
        12 => {
            let level = [libc::IPPROTO_IP, libc::IPPROTO_TCP, libc::SOL_SOCKET];
            let (level, name) = (level[random.below(3) as usize], random.below(70) as i32);
            let value = vec![random.below(3) as u8; random.below(9) as usize];
            let _ = host.set_option(file, level, name, &value);
            let most = random.below(100) as usize;
            let flags = Flags {
                peek: random.below(5) == 0,
                errors: random.below(5) == 0,
                ..Flags::default()
            };
            drop(host.receive_message(file, most, flags));
        }
        _ => {
            host.poll(file, random.below(1 << 15) as i16);
            drop(host.option(file, random.below(8) as i32, random.below(20) as i32));
            let _ = host.queued_bytes(file, libc::FIONREAD);
        }
    }
}

/// Promise 62.
#[test]
fn random_packets_and_calls_leave_nothing() {
    time_limit(Duration::from_secs(60), || {
        let mut random = Random(20_261_122);
        let mut host =
            Host::new(parse_flags("nosysctls", CommandLine::default()).expect("defaults"))
                .expect("they work");
        // One listener always exists; others come and go.
        let listener = host
            .socket(libc::AF_INET, libc::SOCK_STREAM, 0)
            .expect("a socket");
        host.bind(listener, ([192, 168, 0, 2], 8080).into())
            .expect("free");
        host.listen(listener, 8).expect("bound");
        let (mut files, mut isn, mut most) = (vec![listener], 0, 0);
        for step in 0..STEPS {
            let bytes = packet(&mut random, isn);
            let _ = host.arrive(&bytes);
            call(&mut host, &mut random, &mut files);
            while let Some((_, sent)) = host.departed() {
                let frame = [&[0; 12][..], &[8, 0], &sent].concat();
                isn = Segment::read(&frame).map_or(isn, |segment| segment.seq);
            }
            if step % 64 == 0 {
                host.advance(host.now() + Duration::from_micros(random.below(300_000)));
            }
            most = most.max(host.usage().1);
        }
        assert!(most > 0, "connections were opened");
        for file in files {
            let _ = host.close(file);
        }
        // Longer than any retransmission and any TIME-WAIT.
        host.advance(host.now() + Duration::from_secs(4000));
        assert_eq!(host.usage(), (0, 0, 0), "buffers, connections, TIME_WAIT");
    });
}
