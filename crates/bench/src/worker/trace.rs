//! Shuffle trace: the bursts of each flow.
//!
//! The file is CSV with the header `start_ms,flow,bytes`: at `start_ms` after the start, flow
//! number `flow` (from 0) gets `bytes` to send. Lines that begin with `#` and empty lines are
//! skipped. A trace is played in a loop. Its length is its last start plus 1 ms, or that of a
//! comment `# length_ms=N`.

use std::time::Duration;

/// Largest file of a trace, bytes.
pub(crate) const LARGEST_TRACE_BYTES: u64 = 64 << 20;

/// One burst of one flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Burst {
    /// Time from the start of the trace.
    pub start: Duration,
    /// Number of the flow, from 0.
    pub flow: u32,
    /// Size of the burst.
    pub bytes: u64,
}

/// Bursts in order of time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trace {
    /// Bursts.
    pub bursts: Vec<Burst>,
    /// Length, after which the trace starts again.
    pub length: Duration,
}

/// Error in a trace file.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum TraceError {
    /// The first line with content is not the header.
    #[error("line {0}: a shuffle trace begins with the line 'start_ms,flow,bytes'")]
    Header(usize),
    /// The line does not have three numbers.
    #[error("line {line}: '{text}' is not start_ms,flow,bytes (three whole numbers)")]
    Line {
        /// Number of the line, from 1.
        line: usize,
        /// Text of the line.
        text: String,
    },
    /// More flows than sockets that a worker may open.
    #[error("line {line}: flow {flow} is too large: flows are numbered from 0 to \
        {}", MAX_FLOWS - 1)]
    Flow {
        /// Number of the line, from 1.
        line: usize,
        /// Number of the flow.
        flow: u64,
    },
    /// There is no burst.
    #[error("the trace has no bursts: add lines 'start_ms,flow,bytes'")]
    Empty,
    /// The length comment is shorter than the trace.
    #[error("line {0}: length_ms must be a whole number beyond the last start_ms")]
    Length(usize),
}

/// Most flows of a trace.
pub const MAX_FLOWS: u32 = 4_096;

impl Trace {
    /// Parses the CSV form.
    pub fn parse(text: &str) -> Result<Trace, TraceError> {
        let mut bursts = Vec::new();
        let mut length: Option<(usize, Duration)> = None;
        let mut header_seen = false;
        for (i, raw) in text.lines().enumerate() {
            let (line, raw) = (i + 1, raw.trim());
            if let Some(comment) = raw.strip_prefix('#') {
                if let Some(value) = comment.trim().strip_prefix("length_ms=") {
                    let ms = value.trim().parse().map_err(|_| TraceError::Length(line))?;
                    length = Some((line, Duration::from_millis(ms)));
                }
            } else if !raw.is_empty() && !header_seen {
                if raw != "start_ms,flow,bytes" {
                    return Err(TraceError::Header(line));
                }
                header_seen = true;
            } else if !raw.is_empty() {
                bursts.push(burst(line, raw)?);
            }
        }
        bursts.sort_by_key(|b| b.start);
        let last = bursts.last().ok_or(TraceError::Empty)?.start;
        let length = match length {
            Some((line, length)) if length <= last => return Err(TraceError::Length(line)),
            Some((_, length)) => length,
            None => last + Duration::from_millis(1),
        };
        Ok(Trace { bursts, length })
    }

    /// Built-in trace, modelled on TeraSort's shuffle. The fetches of 24 reducers arrive in waves
    /// of 200 ms, as map tasks finish. Within a wave all flows start in its first third, each with
    /// 1 to 4 MiB, about 2.5 Gbit/s on average. There are ten waves, the same every time.
    pub fn terasort() -> Trace {
        const FLOWS: u32 = 24;
        const WAVE_MS: u64 = 200;
        let mut random = fastrand::Rng::with_seed(0x7e5a);
        let mut bursts: Vec<Burst> = (0..10)
            .flat_map(|wave| (0..FLOWS).map(move |flow| (wave, flow)))
            .map(|(wave, flow)| Burst {
                start: Duration::from_millis(wave * WAVE_MS + random.u64(..WAVE_MS / 3)),
                flow,
                bytes: random.u64(1 << 20..=4 << 20),
            })
            .collect();
        bursts.sort_by_key(|b| b.start);
        Trace {
            bursts,
            length: Duration::from_millis(10 * WAVE_MS),
        }
    }

    /// Number of flows: one more than the highest.
    pub fn flows(&self) -> u32 {
        self.bursts.iter().map(|b| b.flow + 1).max().unwrap_or(0)
    }
}

fn burst(line: usize, text: &str) -> Result<Burst, TraceError> {
    let numbers: Vec<u64> = text
        .split(',')
        .map(|n| n.trim().parse())
        .collect::<Result<_, _>>()
        .map_err(|_| TraceError::Line {
            line,
            text: text.to_owned(),
        })?;
    let [start_ms, flow, bytes] = numbers[..] else {
        return Err(TraceError::Line {
            line,
            text: text.to_owned(),
        });
    };
    match u32::try_from(flow) {
        Ok(number) if number < MAX_FLOWS => Ok(Burst {
            start: Duration::from_millis(start_ms),
            flow: number,
            bytes,
        }),
        _ => Err(TraceError::Flow { line, flow }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_sorts_and_measures() {
        let text = "# a comment\nstart_ms,flow,bytes\n20,1,500\n\n 5, 0, 10 \n# length_ms=30\n";
        let trace = Trace::parse(text).unwrap();
        assert_eq!(trace.flows(), 2);
        assert_eq!(trace.length, Duration::from_millis(30));
        let first = Burst {
            start: Duration::from_millis(5),
            flow: 0,
            bytes: 10,
        };
        assert_eq!(trace.bursts[0], first);
    }

    #[test]
    fn length_is_beyond_the_last_burst() {
        let trace = Trace::parse("start_ms,flow,bytes\n7,0,1").unwrap();
        assert_eq!(trace.length, Duration::from_millis(8));
        let short = "# length_ms=7\nstart_ms,flow,bytes\n7,0,1";
        assert_eq!(Trace::parse(short), Err(TraceError::Length(1)));
    }

    #[test]
    fn names_what_is_wrong() {
        assert_eq!(Trace::parse("1,2,3"), Err(TraceError::Header(1)));
        assert_eq!(
            Trace::parse("start_ms,flow,bytes\n"),
            Err(TraceError::Empty)
        );
        for bad in ["1,2", "1,2,3,4", "a,b,c", "-1,0,5"] {
            let text = format!("start_ms,flow,bytes\n{bad}");
            let expected = TraceError::Line {
                line: 2,
                text: bad.to_owned(),
            };
            assert_eq!(Trace::parse(&text), Err(expected));
        }
        let many = "start_ms,flow,bytes\n0,4096,1";
        assert_eq!(
            Trace::parse(many),
            Err(TraceError::Flow {
                line: 2,
                flow: 4096
            })
        );
    }

    #[test]
    fn the_default_is_bursty_and_always_the_same() {
        let trace = Trace::terasort();
        assert_eq!(trace, Trace::terasort());
        assert_eq!((trace.flows(), trace.bursts.len()), (24, 240));
        assert!(trace.bursts.iter().all(|b| b.start.as_millis() % 200 < 67));
    }
}
