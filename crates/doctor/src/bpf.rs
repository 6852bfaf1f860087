//! Probes of BPF: each program type is loaded with a program of a few instructions, and attached
//! where that changes nothing.

use super::{Check, Status};
use cofferdam_bpf::Interruptions;
use cofferdam_types::{REQUIRED_TRACEPOINTS, SOCKET_TRACEPOINTS, WAKE_TRACEPOINT};
use libbpf_rs::btf::Btf;
use libbpf_rs::btf::types::{Func, Typedef};
use libbpf_rs::libbpf_sys as sys;
use std::ffi::{CStr, c_int};
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::ptr::null;

const NEEDS_ROOT: &str = "could not be tested: needs root";

/// Checks that the accounting needs: BTF, tp_btf, its tracepoints, the ring buffer.
pub(super) fn required() -> Vec<Check> {
    quiet();
    let btf = Btf::from_vmlinux();
    let have = btf.as_ref().ok();
    vec![
        match &btf {
            Ok(_) => btf_check().is(Status::Yes, "/sys/kernel/btf/vmlinux"),
            Err(e) => btf_check().is(Status::No, e.to_string()),
        }
        .or("use a kernel built with CONFIG_DEBUG_INFO_BTF=y; \
                 distributions' kernels of the last years are"),
        tp_btf(have),
        tracepoints(have),
        ring_buffer(),
    ]
}

/// Checks of program types that the accounting does not need.
pub(super) fn optional() -> Vec<Check> {
    quiet();
    let btf = Btf::from_vmlinux().ok();
    vec![
        optional_tracepoints(btf.as_ref()),
        fentry(btf.as_ref()),
        raw_tp(),
        interrupts(),
        loads(
            Check::new(
                "cgroup-skb",
                "BPF cgroup_skb",
                "limits what a container sends",
            ),
            &Program {
                kind: sys::BPF_PROG_TYPE_CGROUP_SKB,
                ..Program::returning(1)
            },
        ),
    ]
}

/// Silences libbpf, which would write its messages to standard error.
fn quiet() {
    libbpf_rs::set_print(None);
}

fn btf_check() -> Check {
    Check::new(
        "btf",
        "kernel type information (BTF)",
        "programs that fit any kernel",
    )
    .required()
}

fn tracepoint_id(btf: &Btf<'_>, name: &str) -> Option<u32> {
    let id = btf
        .type_by_name::<Typedef<'_>>(&format!("btf_trace_{name}"))?
        .type_id();
    Some(id.into())
}

fn tp_btf(btf: Option<&Btf<'_>>) -> Check {
    let check = Check::new(
        "tp-btf",
        "BPF typed tracepoints (tp_btf)",
        "network-CPU accounting",
    )
    .required();
    let Some(id) = btf.and_then(|btf| tracepoint_id(btf, "softirq_entry")) else {
        return check
            .is(Status::No, "no type information of tracepoints")
            .or("use a kernel built with CONFIG_DEBUG_INFO_BTF=y and CONFIG_TRACEPOINTS=y");
    };
    let program = Program {
        kind: sys::BPF_PROG_TYPE_TRACING,
        attach: sys::BPF_TRACE_RAW_TP,
        btf_id: id,
        ..Program::tracing()
    };
    attached(
        check,
        program.load().and_then(|fd| raw_tracepoint(&fd, None)),
    )
}

fn tracepoints(btf: Option<&Btf<'_>>) -> Check {
    let check = Check::new(
        "tracepoints",
        "tracepoints needed",
        "network-CPU accounting",
    )
    .required();
    let (found, missing) = split(btf, &REQUIRED_TRACEPOINTS);
    if missing.is_empty() {
        check.is(
            Status::Yes,
            format!(
                "{} of {}: {}",
                found.len(),
                REQUIRED_TRACEPOINTS.len(),
                found.join(" ")
            ),
        )
    } else {
        check
            .is(Status::No, format!("missing: {}", missing.join(" ")))
            .or("use a kernel from 5.14 on, built with CONFIG_TRACEPOINTS=y and CONFIG_NET=y")
    }
}

fn optional_tracepoints(btf: Option<&Btf<'_>>) -> Check {
    let check = Check::new(
        "tracepoints-optional",
        "tracepoints of use",
        "finer accounting",
    );
    let (found, missing) = split(btf, &[&SOCKET_TRACEPOINTS[..], &[WAKE_TRACEPOINT]].concat());
    match (found.is_empty(), missing.is_empty()) {
        (_, true) => check.is(
            Status::Yes,
            format!("all {}: {}", found.len(), found.join(" ")),
        ),
        (true, _) => check.is(Status::No, format!("missing: {}", missing.join(" "))),
        _ => check.is(
            Status::Partly,
            format!("found: {}; missing: {}", found.join(" "), missing.join(" ")),
        ),
    }
}

fn split<'a>(btf: Option<&Btf<'_>>, names: &[&'a str]) -> (Vec<&'a str>, Vec<&'a str>) {
    names
        .iter()
        .partition(|name| btf.is_some_and(|btf| tracepoint_id(btf, name).is_some()))
}

fn fentry(btf: Option<&Btf<'_>>) -> Check {
    let check = Check::new(
        "fentry",
        "BPF function entry (fentry)",
        "extra precision; tracepoints do without",
    );
    let function = btf.and_then(|btf| btf.type_by_name::<Func<'_>>("netif_receive_skb"));
    let Some(function) = function else {
        return check.is(Status::No, "no type information of functions");
    };
    let program = Program {
        kind: sys::BPF_PROG_TYPE_TRACING,
        attach: sys::BPF_TRACE_FENTRY,
        btf_id: function.type_id().into(),
        ..Program::returning(0)
    };
    attached(
        check,
        program.load().and_then(|fd| raw_tracepoint(&fd, None)),
    )
}

fn raw_tp() -> Check {
    let check = Check::new(
        "raw-tp",
        "BPF raw tracepoints",
        "tracepoints on kernels whose type information lacks them",
    );
    let program = Program {
        kind: sys::BPF_PROG_TYPE_RAW_TRACEPOINT,
        ..Program::tracing()
    };
    attached(
        check,
        program
            .load()
            .and_then(|fd| raw_tracepoint(&fd, Some(c"softirq_entry"))),
    )
}

/// Check of the interrupt programs themselves: a tiny program would not prove enough.
fn interrupts() -> Check {
    let check = Check::new(
        "interrupts",
        "interrupts timed by BPF",
        "charges the measured time of interrupts, not an estimate",
    );
    match Interruptions::load() {
        Ok(_) => check.is(Status::Yes, "loads"),
        Err(_) if !privileged() => check.not_permitted(Status::No, NEEDS_ROOT),
        Err(e) => check.is(Status::No, e.to_string()),
    }
}

fn ring_buffer() -> Check {
    let check = Check::new(
        "ringbuf",
        "BPF ring buffer",
        "detects containers as soon as they start",
    )
    .required();
    judge(
        check,
        map(sys::BPF_MAP_TYPE_RINGBUF, 0, 0, 1 << 16),
        "can be made",
    )
}

/// Creates a map of 16 MiB: kernels from 5.11 on do not count maps as locked memory.
pub(super) fn large_map() -> io::Result<()> {
    map(sys::BPF_MAP_TYPE_ARRAY, 4, 4096, 4096)
}

/// Creates a map and closes it.
fn map(kind: sys::bpf_map_type, key_bytes: u32, value_bytes: u32, entries: u32) -> io::Result<()> {
    // SAFETY: the name is a C string, no options are given; the call only makes a descriptor.
    let fd = unsafe {
        sys::bpf_map_create(
            kind,
            c"cf_probe".as_ptr(),
            key_bytes,
            value_bytes,
            entries,
            null(),
        )
    };
    own(fd).map(drop)
}

/// Loads `program`, and reports whether that worked.
pub(super) fn loads(check: Check, program: &Program) -> Check {
    judge(check, program.load().map(drop), "loads")
}

fn attached(check: Check, result: io::Result<OwnedFd>) -> Check {
    judge(check, result.map(drop), "loads and attaches")
}

/// Turns the outcome of a probe into a check.
pub(super) fn judge(check: Check, result: io::Result<()>, works: &str) -> Check {
    match result {
        Ok(()) => check.is(Status::Yes, works),
        Err(e) if refused(&e) && !privileged() => check.not_permitted(Status::No, NEEDS_ROOT),
        Err(e) if refused(&e) => check
            .is(Status::No, format!("this kernel refuses it: {e}"))
            .or("boot without lockdown, or with the configuration that this needs"),
        Err(e) => check.is(Status::No, e.to_string()),
    }
}

fn refused(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::PermissionDenied
}

/// Whether the effective user is 0. Other users may still have the capabilities, and are not
/// refused then.
pub(super) fn privileged() -> bool {
    // SAFETY: no arguments, cannot fail.
    unsafe { libc::geteuid() == 0 }
}

/// Tiny program.
pub(super) struct Program {
    pub kind: sys::bpf_prog_type,
    pub attach: sys::bpf_attach_type,
    pub btf_id: u32,
    pub code: Vec<sys::bpf_insn>,
}

impl Program {
    /// Program `return value;`.
    pub fn returning(value: i32) -> Program {
        let code = vec![
            instruction(0xb7, 0, 0, value), // r0 = value
            instruction(0x95, 0, 0, 0),     // exit
        ];
        Program {
            kind: 0,
            attach: 0,
            btf_id: 0,
            code,
        }
    }

    /// Program that reads its first argument, requests the time and returns 0, as a real program
    /// does.
    pub fn tracing() -> Program {
        let mut program = Program::returning(0);
        program.code.insert(0, instruction(0x79, 6, 1, 0)); // r6 = *(u64 *)(r1 + 0)
        program.code.insert(1, instruction(0x85, 0, 0, 5)); // call bpf_ktime_get_ns
        program
    }

    pub fn load(&self) -> io::Result<OwnedFd> {
        let mut options = sys::bpf_prog_load_opts {
            sz: size_of::<sys::bpf_prog_load_opts>() as sys::size_t,
            expected_attach_type: self.attach,
            attach_btf_id: self.btf_id,
            ..Default::default()
        };
        // SAFETY: the names are C strings, the code pointer and count describe `self.code`,
        // `options` is initialised and states its size; all outlive the call.
        own(unsafe {
            sys::bpf_prog_load(
                self.kind,
                c"cf_probe".as_ptr(),
                c"GPL".as_ptr(),
                self.code.as_ptr(),
                self.code.len() as sys::size_t,
                &raw mut options,
            )
        })
    }
}

fn instruction(code: u8, destination: u8, source: u8, immediate: i32) -> sys::bpf_insn {
    let mut insn = sys::bpf_insn {
        code,
        imm: immediate,
        ..Default::default()
    };
    insn.set_dst_reg(destination);
    insn.set_src_reg(source);
    insn
}

fn raw_tracepoint(program: &OwnedFd, name: Option<&CStr>) -> io::Result<OwnedFd> {
    // SAFETY: the name is null or a C string; the descriptor is open.
    own(unsafe {
        sys::bpf_raw_tracepoint_open(name.map_or(null(), CStr::as_ptr), program.as_raw_fd())
    })
}

/// Takes over a descriptor that libbpf returned; a negative value is an error number.
pub(super) fn own(fd: c_int) -> io::Result<OwnedFd> {
    if fd < 0 {
        return Err(io::Error::from_raw_os_error(fd.saturating_neg()));
    }
    // SAFETY: libbpf has just made this descriptor and keeps no copy.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}
