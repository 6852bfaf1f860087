//! Agent configuration: `/etc/cofferdam/cofferdam.toml`.
//!
//! A file is accepted whole or not at all: every key is known, every value in range, and no two
//! rules conflict. Without a file the agent observes and changes nothing.

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
/// Network work below which exact accounting is cheaper than windows, CPUs. It corresponds to
/// 20,000 to 30,000 small packets a second.
const DEFAULT_EXACT_BELOW_CPUS: f64 = 0.02;
/// File name of the history in the folder that the service manager provides.
const HISTORY_FILE: &str = "history";
/// Default path of the history of an agent that runs as a service.
pub const DEFAULT_HISTORY: &str = "/var/lib/cofferdam/history";
/// Largest configuration file.
pub const LARGEST_FILE_BYTES: u64 = 4 << 20;
/// Limit on the number of rules in a file.
pub const MOST_RULES: usize = 10_000;

/// Configuration that can be put in force.
#[derive(Clone, Debug)]
pub struct Config {
    /// Rules in the order of the file; the first match wins.
    pub rules: Vec<Rule>,
    /// Control socket.
    pub socket: SocketConfig,
    /// Metrics.
    pub metrics: MetricsConfig,
    /// Accounting mode of the ledger.
    pub accounting: AccountingConfig,
    /// Network-CPU enforcement.
    pub enforcement: EnforcementConfig,
    /// CPU reservations.
    pub reservation: ReservationConfig,
    /// Diagnosis of lost CPU time.
    pub diagnosis: DiagnosisConfig,
    /// Latency of containers' packets.
    pub latency: LatencyConfig,
    /// Push of metrics over OTLP. `None` disables it.
    pub otlp: Option<OtlpConfig>,
    /// Live page.
    pub web: WebConfig,
    /// History.
    pub history: HistoryConfig,
    /// Plugin interface of the container runtime.
    pub nri: NriConfig,
}

/// `[nri]`
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NriConfig {
    /// Socket on which the runtime listens for plugins. `None` disables the plugin.
    pub socket: Option<PathBuf>,
    /// Namespaces whose pods may ask by annotation. Empty by default.
    pub may_ask: MayAsk,
}

/// `[socket]`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SocketConfig {
    /// Path of the socket.
    pub path: PathBuf,
    /// Group that may read, by name or number. Without one only root may.
    pub group: Option<String>,
}

/// `[metrics]`
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MetricsConfig {
    /// Address on which the metrics are served. `None` disables them.
    pub address: Option<SocketAddr>,
    /// Limit on the containers with series of their own.
    pub containers: u32,
}

/// `[diagnosis]`
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DiagnosisConfig {
    /// Whether lost CPU time is diagnosed.
    pub enabled: bool,
    /// Counts all context switches, or only those in windows while no container loses CPU time.
    pub mode: AccountingMode,
}

/// `[accounting]`
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AccountingConfig {
    /// Permits sampling in windows while no container pays for others and no client reads.
    pub mode: AccountingMode,
    /// Length and period of the windows.
    pub windows: WindowOptions,
    /// CPUs (0..=1). While the network work of the host takes less, exact accounting costs less
    /// than windows, and the ledger is exact.
    pub exact_below_cpus: f64,
}

/// `[enforcement]`
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EnforcementConfig {
    /// Time between two control steps while a rule enforces and there is network work.
    pub control_period: Duration,
    /// Most CPU time that a container may owe. Debt beyond it is forgiven.
    pub debt_bound: Duration,
}

/// `[reservation]`
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReservationConfig {
    /// Whether idle reserved CPUs are lent.
    pub lend: bool,
    /// Whether device interrupts are moved off strict CPUs.
    pub move_irqs: bool,
}

/// `[web]`
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WebConfig {
    /// Address on which the page is served. `None` disables it.
    pub address: Option<cofferdam_web::Address>,
    /// Further host names under which browsers may request the page.
    pub hosts: Vec<String>,
    /// Whether other hosts may reach the page.
    pub remote: bool,
    /// Control sockets of the dataplanes that the page shows.
    pub dataplanes: Vec<PathBuf>,
}

/// `[latency]`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LatencyConfig {
    /// Whether every container is measured, for the metrics.
    pub histograms: bool,
    /// Limit on the containers that are measured.
    pub containers: u32,
    /// Point at which the latency of egress starts.
    pub start: Start,
    /// Socket on which containers read their own reports. `None` disables it.
    pub socket: Option<PathBuf>,
}

/// `[history]`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HistoryConfig {
    /// Location of the history.
    pub place: HistoryPlace,
    /// Size at which the oldest frames are removed.
    pub limit_bytes: u64,
}

/// Location of the history.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HistoryPlace {
    /// In the folder that the service manager provides; none without it.
    Default,
    /// No history.
    Off,
    /// In this file.
    File(PathBuf),
}

impl HistoryConfig {
    /// Path of the history file. `None` if no history is kept.
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

/// Origin of a configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    /// Path of the file.
    pub path: PathBuf,
    /// Whether the file must exist. If it need not and does not, the agent observes.
    pub required: bool,
}

/// Configuration, and facts about the file that it was read from.
#[derive(Clone, Debug, Default)]
pub struct LoadedConfig {
    /// Configuration to put in force.
    pub config: Config,
    /// Warnings about settings without effect.
    pub warnings: Vec<Problem>,
    /// Whether the file existed.
    pub from_file: bool,
}

impl Source {
    /// Uses the file `named`, or the one at [`DEFAULT_PATH`] if it exists.
    pub fn new(named: Option<&Path>) -> Source {
        Source {
            path: named.unwrap_or(Path::new(DEFAULT_PATH)).to_owned(),
            required: named.is_some(),
        }
    }

    /// Reads and checks the file.
    pub fn load(&self) -> Result<LoadedConfig, ConfigError> {
        let path = self.path.clone();
        let text = match read_text(&self.path, LARGEST_FILE_BYTES) {
            Ok(text) => text,
            Err(FileError::Io(e)) if e.kind() == ErrorKind::NotFound && !self.required => {
                return Ok(LoadedConfig::default());
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
        Ok(LoadedConfig {
            config,
            warnings,
            from_file: true,
        })
    }
}

/// Path of the control socket according to the configuration `named`, or to the one at
/// [`DEFAULT_PATH`]. Other faults of the file do not matter: a running agent must be found anyway.
/// If the file cannot be read, or its agent has not started yet, the answer is [`DEFAULT_SOCKET`].
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

/// Parses a configuration. Returns it with warnings, or every problem, errors first.
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
    // Report conflicts between the valid parts together with the errors of form.
    let more = checked.map_or_else(|problems| problems, |(_, warnings)| warnings);
    let is_no_consequence = |p: &Problem| !check::is_consequence(p, &parsed.without);
    problems.extend(more.into_iter().filter(is_no_consequence));
    problems.sort_by_key(|p| (p.severity == Severity::Warning, p.line, p.column));
    Err(problems)
}
