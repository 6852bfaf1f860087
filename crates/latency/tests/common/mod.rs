//! Measures one namespace in a test.
#![allow(dead_code, reason = "each test file uses its part")]

pub mod bulk;
pub mod datagrams;
pub mod scenes;

use cofferdam_accounting::hidden_softirqs_by_reference;
use cofferdam_lab::fixtures::{Namespace, exclusive, repeat_when_hidden, time_limit, wait_until};
use cofferdam_latency::{
    Class, Counts, Direction, Filter, LatencySizes, MeasureError, Meter, Miss, Reader,
    ReportCounts, Sample, Start,
};
use cofferdam_types::NetnsId;
use std::time::Duration;

/// Smallest part of TCP's bytes and packets that must be in a report.
pub const REPORTED: f64 = 0.999;

pub struct Watch {
    pub meter: Meter,
    reader: Reader,
    netns: NetnsId,
    pub samples: Vec<Sample>,
}

pub fn netns(namespace: &Namespace) -> NetnsId {
    NetnsId(u32::try_from(namespace.inode()).expect("an inode of nsfs has 32 bits"))
}

impl Watch {
    pub fn on(namespace: &Namespace) -> Watch {
        Watch::with(namespace, &Filter::default(), Start::Send)
    }

    /// Measures by devices alone.
    pub fn by_devices(namespace: &Namespace) -> Watch {
        Watch::with(namespace, &Filter::default(), Start::Device)
    }

    pub fn with(namespace: &Namespace, filter: &Filter, start: Start) -> Watch {
        Watch::sized(namespace, filter, start, LatencySizes::default())
    }

    pub fn sized(
        namespace: &Namespace,
        filter: &Filter,
        start: Start,
        sizes: LatencySizes,
    ) -> Watch {
        Watch::of_meter(Meter::load(sizes, start), namespace, filter)
    }

    pub fn of_meter(
        meter: Result<Meter, MeasureError>,
        namespace: &Namespace,
        filter: &Filter,
    ) -> Watch {
        let mut meter = match meter {
            Ok(meter) => meter,
            Err(e) => panic!("{e}"),
        };
        let netns = netns(namespace);
        meter.on(netns, filter).expect("a row is free");
        Watch {
            reader: meter.reader().expect("the ring can be mapped"),
            meter,
            netns,
            samples: Vec::new(),
        }
    }

    /// Measures a second namespace as well; its samples come among the others.
    pub fn also(&mut self, namespace: &Namespace) -> NetnsId {
        let netns = netns(namespace);
        let on = self.meter.on(netns, &Filter::default());
        on.expect("a row is free");
        netns
    }

    /// Reads until nothing more comes, and closes packets that will not end.
    pub fn read_all(&mut self) {
        loop {
            let before = self.samples.len();
            std::thread::sleep(Duration::from_millis(50));
            self.read();
            if self.samples.len() == before {
                break;
            }
        }
        let closed = self.meter.close_idle_packets(Duration::from_millis(40));
        closed.expect("the table can be swept");
        self.read();
    }

    /// Reads until nothing more comes, if no packet's freeing is seen: the last packets have no
    /// end, and with IPv6 hosts send packets of their own for some seconds.
    pub fn read_all_slowly(&mut self) {
        wait_until(
            "every packet to have its end",
            Duration::from_secs(20),
            || {
                self.read_all();
                owed(&self.counts()) == [0, 0]
            },
        );
    }

    pub fn read(&mut self) {
        let samples = &mut self.samples;
        self.reader.take(|sample| samples.push(sample));
    }

    pub fn totals(&self) -> ReportCounts {
        self.reader.totals()
    }

    pub fn counts(&self) -> Counts {
        self.meter.counts(self.netns).expect("counts can be read")
    }

    pub fn of(&self, direction: Direction, class: Class) -> impl Iterator<Item = &Sample> {
        self.samples
            .iter()
            .filter(move |s| s.report.direction == direction && s.report.class() == class)
    }

    /// Asserts at least `least` packets, and a report for each.
    #[track_caller]
    pub fn assert_covered(&self, direction: Direction, class: Class, least: u64) {
        let counts = self.counts();
        let (d, c) = (direction as usize, class as usize);
        let (packets, reports) = (counts.packets[d][c], counts.reports[d][c]);
        assert!(packets >= least, "{direction:?} {class:?}: {counts:?}");
        assert_eq!(packets, reports, "{direction:?} {class:?}: {counts:?}");
        let read: u64 = self
            .of(direction, class)
            .map(|s| u64::from(s.report.segments))
            .sum();
        assert_eq!(read, reports, "{direction:?} {class:?}: read");
    }

    /// Asserts at least `least` packets, and a report for [`REPORTED`] of them.
    #[track_caller]
    pub fn assert_nearly_covered(&self, direction: Direction, class: Class, least: u64) {
        let counts = self.counts();
        let (d, c) = (direction as usize, class as usize);
        let (packets, reports) = (counts.packets[d][c], counts.reports[d][c]);
        assert!(packets >= least, "{direction:?} {class:?}: {counts:?}");
        // Packets that the kernel dropped were never delivered.
        let dropped = counts.misses[d][Miss::Dropped as usize];
        assert!(
            reports <= packets && (reports + dropped) as f64 >= packets as f64 * REPORTED,
            "{direction:?} {class:?}: {counts:?}"
        );
    }

    /// Asserts that nothing was lost or rejected, every miss has its reason, and the stages add up.
    #[track_caller]
    pub fn assert_sound(&self) {
        let totals = self.reader.totals();
        assert_eq!((totals.lost, totals.rejected), (0, 0));
        let counts = self.counts();
        assert_eq!(owed(&counts), [0, 0], "{counts:?} {:?}", Miss::ALL);
        for sample in &self.samples {
            let sum: u32 = sample.stages.parts_ns.iter().map(|(_, ns)| ns).sum();
            assert_eq!(sum, sample.stages.total_ns, "{sample:?}");
        }
    }
}

/// Returns the packets of each direction that have neither a report nor a miss (yet).
fn owed(counts: &Counts) -> [i64; 2] {
    let sum = |all: &[u64]| all.iter().sum::<u64>() as i64;
    Direction::ALL
        .map(|d| d as usize)
        .map(|d| sum(&counts.packets[d]) - sum(&counts.reports[d]) - sum(&counts.misses[d]))
}

/// Runs one root test at a time, with a time limit.
pub fn alone(body: impl FnMut() + Send + 'static) {
    let _alone = exclusive();
    time_limit(Duration::from_secs(240), || {
        let hidden = hidden_softirqs_by_reference().expect("the reference clock loads");
        repeat_when_hidden(hidden, body);
    });
}
