//! The agent's configuration: `/etc/cofferdam/cofferdam.toml`.
//!
//! A file is taken whole or not at all: every key known, every value in range, no two rules in
//! conflict. Without a file the agent observes and changes nothing.

mod check;
mod problem;
mod raw;
#[cfg(test)]
mod tests;

pub use cofferdam_types::{Problem, Severity};
pub use problem::ConfigError;

use crate::otlp::OtlpConfig;
pub use crate::pods::MayAsk;
use crate::rules::Rule;
use cofferdam_accounting::WindowOptions;
use cofferdam_host::{HostFs, online_cpus};
use cofferdam_latency::Start;
use cofferdam_paths::{FileError, read_text};
use cofferdam_types::{AccountingMode, parse_all};
use std::io::ErrorKind;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Default path of the configuration.
pub const DEFAULT_PATH: &str = "/etc/cofferdam/cofferdam.toml";
/// Default path of the agent's socket.
pub const DEFAULT_SOCKET: &str = "/run/cofferdam/agent.sock";
/// As much network work as 20,000 to 30,000 small packets a second: counting them takes what attaching the
/// programs for one window a second does, 2.7 ms (both measured).
const DEFAULT_EXACT_BELOW_CPUS: f64 = 0.02;
/// Name of the history in the folder that the service manager gives.
const HISTORY_FILE: &str = "history";
/// Default path of the history of an agent that is a service.
pub const DEFAULT_HISTORY: &str = "/var/lib/cofferdam/history";
/// Largest file that is read.
pub const LARGEST_FILE_BYTES: u64 = 4 << 20;
/// Most rules in a file.
pub const MOST_RULES: usize = 10_000;

/// A configuration that can be put in force.
#[derive(Clone, Debug)]
pub struct Config {
    /// In the order of the file; the first match wins.
    pub rules: Vec<Rule>,
    /// The control socket.
    pub socket: SocketConfig,
    /// The metrics.
    pub metrics: MetricsConfig,
    /// How the ledger is kept.
    pub accounting: AccountingConfig,
    /// Network-CPU enforcement.
    pub enforcement: EnforcementConfig,
    /// CPU reservations.
    pub reservation: ReservationConfig,
    /// Whether and how lost CPU time is diagnosed.
    pub diagnosis: DiagnosisConfig,
    /// Latency of containers' packets.
    pub latency: LatencyConfig,
    /// Where metrics are pushed to; `None`: nowhere.
    pub otlp: Option<OtlpConfig>,
    /// The live page.
    pub web: WebConfig,
    /// The history.
    pub history: HistoryConfig,
    /// The container runtime's own interface.
    pub nri: NriConfig,
}

/// `[nri]`
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NriConfig {
    /// Where the runtime listens for plugins; `None`: it is not asked.
    pub socket: Option<PathBuf>,
    /// Whose pods may ask by annotation; nobody's by default.
    pub may_ask: MayAsk,
}

/// `[socket]`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SocketConfig {
    /// Where.
    pub path: PathBuf,
    /// The group that may read (name or number); only root without one.
    pub group: Option<String>,
}

/// `[metrics]`
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MetricsConfig {
    /// Where they are served; `None`: nowhere.
    pub address: Option<SocketAddr>,
    /// Containers with series of their own, at most.
    pub containers: u32,
}

/// `[diagnosis]`
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DiagnosisConfig {
    /// Diagnose lost CPU time.
    pub enabled: bool,
    /// Count all switches, or in windows while nobody loses anything.
    pub mode: AccountingMode,
}

/// `[accounting]`
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AccountingConfig {
    /// Whether the ledger may be estimated from windows while nobody is pressed and nobody looks.
    pub mode: AccountingMode,
    /// The windows.
    pub windows: WindowOptions,
    /// CPUs (0..=1). While the network work of the host takes less, measuring all of it costs less than
    /// windows do, and it is measured.
    pub exact_below_cpus: f64,
}

/// `[enforcement]`
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EnforcementConfig {
    /// Time between two control steps while a rule enforces and there is network work.
    pub control_period: Duration,
    /// CPU time that a container may owe, at most; what is beyond is forgiven.
    pub debt_bound: Duration,
}

/// `[reservation]`
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReservationConfig {
    /// Whether reserved CPUs that sit idle are lent.
    pub lend: bool,
    /// Whether device interrupts are moved off strict CPUs.
    pub move_irqs: bool,
}

/// `[web]`
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WebConfig {
    /// Where the page is served; `None`: nowhere.
    pub address: Option<cofferdam_web::Address>,
    /// Names under which it may be asked for, beside its own.
    pub hosts: Vec<String>,
    /// Whether others than this host may reach it.
    pub remote: bool,
    /// Control sockets of the dataplanes that it shows.
    pub dataplanes: Vec<PathBuf>,
}

/// `[latency]`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LatencyConfig {
    /// Whether every container is measured, for the metrics.
    pub histograms: bool,
    /// Containers that are measured for it, at most.
    pub containers: u32,
    /// Where egress begins.
    pub start: Start,
    /// Where containers read their own reports; `None`: nowhere.
    pub socket: Option<PathBuf>,
}

/// `[history]`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HistoryConfig {
    /// Where it is kept.
    pub place: HistoryPlace,
    /// Size at which the oldest frames are removed.
    pub limit_bytes: u64,
}

/// Where the history is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HistoryPlace {
    /// In the folder that the service manager gives for that; nowhere without one.
    Default,
    /// Nowhere.
    Off,
    /// In this file.
    File(PathBuf),
}

impl HistoryConfig {
    /// The file, `None` if no history is kept.
    pub fn file(&self) -> Option<PathBuf> {
        match &self.place {
            HistoryPlace::File(path) => Some(path.clone()),
            HistoryPlace::Off => None,
            HistoryPlace::Default => {
                let folders = std::env::var_os("STATE_DIRECTORY")?;
                let first = std::env::split_paths(&folders).next()?;
                first.is_absolute().then(|| first.join(HISTORY_FILE))
            }
        }
    }
}

impl Default for HistoryConfig {
    fn default() -> HistoryConfig {
        HistoryConfig {
            place: HistoryPlace::Default,
            limit_bytes: cofferdam_history::DEFAULT_LIMIT_BYTES,
        }
    }
}

impl Default for LatencyConfig {
    fn default() -> LatencyConfig {
        LatencyConfig {
            histograms: false,
            containers: 64,
            start: Start::Queue,
            socket: None,
        }
    }
}

impl Default for Config {
    fn default() -> Config {
        Config {
            rules: Vec::new(),
            socket: SocketConfig {
                path: DEFAULT_SOCKET.into(),
                group: None,
            },
            metrics: MetricsConfig {
                address: Some(SocketAddr::from(([127, 0, 0, 1], 9477))),
                containers: 500,
            },
            accounting: AccountingConfig {
                mode: AccountingMode::Sampled,
                windows: WindowOptions::default(),
                exact_below_cpus: DEFAULT_EXACT_BELOW_CPUS,
            },
            enforcement: EnforcementConfig {
                control_period: Duration::from_millis(20),
                debt_bound: Duration::from_secs(1),
            },
            reservation: ReservationConfig {
                lend: true,
                move_irqs: false,
            },
            diagnosis: DiagnosisConfig {
                enabled: true,
                mode: AccountingMode::Sampled,
            },
            latency: LatencyConfig::default(),
            otlp: None,
            web: WebConfig::default(),
            history: HistoryConfig::default(),
            nri: NriConfig::default(),
        }
    }
}

/// Where a configuration came from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    /// The file.
    pub path: PathBuf,
    /// False: the file need not exist, and without it the agent observes.
    pub required: bool,
}

/// A configuration together with what it was made from.
#[derive(Clone, Debug, Default)]
pub struct Loaded {
    /// What is put in force.
    pub config: Config,
    /// What has no effect.
    pub warnings: Vec<Problem>,
    /// False: there was no file.
    pub from_file: bool,
}

impl Source {
    /// The file that was named, or the one at [`DEFAULT_PATH`] where there is one.
    pub fn new(named: Option<&Path>) -> Source {
        Source {
            path: named.unwrap_or(Path::new(DEFAULT_PATH)).to_owned(),
            required: named.is_some(),
        }
    }

    /// Reads and checks it.
    pub fn load(&self) -> Result<Loaded, ConfigError> {
        let path = self.path.clone();
        let text = match read_text(&self.path, LARGEST_FILE_BYTES) {
            Ok(text) => text,
            Err(FileError::Io(e)) if e.kind() == ErrorKind::NotFound && !self.required => {
                return Ok(Loaded::default());
            }
            Err(FileError::Io(e)) if e.kind() == ErrorKind::NotFound => {
                return Err(ConfigError::Missing(path));
            }
            Err(FileError::TooLarge { .. }) => return Err(ConfigError::TooLarge(path)),
            Err(FileError::NotText(source)) => return Err(ConfigError::NotText { path, source }),
            Err(other) => {
                let source = other.into();
                return Err(ConfigError::Read { path, source });
            }
        };
        let wrong = |problems| ConfigError::Wrong {
            path: self.path.clone(),
            problems,
        };
        let (config, mut warnings) = parse(&text).map_err(wrong)?;
        if let Ok(cpus) = online_cpus(&HostFs::host()) {
            warnings.extend(check::beyond_host(&config.rules, cpus.len() as u32));
        }
        Ok(Loaded {
            config,
            warnings,
            from_file: true,
        })
    }
}

/// Path of the control socket by the configuration `named`, or by the one at [`DEFAULT_PATH`]. What
/// else is wrong with the file is no matter: a running agent must be found all the same. Where the
/// file cannot be read, or its agent has not been started yet, the answer is [`DEFAULT_SOCKET`].
pub fn socket_of(named: Option<&Path>) -> PathBuf {
    #[derive(serde::Deserialize)]
    struct OnlySocket {
        socket: Option<OnlyPath>,
    }
    #[derive(serde::Deserialize)]
    struct OnlyPath {
        path: Option<PathBuf>,
    }
    let default = PathBuf::from(DEFAULT_SOCKET);
    let text = read_text(named.unwrap_or(Path::new(DEFAULT_PATH)), LARGEST_FILE_BYTES);
    let found = text.ok().and_then(|text| {
        let parsed = parse_all(&text, |text| {
            toml::from_str::<OnlySocket>(text)
                .map_err(|e| (e.span().unwrap_or(0..0), e.message().to_owned()))
        });
        parsed.value?.socket?.path
    });
    match found {
        Some(path) if path.exists() || !default.exists() => path,
        _ => default,
    }
}

/// A configuration from its text, with warnings; or all that is wrong, errors first.
pub fn parse(text: &str) -> Result<(Config, Vec<Problem>), Vec<Problem>> {
    let parsed = parse_all(text, |text| {
        toml::from_str::<raw::RawConfig>(text)
            .map_err(|e| (e.span().unwrap_or(0..0), e.message().to_owned()))
    });
    let mut problems = parsed.problems;
    for problem in &mut problems {
        problem.text = check::remedy(&problem.text);
    }
    let Some(raw) = parsed.value else {
        return Err(problems);
    };
    let checked = check::config(text, raw);
    if problems.is_empty() {
        return checked;
    }
    // What is wrong in form comes with all that does not go together in the rest.
    let more = checked.map_or_else(|problems| problems, |(_, warnings)| warnings);
    let told = |p: &Problem| !check::is_consequence(p, &parsed.without);
    problems.extend(more.into_iter().filter(told));
    problems.sort_by_key(|p| (p.severity == Severity::Warning, p.line, p.column));
    Err(problems)
}
