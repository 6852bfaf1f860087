//! Scripts in the style of packetdrill: one stack, a peer described by text, explicit time.
//!
//! ```text
//! set sack off              a setting, before anything else (see `setting`)
//! family 6                  IPv6 instead of IPv4
//! listen | connect [N TAKEN] the stack's side: a listener on port 80, the peer has port 5000, or
//!                           the reverse; with N bytes for the SYN, of which TAKEN are accepted
//! accept | reject | shutdown | close | abort | send N | urgent N | read N
//! < FLAGS SEQ:END [ack N] [win N] [mss N] [scale N] [sackok] [sack A-B,…] [ts V/E] [urg N]
//!                           [fo HEX|-|last] (a cookie, a request for one, the last one sent)
//! > FLAGS SEQ:END [ack N] [win N] [mss N] [scale N] [sackok] [sack A-B,…|none] [ts|nots] [echo E]
//!                           [fo HEX|-|any|none] [ip noect|ect0|ect1|ce] [urg N]
//! > nothing                 no segment is to be sent now
//! event NAME [N]            the next event (`recv` and `sent` with their bytes); `event none`
//! +SECONDS                  time passes
//! option NAME VALUE         of the connection (see `option`)
//! state NAME | count NAME N | gone | unreachable CODE seq N [mtu N]
//! port N                    the peer's port from here on
//! ```
//! Sequence numbers are relative to the SYN of the side. Flags are written as in tcpdump. Fields
//! that a `>` line does not name are not checked. `#` begins a comment.

pub use super::neighbour::neighbour_answer;
use super::node::Node;
use super::segment::{Segment, flags, flags_text};
use super::{config, ip};
use cofferdam_netstack::*;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

pub const PEER_ISN: u32 = 0xffff_ff00;
pub const MACS: [[u8; 6]; 2] = [[2, 0, 0, 0, 0, 2], [2, 0, 0, 0, 0, 1]];

struct Run {
    node: Node,
    now: Time,
    us: IpAddr,
    peer: IpAddr,
    ports: (u16, u16),
    iss: u32,
    connection: Option<ConnectionId>,
    /// Last timestamp of the stack, which the peer echoes.
    stamp: u32,
    /// Last cookie that the stack sent, in hexadecimal digits.
    cookie: String,
    sent: u64,
}

/// Runs a script with single segments and with several in a packet, which are equal on the wire.
/// Panics with the first line that fails.
pub fn run(name: &str, script: &str) {
    for segmentation in [false, true] {
        run_with(
            &format!("{name}, segmentation {segmentation}"),
            script,
            segmentation,
        );
    }
}

fn run_with(name: &str, script: &str, segmentation: bool) {
    let lines: Vec<(usize, &str)> = script
        .lines()
        .enumerate()
        .map(|(index, line)| (index + 1, line.split('#').next().unwrap_or("").trim()))
        .filter(|(_, line)| !line.is_empty())
        .collect();
    let mut settings = config(0);
    settings.interfaces[0].segmentation = segmentation;
    let mut v6 = false;
    let mut rest = lines.as_slice();
    while let [(_, line), after @ ..] = rest {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words[..] {
            ["set", key, value] => setting(&mut settings, key, value),
            ["family", family] => v6 = family == "6",
            _ => break,
        }
        rest = after;
    }
    let now = Time::from_nanos(5_000_000_000);
    let mut run = Run {
        node: Node::new(settings, now),
        now,
        us: ip(0, v6),
        peer: ip(1, v6),
        ports: (80, 5000),
        iss: 0,
        connection: None,
        stamp: 0,
        cookie: String::new(),
        sent: 0,
    };
    for (number, line) in rest {
        let words: Vec<&str> = line.split_whitespace().collect();
        let place = format!("{name}:{number}: {line}");
        run.line(&words, &place);
    }
}

fn setting(settings: &mut Config, key: &str, value: &str) {
    let on = value == "on";
    let number = || value.parse::<u32>().expect("a number");
    let ms = || Duration::from_millis(u64::from(number()));
    let tcp = &mut settings.tcp;
    match key {
        "sack" => tcp.sack = on,
        "timestamps" => tcp.timestamps = on,
        "scaling" => tcp.window_scaling = on,
        "nagle" => tcp.nagle = on,
        "newreno" => {
            tcp.congestion = if on {
                Congestion::NewReno
            } else {
                Congestion::Cubic
            }
        }
        "receive_window" => tcp.receive_window_bytes = number(),
        "receive_buffers" => tcp.receive_buffers = number() as u16,
        "send_window" => tcp.send_window_bytes = number(),
        "half_open" => settings.limits.half_open = number(),
        "fast_open" => tcp.fast_open.most_pending = number(),
        "fast_open_without_cookie" => {
            (tcp.fast_open.without_cookie, tcp.fast_open_without_cookie) = (on, on);
        }
        "burst_segments" => tcp.burst_segments = number() as u8,
        "quick_acks" => tcp.quick_acks = number() as u8,
        "timestamps_may_be_missing" => tcp.timestamps_may_be_missing = on,
        "ecn" if on => tcp.ecn = Ecn::On,
        "ecn" => tcp.ecn = Ecn::Off,
        "syn_retries" => tcp.syn_retries = number() as u8,
        "syn_ack_retries" => tcp.syn_ack_retries = number() as u8,
        "data_retries" => tcp.data_retries = number() as u8,
        "max_rto_ms" => tcp.max_rto = ms(),
        "time_wait_ms" => tcp.time_wait = ms(),
        "fin_wait_2_ms" => tcp.fin_wait_2 = ms(),
        "keepalive" => {
            tcp.keepalive = Some(Keepalive {
                idle: Duration::from_secs(10),
                interval: Duration::from_secs(2),
                probes: number() as u8,
            });
        }
        other => panic!("no setting {other}"),
    }
}

pub fn number(text: &str) -> u32 {
    text.parse()
        .unwrap_or_else(|_| panic!("not a number: {text}"))
}

/// Pairs of field names and values behind the sequence numbers.
fn fields<'a>(words: &[&'a str]) -> Vec<(&'a str, &'a str)> {
    let mut fields = Vec::new();
    let mut at = 0;
    while at < words.len() {
        let bare = ["sackok", "ts", "nots"].contains(&words[at])
            && words.get(at + 1).is_none_or(|next| !next.contains('/'));
        let value = if bare {
            ""
        } else {
            words.get(at + 1).unwrap_or(&"")
        };
        fields.push((words[at], value));
        at += if bare { 1 } else { 2 };
    }
    fields
}

/// ECN bits of an IP header by name (RFC 3168, 5).
fn ip_ecn(name: &str) -> u8 {
    match name {
        "noect" => 0,
        "ect1" => 1,
        "ect0" => 2,
        "ce" => 3,
        other => panic!("no ECN bits {other}"),
    }
}

/// Bytes of hexadecimal digits; `-` has none.
fn bytes(digits: &str) -> Vec<u8> {
    let digits = digits.trim_matches('-').as_bytes().chunks(2);
    digits
        .map(|pair| {
            let pair = std::str::from_utf8(pair).expect("ASCII");
            u8::from_str_radix(pair, 16).expect("hexadecimal digits")
        })
        .collect()
}

/// Segment of a `<` line. `ports` are the stack's and the peer's, `iss` is the stack's initial
/// sequence number, and `ts V/us` echoes `stamp`.
pub fn peer_segment(words: &[&str], ports: (u16, u16), iss: u32, stamp: u32) -> Segment {
    let (start, end) = words[1].split_once(':').expect("SEQ:END");
    let (start, end) = (number(start), number(end));
    let control = flags(words[0]) & 3;
    let len = if control == 0 || end > start {
        end.wrapping_sub(start)
    } else {
        0
    };
    let mut segment = Segment {
        from: ports.1,
        to: ports.0,
        seq: PEER_ISN.wrapping_add(start),
        flags: flags(words[0]),
        window: 65535,
        data: vec![0x55; len as usize],
        ..Segment::default()
    };
    for (field, value) in fields(&words[2..]) {
        match field {
            "ack" => segment.ack = iss.wrapping_add(number(value)),
            "win" => segment.window = number(value) as u16,
            "urg" => segment.urgent = number(value) as u16,
            "mss" => segment
                .options
                .push((2, (number(value) as u16).to_be_bytes().to_vec())),
            "scale" => segment.options.push((3, vec![number(value) as u8])),
            "sackok" => segment.options.push((4, Vec::new())),
            "ip" => segment.ecn = ip_ecn(value),
            "fo" => segment.options.push((34, bytes(value))),
            "sack" => {
                let body = value.split(',').flat_map(|range| {
                    let (left, right) = range.split_once('-').expect("A-B");
                    [left, right]
                        .map(|edge| iss.wrapping_add(number(edge)).to_be_bytes())
                        .concat()
                });
                segment.options.push((5, body.collect()));
            }
            "ts" => {
                let (value, echo) = value.split_once('/').expect("V/E");
                let echo = if echo == "us" { stamp } else { number(echo) };
                segment.options.push((
                    8,
                    [number(value).to_be_bytes(), echo.to_be_bytes()].concat(),
                ));
            }
            other => panic!("no field {other}"),
        }
    }
    segment
}

impl Run {
    fn line(&mut self, words: &[&str], place: &str) {
        let id = || {
            self.connection
                .unwrap_or_else(|| panic!("{place}: no connection"))
        };
        match words {
            ["listen"] => self.listen(8, place),
            ["listen", backlog] => self.listen(number(backlog), place),
            ["connect"] => {
                let (local, to) = self.our_port();
                let opened = self.node.stack.connect(self.now, Some(local), to, 7);
                self.connection = Some(opened.unwrap_or_else(|error| panic!("{place}: {error}")));
            }
            ["connect", bytes, wanted] => {
                let (local, to) = self.our_port();
                self.sent = 0;
                let data: Vec<u8> = (0..u64::from(number(bytes)))
                    .map(super::app::pattern)
                    .collect();
                let data = [self.node.memory.data(&data)];
                let opened = self
                    .node
                    .stack
                    .connect_with(self.now, Some(local), to, 7, &data);
                let (opened, taken) = opened.unwrap_or_else(|error| panic!("{place}: {error}"));
                assert_eq!(taken, number(wanted), "{place}");
                self.sent += u64::from(taken);
                self.connection = Some(opened);
            }
            ["option", name, value] => {
                let ms = Duration::from_millis(u64::from(number(value)));
                let mut options = ConnectionOptions::default();
                match *name {
                    "user_timeout_ms" => options.user_timeout = Some(ms),
                    "syn_retries" => options.syn_retries = Some(number(value) as u8),
                    "segment_bytes" => options.segment_bytes = Some(number(value) as u16),
                    "keepalive_ms" => {
                        options.keepalive = Some(Keepalive {
                            idle: ms,
                            interval: ms,
                            probes: 2,
                        });
                    }
                    other => panic!("{place}: no option {other}"),
                }
                let set = self.node.stack.set_options(self.now, id(), options);
                assert!(set.is_ok(), "{place}");
            }
            ["accept"] => assert!(self.node.stack.accept(self.now, id(), 7).is_ok(), "{place}"),
            ["reject"] => assert!(self.node.stack.reject(self.now, id()).is_ok(), "{place}"),
            ["shutdown"] => assert!(self.node.stack.shutdown(self.now, id()).is_ok(), "{place}"),
            ["close"] => assert!(self.node.stack.close(self.now, id()).is_ok(), "{place}"),
            ["abort"] => assert!(self.node.stack.abort(self.now, id()).is_ok(), "{place}"),
            ["send" | "urgent", bytes] => {
                let data: Vec<u8> = (0..number(bytes))
                    .map(|at| super::app::pattern(self.sent + u64::from(at)))
                    .collect();
                let chunk = self.node.memory.data(&data);
                let stack = &mut self.node.stack;
                let taken = match words[0] {
                    "send" => stack.sendv(self.now, id(), &[chunk]),
                    _ => stack.send_urgent(self.now, id(), &[chunk]),
                };
                self.sent += u64::from(taken.unwrap_or(0));
                assert_eq!(taken, Ok(number(bytes)), "{place}");
            }
            ["read", bytes] => {
                let done = self.node.stack.recv_done(self.now, id(), number(bytes), 1);
                assert!(done.is_ok(), "{place}");
            }
            // The connection's reader, one of several, stops or resumes.
            ["reader", "stops"] => {
                let connection = id();
                self.node.stack.set_reader(connection, 3);
                self.node.stack.stop_reader(3);
            }
            ["reader", "resumes"] => self.node.stack.resume_reader(3),
            ["<", rest @ ..] => self.inject(rest),
            [">", "nothing"] => {
                let frame = self.segment();
                assert!(
                    frame.is_none(),
                    "{place}: sent {}",
                    self.text(frame.as_ref())
                );
            }
            [">", rest @ ..] => self.expect(rest, place),
            ["event", "none"] => assert_eq!(self.node.event(), None, "{place}"),
            ["event", name, rest @ ..] => self.event(name, rest, place),
            ["state", state] => {
                let info = self.node.stack.connection(id());
                assert_eq!(info.map(|info| info.state), Some(*state), "{place}");
            }
            ["gone"] => {
                assert_eq!(self.node.event(), None, "{place}");
                assert!(self.segment().is_none(), "{place}");
                let usage = self.node.stack.usage();
                assert_eq!(
                    (usage.connections, usage.time_wait, usage.chunks),
                    (0, 0, 0),
                    "{place}: {usage:?}"
                );
            }
            ["count", name, count] => {
                let found = self
                    .node
                    .stack
                    .counters()
                    .each()
                    .find(|(found, _)| found == name);
                assert_eq!(
                    found.map(|found| found.1),
                    Some(u64::from(number(count))),
                    "{place}"
                );
            }
            ["port", port] => self.ports.1 = number(port) as u16,
            ["unreachable", code, "seq", seq, rest @ ..] => {
                self.unreachable(number(code) as u8, number(seq), rest)
            }
            [time] if time.starts_with('+') => {
                let seconds: f64 = time[1..]
                    .parse()
                    .unwrap_or_else(|_| panic!("{place}: not a time"));
                self.now = self.now + Duration::from_secs_f64(seconds);
                self.node.stack.handle_timers(self.now);
            }
            _ => panic!("{place}: not a command"),
        }
    }

    fn our_port(&mut self) -> (SocketAddr, SocketAddr) {
        self.ports = (5000, 80);
        (
            SocketAddr::new(self.us, 5000),
            SocketAddr::new(self.peer, 80),
        )
    }

    fn listen(&mut self, backlog: u32, place: &str) {
        let at = SocketAddr::new(self.us, 80);
        assert!(self.node.stack.listen(at, backlog, 1).is_ok(), "{place}");
    }

    fn inject(&mut self, words: &[&str]) {
        let cookie = self.cookie.clone();
        let words: Vec<&str> = (words.iter())
            .map(|word| if *word == "last" { &cookie } else { *word })
            .collect();
        let segment = peer_segment(&words, self.ports, self.iss, self.stamp);
        let frame = segment.write(MACS, self.peer, self.us);
        self.node.receive(self.now, &frame);
    }

    /// Next TCP segment of the stack. Answers its questions for the neighbour.
    fn segment(&mut self) -> Option<Segment> {
        while let Some(frame) = self.node.transmit(self.now) {
            if let Some(segment) = Segment::read(&frame) {
                return Some(segment);
            }
            if let Some(answer) = neighbour_answer(&frame, self.us, self.peer) {
                self.node.receive(self.now, &answer);
            }
        }
        None
    }

    fn text(&self, segment: Option<&Segment>) -> String {
        let Some(segment) = segment else {
            return "nothing".to_string();
        };
        let start = segment.seq.wrapping_sub(self.iss);
        let end = start.wrapping_add(segment.data.len() as u32);
        let ack = segment.ack.wrapping_sub(PEER_ISN);
        let flags = flags_text(segment.flags);
        format!(
            "{flags} {start}:{end} ack {ack} win {} {:x?}",
            segment.window, segment.options
        )
    }

    fn expect(&mut self, words: &[&str], place: &str) {
        let found = self.segment();
        let Some(segment) = &found else {
            panic!("{place}: nothing was sent")
        };
        if segment.flags & 2 != 0 {
            self.iss = segment.seq;
        }
        if let Some(stamp) = segment.option(8) {
            self.stamp = u32::from_be_bytes([stamp[0], stamp[1], stamp[2], stamp[3]]);
        }
        if let Some(cookie) = segment.option(34) {
            self.cookie = cookie.iter().map(|byte| format!("{byte:02x}")).collect();
        }
        let was = self.text(found.as_ref());
        let (start, end) = words[1]
            .split_once(':')
            .unwrap_or_else(|| panic!("{place}: SEQ:END"));
        let (start, end) = (number(start), number(end));
        let range = (
            segment.seq.wrapping_sub(self.iss),
            segment.data.len() as u32,
        );
        assert_eq!(
            flags_text(segment.flags),
            flags_text(flags(words[0])),
            "{place}: sent {was}"
        );
        assert_eq!(range, (start, end - start), "{place}: sent {was}");
        let first = u64::from(start).saturating_sub(1);
        let data: Vec<u8> = (first..first + u64::from(end - start))
            .map(super::app::pattern)
            .collect();
        assert_eq!(segment.data, data, "{place}: other bytes");
        for (field, value) in fields(&words[2..]) {
            let option = |kind: u8| segment.option(kind);
            let fits = match field {
                "ack" => segment.ack == PEER_ISN.wrapping_add(number(value)),
                "win" => u32::from(segment.window) == number(value),
                "urg" => u32::from(segment.urgent) == number(value),
                "mss" => option(2) == Some(&(number(value) as u16).to_be_bytes()),
                "scale" if value == "none" => option(3).is_none(),
                "scale" => option(3) == Some(&[number(value) as u8]),
                "sackok" => option(4).is_some(),
                "ts" => option(8).is_some(),
                "nots" => option(8).is_none(),
                "ip" => segment.ecn == ip_ecn(value),
                "fo" if value == "none" => option(34).is_none(),
                "fo" if value == "any" => option(34).is_some_and(|cookie| cookie.len() == 8),
                "fo" => option(34) == Some(bytes(value).as_slice()),
                "echo" => option(8).is_some_and(|body| body[4..] == number(value).to_be_bytes()),
                "sack" if value == "none" => option(5).is_none() && option(4).is_none(),
                "sack" => {
                    let edges: Vec<String> = option(5)
                        .unwrap_or(&[])
                        .chunks(8)
                        .map(|range| {
                            let edge = |at: usize| {
                                u32::from_be_bytes([
                                    range[at],
                                    range[at + 1],
                                    range[at + 2],
                                    range[at + 3],
                                ])
                            };
                            format!(
                                "{}-{}",
                                edge(0).wrapping_sub(PEER_ISN),
                                edge(4).wrapping_sub(PEER_ISN)
                            )
                        })
                        .collect();
                    edges.join(",") == value
                }
                other => panic!("{place}: no field {other}"),
            };
            assert!(fits, "{place}: {field}: sent {was}");
        }
    }

    fn event(&mut self, name: &str, rest: &[&str], place: &str) {
        let event = self
            .node
            .event()
            .unwrap_or_else(|| panic!("{place}: no event"));
        let (found, value) = match event {
            Event::Knock { connection, .. } => {
                self.connection = Some(connection);
                ("knock", None)
            }
            Event::Connected { .. } => ("connected", None),
            Event::Recv { chunk, .. } => {
                self.node.memory.free(chunk.buffer);
                ("recv", Some(chunk.len.to_string()))
            }
            Event::Urgent { ahead_bytes, .. } => ("urgent", Some(ahead_bytes.to_string())),
            Event::PeerClosed { .. } => ("closed", None),
            // The event includes the bytes that `sendv` accepts if the script states them.
            Event::Sent {
                bytes,
                window_bytes,
                ..
            } => match rest {
                [_, _] => ("sent", Some(format!("{bytes} {window_bytes}"))),
                _ => ("sent", Some(bytes.to_string())),
            },
            Event::Dead { reason, .. } => ("dead", Some(format!("{reason:?}"))),
            Event::UdpRecv { .. } | Event::UdpSent { .. } => ("udp", None),
            Event::Timer { .. } => ("timer", None),
            Event::Release { .. } => ("release", None),
        };
        assert_eq!(found, name, "{place}: {event:?}");
        if !rest.is_empty() {
            assert_eq!(value, Some(rest.join(" ")), "{place}");
        }
    }

    /// Delivers an ICMP or ICMPv6 error about the segment at `seq`; with `mtu` it is "too big".
    fn unreachable(&mut self, code: u8, seq: u32, rest: &[&str]) {
        let ours = Segment {
            from: self.ports.0,
            to: self.ports.1,
            seq: self.iss.wrapping_add(seq),
            flags: 16,
            data: vec![0; 64],
            ..Segment::default()
        };
        let quoted = &ours.write(MACS, self.us, self.peer)[14..];
        let mtu = rest.get(1).map_or(0, |mtu| number(mtu));
        let v6 = self.us.is_ipv6();
        let kind = match (v6, mtu > 0) {
            (false, _) => 3,
            (true, false) => 1,
            (true, true) => 2,
        };
        let mut icmp = vec![kind, if v6 && mtu > 0 { 0 } else { code }, 0, 0];
        icmp.extend(mtu.to_be_bytes());
        icmp.extend(quoted);
        let protocol = if v6 { 58 } else { 1 };
        let sum = if v6 {
            super::segment::checksum(self.peer, self.us, protocol, &icmp)
        } else {
            // ICMP has no pseudo header.
            super::segment::plain_checksum(&icmp)
        };
        icmp[2..4].copy_from_slice(&sum.to_be_bytes());
        let frame = super::segment::frame(MACS, self.peer, self.us, protocol, &icmp);
        self.node.receive(self.now, &frame);
    }
}
