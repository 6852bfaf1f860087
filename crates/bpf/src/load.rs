//! Loads programs, and finds the reason of a failure. libbpf reports a missing right and a refusal
//! by the verifier with the same code. They differ only in the verifier's log, which libbpf prints:
//! this module keeps it and reports its last line.

use cofferdam_affinity::Urgent;
use libbpf_rs::{ErrorKind, PrintLevel};
use std::cell::RefCell;

/// Reason why the programs could not be loaded.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// No permission to load BPF.
    #[error("loading BPF programs needs root (CAP_BPF and CAP_PERFMON): run it with sudo")]
    Permission,
    /// No BTF of the running kernel.
    #[error(
        "this kernel has no type information (/sys/kernel/btf/vmlinux): \
         boot one built with CONFIG_DEBUG_INFO_BTF=y"
    )]
    NoBtf,
    /// A tracepoint is missing that nothing can replace.
    #[error("this kernel lacks the required tracepoint {0}: boot Linux 6.1 or later")]
    NoTracepoint(&'static str),
    /// No programs where packets enter and leave devices.
    #[error(
        "this kernel cannot attach programs to network devices (tcx): \
         boot Linux 6.6 or later with CONFIG_NET_XGRESS=y, or choose another start than device"
    )]
    NoDeviceHooks,
    /// The verifier called a program unsafe: a defect of Cofferdam on this kernel.
    #[error(
        "cannot {what}: this kernel's verifier refuses the program {program}: {line}. \
         Please report this line and the kernel's version (uname -r)"
    )]
    Refused {
        /// Failed step.
        what: String,
        /// Refused program.
        program: String,
        /// Last line of the verifier.
        line: String,
    },
    /// libbpf failed.
    #[error("cannot {what}: {source}")]
    Libbpf {
        /// Failed step.
        what: String,
        /// Cause of the failure.
        source: libbpf_rs::Error,
    },
    /// A loaded program could not be attached.
    #[error("cannot attach the accounting programs: {0}")]
    Attach(std::io::Error),
    /// A map's memory could not be mapped.
    #[error("cannot map the memory of a map: {0}")]
    Map(std::io::Error),
}

impl LoadError {
    /// Whether the host or the caller lacks something, which the text names, and nothing else is
    /// wrong.
    pub fn is_unsupported(&self) -> bool {
        match self {
            LoadError::Permission
            | LoadError::NoBtf
            | LoadError::NoTracepoint(_)
            | LoadError::NoDeviceHooks => true,
            LoadError::Refused { .. }
            | LoadError::Libbpf { .. }
            | LoadError::Attach(_)
            | LoadError::Map(_) => false,
        }
    }
}

thread_local! {
    /// Output of libbpf on this thread since [`loading`] began.
    static PRINTED: RefCell<String> = const { RefCell::new(String::new()) };
}

/// Bytes of a verifier's log to keep: it may have megabytes, and its end has the reason.
const KEPT_BYTES: usize = 1 << 16;

fn keep(_: PrintLevel, text: String) {
    PRINTED.with_borrow_mut(|printed| {
        printed.push_str(&text);
        if printed.len() > 2 * KEPT_BYTES {
            let from = (printed.len() - KEPT_BYTES..printed.len())
                .find(|at| printed.is_char_boundary(*at))
                .unwrap_or(printed.len());
            printed.drain(..from);
        }
    });
}

/// Runs `load`, which loads programs. `what` completes "cannot …".
///
/// This work is urgent: the verifier needs half a second of CPU for all programs together, and a
/// host needs them most during a flood. With an equal share of a full CPU it would take as many
/// times longer as there are competitors.
///
/// # Errors
/// [`LoadError`]: missing rights, the verifier's refusal, or another error of libbpf.
pub(crate) fn loading<T>(
    what: &str,
    load: impl FnOnce() -> libbpf_rs::Result<T>,
) -> Result<T, LoadError> {
    let _urgent = Urgent::begin();
    libbpf_rs::set_print(Some((PrintLevel::Warn, keep)));
    PRINTED.with_borrow_mut(String::clear);
    load().map_err(|source| {
        let printed = PRINTED.with_borrow_mut(std::mem::take);
        load_error(what, source, &printed)
    })
}

fn load_error(what: &str, source: libbpf_rs::Error, printed: &str) -> LoadError {
    match refusal(printed) {
        Some((program, line)) => LoadError::Refused {
            what: what.to_owned(),
            program,
            line,
        },
        None if source.kind() == ErrorKind::PermissionDenied => LoadError::Permission,
        None => LoadError::Libbpf {
            what: what.to_owned(),
            source,
        },
    }
}

/// Finds the program that the verifier refused, and its last line, in the output of libbpf:
///
/// ```text
/// libbpf: prog 'NAME': -- BEGIN PROG LOAD LOG --
/// …
/// the reason
/// processed 12 insns (limit 1000000) max_states_per_insn 0 …
/// -- END PROG LOAD LOG --
/// ```
fn refusal(printed: &str) -> Option<(String, String)> {
    let (before, log) = printed.rsplit_once("-- BEGIN PROG LOAD LOG --")?;
    let log = log.split("-- END PROG LOAD LOG --").next().unwrap_or(log);
    let statistics = |line: &&str| {
        [
            "processed ",
            "verification time ",
            "stack depth ",
            "libbpf: ",
        ]
        .iter()
        .any(|s| line.starts_with(s))
    };
    let line = log
        .lines()
        .map(str::trim)
        .rfind(|line| !line.is_empty() && !statistics(line))?;
    let program = before.rsplit('\'').nth(1).unwrap_or("of unknown name");
    Some((program.to_owned(), line.trim_end_matches('.').to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::skeleton::EnforceSkelBuilder;
    use libbpf_rs::skel::{OpenSkel, SkelBuilder};
    use libbpf_rs::{AsRawLibbpf, OpenObject, libbpf_sys};
    use std::io;
    use std::mem::MaybeUninit;

    const PRINTED: &str =
        "libbpf: prog 'lt_netif_receive_skb': BPF program load failed: Permission denied
libbpf: prog 'lt_netif_receive_skb': -- BEGIN PROG LOAD LOG --
0: R1=ctx(off=0,imm=0) R10=fp0
; int BPF_PROG(lt_netif_receive_skb, struct sk_buff *skb)
combined stack size of 3 calls is 544. Too large
verification time 64731 usec
stack depth 240+256+16
processed 31337 insns (limit 1000000) max_states_per_insn 3 total_states 5 peak_states 5 mark_read 2
-- END PROG LOAD LOG --
libbpf: prog 'lt_netif_receive_skb': failed to load: -13
";

    /// Promise 19.
    #[test]
    fn a_kernel_without_device_hooks_is_named_with_the_remedy() {
        let error = LoadError::NoDeviceHooks;
        assert!(error.is_unsupported());
        let text = error.to_string();
        assert!(text.contains("Linux 6.6"), "{text}");
        assert!(text.contains("another start than device"), "{text}");
    }

    /// A program that reads an uninitialised register; the kernel's answer is EACCES.
    ///
    /// Promise 24.
    #[test]
    fn a_program_that_the_verifier_refuses_is_no_missing_right() {
        let mut storage = MaybeUninit::<OpenObject>::uninit();
        let open = EnforceSkelBuilder::default().open(&mut storage).unwrap();
        let program = open.progs.drop_xdp.as_libbpf_object().as_ptr();
        // SAFETY: the program is open and owns this many instructions until it is loaded.
        let mut instructions = unsafe {
            let first = libbpf_sys::bpf_program__insns(program);
            let count = libbpf_sys::bpf_program__insn_cnt(program);
            std::slice::from_raw_parts(first, count as usize).to_vec()
        };
        instructions[0].code = 0xbf; // r0 = r9
        instructions[0].set_dst_reg(0);
        instructions[0].set_src_reg(9);
        let count = instructions.len() as libbpf_sys::size_t;
        // SAFETY: libbpf copies this many instructions; the program is not loaded.
        let set = unsafe {
            libbpf_sys::bpf_program__set_insns(program, instructions.as_mut_ptr(), count)
        };
        assert_eq!(set, 0);
        match loading("load the programs of a test", || open.load()) {
            Err(LoadError::Refused { program, line, .. }) => {
                assert_eq!(program, "drop_xdp");
                assert!(line.contains("R9 !read_ok"), "{line}");
            }
            Err(other) => panic!("{other}"),
            Ok(_) => panic!("the verifier took it"),
        }
    }

    /// Reads field 19 of `/proc/thread-self/stat`, after the name in brackets.
    fn niceness() -> i32 {
        let stat = std::fs::read_to_string("/proc/thread-self/stat").unwrap();
        let (_, fields) = stat.rsplit_once(')').unwrap();
        fields.split_whitespace().nth(16).unwrap().parse().unwrap()
    }

    /// Promise 35.
    #[test]
    fn loading_has_priority_and_leaves_the_thread_as_it_was() {
        let before = niceness();
        let during = loading("load nothing", || Ok(niceness()));
        assert_eq!((during.ok(), niceness()), (Some(-20), before));
    }

    fn error(errno: i32) -> libbpf_rs::Error {
        io::Error::from_raw_os_error(errno).into()
    }

    /// Promise 24.
    #[test]
    fn the_verifiers_refusal_is_reported_with_its_last_line() {
        let text =
            load_error("load the latency programs", error(libc::EACCES), PRINTED).to_string();
        assert!(
            text.starts_with(
                "cannot load the latency programs: this kernel's verifier refuses the program \
                 lt_netif_receive_skb: combined stack size of 3 calls is 544. Too large."
            ),
            "{text}"
        );
    }

    /// The log may be cut off at its start, and a refusal need not be EACCES.
    #[test]
    fn a_long_log_reads_the_same() {
        let (_, end) = PRINTED
            .split_once("libbpf: prog 'lt_netif_receive_skb': -- ")
            .unwrap();
        let text = load_error(
            "load",
            error(libc::EINVAL),
            &format!("libbpf: prog 'a': -- {end}"),
        );
        assert!(text.to_string().contains("program a: combined"), "{text}");
    }

    /// Promise 24.
    #[test]
    fn without_a_log_no_permission_means_missing_rights() {
        let printed = "libbpf: Error in bpf_object__probe_loading(): Operation not permitted(1)\n";
        assert!(matches!(
            load_error("load", error(libc::EPERM), printed),
            LoadError::Permission
        ));
        assert!(matches!(
            load_error("load", error(libc::EPERM), ""),
            LoadError::Permission
        ));
        let empty = "libbpf: prog 'a': -- BEGIN PROG LOAD LOG --\n-- END PROG LOAD LOG --\n";
        assert!(matches!(
            load_error("load", error(libc::EPERM), empty),
            LoadError::Permission
        ));
        assert!(matches!(
            load_error("load", error(libc::ENOMEM), ""),
            LoadError::Libbpf { .. }
        ));
    }
}
