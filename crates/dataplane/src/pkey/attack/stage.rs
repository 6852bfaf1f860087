//! A dataplane for one attack: the loop's engine over a pipe, and the attacker as its application.

use super::guest::{Attacker, HAD_RIGHTS, Targets};
use super::{Attack, Verdict};
use crate::engine::{Engine, Options};
use crate::pkey::guest::Guest;
use crate::policy::Rights;
use crate::ring::sealed_file;
use cofferdam_netstack::{Config, InterfaceAddress, MacAddress};
use cofferdam_pkey::{
    Gate, Region, SealError, User, accidental, facts_page, host_stack, ordinary, sites,
};
use cofferdam_xsk::{Access, Frame, Mapping, Memory, pipe};
use std::error::Error;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::sync::atomic::Ordering;
use std::sync::mpsc::channel;
use std::time::Duration;

/// Time limit of an attack.
const PATIENCE: Duration = Duration::from_secs(10);
/// User of the attacker if the caller is root: `nobody`.
const NOBODY: u32 = 65534;
/// Value on the heap and on the first thread's stack, which the attack tries to overwrite.
const CANARY: u64 = 0x0063_616e_6172_7900;

/// Tries one attack in this process, which must end afterwards. An attack that another defence than
/// the expected one stops counts as successful. All symbols of the process must have been bound at
/// its start ([`crate::pkey::is_bound_now`]).
///
/// # Errors
/// The reason why the attack was not tried.
pub fn run(attack: &Attack) -> Result<Verdict, Box<dyn Error>> {
    Ok(match run_on_new_dataplane(attack)? {
        // An attack that was stopped by chance might succeed elsewhere.
        Verdict::Stopped(how) if !how.contains(attack.stopped_by()) => {
            Verdict::Succeeded(format!("not stopped by what is to stop it: {how}"))
        }
        verdict => verdict,
    })
}

fn run_on_new_dataplane(attack: &Attack) -> Result<Verdict, Box<dyn Error>> {
    let region = Region::open()?;
    let (port, _other) = pipe(1500)?;
    let memory = Memory::new(512, 2048)?;
    let packets = memory.bytes(Frame(0)).as_ptr().addr();
    let address = InterfaceAddress {
        ip: [10, 0, 0, 9].into(),
        prefix_len: 24,
    };
    let config = Config::new(MacAddress([2, 0, 0, 0, 0, 1]), vec![address], [7; 16]);
    let mut engine = Engine::new(port, memory, config, Options::default())?;
    let (session, _) = engine.guest(0, "attacker", Rights::all())?;

    let canary = Box::leak(Box::new(CANARY));
    let rings = sealed_file("cofferdam-device-rings", 4096)?;
    let mapped = Mapping::new(rings.as_fd(), 0, 4096, Access::Write)?;
    let first_stack = CANARY;
    let gate = sites();
    let targets = Targets {
        heap: std::ptr::from_mut(canary).addr(),
        stack: host_stack().end - 256,
        rings: mapped.base().as_ptr().addr(),
        rings_descriptor: rings.as_raw_fd(),
        packets,
        first_stack: (&raw const first_stack).addr(),
        facts: facts_page(),
        back: gate.back,
        out: gate.out,
        fault: gate.fault,
        accident: accidental()?.unwrap_or(0),
    };
    let body = attack.body;
    let attacker = move || -> Box<dyn crate::Application> {
        Box::new(Attacker {
            targets,
            body,
            verdict: None,
        })
    };
    let mut guest = Guest::new(session, attacker);
    let _code = match attack.brings_code {
        true => Some(code_with_wrpkru()?),
        false => None,
    };
    let sealed = match region.seal() {
        Ok(sealed) => sealed,
        Err(refused @ SealError::Instruction { .. }) => {
            return Ok(Verdict::Stopped(refused.to_string()));
        }
        Err(e) => return Err(e.into()),
    };
    let (report, reported) = channel();
    let (go, start) = channel::<()>();
    let user = user();
    ordinary(|| {
        std::thread::Builder::new().spawn(move || {
            let _ = start.recv();
            let stack = match sealed.enter(user) {
                Ok(stack) => stack,
                Err(e) => return drop(report.send(Err(e.to_string()))),
            };
            Gate::enter(stack, move |gate| {
                drop(report.send(Ok(guest.start(gate))));
            })
        })
    })?;
    go.send(())?;
    let verdict = match reported.recv_timeout(PATIENCE)?? {
        Ok(_) => Verdict::Succeeded("nothing stopped it".to_owned()),
        Err(text) => Verdict::parse(&text).unwrap_or(Verdict::Stopped(text)),
    };
    let is_whole = *canary == CANARY && std::hint::black_box(first_stack) == CANARY;
    if HAD_RIGHTS.load(Ordering::Relaxed) {
        return Ok(Verdict::Succeeded(
            "its code had the loop's rights".to_owned(),
        ));
    }
    if !is_whole {
        return Ok(Verdict::Succeeded(
            "the loop's memory has changed".to_owned(),
        ));
    }
    // Dropped with the process, because the loop's thread may still use the mappings.
    std::mem::forget((engine, mapped));
    Ok(verdict)
}

fn user() -> User {
    match nix::unistd::geteuid().as_raw() {
        0 => User {
            uid: NOBODY,
            gid: NOBODY,
        },
        uid => User {
            uid,
            gid: nix::unistd::getegid().as_raw(),
        },
    }
}

/// Maps a file with a `wrpkru` instruction as executable code, and returns the file. The code is
/// never run.
fn code_with_wrpkru() -> Result<OwnedFd, Box<dyn Error>> {
    let file = sealed_file("application", 4096)?;
    // Built at run time, so that this program does not contain the instruction.
    let code = [0x90, 0x0f, 0x01, std::hint::black_box(0xee_u8) + 1, 0xc3];
    nix::unistd::write(&file, &code)?;
    let rights = libc::PROT_READ | libc::PROT_EXEC;
    // SAFETY: a new mapping, which nothing uses.
    let at = unsafe {
        libc::mmap(
            std::ptr::null_mut(),
            4096,
            rights,
            libc::MAP_PRIVATE,
            file.as_raw_fd(),
            0,
        )
    };
    if at == libc::MAP_FAILED {
        return Err(std::io::Error::last_os_error().into());
    }
    Ok(file)
}
