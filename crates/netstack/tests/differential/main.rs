//! Comparison with the Linux kernel: both get the same segments, and each answer is compared.
//!
//! Both are the host 10.0.0.1 (or fd00::1), and the test is the peer, so no third stack takes part.
//! The test compares flags, sequence numbers (relative to the initial ones), data and options: MSS,
//! SACK, the use of scaling and timestamps, and the echoed timestamp. It ignores the initial
//! sequence number, the own timestamp, the window and its scale, which each stack chooses.

mod kernel;
mod scenarios;
mod stack_host;
#[path = "../support/mod.rs"]
mod support;
#[path = "../support/tap.rs"]
mod tap;

use cofferdam_lab::fixtures::{Namespace, exclusive, time_limit};
use kernel::Kernel;
use scenarios::{SCENARIOS, Scenario};
use stack_host::StackHost;
use std::time::{Duration, Instant};
use support::app::pattern;
use support::script::{PEER_ISN, number, peer_segment};
use support::segment::{Segment, flags, flags_text};

/// Longest duration of a run that no timer of the kernel can have disturbed: the kernel retransmits
/// a SYN+ACK after a second, and data later because of its route. A longer run is repeated with
/// other ports, so that late segments of the previous run are ignored.
const UNDISTURBED: Duration = Duration::from_millis(900);
const TRIES: u32 = 20;

/// Stack under test.
trait Host {
    /// Executes a command of the application. `ports` are those of the stack and of the peer.
    fn command(&mut self, words: &[&str], ports: (u16, u16));
    /// Delivers a segment.
    fn arrive(&mut self, segment: &Segment);
    /// TCP segments sent to the peer's port since the last call. If there is none and `wait` is
    /// set, waits as long as an acknowledgement may be delayed.
    fn answers(&mut self, peer: u16, wait: bool) -> Vec<Segment>;
}

/// State of one stack in a scenario.
struct Side<'a> {
    host: &'a mut dyn Host,
    port: u16,
    peer: u16,
    iss: u32,
    stamp: u32,
    /// Position of the next `send` in the stream.
    sent: u64,
}

impl Side<'_> {
    /// Executes one line. Returns descriptions of the segments that the stack sent.
    fn step(&mut self, line: &str) -> Vec<String> {
        let words: Vec<&str> = line.split_whitespace().collect();
        let ports = (self.port, self.peer);
        let mut wait = false;
        match words[..] {
            ["<", ref rest @ ..] => {
                let segment = peer_segment(rest, ports, self.iss, self.stamp);
                let counts = !segment.data.is_empty() || segment.flags & flags("F") != 0;
                wait = counts && segment.flags & flags("SR") == 0;
                self.host.arrive(&segment);
            }
            ["connect"] => {
                self.host.command(&words, ports);
                wait = true;
            }
            ["send", bytes] => {
                self.host
                    .command(&["send", bytes, &self.sent.to_string()], ports);
                self.sent += u64::from(number(bytes));
            }
            _ => self.host.command(&words, ports),
        }
        let answers = self.host.answers(self.peer, wait);
        answers.iter().map(|answer| self.words(answer)).collect()
    }

    fn words(&mut self, segment: &Segment) -> String {
        if segment.flags & flags("S") != 0 {
            (self.iss, self.port) = (segment.seq, segment.from);
        }
        let start = segment.seq.wrapping_sub(self.iss);
        let end = start.wrapping_add(segment.data.len() as u32);
        let mut text = format!("{} {start}:{end}", flags_text(segment.flags));
        if segment.flags & flags(".") != 0 {
            text += &format!(" ack {}", segment.ack.wrapping_sub(PEER_ISN));
        }
        let first = u64::from(start.wrapping_sub(1));
        let right = |(at, byte): (u64, &u8)| *byte == pattern(first + at);
        if !(0..).zip(&segment.data).all(right) {
            text += " other bytes";
        }
        let word = |body: &[u8]| u32::from_be_bytes([body[0], body[1], body[2], body[3]]);
        let mut options: Vec<String> = Vec::new();
        for (kind, body) in &segment.options {
            options.push(match kind {
                2 => format!("mss {}", u16::from_be_bytes([body[0], body[1]])),
                3 => "scaled".to_string(),
                4 => "sackok".to_string(),
                5 => {
                    let edges = body.chunks(4).map(|edge| word(edge).wrapping_sub(PEER_ISN));
                    format!("sack {:?}", edges.collect::<Vec<_>>())
                }
                8 => {
                    self.stamp = word(body);
                    format!("echo {}", word(&body[4..]))
                }
                other => format!("option {other}"),
            });
        }
        // RFC 9293, 3.1: options may have any order.
        options.sort();
        [vec![text], options].concat().join(" ")
    }
}

/// Executes a scenario. Returns the answers to each line.
fn play(host: &mut dyn Host, scenario: &Scenario, ports: (u16, u16)) -> Vec<Vec<String>> {
    let mut side = Side {
        host,
        port: ports.0,
        peer: ports.1,
        iss: 0,
        stamp: 0,
        sent: 0,
    };
    scenario.lines().map(|line| side.step(line)).collect()
}

/// Answers of the kernel in a run that none of its timers can have disturbed.
fn kernels(kernel: &mut Kernel, scenario: &Scenario, next_port: &mut u16) -> Vec<Vec<String>> {
    for _ in 0..TRIES {
        *next_port += 1;
        let start = Instant::now();
        let answers = play(kernel, scenario, (*next_port, *next_port));
        kernel.end();
        if start.elapsed() < UNDISTURBED {
            return answers;
        }
    }
    panic!(
        "{}: the machine never gave it {UNDISTURBED:?} in a row",
        scenario.name
    )
}

/// Differences that are not listed, and listed ones that do not occur.
fn compare(scenario: &Scenario, ours: &[Vec<String>], kernels: &[Vec<String>]) -> Vec<String> {
    let mut wrong = Vec::new();
    for (index, line) in scenario.lines().enumerate() {
        let differs = ours[index] != kernels[index];
        let allowed = scenario.allowed.iter().any(|(at, _)| *at == index);
        if differs != allowed {
            let what = if allowed {
                "no longer differs"
            } else {
                "differs"
            };
            wrong.push(format!(
                "{}, line {index} `{line}` {what}:\n    ours   {:?}\n    Linux  {:?}",
                scenario.name, ours[index], kernels[index]
            ));
        }
    }
    wrong
}

fn differences(v6: bool) -> Vec<String> {
    let namespace = Namespace::new("differ");
    let name = namespace.name().to_string();
    let thread = namespace.thread(move || {
        let mut kernel = Kernel::new(&name, v6);
        let mut next_port = 20_000;
        let mut wrong = Vec::new();
        for scenario in SCENARIOS {
            let theirs = kernels(&mut kernel, scenario, &mut next_port);
            let ours = play(&mut StackHost::new(v6), scenario, (next_port, next_port));
            let answered = theirs.iter().flatten().count() + ours.iter().flatten().count();
            assert!(answered > 0, "{}: no answer ever came", scenario.name);
            wrong.extend(compare(scenario, &ours, &theirs));
        }
        wrong
    });
    thread.join().expect("it is played")
}

/// Promise 62.
#[test]
fn each_segment_is_answered_as_linux_answers_it() {
    let _alone = exclusive();
    time_limit(Duration::from_secs(120), || {
        for v6 in [false, true] {
            let wrong = differences(v6).join("\n");
            assert!(wrong.is_empty(), "IPv6: {v6}\n{wrong}");
        }
    });
}
