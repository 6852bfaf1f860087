//! UDP flood: datagrams of one size over N sockets in turn, by sendmmsg.

use super::mmsg::Batch;
use super::{Args, Control, Failure};
use std::io::ErrorKind;
use std::net::{Ipv4Addr, UdpSocket};
use std::os::fd::AsFd;
use std::time::Duration;

/// Messages a system call. With 64 the call takes less than a few percent of a flood's cost, and
/// one turn over the flows stays short.
const BATCH: usize = 64;
/// Messages a burst if a rate is given.
const PACED_BATCH: usize = 8;

/// Floods; flow i goes to port P + i. Without a rate it sends as fast as the CPU allows. Arguments:
/// `--to IP --port P --flows N --size BYTES [--rate DATAGRAMS_PER_S]`.
pub(crate) fn run(mut args: Args, control: &mut Control) -> Result<(), Failure> {
    let to: Ipv4Addr = args.need("to")?;
    let port: u16 = args.need("port")?;
    let flows: u16 = args.need("flows")?;
    let size: usize = args.need("size")?;
    let rate: Option<f64> = args.take("rate")?;
    args.finish()?;
    let sockets = (0..flows)
        .map(|i| {
            let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0))?;
            socket.connect((to, port + i))?;
            Ok(socket)
        })
        .collect::<std::io::Result<Vec<_>>>()
        .map_err(|e| format!("cannot open {flows} sockets to {to}: {e}"))?;
    // A paced flood sends the same short bursts at every rate. The number of packets in a softirq
    // decides the cost of each, and must not change with the rate.
    let batch_len = if rate.is_some() { PACED_BATCH } else { BATCH };
    let mut batch = Batch::new(BATCH, size);
    let mut sent_total = 0_u64;
    control.start()?;
    'run: loop {
        for socket in &sockets {
            if control.done() {
                break 'run;
            }
            if let Some(rate) = rate {
                let due = Duration::from_secs_f64(sent_total as f64 / rate);
                if let Some(early) = due.checked_sub(control.elapsed()) {
                    std::thread::sleep(early.min(Duration::from_millis(50)));
                }
            }
            match batch.send(socket.as_fd(), batch_len) {
                Ok(sent) => {
                    sent_total += sent as u64;
                    control.count(sent as u64, (sent * size) as u64);
                }
                // Refused: the sink has ended, or its ICMP answer arrived late. Full queues are
                // part of the experiment. Neither ends a flood.
                Err(e) if transient(&e) => {}
                Err(e) => return Err(format!("cannot send to {to}: {e}")),
            }
        }
    }
    control.report()
}

fn transient(error: &std::io::Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::ConnectionRefused | ErrorKind::Interrupted | ErrorKind::WouldBlock
    ) || error.raw_os_error() == Some(libc::ENOBUFS)
}
