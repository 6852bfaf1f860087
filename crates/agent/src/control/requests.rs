//! Requests of clients and signals to the control loop.

use super::{Channels, Control, now, warnings};
use crate::config::{Config, ConfigError, LoadedConfig};
use crate::ledger::Ledger;
use crate::rules::Rule;
use crate::server::{ListenError, Notice, find_group};
use crate::wire::{
    ChangeResult, Refusal, RefusalCode, ReloadResult, Request, SetRule, StopResult, ok_line,
    refusal_line,
};
use std::path::PathBuf;
use std::time::Duration;

/// Requests served between two readings of the clock.
const AT_ONCE: usize = 16;
/// Shortest time between readings for clients: more frequent ones cost more than they are worth.
const FRESH: Duration = Duration::from_millis(10);

/// Reason why a configuration is not put in force.
#[derive(Debug, thiserror::Error)]
pub(super) enum ReloadError {
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The group of the socket cannot be found.
    #[error("cannot read {}: {source}", path.display())]
    Group { path: PathBuf, source: ListenError },
}

impl<L: Ledger> Control<L> {
    /// Serves waiting requests. Returns whether a change must be published.
    pub(super) fn serve(&mut self, channels: &Channels) -> bool {
        let mut show = false;
        for _ in 0..AT_ONCE {
            let Ok(command) = channels.commands.try_recv() else {
                return show;
            };
            let client = command.client;
            let notice = match command.request {
                Request::Snapshot {
                    gone_after,
                    estimates,
                } => {
                    if !estimates {
                        self.count_exactly();
                    }
                    match self.readings.read(FRESH) {
                        Ok(snapshot) => Notice::Reading {
                            client,
                            ended: self.readings.ended_since(gone_after),
                            snapshot,
                        },
                        Err(error) => answer(client, Err::<(), _>(error.to_string())),
                    }
                }
                request => {
                    show = true;
                    let notice = self.change(client, request, channels);
                    // The next request for the status must see the change.
                    self.publish(channels);
                    notice
                }
            };
            // The server outlives this loop, so the message arrives.
            let _ = channels.notices.send(notice);
            channels.wake_server.wake();
        }
        // More requests may be waiting: return at once.
        channels.sleeper.wake_self();
        show
    }

    fn change(&mut self, client: u64, request: Request, channels: &Channels) -> Notice {
        match request {
            Request::Reload => {
                let reloaded = self.reload(channels);
                let explain = |e| format!("{e}; the old configuration stays in force");
                answer(client, reloaded.map_err(explain))
            }
            Request::Stop => {
                tracing::info!("stop requested over the socket");
                self.stop = true;
                answer(client, Ok(StopResult { stopping: true }))
            }
            Request::Set(rule) => {
                let SetRule(rule) = *rule;
                let text = rule.matcher.to_string();
                if !self.assigner.set(rule) {
                    let most = crate::assign::MOST_SET;
                    let why = format!("{most} rules are set already: clear one, or use the file");
                    return answer(client, Err::<ChangeResult, _>(why));
                }
                tracing::info!("rule for '{text}' set over the socket");
                self.step();
                let set = self.rules.first().map_or(0, |r| r.containers);
                answer(client, Ok(ChangeResult { containers: set }))
            }
            Request::Clear { matches } => {
                if !self.assigner.clear(&matches) {
                    let why = format!("no rule for '{matches}' was set over the socket");
                    return answer(client, Err::<ChangeResult, _>(why));
                }
                tracing::info!("rule for '{matches}' cleared over the socket");
                self.step();
                answer(client, Ok(ChangeResult { containers: 0 }))
            }
            // The server itself, or `serve`, answers these.
            Request::Status | Request::Snapshot { .. } => {
                answer(client, Err::<(), _>("not a change".to_owned()))
            }
        }
    }

    /// Puts the current configuration file in force as a whole, or keeps the old configuration and
    /// returns the reason.
    pub(super) fn reload(&mut self, channels: &Channels) -> Result<ReloadResult, ReloadError> {
        let loaded = match self.check() {
            Ok(loaded) => loaded,
            Err(error) => {
                let text = error.to_string();
                tracing::error!("configuration refused, the old one stays in force: {text}");
                self.configuration.refusals += 1;
                self.configuration.refused = Some(text);
                return Err(error);
            }
        };
        let old = std::mem::replace(&mut self.config, loaded.config.clone());
        self.configuration.from_file = loaded.from_file;
        self.configuration.loaded = now();
        self.configuration.loads += 1;
        self.configuration.refused = None;
        self.configuration.warnings = warnings(&self.source, &loaded);
        for warning in &self.configuration.warnings {
            tracing::warn!("{warning}");
        }
        self.apply(&old, channels);
        let rules = self.config.rules.len();
        tracing::info!("configuration in force: {rules} rules");
        let path = self.source.path.display();
        self.notifier
            .send(&format!("STATUS={rules} rules from {path}"));
        Ok(ReloadResult {
            rules: self.config.rules.len() as u64,
            warnings: self.configuration.warnings.clone(),
        })
    }

    /// Loads the current configuration file and checks that it can be put in force.
    fn check(&self) -> Result<LoadedConfig, ReloadError> {
        let loaded = self.source.load()?;
        if let Some(group) = &loaded.config.socket.group {
            find_group(group).map_err(|source| ReloadError::Group {
                path: self.source.path.clone(),
                source,
            })?;
        }
        Ok(loaded)
    }

    fn apply(&mut self, old: &Config, channels: &Channels) {
        let new = &self.config;
        self.restart_needed |= new.socket.path != old.socket.path;
        if new.socket.group != old.socket.group {
            let _ = channels
                .notices
                .send(Notice::Group(new.socket.group.clone()));
        }
        // Send it even if unchanged: the port may be free by now.
        let _ = channels.notices.send(Notice::Metrics(new.metrics.address));
        channels.wake_server.wake();
        let changes_host = new.rules.iter().any(Rule::changes_host);
        let options = new.enforcement.debt_bound != old.enforcement.debt_bound
            || new.reservation != old.reservation;
        // Switch even if unchanged: a missing part may be available by now.
        self.losses.switch(new.diagnosis);
        self.latency.switch(&new.latency);
        self.otlp.switch(&new.otlp);
        let history = new.history.file();
        self.page
            .switch(&new.web, &new.socket, history, &channels.view);
        self.recorder.switch(new);
        let moved = self.nri.switch(&new.nri);
        if (options || !changes_host)
            && let Some(effects) = self.effects.take()
        {
            // New options restart the enforcement. Without a rule that needs it, nothing stays
            // changed.
            let result = effects.revert();
            result.log("enforcement ends");
            self.revert_failures = result.failures;
            self.retry_at = None;
        }
        if moved {
            self.read_runtime_files(true);
        }
        self.switch_accounting();
        self.assigner.replace(self.config.rules.clone());
        self.step();
    }
}

fn answer<T: serde::Serialize>(client: u64, result: Result<T, String>) -> Notice {
    let line = match result {
        Ok(value) => ok_line(&value),
        Err(text) => refusal_line(&Refusal::new(RefusalCode::Failed, text)),
    };
    Notice::Answer { client, line }
}
