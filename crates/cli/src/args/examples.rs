//! Examples of the commands: one table for `--help` and the manual pages.

use clap::Command;

/// Command line with its purpose.
pub type Example = (&'static str, &'static str);

/// Examples of the command at `path`, such as `bench penalty`; none for a group of commands.
pub fn of(path: &str) -> &'static [Example] {
    let mut all = EXAMPLES.iter();
    all.find(|(command, _)| *command == path)
        .map_or(&[], |(_, examples)| examples)
}

/// Adds the examples to the help of `command`, whose path is `path`, and of its subcommands.
pub fn add(command: Command, path: &str) -> Command {
    let names: Vec<String> = command
        .get_subcommands()
        .map(|below| below.get_name().to_owned())
        .collect();
    let command = names.iter().fold(command, |command, name| {
        let below = match path {
            "" => name.clone(),
            path => format!("{path} {name}"),
        };
        command.mut_subcommand(name, |command| add(command, &below))
    });
    let examples = of(path);
    if examples.is_empty() {
        return command;
    }
    let lines = examples
        .iter()
        .map(|(line, purpose)| format!("  {line}\n      {purpose}"));
    let mut text = format!("Examples:\n{}", lines.collect::<Vec<_>>().join("\n"));
    if let Some(help) = command.get_after_help() {
        text = format!("{text}\n\n{help}");
    }
    command.after_help(text)
}

/// Examples by command.
const EXAMPLES: &[(&str, &[Example])] = &[
    (
        "",
        &[(
            "cofferdam",
            "Show the state of this host, and what to do next",
        )],
    ),
    (
        "doctor",
        &[
            ("sudo cofferdam doctor", "Report what this host can do"),
            (
                "sudo cofferdam doctor --json --output doctor.json",
                "Keep the findings for a report",
            ),
        ],
    ),
    (
        "top",
        &[
            ("sudo cofferdam top", "Watch offenders and victims"),
            (
                "sudo cofferdam top --container 'web-*' --once",
                "Print one second of the containers named web-…",
            ),
            (
                "cofferdam top --replay 'yesterday 03:00'",
                "Show what the agent recorded last night",
            ),
        ],
    ),
    (
        "flows",
        &[(
            "sudo cofferdam flows web-1 --duration 10s",
            "Find out who floods web-1",
        )],
    ),
    (
        "accounting record",
        &[
            (
                "sudo cofferdam accounting record",
                "Print ten seconds of the ledger",
            ),
            (
                "sudo cofferdam accounting record --duration 1h --format jsonl --output a",
                "Record an hour for other programs",
            ),
        ],
    ),
    (
        "agent",
        &[
            (
                "cofferdam agent --check-config --config cofferdam.toml",
                "Check a configuration before it is in force",
            ),
            (
                "sudo cofferdam agent --reload",
                "Put a changed configuration in force",
            ),
            (
                "sudo cofferdam agent --restore",
                "Revert what a killed agent has changed",
            ),
        ],
    ),
    (
        "status",
        &[(
            "cofferdam status",
            "Show which rules are in force, and problems",
        )],
    ),
    (
        "export",
        &[
            (
                "cofferdam export --from '2h ago' --format csv --output ledger.csv",
                "Write the last two hours as a table",
            ),
            (
                "cofferdam export --from 03:00 --to 04:00 --format parquet --output night",
                "Write one hour for a data frame",
            ),
        ],
    ),
    (
        "explain",
        &[(
            "cofferdam explain",
            "Name the offender and the command that stops it",
        )],
    ),
    (
        "web",
        &[
            (
                "cofferdam web",
                "Serve the live page to browsers of this host",
            ),
            (
                "cofferdam web --address 10.0.0.5:9478 --remote --host node-5.example",
                "Serve it to other hosts, behind a proxy with TLS",
            ),
        ],
    ),
    (
        "rule set",
        &[
            (
                "sudo cofferdam rule set 'web-*' --network-cpu enforce",
                "Charge the containers named web-… for their packets",
            ),
            (
                "sudo cofferdam rule set db-1 --cpu strict --cpus 1.5",
                "Reserve one and a half CPUs for db-1",
            ),
        ],
    ),
    (
        "rule clear",
        &[(
            "sudo cofferdam rule clear 'web-*'",
            "Clear the rule that was set for web-*",
        )],
    ),
    (
        "kubectl top",
        &[(
            "kubectl cofferdam top --namespace shop",
            "Show who harms the pods of shop, and whom they harm",
        )],
    ),
    (
        "kubectl status",
        &[(
            "kubectl cofferdam status",
            "Show the agents of all nodes, and problems",
        )],
    ),
    (
        "kubectl explain",
        &[(
            "kubectl cofferdam explain shop/db-0",
            "Name the pod that takes CPU time from db-0",
        )],
    ),
    (
        "kubectl doctor",
        &[(
            "kubectl cofferdam doctor node-5",
            "Show everything that node-5 lacks, with the remedies",
        )],
    ),
    (
        "gateway",
        &[(
            "cofferdam gateway --listen 10.0.0.5:9479 --token-file /etc/cofferdam/token",
            "Serve this node's documents to clients with the token",
        )],
    ),
    (
        "device-plugin",
        &[(
            "cofferdam device-plugin --keep 2",
            "Offer all CPUs of this node but two to strict pods",
        )],
    ),
    (
        "events",
        &[(
            "cofferdam events --proxy 127.0.0.1:8001 --token-file /etc/cofferdam/token",
            "Write events through the kubectl proxy on port 8001",
        )],
    ),
    (
        "latency record",
        &[
            (
                "sudo cofferdam latency record --container web-1",
                "Print what the network path of web-1 adds, by stage",
            ),
            (
                "sudo cofferdam latency record --per packet --protocol udp --port 53",
                "Write one line for each packet of DNS",
            ),
        ],
    ),
    (
        "latency watch",
        &[(
            "sudo cofferdam latency watch --interval 2s",
            "Watch the stages of all containers' packets",
        )],
    ),
    (
        "latency ping",
        &[
            (
                "sudo cofferdam latency ping 192.0.2.7 --container web-1",
                "Ping from inside web-1, without the time that its network adds",
            ),
            (
                "cofferdam latency ping db --tcp-connect 5432 --count 100",
                "Do the same inside a container, by TCP connections",
            ),
        ],
    ),
    (
        "latency serve",
        &[(
            "sudo cofferdam latency serve",
            "Let the containers with this socket read their reports",
        )],
    ),
    (
        "latency on",
        &[(
            "cofferdam latency on --protocol tcp --port 443",
            "Measure this container's packets of port 443",
        )],
    ),
    (
        "latency off",
        &[("cofferdam latency off", "Stop the measurement")],
    ),
    (
        "latency read",
        &[(
            "cofferdam latency read --follow",
            "Print reports as they come",
        )],
    ),
    (
        "dataplane run",
        &[
            (
                "cofferdam dataplane run --config dataplane.toml --check-config",
                "List the mistakes of a configuration",
            ),
            (
                "sudo cofferdam dataplane run --config dataplane.toml",
                "Run the dataplane until it is interrupted",
            ),
        ],
    ),
    (
        "dataplane top",
        &[(
            "sudo cofferdam dataplane top",
            "Watch the loop, and the applications that keep it busy",
        )],
    ),
    (
        "dataplane groups",
        &[(
            "sudo cofferdam dataplane groups",
            "Show which flow groups are on which core",
        )],
    ),
    (
        "dataplane move",
        &[(
            "sudo cofferdam dataplane move 17 1",
            "Move flow group 17 to core 1",
        )],
    ),
    (
        "dataplane exec",
        &[
            (
                "sudo cofferdam dataplane exec --name web nginx -g 'daemon off;'",
                "Serve nginx's sockets by the dataplane",
            ),
            (
                "sudo cofferdam dataplane exec --name client -- curl http://10.0.0.1/",
                "Fetch a page through the dataplane",
            ),
        ],
    ),
    (
        "dataplane serve",
        &[(
            "sudo cofferdam dataplane serve --name echo echo 10.0.0.1:7",
            "Return what comes to port 7",
        )],
    ),
    (
        "dataplane attack",
        &[(
            "sudo cofferdam dataplane attack",
            "Try the protection of this host's protection keys",
        )],
    ),
    (
        "bench penalty",
        &[
            (
                "sudo cofferdam bench penalty --quick",
                "Measure in a few minutes whether traffic slows others down here",
            ),
            (
                "sudo cofferdam bench penalty --output penalty",
                "Measure the whole grid, and keep its data",
            ),
        ],
    ),
    (
        "bench accounting",
        &[(
            "sudo cofferdam bench accounting --quick",
            "Measure the cost and the accuracy of the ledger here",
        )],
    ),
    (
        "bench isolation",
        &[(
            "sudo cofferdam bench isolation --quick",
            "Measure how much two tenants disturb each other here",
        )],
    ),
    (
        "bench compare",
        &[(
            "cofferdam bench compare before after",
            "List what differs between two isolation runs",
        )],
    ),
    (
        "bench reservation",
        &[(
            "sudo cofferdam bench reservation --quick",
            "Measure what a reservation is worth here",
        )],
    ),
    (
        "bench simulation",
        &[(
            "sudo cofferdam bench simulation --quick",
            "Compare the simulator with this host",
        )],
    ),
    (
        "bench dataplane",
        &[(
            "sudo cofferdam bench dataplane --quick",
            "Compare the dataplane with Linux sockets here",
        )],
    ),
    (
        "bench agent",
        &[(
            "sudo cofferdam bench agent --quick",
            "Measure what the agent costs here",
        )],
    ),
    (
        "bench history",
        &[(
            "cofferdam bench history --quick",
            "Measure the size and the cost of the history",
        )],
    ),
    (
        "bench latency",
        &[(
            "sudo cofferdam bench latency --quick",
            "Measure the accuracy of the latency measurement here",
        )],
    ),
    (
        "simulate",
        &[
            (
                "cofferdam simulate --host host-24.json --tenants tenants-24.json",
                "Simulate tenants of a host that you do not have",
            ),
            (
                "cofferdam simulate --tenants tenants.json --policy standard,strict",
                "Compare two policies on a host like this one",
            ),
        ],
    ),
    (
        "report",
        &[
            (
                "cofferdam report penalty",
                "Render the report of a run again",
            ),
            (
                "cofferdam report part-1 part-2 --output whole",
                "Merge the parts of an isolation experiment",
            ),
        ],
    ),
    (
        "report fleet",
        &[(
            "cofferdam report fleet node-1.jsonl.gz node-2.jsonl.gz --output fleet",
            "Merge the ledgers of two hosts into one page",
        )],
    ),
    (
        "demo",
        &[(
            "sudo cofferdam demo",
            "See offender and victim on this host",
        )],
    ),
];
