//! `cofferdam dataplane attack`: tests the protection of domain = "pkey", a process for each
//! attack.

use crate::args::DataplaneAttackArgs;
use crate::exit::{Failure, Outcome};
use crate::output::Output;
use crate::table;
use cofferdam_dataplane::pkey::attack::{self, Attack, Verdict};
use cofferdam_dataplane::pkey::{bind_now, is_bound_now, supported};
use serde_json::json;
use std::process::{Command, Stdio};

const SCHEMA: &str = "cofferdam.dataplane-attack/1";

/// Tries all attacks, or one of them in this process.
pub fn run(args: &DataplaneAttackArgs) -> Outcome {
    supported().map_err(|e| {
        Failure::Unsupported(format!(
            "{e}: there is nothing to attack here, and a dataplane refuses domain = \"pkey\"; \
             use domain = \"process\""
        ))
    })?;
    if let Some(name) = &args.one {
        return one(name);
    }
    let tried: Vec<(&Attack, Verdict)> = attack::all()
        .iter()
        .map(|attack| (attack, try_it(attack)))
        .collect();
    let text = if args.json {
        document(&tried)
    } else {
        text(&tried)
    };
    Output::stdout().write(&text)?;
    match succeeded(&tried) {
        0 => Ok(()),
        _ => Err(Failure::Answer(1)),
    }
}

fn succeeded(tried: &[(&Attack, Verdict)]) -> usize {
    let succeeded = |(_, verdict): &&(&Attack, Verdict)| matches!(verdict, Verdict::Succeeded(_));
    tried.iter().filter(succeeded).count()
}

/// Tries one attack in this process, and prints the verdict for the parent.
fn one(name: &str) -> Outcome {
    let attack = attack::all().iter().find(|attack| attack.name == name);
    let attack = attack.ok_or_else(|| Failure::Usage(format!("no attack is named '{name}'")))?;
    if !is_bound_now() {
        return Err(Failure::failed(bind_now().to_string()));
    }
    let verdict = attack::run(attack).map_err(|e| Failure::failed(e.to_string()))?;
    Output::stdout().write(&format!("{verdict}\n"))
}

/// Tries an attack in a separate process: an attack that succeeds may end it.
fn try_it(attack: &Attack) -> Verdict {
    let words = ["dataplane", "attack", "--one", attack.name];
    let mut command = Command::new("/proc/self/exe");
    let command = command
        .args(words)
        .env("LD_BIND_NOW", "1")
        .stdin(Stdio::null());
    let output = match command.output() {
        Ok(output) => output,
        Err(e) => return Verdict::Succeeded(format!("not tried: {e}")),
    };
    let printed = String::from_utf8_lossy(&output.stdout);
    let verdict = printed.lines().last().and_then(Verdict::parse);
    verdict
        .filter(|_| output.status.success())
        .unwrap_or_else(|| {
            let errors = String::from_utf8_lossy(&output.stderr);
            let last = errors.lines().last().unwrap_or_default();
            Verdict::Succeeded(format!(
                "the dataplane's process ended ({}) {last}",
                output.status
            ))
        })
}

/// Word of the third column.
fn word(verdict: &Verdict) -> &'static str {
    match verdict {
        Verdict::Stopped(_) => "stopped",
        Verdict::Allowed(_) => "allowed",
        Verdict::Succeeded(_) => "SUCCEEDED",
    }
}

fn text(tried: &[(&Attack, Verdict)]) -> String {
    let mut table = table::plain(table::terminal_width());
    table.set_header([
        "attack",
        "what the application tries",
        "outcome",
        "stopped by",
    ]);
    for (attack, verdict) in tried {
        table.add_row([attack.name, attack.what, word(verdict), verdict.how()]);
    }
    let all = tried.len();
    let summary = match succeeded(tried) {
        0 => format!("{all} tried: none succeeded"),
        some => format!("{all} tried: {some} SUCCEEDED"),
    };
    format!("{table}\n\n{summary}\n")
}

fn document(tried: &[(&Attack, Verdict)]) -> String {
    let each = tried.iter().map(|(attack, verdict)| {
        json!({
            "attack": attack.name,
            "what": attack.what,
            "outcome": word(verdict).to_lowercase(),
            "by": verdict.how(),
        })
    });
    let document = json!({
        "schema": SCHEMA,
        "succeeded": succeeded(tried),
        "attacks": each.collect::<Vec<_>>(),
    });
    format!("{document:#}\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_attack_that_succeeds_is_counted_and_stands_out() {
        let attacks = attack::all();
        let mut tried = vec![
            (&attacks[0], Verdict::Stopped("a key".to_owned())),
            (&attacks[6], Verdict::Allowed("reading".to_owned())),
        ];
        assert!(
            text(&tried).ends_with("2 tried: none succeeded\n"),
            "{}",
            text(&tried)
        );
        tried.push((&attacks[1], Verdict::Succeeded("written".to_owned())));
        let shown = text(&tried);
        assert!(shown.ends_with("3 tried: 1 SUCCEEDED\n"), "{shown}");
        let line = shown.lines().find(|line| line.contains("write-heap"));
        assert!(
            line.is_some_and(|line| line.contains("SUCCEEDED")),
            "{shown}"
        );
        let document: serde_json::Value = serde_json::from_str(&document(&tried)).expect("JSON");
        assert_eq!(document["schema"], SCHEMA);
        assert_eq!(document["succeeded"], 1);
        assert_eq!(document["attacks"][1]["outcome"], "allowed");
    }
}
