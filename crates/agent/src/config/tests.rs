use super::*;
use cofferdam_types::{CpuPolicy, NetworkCpu};

fn refused(text: &str) -> Vec<String> {
    let problems = parse(text).expect_err(text);
    problems.iter().map(ToString::to_string).collect()
}

fn first(text: &str) -> String {
    refused(text).remove(0)
}

#[test]
fn the_example_of_the_design_is_accepted() {
    let text = r#"
[[rule]]
match = "cgroup:/tenants/web*"
network_cpu = "enforce"
cpu = "strict"
cpus = 1.5

[[rule]]
match = "label:tier=*"
cpu = "strict"
cpus = 2

[[rule]]
match = "db-*"
"#;
    let (config, warnings) = parse(text).unwrap();
    assert_eq!(warnings, []);
    assert_eq!(config.rules.len(), 3);
    let policy = config.rules[0].policy;
    assert_eq!(policy.network_cpu, NetworkCpu::Enforce);
    assert_eq!(policy.cpu, CpuPolicy::Strict("1.5".parse().unwrap()));
    assert_eq!(
        config.rules[1].policy.cpu,
        CpuPolicy::Strict("2".parse().unwrap())
    );
    assert_eq!(config.rules[2].policy, cofferdam_types::Policy::default());
    assert_eq!(config.rules[1].line, 8);
}

/// Promise 27.
#[test]
fn no_text_is_the_default_and_changes_nothing() {
    let (config, warnings) = parse("").unwrap();
    assert!(config.rules.is_empty() && warnings.is_empty());
    assert_eq!(config.socket.path, Path::new(DEFAULT_SOCKET));
    assert_eq!(config.socket.group, None);
    assert!(config.metrics.address.is_some_and(|a| a.ip().is_loopback()));
}

#[test]
fn every_section_is_accepted() {
    let text = r#"
[socket]
path = "/run/x.sock"
group = "adm"
[metrics]
address = "off"
containers = 7
[accounting]
mode = "sampled"
window = "100ms"
period = "2s"
exact_below = 0.5
[enforcement]
control_period = "250ms"
debt_bound = "2s"
[reservation]
lend = false
move_irqs = true
[diagnosis]
enabled = false
mode = "exact"
[latency]
histograms = true
containers = 9
start = "send"
socket = "/run/latency.sock"
[otlp]
endpoint = "http://127.0.0.1:4318"
interval = "5s"
[history]
path = "/srv/history"
limit = "256MiB"
[web]
address = "192.0.2.1:9478"
hosts = ["host.example"]
remote = true
"#;
    let (config, _) = parse(text).unwrap();
    assert_eq!(config.socket.path, Path::new("/run/x.sock"));
    assert_eq!(config.socket.group.as_deref(), Some("adm"));
    assert_eq!(
        config.metrics,
        MetricsConfig {
            address: None,
            containers: 7
        }
    );
    let windows = WindowOptions {
        window: Duration::from_millis(100),
        period: Duration::from_secs(2),
    };
    let accounting = AccountingConfig {
        mode: AccountingMode::Sampled,
        windows,
        exact_below_cpus: 0.5,
    };
    assert_eq!(config.accounting, accounting);
    assert_eq!(
        config.enforcement.control_period,
        Duration::from_millis(250)
    );
    assert_eq!(config.enforcement.debt_bound, Duration::from_secs(2));
    assert!(!config.reservation.lend && config.reservation.move_irqs);
    let diagnosis = DiagnosisConfig {
        enabled: false,
        mode: AccountingMode::Exact,
    };
    assert_eq!(config.diagnosis, diagnosis);
    let latency = LatencyConfig {
        histograms: true,
        containers: 9,
        start: cofferdam_latency::Start::Send,
        socket: Some("/run/latency.sock".into()),
    };
    assert_eq!(config.latency, latency);
    let history = HistoryConfig {
        place: HistoryPlace::File("/srv/history".into()),
        limit_bytes: 256 << 20,
    };
    assert_eq!(config.history, history);
    let otlp = config.otlp.unwrap();
    assert_eq!(
        otlp.endpoint.to_string(),
        "http://127.0.0.1:4318/v1/metrics"
    );
    assert_eq!(otlp.interval, Duration::from_secs(5));
    assert_eq!(config.web.address, Some("192.0.2.1:9478".parse().unwrap()));
    assert_eq!(
        (config.web.hosts.as_slice(), config.web.remote),
        (["host.example".to_owned()].as_slice(), true)
    );
    let (config, _) = parse("[web]\naddress = \"off\"").unwrap();
    assert_eq!(config.web, WebConfig::default());
    let (config, _) = parse("[otlp]\nendpoint = \"http://otel:1\"").unwrap();
    assert_eq!(config.otlp.unwrap().interval, Duration::from_secs(60));
    let (config, warnings) = parse("[otlp]\nendpoint = \"off\"\ninterval = \"5s\"").unwrap();
    assert_eq!(config.otlp, None);
    assert!(warnings[0].text.contains("no effect"), "{warnings:?}");
    let (config, _) = parse("[history]\npath = \"off\"").unwrap();
    assert_eq!(config.history.file(), None);
    let (config, _) = parse("[latency]\nsocket = \"off\"").unwrap();
    assert_eq!(config.latency, LatencyConfig::default());
}

/// Promise 5.
/// Promise 73.
/// Promise 75.
#[test]
fn each_mistake_is_reported_with_line_column_and_remedy() {
    for (text, place, words) in [
        ("rule = 5", "1:8", "sequence"),
        ("[history]\npath = \"history\"", "2:8", "absolute path"),
        ("[history]\npath = \"/\"", "2:8", "of a file"),
        ("[history]\nlimit = \"1GB\"", "2:9", "16MiB to 1TiB"),
        ("[history]\nlimit = \"15MiB\"", "2:9", "16MiB to 1TiB"),
        (
            "[history]\nlimit = \"99999999999999TiB\"",
            "2:9",
            "16MiB to 1TiB",
        ),
        ("[history]\nlimit = 5", "2:9", "string"),
        ("[history]\nkeep = true", "2:1", "unknown field"),
        ("[latency]\ncontainers = 0", "2:14", "1 to 1000"),
        (
            "[otlp]\nendpoint = \"https://otel\"",
            "2:12",
            "http://127.0.0.1:4318",
        ),
        ("[otlp]\ninterval = \"1ms\"", "2:12", "give 1s to 1h"),
        ("[web]\naddress = \"9478\"", "2:11", "127.0.0.1:9478"),
        ("[web]\naddress = \"0.0.0.0:9478\"", "2:11", "remote = true"),
        (
            "[web]\naddress = \"unix:web.sock\"",
            "2:11",
            "absolute path",
        ),
        ("[web]\nhosts = [\"http://x\"]", "2:10", "name of a host"),
        ("[latency]\nstart = \"now\"", "2:9", "`queue`"),
        ("[latency]\nsocket = \"x\"", "2:10", "absolute path"),
        ("[[rule]]\nmatch = \"a\"\ncpuz = 1", "3:1", "`network_cpu`"),
        ("[rules]", "1:2", "`rule`"),
        (
            "[[rule]]\nnetwork_cpu = \"observe\"",
            "1:1",
            "match = \"web-*\"",
        ),
        ("[[rule]]\nmatch = \"\"", "2:9", "empty"),
        ("[[rule]]\nmatch = \"id:xyz\"", "2:9", "0-9 and a-f"),
        ("[[rule]]\nmatch = \"cgroup:x\"", "2:9", "begins with '/'"),
        ("[[rule]]\nmatch = \"label:x\"", "2:9", "label:tier=web"),
        (
            "[[rule]]\nmatch = \"a\"\nnetwork_cpu = \"stop\"",
            "3:15",
            "`enforce`",
        ),
        ("[[rule]]\nmatch = \"a\"\ncpu = \"hard\"", "3:7", "`strict`"),
        (
            "[[rule]]\nmatch = \"a\"\ncpu = \"strict\"",
            "2:9",
            "cpus = 1.5",
        ),
        (
            "[[rule]]\nmatch = \"a\"\ncpus = 1.5",
            "3:8",
            "cpu = \"strict\"",
        ),
        (
            "[[rule]]\nmatch = \"a\"\ncpu = \"strict\"\ncpus = 0",
            "4:8",
            "at least 0.001",
        ),
        (
            "[[rule]]\nmatch = \"a\"\ncpu = \"strict\"\ncpus = \"2\"",
            "4:8",
            "string",
        ),
        (
            "[[rule]]\nmatch = \"a\"\ncpu = \"strict\"\ncpus = nan",
            "4:8",
            "at least 0.001",
        ),
        ("[accounting]\nmode = \"fast\"", "2:8", "`sampled`"),
        ("[diagnosis]\nmode = \"fast\"", "2:8", "`sampled`"),
        ("[accounting]\nwindow = \"1ms\"", "2:10", "10ms"),
        ("[accounting]\nperiod = \"1m\"", "2:10", "200ms to 10s"),
        (
            "[accounting]\nwindow = \"150ms\"\nperiod = \"200ms\"",
            "2:10",
            "at most half",
        ),
        ("[accounting]\nexact_below = 1.5", "2:15", "0 to 1"),
        ("[accounting]\nexact_below = nan", "2:15", "0 to 1"),
        ("[accounting]\nexact_below = \"2%\"", "2:15", "string"),
        ("[enforcement]\ncontrol_period = \"5\"", "2:18", "unit"),
        ("[enforcement]\ncontrol_period = \"1ms\"", "2:18", "10ms"),
        ("[enforcement]\ndebt_bound = 5", "2:14", "string"),
        ("[metrics]\naddress = \"localhost\"", "2:11", "IP:PORT"),
        ("[metrics]\ncontainers = 1000000", "2:14", "10000"),
        ("[socket]\npath = \"x.sock\"", "2:8", "absolute"),
        ("[socket]\ngroup = \"\"", "2:9", "group"),
        ("[reservation]\nlend = \"yes\"", "2:8", "boolean"),
        ("match = \"unclosed", "1:", ""),
        ("rule = []\nrule = []", "2:1", "duplicate key"),
    ] {
        let message = first(text);
        assert!(message.starts_with(place), "{text}: {message}");
        assert!(message.contains(words), "{text}: {message}");
        assert_eq!(message.lines().count(), 1, "{message}");
    }
}

/// Promise 75.
#[test]
fn all_mistakes_are_reported_at_once_errors_first() {
    let text = "[[rule]]\nmatch = \"*\"\n[[rule]]\nmatch = \"a\"\n[[rule]]\nmatch = \"id:x\"\n\
                [metrics]\naddress = \"x\"";
    let messages = refused(text);
    assert_eq!(messages.len(), 3, "{messages:?}");
    assert!(messages[0].contains("error") && messages[1].contains("error"));
    assert!(messages[2].contains("warning: never reached") && messages[2].contains("line 1"));
}

/// Promise 27.
#[test]
fn conflicting_rules_are_refused_and_useless_rules_cause_warnings() {
    let conflict = "[[rule]]\nmatch = \"a\"\n[[rule]]\nmatch = \"a\"\nnetwork_cpu = \"enforce\"";
    let message = first(conflict);
    assert!(
        message.starts_with("4:9: error") && message.contains("line 1"),
        "{message}"
    );
    let twice = "[[rule]]\nmatch = \"a\"\n[[rule]]\nmatch = \"a\"";
    let (config, warnings) = parse(twice).unwrap();
    assert_eq!((config.rules.len(), warnings.len()), (2, 1));
    assert!(warnings[0].text.contains("remove one"));
}

#[test]
fn a_thousand_rules_are_accepted() {
    let text: String = (0..1000)
        .map(|i| format!("[[rule]]\nmatch = \"web-{i}-*\"\nnetwork_cpu = \"enforce\"\n"))
        .collect();
    assert_eq!(parse(&text).unwrap().0.rules.len(), 1000);
    let text = "[[rule]]\nmatch = \"a\"\n".repeat(MOST_RULES + 1);
    assert!(first(&text).contains("at most 10000"));
}

#[test]
fn only_a_named_file_must_exist() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("none.toml");
    let named = Source {
        path: path.clone(),
        required: true,
    };
    assert!(
        named
            .load()
            .unwrap_err()
            .to_string()
            .contains("does not exist")
    );
    let default = Source {
        path,
        required: false,
    };
    let loaded = default.load().unwrap();
    assert!(!loaded.from_file && loaded.config.rules.is_empty());
}

#[test]
fn a_binary_file_is_refused_in_one_line() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.toml");
    std::fs::write(&path, b"a = \"\xff\"").unwrap();
    let source = Source {
        path: path.clone(),
        required: true,
    };
    let message = source.load().unwrap_err().to_string();
    assert!(
        message.contains("byte 6") && message.contains("UTF-8"),
        "{message}"
    );
    std::fs::write(&path, "[[rule]]\nmatch = 5\n").unwrap();
    let message = source.load().unwrap_err().to_string();
    assert!(message.contains("x.toml:2:9: "), "{message}");
    let folder = Source {
        path: folder.path().into(),
        required: true,
    };
    assert!(
        folder
            .load()
            .unwrap_err()
            .to_string()
            .contains("cannot read")
    );
}

proptest::proptest! {
    #[test]
    fn no_text_panics(text in "(\\[\\[rule\\]\\]\n|match = \"|cpus = |[ -~\n=é]){0,40}") {
        let _ = parse(&text);
    }
}

/// Promise 75.
#[test]
fn every_mistake_is_reported_with_its_line() {
    let text = r#"
[metrics]
adress = "off"
containers = "many"
[[rule]]
match = "id:x"
[[rule]]
match = "a"
cpu = "strict"
cpus = "two"
[[rule]]
network_cpu = "enforce"
[enforcement]
control_period = "1h"
debt_bound = 3
[[rule]]
match = "b"
cpus = 1
"#;
    let messages = refused(text);
    let lines: Vec<usize> = messages
        .iter()
        .map(|t| t.split(':').next().unwrap().parse().unwrap())
        .collect();
    // The rule in line 7 has an amount, which is wrong. That it needs one is not reported.
    assert_eq!(lines, [3, 4, 6, 10, 11, 14, 15, 18], "{messages:#?}");
}

/// Promise 75.
#[test]
fn a_rule_beyond_the_host_causes_a_warning() {
    let text = "[[rule]]\nmatch = \"a\"\ncpu = \"strict\"\ncpus = 64\n";
    let (config, warnings) = parse(text).unwrap();
    assert_eq!(warnings, [], "a file may be for another host");
    let here = check::beyond_host(&config.rules, 2);
    assert_eq!(here.len(), 1, "{here:?}");
    assert_eq!((here[0].severity, here[0].line), (Severity::Warning, 1));
    assert!(here[0].text.contains("than this host has (2)"), "{here:?}");
    assert_eq!(check::beyond_host(&config.rules, 64), []);
}

#[test]
fn an_unreadable_file_is_refused_with_the_cause() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("agent.toml");
    let why = || {
        let error = Source::new(Some(&path)).load().unwrap_err().to_string();
        let cannot = format!("cannot read {}: ", path.display());
        error.strip_prefix(&cannot).unwrap().to_owned()
    };
    assert_eq!(
        why(),
        "it does not exist; give the right --config, or none to observe only"
    );
    std::fs::write(&path, b"a = \"\xff\"").unwrap();
    assert_eq!(why(), "byte 6 is not valid UTF-8");
    std::fs::write(&path, vec![b'#'; LARGEST_FILE_BYTES as usize + 1]).unwrap();
    assert_eq!(why(), "it is larger than 4 MiB");
    std::fs::remove_file(&path).unwrap();
    std::fs::create_dir(&path).unwrap();
    assert_eq!(why(), "it is a folder, not a regular file");
    std::fs::remove_dir(&path).unwrap();
    for (target, expected) in [
        ("/dev/zero", "it is a device, not a regular file"),
        ("/proc/kmsg", "it is a file of proc, not a regular file"),
    ] {
        std::os::unix::fs::symlink(target, &path).unwrap();
        assert_eq!(why(), expected);
        std::fs::remove_file(&path).unwrap();
    }
}

/// Promise 75.
#[test]
fn the_socket_is_found_in_a_configuration_that_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("agent.toml");
    let socket = folder.path().join("a.sock");
    assert_eq!(socket_of(Some(&path)), Path::new(DEFAULT_SOCKET));
    std::fs::write(&socket, "").unwrap();
    for rest in [
        "",
        "[metrics]\naddress = 7\n",
        "[nonsense]\n",
        "[web\n",
        "x = = 1\n",
    ] {
        let text = format!("[socket]\npath = \"{}\"\n{rest}", socket.display());
        std::fs::write(&path, text).unwrap();
        assert_eq!(socket_of(Some(&path)), socket, "{rest:?}");
    }
    std::fs::write(&path, "[metrics]\n").unwrap();
    assert_eq!(socket_of(Some(&path)), Path::new(DEFAULT_SOCKET));
}

/// Promise 9.
#[test]
fn a_pattern_that_may_be_a_name_causes_a_warning() {
    for (selector, part) in [
        (
            r"cgroup:/system.slice/a[b].service",
            "write /system.slice/a[[]b[]].service",
        ),
        (
            r"cgroup:/tenants/a\*",
            "a backslash is an ordinary character",
        ),
        ("web-[1", "is no pattern"),
    ] {
        let (config, warnings) = parse(&format!("[[rule]]\nmatch = '{selector}'\n")).unwrap();
        assert_eq!((config.rules.len(), warnings.len()), (1, 1), "{selector}");
        assert!(warnings[0].text.contains(part), "{warnings:?}");
    }
    for plain in [
        r"cgroup:/system.slice/web\x2d1.service",
        "web-[0-9]",
        "cgroup:/tenants/*",
    ] {
        let (_, warnings) = parse(&format!("[[rule]]\nmatch = '{plain}'\n")).unwrap();
        assert_eq!(warnings, [], "{plain}");
    }
}
