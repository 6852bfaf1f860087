//! Traffic of a cell: a generator and a sink, one in the competitor, one at the peer.

use crate::data::{Cell, Direction, Interferer, Protocol, Rate};
use crate::error::BenchError;
use crate::spawn::Worker;
use crate::topology::Topology;
use crate::worker::Reading;
use std::ffi::OsStr;
use std::path::Path;
use std::time::Duration;

/// Port of the peer that receives the competitor's packets.
const PEER_PORT: u16 = 40_000;
/// Write size of TCP flows if the cell names none, bytes.
const WRITE_BYTES: u32 = 65_536;

/// Running traffic.
pub(crate) struct Traffic {
    generator: Worker,
    sink: Worker,
}

/// Counters of both ends at one moment.
pub(crate) struct Counters {
    offered: Reading,
    received: Reading,
}

impl Traffic {
    /// Starts the sink, then the generator. `competitor` is the container's index.
    pub fn start(
        topology: &Topology,
        competitor: usize,
        cell: &Cell,
        trace: Option<&Path>,
        limit_s: u64,
    ) -> Result<Traffic, BenchError> {
        let (container, peer) = (topology.container(competitor), topology.peer());
        let (sink_place, generator_place, (to, port), listen) = match cell.direction {
            Direction::Receiver => {
                let (_, own_port) = topology.target(competitor);
                (&container, &peer, topology.target(competitor), own_port)
            }
            Direction::Sender => {
                let to = (topology.peer_address(competitor), PEER_PORT);
                (&peer, &container, to, PEER_PORT)
            }
        };
        let flows = cell.flows;
        let sink = match cell.protocol {
            Protocol::Udp => format!("udp-sink --port {listen} --flows {flows}"),
            Protocol::Tcp => format!("tcp-sink --port {listen}"),
        };
        let bytes = cell.payload_bytes.unwrap_or(WRITE_BYTES);
        let generator = match cell.interferer {
            Interferer::Flood => {
                format!("udp-flood --to {to} --port {port} --flows {flows} --size {bytes}")
            }
            Interferer::Stream => {
                format!("tcp-stream --to {to} --port {port} --flows {flows} --size {bytes}")
            }
            Interferer::Shuffle => format!("shuffle --to {to} --port {port}"),
        };
        let trace = match (cell.interferer, trace) {
            (Interferer::Shuffle, Some(path)) => vec![OsStr::new("--trace"), path.as_os_str()],
            _ => Vec::new(),
        };
        let mut sink = Worker::start(sink_place, &format!("{sink} --limit {limit_s}"))?;
        sink.go()?;
        let generator = format!("{generator} --limit {limit_s}");
        let mut generator = Worker::start_with(generator_place, &generator, &trace)?;
        generator.go()?;
        Ok(Traffic { generator, sink })
    }

    /// Asks both ends for their counters.
    pub fn ask(&mut self) -> Result<(), BenchError> {
        self.generator.ask()?;
        self.sink.ask()
    }

    /// Whether both have answered.
    pub fn has_answered(&mut self) -> Result<bool, BenchError> {
        Ok(self.generator.has_line(Duration::ZERO)? && self.sink.has_line(Duration::ZERO)?)
    }

    /// Takes both answers to [`Traffic::ask`].
    pub fn answer(&mut self) -> Result<Counters, BenchError> {
        Ok(Counters {
            offered: self.generator.answer()?,
            received: self.sink.answer()?,
        })
    }

    /// Stops both ends. A generator that failed earlier reports it here.
    pub fn end(self) -> Result<(), BenchError> {
        self.generator.end()?;
        self.sink.end()?;
        Ok(())
    }
}

impl Counters {
    /// (offered, received) rates since `earlier`.
    pub fn since(&self, earlier: &Counters) -> (Rate, Rate) {
        (
            self.offered.since(&earlier.offered),
            self.received.since(&earlier.received),
        )
    }
}
