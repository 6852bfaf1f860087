//! Real batch program as a target: Debian's xz compresses text in several threads.

use super::victim::{corpus, text};
use super::{Args, Control, Failure, VictimReport, control};
use nix::sys::memfd::{MFdFlags, memfd_create};
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike;
use std::fs::File;
use std::io::{Read, Seek, Write};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Bytes that a thread compresses at once.
const BLOCK_BYTES: usize = 256 << 10;
/// Seed of the text.
const SEED: u64 = 1;

/// Compresses P blocks of text. Arguments: `--threads N --phases P`.
pub(crate) fn run(mut args: Args, control: &mut Control) -> Result<(), Failure> {
    let threads: u32 = args.need("threads")?;
    let blocks: u64 = args.need("phases")?;
    args.finish()?;
    let input = input(blocks).map_err(|e| format!("no memory for {blocks} blocks of text: {e}"))?;
    control.start()?;
    let start = Instant::now();
    // `+`: one thread and several threads write the same blocks.
    let mut xz = Command::new("xz")
        .args(["-1", "--stdout", &format!("--threads=+{threads}")])
        .arg(format!("--block-size={BLOCK_BYTES}"))
        .stdin(Stdio::from(input))
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|e| {
            format!(
                "cannot run xz: {e}: install it (apt install xz-utils), or exclude its cells with \
                 --target"
            )
        })?;
    let output = xz.stdout.take().ok_or("xz has no output")?;
    let sum = checksum(output).map_err(|e| format!("cannot read what xz writes: {e}"))?;
    let status = xz.wait().map_err(|e| format!("xz is gone: {e}"))?;
    if !status.success() {
        return Err(format!("xz failed: {status}"));
    }
    control::say_json(&VictimReport {
        elapsed_s: start.elapsed().as_secs_f64(),
        cpu_s: children_cpu()?.as_secs_f64(),
        units: blocks,
        checksum: format!("{sum:016x}"),
    })
}

/// Repeats the corpus for this number of blocks.
fn input(blocks: u64) -> std::io::Result<File> {
    let mut file = File::from(memfd_create("text", MFdFlags::MFD_CLOEXEC)?);
    let corpus = corpus::generate(SEED);
    let mut left = blocks as usize * BLOCK_BYTES;
    for chunk in corpus.iter().cycle() {
        let part = &chunk.as_bytes()[..chunk.len().min(left)];
        file.write_all(part)?;
        left -= part.len();
        if left == 0 {
            break;
        }
    }
    file.rewind()?;
    Ok(file)
}

fn checksum(mut output: impl Read) -> std::io::Result<u64> {
    let (mut sum, mut bytes) = (text::EMPTY, vec![0; 64 << 10]);
    loop {
        match output.read(&mut bytes)? {
            0 => return Ok(sum),
            got => sum = text::hash_on(sum, &bytes[..got]),
        }
    }
}

fn children_cpu() -> Result<Duration, Failure> {
    let usage = getrusage(UsageWho::RUSAGE_CHILDREN);
    let usage = usage.map_err(|e| format!("no CPU time of xz: {e}"))?;
    let us = usage.user_time().num_microseconds() + usage.system_time().num_microseconds();
    Ok(Duration::from_micros(u64::try_from(us).unwrap_or(0)))
}
