use super::*;
use clap::CommandFactory;

fn parse(line: &str) -> Result<Cli, clap::Error> {
    Cli::try_parse_from(line.split_whitespace())
}

#[test]
fn the_definition_is_sound() {
    Cli::command().debug_assert();
}

#[test]
fn every_documented_command_parses() {
    for line in [
        "cofferdam",
        "cofferdam --socket /run/x",
        "cofferdam explain",
        "cofferdam explain --json --duration 3s --socket /run/x",
        "cofferdam rule set web-* --network-cpu enforce",
        "cofferdam rule set label:tier=web --cpu strict --cpus 1.5",
        "cofferdam rule clear web-*",
        "cofferdam doctor",
        "cofferdam doctor --json",
        "cofferdam top",
        "cofferdam top --once --json --interval 250ms",
        "cofferdam top --container web --container id:3f2a --container cgroup:/a/*",
        "cofferdam top --container netns:blue --container pid:42",
        "cofferdam accounting record",
        "cofferdam accounting record --duration 10s --interval 1s --format jsonl --output x",
        "cofferdam bench penalty",
        "cofferdam bench penalty --quick --output dir --pairs 7",
        "cofferdam bench accounting --quick --output dir",
        "cofferdam latency record",
        "cofferdam latency record --per packet --format jsonl --protocol icmp,udp --port 53",
        "cofferdam latency record --direction egress --interface eth0 --one-in 8 --start queue",
        "cofferdam latency watch --table 1024 --ring 1024",
        "cofferdam latency ping 192.0.2.7 -c 3 -i 20ms --udp 7 --json --container web",
        "cofferdam latency serve --socket /run/x --clients 2 --keep 100",
        "cofferdam latency on --protocol icmp --port 53",
        "cofferdam latency off",
        "cofferdam latency read --mace --follow",
        "cofferdam bench latency --quick --output dir",
        "cofferdam simulate --tenants t.json",
        "cofferdam simulate --host h.json --tenants t.json --policy strict,strict-lending \
 --duration 1m --seed 2 --json",
        "cofferdam simulate --write-host",
        "cofferdam report dir",
        "cofferdam demo",
        "cofferdam bench-worker --anything goes -x",
        "cofferdam generate man dir",
        "cofferdam generate completions dir",
        "cofferdam generate schemas dir",
    ] {
        if let Err(error) = parse(line) {
            panic!("{line}: {error}");
        }
    }
}

#[test]
fn defaults_are_the_documented_ones() {
    let Ok(Cli {
        command: Some(Command::Accounting(AccountingCommand::Record(args))),
        ..
    }) = parse("cofferdam accounting record")
    else {
        panic!("does not parse");
    };
    assert_eq!(args.duration, Duration::from_secs(10));
    assert_eq!(args.interval, Duration::from_secs(1));
    assert_eq!(args.format, RecordFormat::Table);
    assert_eq!(args.output, None);
}

/// Promise 76.
#[test]
fn nonsense_is_refused() {
    for line in [
        "cofferdam nonsense",
        "cofferdam --socket /run/x top",
        "cofferdam explain --duration 5ms",
        "cofferdam rule",
        "cofferdam rule set",
        "cofferdam rule set web --cpu strict --cpus 0",
        "cofferdam rule set id:xyz --network-cpu enforce",
        "cofferdam rule set web --network-cpu maybe",
        "cofferdam top --interval 0s",
        "cofferdam top --interval 5",
        "cofferdam top --interval 1ms",
        "cofferdam top --container id:xyz",
        "cofferdam top --container cgroup:relative",
        "cofferdam top --container pid:0",
        "cofferdam top extra",
        "cofferdam accounting record --duration 0s",
        "cofferdam accounting record --format xml",
        "cofferdam bench penalty --pairs 0",
        "cofferdam latency record --port 0",
        "cofferdam simulate",
        "cofferdam simulate --tenants t.json --policy lax",
        "cofferdam simulate --tenants t.json --duration 2h",
        "cofferdam simulate --write-host --json",
        "cofferdam latency record --one-in 0",
        "cofferdam latency ping",
        "cofferdam latency ping h --udp 7 --tcp-connect 8",
        "cofferdam report",
    ] {
        assert!(parse(line).is_err(), "{line}");
    }
}

/// Collects the paths of all commands that a person runs.
fn runnable(command: &clap::Command, path: &str, found: &mut Vec<String>) {
    let below: Vec<_> = command
        .get_subcommands()
        .filter(|below| !below.is_hide_set() && below.get_name() != "help")
        .collect();
    if path.is_empty() || below.is_empty() || path == "report" {
        found.push(path.to_owned());
    }
    for below in below {
        let path = format!("{path} {}", below.get_name());
        runnable(below, path.trim_start(), found);
    }
}

/// Splits a line as a shell does, as far as the examples need it.
fn words(line: &str) -> Vec<String> {
    let parts = line.split('\'').enumerate();
    let mut words = vec![String::new()];
    for (at, part) in parts {
        let quoted = at % 2 == 1;
        for (nth, piece) in part.split(|c| c == ' ' && !quoted).enumerate() {
            if nth > 0 {
                words.push(String::new());
            }
            words.last_mut().unwrap().push_str(piece);
        }
    }
    words.retain(|word| !word.is_empty());
    words
}

/// Promise 78.
#[test]
fn every_command_has_examples_that_are_valid() {
    let mut paths = Vec::new();
    runnable(&Cli::command(), "", &mut paths);
    assert!(paths.len() > 40, "{paths:?}");
    for path in &paths {
        let examples = examples::of(path);
        assert!(!examples.is_empty(), "{path} has no example");
        let mut definition = Cli::definition(80);
        let at = path
            .split_whitespace()
            .fold(&mut definition, |command, name| {
                command.find_subcommand_mut(name).unwrap()
            });
        let help = at.render_help().to_string();
        for (line, purpose) in examples {
            assert!(
                help.contains(line) && help.contains(purpose),
                "{path}: {help}"
            );
            let words = words(line);
            let words: Vec<&str> = words.iter().map(String::as_str).collect();
            let words = match words.as_slice() {
                ["sudo", rest @ ..] => rest.to_vec(),
                ["kubectl", "cofferdam", rest @ ..] => [&["cofferdam", "kubectl"], rest].concat(),
                all => all.to_vec(),
            };
            let named = path.split_whitespace();
            assert!(
                words
                    .iter()
                    .skip(1)
                    .take(named.clone().count())
                    .copied()
                    .eq(named),
                "{line}"
            );
            if let Err(error) = Cli::try_parse_from(words) {
                panic!("{line}: {error}");
            }
        }
    }
}

/// Promise 78.
#[test]
fn a_program_needs_no_dashes_before_it() {
    for line in [
        "cofferdam dataplane exec nginx -g x",
        "cofferdam dataplane exec -- nginx -g x",
        "cofferdam dataplane exec --name web nginx -g x --name other",
        "cofferdam dataplane exec --name web -- nginx -g x --name other",
    ] {
        let Some(Command::Dataplane(DataplaneCommand::Exec(args))) = parse(line).unwrap().command
        else {
            panic!("{line}");
        };
        assert_eq!(args.command[..2], ["nginx", "-g"], "{line}");
        assert_eq!(args.name.is_some(), line.contains("--name web"), "{line}");
        assert_eq!(
            args.command.len(),
            if args.name.is_some() { 5 } else { 3 },
            "{line}"
        );
    }
    for line in [
        "cofferdam dataplane exec",
        "cofferdam dataplane exec --nmae web nginx",
    ] {
        assert!(parse(line).is_err(), "{line}");
    }
}

/// Collects the long names of all flags of `command` and its subcommands, without those of clap.
fn flags(command: &clap::Command, found: &mut Vec<String>) {
    if command.is_hide_set() {
        return;
    }
    for argument in command.get_arguments() {
        match argument.get_long() {
            Some("help" | "version") | None => {}
            Some(long) => found.push(format!("--{long}")),
        }
    }
    command
        .get_subcommands()
        .for_each(|below| flags(below, found));
}

#[test]
fn every_flag_is_documented() {
    let path = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../docs/src/reference/commands.md"
    );
    let page = std::fs::read_to_string(path).unwrap();
    let mut found = Vec::new();
    flags(&Cli::command(), &mut found);
    assert!(found.len() > 20);
    for flag in found {
        assert!(
            page.contains(&format!("`{flag}`")) || page.contains(&format!("`{flag} ")),
            "no {flag}"
        );
    }
}
