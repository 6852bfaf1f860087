//! `cofferdam latency record`.

use super::args::{LatencyRecordArgs, Per};
use super::schema::{FlowRecord, IntervalRecord, LatencyRecord, PacketRecord};
use super::session::Session;
use super::text;
use crate::args::RecordFormat;
use crate::exit::{Failure, Outcome};
use crate::interrupt::Interrupt;
use crate::output::{Output, json_line};
use crate::progress::Progress;
use cofferdam_latency::{Class, Counts, Direction, Flow, Summary};
use cofferdam_types::NetnsId;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// Time between two readings of the rings. At 200,000 packets a second and direction, 20 ms are
/// 8,000 reports: a quarter of the smallest sensible ring.
const READ_EVERY: Duration = Duration::from_millis(20);

/// Records until the time is over.
pub fn run(args: &LatencyRecordArgs, interrupt: &Interrupt) -> Outcome {
    // The output is opened first: a mistyped path is reported at once, not after ten minutes.
    let mut output = Output::open(args.output.as_deref(), args.force)?;
    let session = Session::begin(&args.measure)?;
    let mut progress = Progress::new(true);
    if session.measured() == 0 {
        progress.note("no container with an interface of its own yet; waiting for one");
    }
    let mut recorder = Recorder {
        args,
        session,
        summary: Summary::default(),
        before: BTreeMap::new(),
        begin: Instant::now(),
    };
    recorder.record(&mut output, interrupt, &mut progress)
}

struct Recorder<'a> {
    args: &'a LatencyRecordArgs,
    session: Session,
    summary: Summary,
    /// Counts at the begin of the interval.
    before: BTreeMap<NetnsId, Counts>,
    begin: Instant,
}

impl Recorder<'_> {
    fn record(
        &mut self,
        output: &mut Output,
        interrupt: &Interrupt,
        progress: &mut Progress,
    ) -> Outcome {
        let end = Instant::now() + self.args.duration;
        let mut due = self.begin + self.args.interval;
        loop {
            let now = Instant::now();
            let stop = now >= end || interrupt.raised();
            self.take(output)?;
            for name in self.session.take_ended() {
                progress.note(&format!("container {name} is gone"));
            }
            if self.session.is_selected() && self.session.measured() == 0 {
                self.cut(output)?;
                return Err(Failure::failed(
                    "every selected container is gone; the output until then stays",
                ));
            }
            if now >= due || stop {
                if self.args.per == Per::Interval || stop {
                    self.cut(output)?;
                }
                due += self.args.interval;
            }
            if interrupt.raised() {
                return Err(Failure::Interrupted(None));
            }
            if stop {
                return Ok(());
            }
            let pause = READ_EVERY.min(end.saturating_duration_since(now));
            std::thread::sleep(pause);
        }
    }

    /// Reads the rings.
    fn take(&mut self, output: &mut Output) -> Outcome {
        let (per, format) = (self.args.per, self.args.format);
        let mut lines = String::new();
        let summary = &mut self.summary;
        let mut broken = None;
        self.session.take(|container, sample| {
            summary.add(&sample);
            if per == Per::Packet {
                match format {
                    RecordFormat::Table => lines.push_str(&text::packet(container, &sample)),
                    RecordFormat::Jsonl => {
                        let record = PacketRecord::new(container, &sample);
                        match json_line(&LatencyRecord::Packet(Box::new(record))) {
                            Ok(line) => lines.push_str(&line),
                            Err(e) => broken = Some(e),
                        }
                    }
                }
            }
        })?;
        if let Some(failure) = broken {
            return Err(failure);
        }
        if lines.is_empty() {
            return Ok(());
        }
        output.write(&lines)
    }

    /// Ends the interval.
    fn cut(&mut self, output: &mut Output) -> Outcome {
        let length = self.begin.elapsed();
        self.begin = Instant::now();
        let mut flows = Vec::new();
        let mut now = BTreeMap::new();
        for (netns, container, counts) in self.session.counts()? {
            let before = self.before.get(&netns).copied().unwrap_or_default();
            for direction in Direction::ALL {
                for class in Class::ALL {
                    let flow = Flow {
                        netns,
                        direction,
                        class,
                    };
                    let summary = self.summary.flow(flow);
                    let (d, c) = (direction as usize, class as usize);
                    if counts.packets[d][c] > before.packets[d][c] || summary.is_some() {
                        let kinds = (direction, class);
                        flows.push(FlowRecord::new(
                            &container,
                            kinds,
                            (&counts, &before),
                            summary,
                        ));
                    }
                }
            }
            now.insert(netns, counts);
        }
        self.before = now;
        self.summary.clear();
        let record = IntervalRecord::new(
            length.as_secs_f64(),
            flows,
            self.session.totals(),
            self.args.measure.one_in,
            self.session.memory_bytes(),
            self.session.hardware_timestamping(),
        );
        let text = match self.args.format {
            RecordFormat::Table => text::interval(&record),
            RecordFormat::Jsonl => json_line(&LatencyRecord::Interval(record))?,
        };
        output.write(&text)
    }
}
