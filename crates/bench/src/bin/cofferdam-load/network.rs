//! Network load: UDP datagrams at a given bit rate, and the sink that counts received ones.

use crate::Failure;
use crate::clock::receive_buffer;
use crate::meter::Meter;
use crate::pace::Pace;
use crate::params::Params;
use std::net::UdpSocket;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// First bytes of each datagram; a sink counts no others.
const MAGIC: u64 = 0x0c0f_fe4d_a300_0001;
/// Magic, then the send time, nanoseconds since 1970.
const HEADER: usize = 16;
/// Receive buffer of a sink: at 1 Gbit/s about 60 ms. A sink that waits for its CPU then loses
/// nothing that the network has delivered.
const BUFFER_BYTES: i32 = 8 << 20;

/// `to=IP:PORT bits=R size=BYTES threads=N`: payload bits a second (0: as fast as possible), one
/// socket a thread.
pub struct Source {
    sockets: Vec<Arc<UdpSocket>>,
    per_s: f64,
    size: usize,
}

impl Source {
    pub fn prepare(mut params: Params) -> Result<Source, Failure> {
        let to: String = params.need("to")?;
        let bits: f64 = params.need("bits")?;
        let size: usize = params.need("size")?;
        let threads: u32 = params.need("threads")?;
        params.finish()?;
        if threads == 0 {
            return Err("threads=0 sends nothing".to_owned());
        }
        if !(HEADER..=65_000).contains(&size) {
            return Err(format!("size={size} is out of range"));
        }
        let open = || {
            let socket = UdpSocket::bind("0.0.0.0:0")?;
            socket.connect(&to)?;
            Ok(Arc::new(socket))
        };
        let sockets = (0..threads).map(|_| open()).collect::<std::io::Result<_>>();
        Ok(Source {
            sockets: sockets.map_err(|e| format!("cannot reach {to}: {e}"))?,
            per_s: bits / 8.0 / size as f64 / f64::from(threads),
            size,
        })
    }

    pub fn start(&self, meter: &Arc<Meter>) -> Vec<JoinHandle<()>> {
        let (pace, size) = (Pace::new(self.per_s), self.size);
        let sockets = self.sockets.iter().cloned();
        sockets
            .map(|socket| {
                let meter = meter.clone();
                std::thread::spawn(move || send(&socket, pace, size, &meter))
            })
            .collect()
    }
}

fn send(socket: &UdpSocket, pace: Option<Pace>, size: usize, meter: &Meter) {
    let mut datagram = vec![0_u8; size];
    datagram[..8].copy_from_slice(&MAGIC.to_ne_bytes());
    let mut index = 0_u64;
    while !meter.ended() {
        if let Some(pace) = pace {
            let first = pace.first_in_time(meter.elapsed());
            meter.lose(first.saturating_sub(index));
            index = index.max(first);
            if let Some(early) = pace.due(index).checked_sub(meter.elapsed()) {
                // Datagrams that became due during a sleep leave in one burst; the sleep bounds it.
                std::thread::sleep(early.max(Duration::from_micros(100)));
            }
        }
        datagram[8..HEADER].copy_from_slice(&now_ns().to_ne_bytes());
        index += 1;
        match socket.send(&datagram) {
            Ok(sent) => meter.count(1, sent as u64),
            // Refused: the sink has just ended. Full queues are part of the experiment.
            Err(_) => meter.lose(1),
        }
    }
}

/// `port=P`: counts received datagrams, and their time in flight if the clocks agree.
pub struct Sink {
    socket: Arc<UdpSocket>,
}

impl Sink {
    pub fn prepare(mut params: Params) -> Result<Sink, Failure> {
        let port: u16 = params.need("port")?;
        params.finish()?;
        let socket = UdpSocket::bind(("0.0.0.0", port))
            .and_then(|s| {
                s.set_read_timeout(Some(Duration::from_millis(20)))
                    .map(|()| s)
            })
            .map_err(|e| format!("cannot listen on port {port}: {e}"))?;
        receive_buffer(&socket, BUFFER_BYTES);
        Ok(Sink {
            socket: Arc::new(socket),
        })
    }

    pub fn start(&self, meter: &Arc<Meter>) -> Vec<JoinHandle<()>> {
        let (socket, meter) = (self.socket.clone(), meter.clone());
        vec![std::thread::spawn(move || receive(&socket, &meter))]
    }
}

fn receive(socket: &UdpSocket, meter: &Meter) {
    let mut datagram = vec![0_u8; 65_536];
    while !meter.ended() {
        let Ok(size) = socket.recv(&mut datagram) else {
            continue;
        };
        let Some(sent_ns) = stamp(&datagram[..size]) else {
            continue;
        };
        meter.count(1, size as u64);
        if let Some(took) = now_ns().checked_sub(sent_ns) {
            meter.latency(Duration::from_nanos(took));
        }
    }
}

/// Send time of a datagram of ours.
fn stamp(datagram: &[u8]) -> Option<u64> {
    let magic = u64::from_ne_bytes(datagram.get(..8)?.try_into().ok()?);
    let sent = u64::from_ne_bytes(datagram.get(8..HEADER)?.try_into().ok()?);
    (magic == MAGIC).then_some(sent)
}

fn now_ns() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |d| d.as_nanos() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_our_datagrams_have_a_stamp() {
        let mut datagram = [0_u8; 64];
        assert_eq!(stamp(&datagram), None);
        datagram[..8].copy_from_slice(&MAGIC.to_ne_bytes());
        datagram[8..16].copy_from_slice(&7_u64.to_ne_bytes());
        assert_eq!(stamp(&datagram), Some(7));
        assert_eq!(stamp(&datagram[..15]), None);
        assert_eq!(stamp(&[]), None);
    }
}
