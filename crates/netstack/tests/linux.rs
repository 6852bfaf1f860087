//! Streams with the Linux kernel over a tap device, with a wire between them that may lose and
//! reorder.

mod support;
#[path = "support/tap.rs"]
mod tap;

use cofferdam_lab::fixtures::{Namespace, exclusive, time_limit};
use cofferdam_netstack::{DeadReason, Time};
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};
use support::app::{Stream, pattern};
use support::faults::{Faults, Wire};
use support::node::Node;
use support::world::App;
use support::{at, config, ip};
use tap::Cable;

/// The kernel's side of a stream: writes and reads at the same time, and checks every byte.
fn kernel_side(stream: TcpStream, send: u64, receive: u64) -> u64 {
    let mut writer = stream.try_clone().expect("a descriptor");
    let sending = std::thread::spawn(move || {
        for start in (0..send).step_by(8192) {
            let bytes: Vec<u8> = (start..(start + 8192).min(send)).map(pattern).collect();
            writer.write_all(&bytes).expect("the peer takes it");
        }
        writer.shutdown(Shutdown::Write).expect("open");
    });
    let mut reader = stream;
    let mut received = 0;
    let mut buffer = vec![0; 16 << 10];
    loop {
        let len = reader.read(&mut buffer).expect("no reset");
        if len == 0 {
            break;
        }
        for (index, byte) in buffer[..len].iter().enumerate() {
            assert_eq!(*byte, pattern(received + index as u64), "byte {received}");
        }
        received += len as u64;
    }
    sending.join().expect("all sent");
    assert_eq!(received, receive);
    received
}

/// Stack at one end of the cable, with a wire between them.
struct Bench {
    cable: Cable,
    wires: [Wire; 2],
    on_the_way: Vec<(Time, usize, Vec<u8>)>,
    start: Instant,
}

impl Bench {
    fn now(&self) -> Time {
        Time::from_nanos(1_000_000_000) + self.start.elapsed()
    }

    fn turn(&mut self, node: &mut Node, app: &mut Stream) {
        let now = self.now();
        let frames = self.cable.receive();
        let got = frames.len();
        for frame in frames {
            let arrivals = self.wires[1].send(now, frame);
            self.on_the_way
                .extend(arrivals.into_iter().map(|(at, frame)| (at, 0, frame)));
        }
        node.stack.handle_timers(now);
        let due: Vec<_> = self
            .on_the_way
            .extract_if(.., |arrival| arrival.0 <= now)
            .collect();
        for (_, to, frame) in due {
            if to == 0 {
                node.receive(now, &frame)
            } else {
                self.cable.send(&frame)
            }
        }
        while let Some(event) = node.event() {
            app.event(now, node, event);
        }
        while let Some(frame) = node.transmit(now) {
            let arrivals = self.wires[0].send(now, frame);
            self.on_the_way
                .extend(arrivals.into_iter().map(|(at, frame)| (at, 1, frame)));
        }
        if got == 0 {
            std::thread::sleep(Duration::from_micros(50));
        }
    }
}

/// Creates the device in the namespace, and drives the stack until both sides have closed.
fn drive(
    namespace: &str,
    faults: Faults,
    v6: bool,
    we_serve: bool,
    bytes: [u64; 2],
    ready: &Sender<()>,
    kernel: &Receiver<()>,
) -> Stream {
    let kernels = [ip(1, false), ip(1, true)];
    let mut bench = Bench {
        cable: Cable::new(namespace, config(0).interfaces[0].mac.0, &kernels),
        wires: [Wire::new(faults, 1), Wire::new(faults, 2)],
        on_the_way: Vec::new(),
        start: Instant::now(),
    };
    let mut node = Node::new(config(0), bench.now());
    let mut app = Stream::new(bytes[0], 4000, we_serve);
    if we_serve {
        node.stack.listen(at(0, v6, 80), 4, 1).expect("free");
        ready.send(()).expect("the kernel's side waits");
    } else {
        ready.send(()).expect("the kernel's side waits");
        kernel.recv().expect("the kernel listens");
        app.connection = Some(
            node.stack
                .connect(bench.now(), None, at(1, v6, 80), 1)
                .expect("room"),
        );
    }
    while app.dead.is_none() {
        bench.turn(&mut node, &mut app);
    }
    // The stack still sends its last acknowledgement.
    let until = Instant::now() + Duration::from_millis(20);
    while Instant::now() < until || kernel.try_recv().is_err() {
        bench.turn(&mut node, &mut app);
    }
    assert_eq!(node.memory.in_stack(), 0);
    app
}

fn talk(faults: Faults, v6: bool, we_serve: bool, bytes: [u64; 2]) {
    let namespace = Namespace::new("stack");
    let (ready, is_ready) = channel();
    let (kernel, from_kernel) = channel();
    let name = namespace.name().to_string();
    let stack =
        namespace.thread(move || drive(&name, faults, v6, we_serve, bytes, &ready, &from_kernel));
    is_ready.recv().expect("the device is up");
    let linux = namespace.thread(move || {
        let stream = if we_serve {
            TcpStream::connect(at(0, v6, 80)).expect("the stack listens")
        } else {
            let listener = TcpListener::bind(at(1, v6, 80)).expect("free");
            kernel.send(()).expect("the stack waits");
            listener.accept().expect("the stack connects").0
        };
        let received = kernel_side(stream, bytes[1], bytes[0]);
        kernel.send(()).expect("the stack waits");
        received
    });
    assert_eq!(linux.join().expect("the kernel is content"), bytes[0]);
    let app = stack.join().expect("the stack is content");
    assert_eq!(
        (app.dead.map(|dead| dead.1), app.received),
        (Some(DeadReason::Closed), bytes[1])
    );
    assert_eq!(app.acknowledged, bytes[0]);
}

/// Promise 50.
#[test]
fn linux_and_we_exchange_streams_opened_by_either_side() {
    let _alone = exclusive();
    time_limit(Duration::from_secs(120), || {
        for (v6, we_serve) in [(false, true), (false, false), (true, true), (true, false)] {
            talk(Faults::default(), v6, we_serve, [2_000_000, 1_000_000]);
        }
    });
}

/// Promise 50.
#[test]
fn linux_and_we_exchange_streams_over_a_bad_wire() {
    let _alone = exclusive();
    time_limit(Duration::from_secs(120), || {
        let faults = Faults {
            loss_pct: 2,
            reorder_pct: 5,
            duplicate_pct: 2,
            corrupt_pct: 1,
            ..Faults::default()
        };
        for (v6, we_serve) in [(false, true), (true, false)] {
            talk(faults, v6, we_serve, [100_000, 100_000]);
        }
    });
}
