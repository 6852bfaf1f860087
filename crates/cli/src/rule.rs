//! `cofferdam rule`: rules in the running agent, until it ends.

use crate::args::{RuleClearArgs, RuleCommand, RuleSetArgs};
use crate::exit::{Failure, Outcome};
use crate::output::Output;
use cofferdam_agent::wire::{Request, SetRule};
use cofferdam_agent::{Client, ClientError, Rule};
use cofferdam_types::{CpuPolicy, NetworkCpu, Policy};
use std::path::Path;
use std::time::{Duration, Instant};

/// Pause between two tries to reach an agent that is starting.
const BETWEEN_TRIES: Duration = Duration::from_millis(100);

/// Sets or clears a rule.
pub fn run(command: &RuleCommand) -> Outcome {
    match command {
        RuleCommand::Set(args) => set(args),
        RuleCommand::Clear(args) => clear(args),
    }
}

fn set(args: &RuleSetArgs) -> Outcome {
    let policy = policy(args)?;
    let request = Request::Set(Box::new(SetRule(Rule {
        line: 0,
        matcher: args.matches.clone(),
        policy,
        by_request: false,
    })));
    let patience = args.wait.unwrap_or_default();
    let changed = connect(&args.agent.path(), patience)?.change(&request)?;
    let text = match changed.containers {
        0 => "the rule is set; no container matches it now".to_owned(),
        1 => "the rule is set; it applies to 1 container".to_owned(),
        count => format!("the rule is set; it applies to {count} containers"),
    };
    Output::stdout().write(&format!("{text}\n"))
}

/// Connects to the agent on `socket`; waits for one that does not run yet.
fn connect(socket: &Path, patience: Duration) -> Result<Client, ClientError> {
    let until = Instant::now() + patience;
    loop {
        match Client::connect(socket) {
            Err(ClientError::NotRunning(_)) if Instant::now() < until => {
                std::thread::sleep(BETWEEN_TRIES);
            }
            other => return other,
        }
    }
}

fn policy(args: &RuleSetArgs) -> Result<Policy, Failure> {
    use crate::args::{CpuClass, NetworkClass};
    if args.network_cpu.is_none() && args.cpu.is_none() && args.cpus.is_none() {
        return Err(Failure::Usage(
            "a rule needs a class: --network-cpu enforce, or --cpu strict with --cpus (see \
             'cofferdam rule set --help')"
                .to_owned(),
        ));
    }
    Ok(Policy {
        network_cpu: match args.network_cpu {
            Some(NetworkClass::Enforce) => NetworkCpu::Enforce,
            Some(NetworkClass::Observe) | None => NetworkCpu::Observe,
        },
        cpu: match (args.cpu, args.cpus) {
            (Some(CpuClass::Strict), Some(cpus)) => CpuPolicy::Strict(cpus),
            (Some(CpuClass::Strict), None) => {
                return Err(Failure::Usage(
                    "--cpu strict needs --cpus: how many CPUs are reserved (see 'cofferdam rule \
                     set --help')"
                        .to_owned(),
                ));
            }
            (Some(CpuClass::Standard) | None, Some(_)) => {
                return Err(Failure::Usage(
                    "--cpus needs --cpu strict (see 'cofferdam rule set --help')".to_owned(),
                ));
            }
            (Some(CpuClass::Standard) | None, None) => CpuPolicy::Standard,
        },
    })
}

fn clear(args: &RuleClearArgs) -> Outcome {
    let request = Request::Clear {
        matches: args.matches.to_string(),
    };
    Client::connect(&args.agent.path())?.change(&request)?;
    Output::stdout().write("the rule is cleared\n")
}
