//! `cofferdam dataplane top`: rates between two readings.

use crate::args::DataplaneTopArgs;
use crate::exit::{Failure, Outcome, one_line};
use crate::interrupt::Interrupt;
use crate::output::Output;
use crate::table;
use serde_json::Value;
use std::fmt::Write;
use std::time::{Duration, Instant};

/// Shows until a signal, or once.
pub fn run(args: &DataplaneTopArgs, interrupt: &Interrupt) -> Outcome {
    let mut last = ask(args)?;
    if args.json {
        let text = serde_json::to_string_pretty(&last)
            .map_err(|e| Failure::failed(format!("cannot write JSON: {e}")))?;
        return Output::stdout().write(&(text + "\n"));
    }
    loop {
        let start = Instant::now();
        while start.elapsed() < args.interval {
            if interrupt.raised() {
                return Err(Failure::Interrupted(None));
            }
            let left = args.interval.saturating_sub(start.elapsed());
            std::thread::sleep(left.min(Duration::from_millis(50)));
        }
        let now = ask(args)?;
        let shown = text(&last, &now, start.elapsed(), table::terminal_width());
        Output::stdout().write(&shown)?;
        if args.once {
            return Ok(());
        }
        last = now;
    }
}

fn ask(args: &DataplaneTopArgs) -> Result<Value, Failure> {
    cofferdam_dataplane::status(&args.socket).map_err(|e| Failure::failed(e.to_string()))
}

/// The rates, the loop's stages, what went wrong, the applications.
fn text(before: &Value, now: &Value, time: Duration, width: Option<u16>) -> String {
    let count = |name: &str| {
        let at = |v: &Value| {
            v.pointer(&format!("/counts/{name}"))
                .and_then(Value::as_u64)
        };
        at(now).unwrap_or(0).saturating_sub(at(before).unwrap_or(0))
    };
    let rate = |name: &str| count(name) as f64 / time.as_secs_f64();
    let device = now.get("device").and_then(Value::as_str).unwrap_or("?");
    let batches = count("batches").max(1) as f64;
    let mut out = format!(
        "{}: {:.0} packets/s in, {:.0} out; {:.1} a batch, {:.1} waiting after it; {:.0} sleeps/s, {:.0} wake-ups/s\n",
        one_line(device),
        rate("received_packets"),
        rate("sent_packets"),
        count("received_packets") as f64 / batches,
        count("queued_packets") as f64 / batches,
        rate("sleeps"),
        rate("wakeups"),
    );
    // Writing to a String cannot fail.
    let _ = write!(
        out,
        "\n{}",
        stages(before, now, count("received_packets"), width)
    );
    let wrong: Vec<String> = [
        "lost_packets",
        "refused_packets",
        "out_of_frames",
        "over_quota",
        "overruns",
        "flush_errors",
        "offences",
    ]
    .into_iter()
    .filter(|name| count(name) > 0)
    .map(|name| format!("{} {}", count(name), name.replace('_', " ")))
    .collect();
    if !wrong.is_empty() {
        let _ = writeln!(out, "\n{}", wrong.join(", "));
    }
    let applications = now.get("applications").and_then(Value::as_array);
    if let Some(applications) = applications.filter(|a| !a.is_empty()) {
        let mut table = table::plain(width);
        table.set_header(["application", "connections", "held frames"]);
        for application in applications {
            let number = |key| {
                application
                    .get(key)
                    .and_then(Value::as_u64)
                    .unwrap_or(0)
                    .to_string()
            };
            let name = application
                .get("name")
                .and_then(Value::as_str)
                .unwrap_or("?");
            table.add_row([one_line(name), number("connections"), number("held_frames")]);
        }
        table::numbers_right(&mut table);
        let _ = write!(out, "\n{table}\n");
    }
    out
}

fn stages(before: &Value, now: &Value, packets: u64, width: Option<u16>) -> String {
    let Some(stages) = now.get("stage_cycles").and_then(Value::as_object) else {
        return String::new();
    };
    let cycles = |name: &str| {
        let at = |v: &Value| {
            v.pointer(&format!("/stage_cycles/{name}"))
                .and_then(Value::as_u64)
        };
        at(now).unwrap_or(0).saturating_sub(at(before).unwrap_or(0))
    };
    let all: u64 = stages.keys().map(|name| cycles(name)).sum();
    let mut table = table::plain(width);
    table.set_header(["stage", "share", "cycles a packet"]);
    for name in stages.keys() {
        let own = cycles(name);
        let share = own as f64 / all.max(1) as f64 * 100.0;
        let each = match packets {
            0 => "-".to_owned(),
            n => format!("{:.0}", own as f64 / n as f64),
        };
        table.add_row([name.clone(), format!("{share:.1}%"), each]);
    }
    table::numbers_right(&mut table);
    format!("{table}\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_differences_over_time_and_only_what_went_wrong_is_listed() {
        let at = |received: u64, offences: u64| {
            serde_json::json!({
                "device": "eth0",
                "counts": {"received_packets": received, "batches": received / 10, "offences": offences},
                "stage_cycles": {"receive": received * 100, "flush": received * 300},
                "applications": [{"name": "web", "connections": 3, "held_frames": 4}],
            })
        };
        let shown = text(&at(1000, 1), &at(3000, 2), Duration::from_secs(2), None);
        assert!(
            shown.starts_with("eth0: 1000 packets/s in, 0 out; 10.0 a batch"),
            "{shown}"
        );
        assert!(shown.contains("75.0%"), "{shown}");
        assert!(
            shown.contains("1 offences") && !shown.contains("overruns"),
            "{shown}"
        );
        assert!(
            shown
                .lines()
                .any(|l| l.starts_with("web") && l.contains('3')),
            "{shown}"
        );
    }
}
