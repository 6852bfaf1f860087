//! Scenarios of the comparison. A line is a segment of the peer or a command of the application, as
//! in `support/script.rs`. There are no expectations: the other stack provides them.

/// Scenario of the comparison.
pub struct Scenario {
    pub name: &'static str,
    text: &'static str,
    /// Lines (from 0) whose answers may differ, and the reason. It is an error if they do not
    /// differ.
    pub allowed: &'static [(usize, &'static str)],
}

impl Scenario {
    /// Lines of the scenario.
    pub fn lines(&self) -> impl Iterator<Item = &'static str> {
        let lines = self.text.lines().map(str::trim);
        lines.filter(|line| !line.is_empty())
    }
}

const fn scenario(name: &'static str, text: &'static str) -> Scenario {
    Scenario {
        name,
        text,
        allowed: &[],
    }
}

/// Connection that the peer opens, with MSS as its only option.
macro_rules! open {
    ($($rest:literal),* $(,)?) => {
        concat!("listen\n< S 0:0 mss 1460\n< . 1:1 ack 1\naccept\n" $(, $rest, "\n")*)
    };
}

/// Connection that the peer opens with all options; a script continues from timestamp 102.
macro_rules! open_full {
    ($($rest:literal),* $(,)?) => {
        concat!(
            "listen\n< S 0:0 mss 1460 sackok ts 100/0 scale 7\n< . 1:1 ack 1 ts 101/us\naccept\n"
            $(, $rest, "\n")*
        )
    };
}

pub const SCENARIOS: &[Scenario] = &[
    scenario("a closed port: SYN", "< S 0:0 mss 1460"),
    scenario("a closed port: ACK", "< . 5:5 ack 77"),
    scenario("a closed port: data", "< P. 5:15 ack 77"),
    scenario("a closed port: FIN without ACK", "< F 5:5"),
    scenario(
        "a closed port: RST is not answered",
        "< S 0:0 mss 1460\n< R. 5:5 ack 77",
    ),
    scenario("a listener: ACK", "listen\n< . 5:5 ack 77"),
    scenario(
        "a listener: RST, then SYN",
        "listen\n< R 5:5\n< S 0:0 mss 1460",
    ),
    scenario("a listener: SYN+ACK", "listen\n< S. 0:0 ack 9 mss 1460"),
    scenario("options: none", "listen\n< S 0:0\n< . 1:1 ack 1"),
    scenario(
        "options: SACK only",
        "listen\n< S 0:0 mss 1000 sackok\n< . 1:1 ack 1",
    ),
    scenario(
        "options: scale only",
        "listen\n< S 0:0 mss 1000 scale 3\n< . 1:1 ack 1",
    ),
    scenario(
        "options: timestamps only",
        "listen\n< S 0:0 mss 1000 ts 7/0\n< . 1:1 ack 1 ts 8/us",
    ),
    scenario("options: all", open_full!()),
    scenario(
        "SYN again",
        "listen\n< S 0:0 mss 1460\n< S 0:0 mss 1460\n< . 1:1 ack 1",
    ),
    scenario(
        "half open: an ACK for nothing",
        "listen\n< S 0:0 mss 1460\n< . 1:1 ack 1000",
    ),
    scenario(
        "half open: RST",
        "listen\n< S 0:0 mss 1460\n< R 1:1\n< . 1:1 ack 1",
    ),
    scenario(
        "half open: data with the ACK",
        "listen\n< S 0:0 mss 1460\n< P. 1:11 ack 1\naccept",
    ),
    scenario(
        "data in, data out",
        open!("< P. 1:11 ack 1", "read 10", "send 20", "< . 11:11 ack 21"),
    ),
    scenario(
        "data in, data out, all options",
        open_full!(
            "< P. 1:11 ack 1 ts 102/us",
            "read 10",
            "send 20",
            "< . 11:11 ack 21 ts 103/us"
        ),
    ),
    scenario(
        "two segments are sent for long data",
        open!("send 2000", "< . 1:1 ack 2001"),
    ),
    scenario(
        "a peer with a small MSS",
        "listen\n< S 0:0 mss 600\n< . 1:1 ack 1\naccept\nsend 1300",
    ),
    scenario(
        "a peer without MSS",
        "listen\n< S 0:0\n< . 1:1 ack 1\naccept\nsend 1000",
    ),
    scenario(
        "a segment again",
        open!("< P. 1:11 ack 1", "< P. 1:11 ack 1", "read 10"),
    ),
    Scenario {
        allowed: &[(
            5,
            "RFC 7323, 5.3, R2: a segment outside the window is rejected before its timestamp \
             counts",
        )],
        ..scenario(
            "a segment again, with SACK",
            open_full!(
                "< P. 1:11 ack 1 ts 102/us",
                "< P. 1:11 ack 1 ts 103/us",
                "read 10"
            ),
        )
    },
    scenario(
        "a hole, filled",
        open!("< P. 11:21 ack 1", "< P. 1:11 ack 1", "read 20"),
    ),
    scenario(
        "two holes, with SACK",
        open_full!(
            "< P. 11:21 ack 1 ts 102/us",
            "< P. 31:41 ack 1 ts 103/us",
            "< P. 1:11 ack 1 ts 104/us",
            "< P. 21:31 ack 1 ts 105/us",
            "read 40",
        ),
    ),
    scenario(
        "segments overlap",
        open!("< P. 1:11 ack 1", "< P. 6:16 ack 1", "read 15"),
    ),
    scenario(
        "beyond the window",
        open!("< P. 3000001:3000011 ack 1", "< P. 1:11 ack 1"),
    ),
    scenario(
        "an ACK of the future",
        open!("< P. 1:11 ack 5000", "< P. 1:11 ack 1"),
    ),
    scenario(
        "an ACK of the past",
        open!("send 10", "< . 1:1 ack 11", "< P. 1:11 ack 1", "read 10"),
    ),
    scenario("RST, exact", open!("< R 1:1", "< . 1:1 ack 1")),
    scenario(
        "RST in the window is challenged",
        open!("< R 100:100", "< P. 1:11 ack 1"),
    ),
    scenario(
        "RST outside the window",
        open!("< R 3000000:3000000", "< P. 1:11 ack 1"),
    ),
    scenario(
        "SYN in the window is challenged",
        open!("< S 100:100 mss 1460", "< P. 1:11 ack 1"),
    ),
    scenario(
        "SYN outside the window is challenged",
        open!("< S 3000000:3000000", "< P. 1:11 ack 1"),
    ),
    scenario(
        "neither ACK nor anything",
        open!("< P 1:11", "< P. 1:11 ack 1"),
    ),
    scenario(
        "PAWS",
        open_full!(
            "< P. 1:11 ack 1 ts 110/us",
            "< P. 11:21 ack 1 ts 50/us",
            "< P. 11:21 ack 1 ts 111/us"
        ),
    ),
    scenario(
        "the peer closes first",
        open!("< F. 1:1 ack 1", "close", "< . 2:2 ack 2"),
    ),
    scenario(
        "the peer closes with data",
        open!("< FP. 1:11 ack 1", "read 10", "close", "< . 12:12 ack 2"),
    ),
    scenario(
        "a FIN before its data",
        open!(
            "< F. 11:11 ack 1",
            "< P. 1:11 ack 1",
            "read 10",
            "close",
            "< . 12:12 ack 2"
        ),
    ),
    scenario(
        "we close first",
        open!("close", "< . 1:1 ack 2", "< F. 1:1 ack 2", "< F. 1:1 ack 2"),
    ),
    scenario(
        "our FIN and its ACK in one",
        open!("close", "< F. 1:1 ack 2", "< F. 1:1 ack 2"),
    ),
    scenario(
        "both close at once",
        open!("close", "< F. 1:1 ack 1", "< . 2:2 ack 2", "< F. 1:1 ack 2"),
    ),
    scenario(
        "we close with data",
        open!("send 10", "close", "< . 1:1 ack 12", "< F. 1:1 ack 12"),
    ),
    scenario(
        "half closed by us",
        open!(
            "shutdown",
            "< . 1:1 ack 2",
            "< P. 1:11 ack 2",
            "read 10",
            "< F. 11:11 ack 2"
        ),
    ),
    scenario(
        "half closed by the peer",
        open!(
            "< F. 1:1 ack 1",
            "send 10",
            "< . 2:2 ack 11",
            "close",
            "< . 2:2 ack 12"
        ),
    ),
    scenario(
        "data for a closed socket",
        open!("close", "< . 1:1 ack 2", "< P. 1:11 ack 2"),
    ),
    scenario("data that was not read", open!("< P. 1:11 ack 1", "close")),
    Scenario {
        allowed: &[(
            7,
            "RFC 1337, 3: an RST does not end TIME-WAIT; Linux does so only with tcp_rfc1337",
        )],
        ..scenario(
            "RST in TIME-WAIT",
            open!("close", "< F. 1:1 ack 2", "< R 2:2", "< F. 1:1 ack 2"),
        )
    },
    scenario(
        "urgent data stays in the stream",
        open!("< PU. 1:11 ack 1 urg 5"),
    ),
    scenario(
        "a keepalive probe",
        open!("< . 0:0 ack 1", "< P. 0:1 ack 1"),
    ),
    Scenario {
        allowed: &[(
            10,
            "RFC 9293, 3.9.1.2: PSH where nothing more is queued; Linux keeps it for each call",
        )],
        ..scenario(
            "three duplicate ACKs: sent again",
            open!(
                "send 1400",
                "send 1400",
                "send 1400",
                "send 1400",
                "< . 1:1 ack 1",
                "< . 1:1 ack 1",
                "< . 1:1 ack 1",
                "< . 1:1 ack 5601"
            ),
        )
    },
    scenario(
        "a closed window",
        open!("< . 1:1 ack 1 win 0", "send 100", "< . 1:1 ack 1 win 1000"),
    ),
    scenario(
        "a window of 100",
        open!(
            "< . 1:1 ack 1 win 100",
            "send 100",
            "< . 1:1 ack 101 win 100"
        ),
    ),
    scenario(
        "connect",
        "connect\n< S. 0:0 ack 1 mss 1460\nsend 10\n< . 1:1 ack 11\nclose\n< F. 1:1 ack 12",
    ),
    scenario(
        "connect, all options",
        "connect\n< S. 0:0 ack 1 mss 1460 sackok ts 100/us scale 7\nsend 10\n\
         < . 1:1 ack 11 ts 101/us",
    ),
    scenario("connect: refused", "connect\n< R. 0:0 ack 1"),
    scenario(
        "connect: an ACK for nothing",
        "connect\n< . 5:5 ack 1000\n< R. 0:0 ack 1",
    ),
    scenario(
        "connect: RST for nothing",
        "connect\n< R. 0:0 ack 1000\n< S. 0:0 ack 1 mss 1460",
    ),
    Scenario {
        allowed: &[(
            1,
            "RFC 7323, 2.2 and 3.2: only options that the peer's SYN had; Linux repeats its own",
        )],
        ..scenario(
            "connect: both at once",
            "connect\n< S 0:0 mss 1460\n< S. 0:0 ack 1 mss 1460\n< . 1:1 ack 1",
        )
    },
    scenario(
        "a timestamp from the future with an ACK of what was never sent, then the peer again",
        open_full!(
            "< P. 1:11 ack 5000 ts 1000000000/us",
            "< P. 1:11 ack 1 ts 103/us"
        ),
    ),
    scenario(
        "a timestamp from the future with an ACK of less than before, then the peer again",
        open_full!(
            "send 10",
            "< . 1:1 ack 11 ts 102/us",
            "< . 1:1 ack 5 ts 1000000000/us",
            "< P. 1:11 ack 11 ts 103/us"
        ),
    ),
    scenario(
        "half open: a timestamp from the future with an ACK for nothing, then the right one",
        "listen\n< S 0:0 mss 1460 sackok ts 100/0\n< . 1:1 ack 77 ts 1000000000/us\n\
         < . 1:1 ack 1 ts 101/us\naccept\n< P. 1:11 ack 1 ts 102/us",
    ),
];
