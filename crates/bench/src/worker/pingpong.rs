//! One end of a ping-pong over two named pipes: only system calls and context switches.

use super::{Args, Control, Failure};
use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Read, Write};

/// Plays one end. Counts the received bytes: two for a round trip of both ends. Arguments: `--in
/// FIFO --out FIFO --first 0|1` (which end sends first).
pub(crate) fn run(mut args: Args, control: &mut Control) -> Result<(), Failure> {
    let (mut from, mut to) = (
        open(&args.need::<String>("in")?)?,
        open(&args.need::<String>("out")?)?,
    );
    let first: u32 = args.need("first")?;
    args.finish()?;
    control.start()?;
    let mut ball = [0u8];
    if first == 1 {
        send(&mut to, &ball)?;
    }
    let mut turns = 0u64;
    loop {
        match from.read(&mut ball) {
            Ok(1) => send(&mut to, &ball)?,
            Ok(_) => return Err("the other end is gone".to_owned()),
            Err(e) if e.kind() == ErrorKind::Interrupted => {}
            Err(e) => return Err(format!("cannot read the ball: {e}")),
        }
        turns += 1;
        control.count(1, 1);
        // The clock is read only now and then: it is not measured.
        if turns.is_multiple_of(64) && control.done() {
            return control.report();
        }
    }
}

/// Opens the pipe for both directions, so that opening never waits for the other end.
fn open(path: &str) -> Result<File, Failure> {
    let opened = OpenOptions::new().read(true).write(true).open(path);
    opened.map_err(|e| format!("cannot open the pipe {path}: {e}"))
}

fn send(to: &mut File, ball: &[u8]) -> Result<(), Failure> {
    to.write_all(ball)
        .map_err(|e| format!("cannot send the ball: {e}"))
}
