//! `cofferdam doctor`.

use crate::args::DoctorArgs;
use crate::exit::{Failure, Outcome};
use crate::output::{Output, json};
use crate::table;
use cofferdam_doctor::{Check, Report, Status, accounting_blocker, examine};
use cofferdam_records::doctor::{DOCTOR, DoctorCheck, DoctorReport};
use std::time::SystemTime;

/// Examines the host; fails with exit code 3 when the accounting cannot run on it.
pub fn run(args: &DoctorArgs) -> Outcome {
    let report = examine();
    let text = if args.json {
        json(&document(&report, SystemTime::now()))?
    } else {
        text(&report, table::terminal_width())
    };
    Output::open(args.output.as_deref(), args.force)?.write(&text)?;
    match report.accounting_blocker() {
        Some(check) => Err(Failure::Unsupported(blocker_line(check))),
        None => Ok(()),
    }
}

/// Line that says why the accounting cannot run, for the doctor and every other command. If this
/// process has no right to find out, the line makes no claim about the host.
pub fn blocker_line(check: &Check) -> String {
    if !check.permitted {
        return format!(
            "the accounting needs root ({}: {}): run it with sudo; \
              'sudo cofferdam doctor' says whether this host can",
            check.capability, check.detail
        );
    }
    let remedy = check.remedy.as_deref().unwrap_or("no remedy is known");
    format!(
        "the accounting cannot run on this host: {}: {}; {remedy}",
        check.capability, check.detail
    )
}

/// Failure of a command that needs the accounting: the doctor's words where it finds the cause,
/// else `text`. Thus all commands give one answer.
pub fn unsupported(text: String) -> Failure {
    match accounting_blocker() {
        Some(check) => Failure::Unsupported(blocker_line(&check)),
        None => Failure::Unsupported(text),
    }
}

fn document(report: &Report, now: SystemTime) -> DoctorReport {
    let blocker = report.accounting_blocker();
    DoctorReport {
        schema: DOCTOR.to_owned(),
        time: cofferdam_records::time(now),
        accounting: blocker.is_none(),
        accounting_blocker: blocker.map(blocker_line),
        checks: report
            .checks
            .iter()
            .map(|check| DoctorCheck {
                id: check.id.to_string(),
                capability: check.capability.clone(),
                status: check.status.to_string(),
                detail: check.detail.clone(),
                enables: check.enables.clone(),
                remedy: check.remedy.clone(),
                required_for_accounting: check.required_for_accounting,
            })
            .collect(),
    }
}

/// Width where the terminal's is unknown: sentences are for people, also behind `| less`.
const USUAL_WIDTH: u16 = 80;
/// Least width for four columns, which otherwise leave too little space to the last. Below it each
/// check is one paragraph.
const FOUR_COLUMNS_WIDTH: u16 = 110;

/// Text of one table, and the answer about the accounting below it.
fn text(report: &Report, width: Option<u16>) -> String {
    let width = width.unwrap_or(USUAL_WIDTH);
    let mut table = table::plain(Some(width));
    if width < FOUR_COLUMNS_WIDTH {
        for check in &report.checks {
            table.add_row([status(check), paragraph(check)]);
        }
    } else {
        table.set_header(["capability", "", "enables", "found, and what to do"]);
        for check in &report.checks {
            let found = match &check.remedy {
                Some(remedy) => format!("{} → {remedy}", check.detail),
                None => check.detail.clone(),
            };
            table.add_row([
                check.capability.clone(),
                status(check),
                check.enables.clone(),
                found,
            ]);
        }
    }
    table::gaps(&mut table);
    let verdict = match report.accounting_blocker() {
        None => "The accounting can run on this host.",
        Some(check) if !check.permitted => {
            "Whether the accounting can run on this host is unknown: \
             this user has no right to find out."
        }
        Some(_) => "The accounting cannot run on this host.",
    };
    let remedy = match report.is_permitted() {
        true => "",
        false => "\n'sudo cofferdam doctor' finds out what is unknown here.",
    };
    format!("{}\n{verdict}{remedy}\n", table::finish(&table))
}

/// Status word of a check; `unknown` if this process has no right to find out.
fn status(check: &Check) -> String {
    match check.permitted {
        true => check.status.to_string(),
        false => "unknown".to_owned(),
    }
}

/// Check as lines: the finding; if something is missing, its purpose and the remedy.
fn paragraph(check: &Check) -> String {
    let mut text = format!("{}: {}", check.capability, check.detail);
    if check.status != Status::Yes {
        text += &format!("\nfor: {}", check.enables);
    }
    if let Some(remedy) = &check.remedy {
        text += &format!("\n→ {remedy}");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(status: Status, required: bool) -> Check {
        Check {
            id: "btf",
            capability: "kernel type information (BTF)".to_owned(),
            status,
            detail: "/sys/kernel/btf/vmlinux does not exist".to_owned(),
            enables: "every BPF program".to_owned(),
            remedy: Some("boot a kernel with CONFIG_DEBUG_INFO_BTF=y".to_owned()),
            required_for_accounting: required,
            permitted: true,
        }
    }

    /// Promise 24.
    #[test]
    fn checks_that_need_root_are_unknown_and_name_sudo() {
        let capabilities = Check {
            detail: "missing: CAP_BPF".to_owned(),
            permitted: false,
            ..check(Status::No, true)
        };
        let report = Report {
            checks: vec![capabilities, check(Status::Yes, true)],
        };
        for width in [Some(200), Some(80), None] {
            let text = text(&report, width);
            assert!(
                text.contains("unknown") && text.contains("'sudo cofferdam doctor'"),
                "{text}"
            );
            assert!(
                !text.contains("cannot run") && !text.contains("\nno"),
                "{text}"
            );
        }
        let line = blocker_line(&report.checks[0]);
        assert!(
            line.contains("needs root") && line.contains("sudo cofferdam doctor"),
            "{line}"
        );
        assert!(!line.contains("cannot run"), "{line}");
    }

    #[test]
    fn what_blocks_the_accounting_is_reported_with_its_remedy() {
        let report = Report {
            checks: vec![check(Status::No, true)],
        };
        let document = document(&report, SystemTime::UNIX_EPOCH);
        assert!(!document.accounting);
        assert_eq!(
            document.accounting_blocker.as_deref(),
            Some(
                "the accounting cannot run on this host: kernel type information (BTF): \
                 /sys/kernel/btf/vmlinux does not exist; boot a kernel with \
                 CONFIG_DEBUG_INFO_BTF=y"
            )
        );
        assert!(text(&report, None).ends_with("The accounting cannot run on this host.\n"));
    }

    #[test]
    fn a_capability_that_the_accounting_does_not_need_blocks_nothing() {
        let report = Report {
            checks: vec![check(Status::No, false), check(Status::Yes, true)],
        };
        let document = document(&report, SystemTime::UNIX_EPOCH);
        assert!(document.accounting && document.accounting_blocker.is_none());
        assert_eq!(document.checks[0].status, "no");
        let back: DoctorReport = serde_json::from_str(&json(&document).unwrap()).unwrap();
        assert_eq!(back, document);
    }

    /// Promise 24.
    #[test]
    fn the_table_wraps_to_the_terminal_or_to_80_columns() {
        let report = Report {
            checks: vec![check(Status::Partly, false)],
        };
        for (width, most) in [(Some(70), 70), (None, 80)] {
            for line in text(&report, width).lines() {
                assert!(line.chars().count() <= most, "{line}");
            }
        }
        let narrow = text(&report, None);
        for part in ["for: every BPF program", "→ boot a kernel"] {
            assert!(narrow.contains(part), "{narrow}");
        }
    }
}
