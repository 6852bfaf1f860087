//! Stands for a device that stamps in hardware, of which no test machine has one.
//!
//! A tc program is run once by hand on a packet whose buffer has a stamp (the kernel takes it
//! from the context, since 5.16, commit 9e5ac8c0bc8b), and hands a clone of it to a device as
//! received. The buffer, and the stamp in it, are the ones that a driver would have filled.

use crate::Namespace;
use libbpf_rs::libbpf_sys::{
    BPF_PROG_TYPE_SCHED_CLS, bpf_insn, bpf_prog_load, bpf_prog_test_run_opts, bpf_test_run_opts,
};
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

/// Where `struct __sk_buff`, which is part of the kernel's ABI, has the stamp.
const HWTSTAMP: usize = 184;
const SK_BUFF_BYTES: usize = 192;
/// Number of the helper `bpf_clone_redirect`.
const CLONE_REDIRECT: i32 = 13;
const BPF_F_INGRESS: i32 = 1;

/// `device` of `net` receives `frame` (from its Ethernet header on), stamped with `stamp_ns`.
///
/// # Panics
/// When the kernel refuses.
#[track_caller]
pub fn receive_stamped(net: &Namespace, device: u32, frame: &[u8], stamp_ns: u64) {
    let frame = frame.to_vec();
    let ran = net.thread(move || receive(device, &frame, stamp_ns)).join();
    if let Err(e) = ran.expect("it does not panic") {
        panic!("a stamped packet cannot be received: {e}");
    }
}

fn instruction(code: u8, register: u8, immediate: i32) -> bpf_insn {
    // SAFETY: an instruction is plain data for which all zeroes is a valid value.
    let mut instruction: bpf_insn = unsafe { std::mem::zeroed() };
    instruction.code = code;
    instruction.set_dst_reg(register);
    instruction.imm = immediate;
    instruction
}

fn receive(device: u32, frame: &[u8], stamp_ns: u64) -> io::Result<()> {
    const MOVE: u8 = 0xb7;
    const CALL: u8 = 0x85;
    const EXIT: u8 = 0x95;
    let program = [
        instruction(MOVE, 2, device.cast_signed()),
        instruction(MOVE, 3, BPF_F_INGRESS),
        instruction(CALL, 0, CLONE_REDIRECT),
        instruction(EXIT, 0, 0),
    ];
    // SAFETY: name, license and instructions outlive the call, and the count is theirs; no
    // options are given.
    let fd = unsafe {
        bpf_prog_load(
            BPF_PROG_TYPE_SCHED_CLS,
            c"receive_stamped".as_ptr(),
            c"GPL".as_ptr(),
            program.as_ptr(),
            program.len() as u64,
            std::ptr::null_mut(),
        )
    };
    if fd < 0 {
        return Err(io::Error::from_raw_os_error(-fd));
    }
    // SAFETY: the kernel has just made this descriptor for us.
    let program = unsafe { OwnedFd::from_raw_fd(fd) };
    let mut context = [0_u8; SK_BUFF_BYTES];
    context[HWTSTAMP..HWTSTAMP + 8].copy_from_slice(&stamp_ns.to_ne_bytes());
    let mut run = bpf_test_run_opts {
        sz: size_of::<bpf_test_run_opts>() as u64,
        data_in: frame.as_ptr().cast(),
        data_size_in: frame.len() as u32,
        ctx_in: context.as_ptr().cast(),
        ctx_size_in: context.len() as u32,
        repeat: 1,
        ..bpf_test_run_opts::default()
    };
    // SAFETY: `run` says its own size, and points to a packet and a context of the sizes it
    // tells, which outlive the call; nothing is to be written back.
    match unsafe { bpf_prog_test_run_opts(program.as_raw_fd(), &raw mut run) } {
        0 if run.retval == 0 => Ok(()),
        0 => Err(io::Error::from_raw_os_error(run.retval.cast_signed().abs())),
        error => Err(io::Error::from_raw_os_error(-error)),
    }
}
