//! Checks that the form of the file cannot express: ranges, and rules that conflict.

use super::raw::{
    Amount, Length, RawAccounting, RawConfig, RawCpu, RawHistory, RawLatency, RawNri, RawOtlp,
    RawRule, RawStart, RawWeb,
};
use super::{
    AccountingConfig, Config, HistoryConfig, HistoryPlace, LatencyConfig, MOST_RULES, MayAsk,
    NriConfig, WebConfig,
};
use crate::otlp::{EndpointError, OtlpConfig};
use crate::rules::{Matcher, Rule};
use cofferdam_latency::Start;
use cofferdam_types::{AccountingMode, CpuPolicy, Policy, Problem, Severity, place};
use cofferdam_web::{Address, MOST_DATAPLANES};
use std::collections::HashMap;
use std::net::SocketAddr;
use std::ops::{Range, RangeInclusive};
use std::path::Path;
use std::time::Duration;
use toml::Spanned;

const SHORTEST_PERIOD: Duration = Duration::from_millis(10);
const LONGEST_PERIOD: Duration = Duration::from_secs(10);
const SHORTEST_WINDOW: Duration = Duration::from_millis(10);
const LONGEST_WINDOW: Duration = Duration::from_secs(1);
const SHORTEST_SAMPLED: Duration = Duration::from_millis(200);
/// A victim is found within about one period.
const LONGEST_SAMPLED: Duration = Duration::from_secs(10);
const SMALLEST_DEBT: Duration = Duration::from_millis(1);
const LARGEST_DEBT: Duration = Duration::from_secs(3600);
/// Default time between two pushes of metrics.
const EXPORT: Duration = Duration::from_secs(60);
const SHORTEST_EXPORT: Duration = Duration::from_secs(1);
const LONGEST_EXPORT: Duration = Duration::from_secs(3600);
const LARGEST_HISTORY_BYTES: u64 = 1 << 40;
const MOST_EXPORTED: u32 = 10_000;
const MOST_MEASURED: u32 = 1_000;
/// Longest path of a socket that the kernel accepts, without the final zero.
const LONGEST_SOCKET_PATH: usize = 107;

const NEEDS_STRICT: &str = "cpus requires cpu = \"strict\": add that, or remove cpus";
const NEEDS_AMOUNT: &str = "cpu = \"strict\" needs an amount: add cpus, such as cpus = 1.5";

struct Checker<'a> {
    text: &'a str,
    problems: Vec<Problem>,
}

impl Checker<'_> {
    fn error(&mut self, span: &Range<usize>, what: impl Into<String>) {
        let problem = Problem::at(self.text, span, Severity::Error, what.into());
        self.problems.push(problem);
    }

    fn warn(&mut self, span: &Range<usize>, what: impl Into<String>) {
        let problem = Problem::at(self.text, span, Severity::Warning, what.into());
        self.problems.push(problem);
    }

    fn line(&self, offset: usize) -> usize {
        place(self.text, offset).0
    }
}

/// Checks a parsed file. Returns a configuration that can be put in force, with warnings, or all
/// problems, errors first.
pub(super) fn config(text: &str, raw: RawConfig) -> Result<(Config, Vec<Problem>), Vec<Problem>> {
    let mut checker = Checker {
        text,
        problems: Vec::new(),
    };
    let mut config = Config::default();
    sections(&mut checker, &raw, &mut config);
    config.rules = rules(&mut checker, &raw.rule);
    let mut problems = checker.problems;
    problems.sort_by_key(|p| (p.severity == Severity::Warning, p.line, p.column));
    match problems.first() {
        Some(first) if first.severity == Severity::Error => Err(problems),
        _ => Ok((config, problems)),
    }
}

fn sections(checker: &mut Checker<'_>, raw: &RawConfig, config: &mut Config) {
    if let Some(path) = &raw.socket.path {
        match socket_path(path.get_ref()) {
            Ok(()) => config.socket.path = path.get_ref().clone(),
            Err(what) => checker.error(&path.span(), what),
        }
    }
    if let Some(group) = &raw.socket.group {
        let name = group.get_ref();
        if name.is_empty() || name.chars().any(char::is_control) {
            checker.error(&group.span(), "give the name or the number of a group");
        }
        config.socket.group = Some(name.clone());
    }
    if let Some(address) = &raw.metrics.address {
        match metrics_address(address.get_ref()) {
            Ok(found) => config.metrics.address = found,
            Err(what) => checker.error(&address.span(), what),
        }
    }
    if let Some(count) = &raw.metrics.containers {
        if *count.get_ref() > MOST_EXPORTED {
            let what = format!("at most {MOST_EXPORTED} containers can have series of their own");
            checker.error(&count.span(), what);
        }
        config.metrics.containers = *count.get_ref();
    }
    accounting(checker, &raw.accounting, &mut config.accounting);
    let enforcement = &mut config.enforcement;
    if let Some(found) = length(
        checker,
        &raw.enforcement.control_period,
        SHORTEST_PERIOD..=LONGEST_PERIOD,
    ) {
        enforcement.control_period = found;
    }
    if let Some(found) = length(
        checker,
        &raw.enforcement.debt_bound,
        SMALLEST_DEBT..=LARGEST_DEBT,
    ) {
        enforcement.debt_bound = found;
    }
    config.reservation.lend = raw.reservation.lend.unwrap_or(config.reservation.lend);
    let move_irqs = raw.reservation.move_irqs;
    config.reservation.move_irqs = move_irqs.unwrap_or(config.reservation.move_irqs);
    let diagnosis = &mut config.diagnosis;
    diagnosis.enabled = raw.diagnosis.enabled.unwrap_or(diagnosis.enabled);
    diagnosis.mode = raw.diagnosis.mode.unwrap_or(diagnosis.mode);
    latency(checker, &raw.latency, &mut config.latency);
    config.otlp = otlp(checker, &raw.otlp);
    web(checker, &raw.web, &mut config.web);
    history(checker, &raw.history, &mut config.history);
    nri(checker, &raw.nri, &mut config.nri);
}

fn accounting(checker: &mut Checker<'_>, raw: &RawAccounting, config: &mut AccountingConfig) {
    config.mode = raw.mode.unwrap_or(config.mode);
    let windows = &mut config.windows;
    windows.window =
        length(checker, &raw.window, SHORTEST_WINDOW..=LONGEST_WINDOW).unwrap_or(windows.window);
    windows.period =
        length(checker, &raw.period, SHORTEST_SAMPLED..=LONGEST_SAMPLED).unwrap_or(windows.period);
    if let Some(below) = &raw.exact_below {
        match (0.0..=1.0).contains(below.get_ref()) {
            true => config.exact_below_cpus = *below.get_ref(),
            false => checker.error(&below.span(), "exact_below is a part of a CPU, 0 to 1"),
        }
    }
    let given = raw.window.as_ref().or(raw.period.as_ref());
    let below = raw.exact_below.as_ref().map(Spanned::span);
    let Some(given) = given.map(Spanned::span).or(below) else {
        return;
    };
    if windows.window * 2 > windows.period {
        let what = "a window may be at most half of the period: shorten window, \
                    lengthen period, or use mode = \"exact\"";
        checker.error(&given, what);
    }
    if config.mode == AccountingMode::Exact {
        checker.warn(
            &given,
            "window, period and exact_below have no effect with mode = \"exact\"",
        );
    }
}

fn nri(checker: &mut Checker<'_>, raw: &RawNri, config: &mut NriConfig) {
    if let Some(path) = &raw.socket
        && path.get_ref() != Path::new("off")
    {
        match socket_path(path.get_ref()) {
            Ok(()) => config.socket = Some(path.get_ref().clone()),
            Err(what) => checker.error(&path.span(), format!("{what}, or off")),
        }
    }
    for name in &raw.may_ask {
        if let Err(what) = MayAsk::new([name.get_ref().as_str()]) {
            checker.error(&name.span(), what);
        }
    }
    let names = raw.may_ask.iter().map(|name| name.get_ref().as_str());
    config.may_ask = MayAsk::new(names).unwrap_or_default();
    if let Some(first) = raw.may_ask.first()
        && config.socket.is_none()
    {
        let what = "may_ask has no effect without socket: add that, or remove may_ask";
        checker.warn(&first.span(), what);
    }
}

/// Returns the given duration if it is within `allowed`.
fn length(
    checker: &mut Checker<'_>,
    found: &Option<Spanned<Length>>,
    allowed: RangeInclusive<Duration>,
) -> Option<Duration> {
    let found = found.as_ref()?;
    let value = found.get_ref().0;
    if allowed.contains(&value) {
        return Some(value);
    }
    let [least, most] = [allowed.start(), allowed.end()].map(|d| humantime::format_duration(*d));
    checker.error(&found.span(), format!("give {least} to {most}"));
    None
}

fn otlp(checker: &mut Checker<'_>, raw: &RawOtlp) -> Option<OtlpConfig> {
    let interval = length(checker, &raw.interval, SHORTEST_EXPORT..=LONGEST_EXPORT);
    let endpoint = raw.endpoint.as_ref();
    let endpoint = endpoint.filter(|text| text.get_ref() != "off");
    let Some(text) = endpoint else {
        if let Some(interval) = &raw.interval {
            let what = "interval has no effect without endpoint: add that, or remove interval";
            checker.warn(&interval.span(), what);
        }
        return None;
    };
    match text.get_ref().parse() {
        Ok(endpoint) => Some(OtlpConfig {
            endpoint,
            interval: interval.unwrap_or(EXPORT),
        }),
        Err(what) => {
            let what: EndpointError = what;
            checker.error(&text.span(), what.to_string());
            None
        }
    }
}

fn web(checker: &mut Checker<'_>, raw: &RawWeb, config: &mut WebConfig) {
    config.remote = raw.remote.unwrap_or(config.remote);
    for host in &raw.hosts {
        let name = host.get_ref();
        let plain = |b: u8| b.is_ascii_alphanumeric() || b == b'-' || b == b'.';
        if name.is_empty() || !name.bytes().all(plain) {
            let what = "give the name of a host without scheme and port, such as host.example";
            checker.error(&host.span(), what);
        }
        config.hosts.push(name.clone());
    }
    if let Some(beyond) = raw.dataplanes.get(MOST_DATAPLANES) {
        let what = format!("the page shows at most {MOST_DATAPLANES} dataplanes: remove some");
        checker.error(&beyond.span(), what);
    }
    for path in &raw.dataplanes {
        match socket_path(path.get_ref()) {
            Ok(()) => config.dataplanes.push(path.get_ref().clone()),
            Err(what) => checker.error(&path.span(), what),
        }
    }
    let Some(address) = raw.address.as_ref().filter(|a| a.get_ref() != "off") else {
        return;
    };
    let parsed = address.get_ref().parse::<Address>();
    match parsed.and_then(|a| a.check(config.remote).map(|()| a)) {
        Ok(found) => config.address = Some(found),
        Err(what) => checker.error(&address.span(), format!("{what}, or off")),
    }
}

fn latency(checker: &mut Checker<'_>, raw: &RawLatency, config: &mut LatencyConfig) {
    config.histograms = raw.histograms.unwrap_or(config.histograms);
    match raw.start {
        Some(RawStart::Queue) => config.start = Start::Queue,
        Some(RawStart::Send) => config.start = Start::Send,
        Some(RawStart::Device) => config.start = Start::Device,
        None => {}
    }
    if let Some(count) = &raw.containers {
        if !(1..=MOST_MEASURED).contains(count.get_ref()) {
            checker.error(&count.span(), format!("give 1 to {MOST_MEASURED}"));
        }
        config.containers = *count.get_ref();
    }
    if let Some(path) = &raw.socket
        && path.get_ref() != Path::new("off")
    {
        match socket_path(path.get_ref()) {
            Ok(()) => config.socket = Some(path.get_ref().clone()),
            Err(what) => checker.error(&path.span(), format!("{what}, or off")),
        }
    }
}

fn history(checker: &mut Checker<'_>, raw: &RawHistory, config: &mut HistoryConfig) {
    if let Some(path) = &raw.path {
        let (file, span) = (path.get_ref(), path.span());
        config.place = if file == Path::new("off") {
            HistoryPlace::Off
        } else {
            HistoryPlace::File(file.clone())
        };
        let is_file = file.is_absolute() && file.file_name().is_some();
        if config.place != HistoryPlace::Off && !is_file {
            let what =
                "write the absolute path of a file, such as /var/lib/cofferdam/history, or off";
            checker.error(&span, what);
        }
    }
    if let Some(limit) = &raw.limit {
        let least = cofferdam_history::SMALLEST_LIMIT_BYTES;
        match size(limit.get_ref()) {
            Some(bytes) if (least..=LARGEST_HISTORY_BYTES).contains(&bytes) => {
                config.limit_bytes = bytes;
            }
            _ => checker.error(&limit.span(), "give 16MiB to 1TiB, such as \"1GiB\""),
        }
    }
}

/// Parses a size with its unit into bytes.
fn size(text: &str) -> Option<u64> {
    let end = text.find(|c: char| !c.is_ascii_digit())?;
    let shift = match text[end..].trim_start() {
        "MiB" => 20,
        "GiB" => 30,
        "TiB" => 40,
        _ => return None,
    };
    text[..end].parse::<u64>().ok()?.checked_mul(1 << shift)
}

fn socket_path(path: &Path) -> Result<(), String> {
    if !path.is_absolute() || path.file_name().is_none() {
        return Err("write an absolute path, such as /run/cofferdam/agent.sock".into());
    }
    if path.as_os_str().len() > LONGEST_SOCKET_PATH
        || path.as_os_str().as_encoded_bytes().contains(&0)
    {
        return Err(format!(
            "the kernel takes at most {LONGEST_SOCKET_PATH} bytes, none of them zero: shorten it"
        ));
    }
    Ok(())
}

fn metrics_address(text: &str) -> Result<Option<SocketAddr>, String> {
    if text == "off" {
        return Ok(None);
    }
    text.parse().map(Some).map_err(|_| {
        format!(
            "'{text}' is not an address: write IP:PORT such as 127.0.0.1:9477 or [::1]:9477, or off"
        )
    })
}

fn rules(checker: &mut Checker<'_>, raw: &[Spanned<RawRule>]) -> Vec<Rule> {
    if let Some(beyond) = raw.get(MOST_RULES) {
        checker.error(
            &beyond.span(),
            format!("at most {MOST_RULES} rules: combine some with a glob"),
        );
        return Vec::new();
    }
    let mut rules = Vec::new();
    let mut seen: HashMap<String, ((Policy, bool), usize)> = HashMap::new();
    let mut catch_all: Option<usize> = None;
    for rule in raw {
        let line = checker.line(rule.span().start);
        let rule = rule.get_ref();
        let span = rule.matches.span();
        let policy = policy(checker, rule);
        let matcher: Matcher = match rule.matches.get_ref().parse() {
            Ok(matcher) => matcher,
            Err(what) => {
                checker.error(&span, format!("{what}"));
                continue;
            }
        };
        let Some((policy, by_request)) = policy else {
            continue;
        };
        if let Some(remark) = matcher.remark() {
            checker.warn(&span, remark);
        }
        let text = matcher.to_string();
        match seen.get(&text) {
            Some((first, at)) if *first == (policy, by_request) => checker.warn(
                &span,
                format!("'{text}' duplicates line {at}: remove one of the two"),
            ),
            Some((_, at)) => checker.error(
                &span,
                format!(
                    "'{text}' has different classes in line {at}, which takes precedence: \
                                     remove one of the two"
                ),
            ),
            None => {
                if let Some(at) = catch_all {
                    checker.warn(
                        &span,
                        format!(
                            "never reached: the rule in line {at} matches every container; \
                             move that rule to the end"
                        ),
                    );
                }
                seen.insert(text, ((policy, by_request), line));
            }
        }
        if catch_all.is_none() && matcher.is_catch_all() {
            catch_all = Some(line);
        }
        rules.push(Rule {
            line,
            matcher,
            policy,
            by_request,
        });
    }
    rules
}

/// Returns the classes of a rule, and whether it reserves what each container requests.
fn policy(checker: &mut Checker<'_>, rule: &RawRule) -> Option<(Policy, bool)> {
    let cpu = match (rule.cpu, &rule.cpus) {
        (RawCpu::Standard, None) => CpuPolicy::Standard,
        (RawCpu::Strict, Some(cpus)) => match cpus.get_ref() {
            Amount::Cpus(amount) => CpuPolicy::Strict(*amount),
            Amount::Request => CpuPolicy::Standard,
        },
        (RawCpu::Standard, Some(cpus)) => {
            checker.error(&cpus.span(), NEEDS_STRICT);
            return None;
        }
        (RawCpu::Strict, None) => {
            checker.error(&rule.matches.span(), NEEDS_AMOUNT);
            return None;
        }
    };
    let by_request = rule.cpus.as_ref().map(Spanned::get_ref);
    let policy = Policy {
        network_cpu: rule.network_cpu,
        cpu,
    };
    Some((policy, matches!(by_request, Some(Amount::Request))))
}

/// Whether `problem` only follows from the removal of the wrong keys in `without`.
pub(super) fn is_consequence(problem: &Problem, without: &[String]) -> bool {
    let lacks = |key: &str| without.iter().any(|k| k == key);
    (lacks("cpus") && problem.text == NEEDS_AMOUNT)
        || (lacks("cpu") && problem.text == NEEDS_STRICT)
}

/// Warnings for rules that ask for more CPUs than the host has. That is no error in a file for many
/// hosts.
pub(super) fn beyond_host(rules: &[Rule], host_cpus: u32) -> Vec<Problem> {
    let asks = |rule: &&Rule| match rule.policy.cpu {
        CpuPolicy::Strict(amount) => amount.milli_cpus() > host_cpus.saturating_mul(1000),
        CpuPolicy::Standard => false,
    };
    let warning = |rule: &Rule| Problem {
        severity: Severity::Warning,
        line: rule.line,
        column: 1,
        text: format!(
            "'{}' asks for more CPUs than this host has ({host_cpus}): none of its containers gets \
             its reservation here",
            rule.matcher
        ),
    };
    rules.iter().filter(asks).map(warning).collect()
}

/// Adds a remedy to a message of the parser that has none.
pub(super) fn remedy(message: &str) -> String {
    if message.starts_with("missing field `match`") {
        return "a rule needs a match, such as match = \"web-*\"".into();
    }
    message.to_owned()
}
