//! Shell commands of a script that configure or read Linux but mean the stack under test.

use super::Host;
use cofferdam_netstack::Counters;
use std::fmt::Write;

/// Counters shown by `nstat`: Linux's name and ours.
const COUNTERS: [(&str, &str); 8] = [
    ("TcpRetransSegs", "retransmits"),
    ("TcpExtOutOfWindowIcmps", "icmp_errors_ignored"),
    ("TcpExtPAWSEstab", "paws_rejected"),
    ("TcpExtTCPChallengeACK", "challenge_acks"),
    ("TcpExtTCPFastOpenPassive", "fast_opened"),
    ("TcpExtTCPLossProbes", "tail_probes"),
    ("TcpExtTCPTimeouts", "timeouts"),
    ("IcmpOutErrors", "icmp_errors_sent"),
];

impl Host {
    /// Applies a command that is about to run to the stack. Returns shell code to run before it, if
    /// any: a function that replaces a program.
    pub fn command(&mut self, text: &str) -> Option<String> {
        let words: Vec<&str> = text.split_whitespace().collect();
        let has = |pair: [&str; 2]| words.windows(2).any(|words| words == pair);
        // Linux stores the Fast Open cookies of servers in its TCP metrics.
        if has(["tcp_metrics", "flush"]) {
            self.stack.forget_fast_open();
        }
        let asks = words
            .iter()
            .any(|word| word.trim_matches(['`', '(', '|', ';']) == "nstat");
        asks.then(|| self.counters_since())
    }

    /// `nstat` as a shell function: the counters that have grown since its last run.
    fn counters_since(&mut self) -> String {
        let counters = *self.stack.counters();
        let before = std::mem::replace(&mut self.counters_shown, counters);
        let value = |counters: &Counters, name: &str| {
            let mut each = counters.each();
            each.find(|(found, _)| *found == name)
                .map_or(0, |(_, value)| value)
        };
        let mut lines = String::from("#kernel\n");
        for (linux, ours) in COUNTERS {
            let grown = value(&counters, ours) - value(&before, ours);
            if grown > 0 {
                // Writing to a string cannot fail.
                let _ = writeln!(lines, "{linux} {grown} 0.0");
            }
        }
        format!("nstat() {{ printf '%s' '{lines}'; }}\n")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command_line::CommandLine;
    use std::process::Command;

    fn host() -> Host {
        let setup = crate::flags::parse("nosysctls", CommandLine::default()).expect("settings");
        Host::new(setup).expect("a host")
    }

    /// Promise 62.
    #[test]
    fn each_counter_is_one_of_the_stacks() {
        let host = host();
        let names: Vec<&str> = host.stack.counters().each().map(|(name, _)| name).collect();
        for (_, ours) in COUNTERS {
            assert!(names.contains(&ours), "{ours}");
        }
    }

    /// Promise 62.
    #[test]
    fn nstat_shows_grown_counters_and_other_programs_stay() {
        let mut host = host();
        assert_eq!(
            host.command("ip tcp_metrics flush all > /dev/null 2>&1"),
            None
        );
        assert_eq!(
            host.command("sysctl -q net.ipv4.tcp_sack=1; ls /tmp/nstat.txt"),
            None
        );
        // An ICMP error about a segment that is not in flight.
        let mut packet = vec![
            0x45, 0, 0, 56, 0, 0, 0, 0, 64, 1, 0, 0, 192, 0, 2, 1, 192, 168, 0, 2,
        ];
        packet.extend([3, 1, 0, 0, 0, 0, 0, 0]);
        packet.extend([
            0x45, 0, 0, 40, 0, 0, 0, 0, 64, 6, 0, 0, 192, 168, 0, 2, 192, 0, 2, 1,
        ]);
        packet.extend([0, 80, 0, 80, 0, 0, 0, 1]);
        for (at, range) in [(10, 0..20), (22, 20..56)] {
            let words = packet[range].chunks(2);
            let sum: u32 = words
                .map(|w| u32::from(u16::from_be_bytes([w[0], w[1]])))
                .sum();
            let sum = !((sum & 0xffff) + (sum >> 16)) as u16;
            packet[at..at + 2].copy_from_slice(&sum.to_be_bytes());
        }
        host.arrive(&packet).expect("IP");
        let mut count = || {
            let command = "nstat | grep -c TcpExtOutOfWindowIcmps";
            let before = host.command(command).expect("a function");
            let run = Command::new("sh").arg("-c").arg(before + command).output();
            String::from_utf8(run.expect("sh").stdout).expect("text")
        };
        assert_eq!([count(), count()], ["1\n", "0\n"]);
    }
}
