//! Output of the control loop: its log, and the view that answers clients and scrapes.

use super::degradation_log::{Line, unmatched};
use super::{Channels, Control};
use crate::ledger::Ledger;
use crate::rules::Rule;
use crate::view::View;
use cofferdam_records::status::{PolicyRecord, RuleRecord};
use cofferdam_types::{ContainerStatus, Degradation, EnforcementStatus};
use std::collections::{BTreeSet, HashSet};
use std::sync::{Arc, PoisonError};
use std::time::Instant;

/// Classes that a rule gives. The amount is missing if each container gets what it requests.
fn policy(rule: &Rule) -> PolicyRecord {
    let mut record = PolicyRecord::new(&rule.policy);
    if rule.by_request {
        record.cpu = "strict".to_owned();
    }
    record
}

impl<L: Ledger> Control<L> {
    pub(super) fn rule_records(&self, counts: &[u64]) -> Vec<RuleRecord> {
        let rules = self.assigner.rules().zip(counts);
        rules
            .map(|(rule, containers)| RuleRecord {
                line: (rule.line > 0).then_some(rule.line as u64),
                matches: rule.matcher.to_string(),
                policy: policy(rule),
                containers: *containers,
            })
            .collect()
    }

    /// Logs what has become degraded, and what no longer is.
    pub(super) fn log_degradations(&mut self) {
        let mut status = match &self.effects {
            Some(effects) => effects.status(),
            None => EnforcementStatus::default(),
        };
        self.add_refusals(&mut status);
        let line = |container: Option<&str>, d: &Degradation| Line {
            container: container.map(str::to_owned),
            text: d.text.clone(),
        };
        let mut lines: BTreeSet<Line> = status.degraded.iter().map(|d| line(None, d)).collect();
        for container in &status.containers {
            let name = Some(container.name.as_str());
            lines.extend(container.degraded.iter().map(|d| line(name, d)));
        }
        let exists = |name: &str| self.assigner.has_container(name);
        let changes = self.degradations.update(lines, exists, Instant::now());
        for line in changes.begins {
            tracing::warn!("degraded: {line}");
        }
        for line in changes.ends {
            tracing::info!("no longer degraded: {line}");
        }
        self.conditions.record_returned(&status);
        self.enforcement = Arc::new(status);
        self.published_at = Some(Instant::now());
    }

    /// Adds the refused requests of pods to the degradations that have other causes.
    fn add_refusals(&self, status: &mut EnforcementStatus) {
        for (container, policy, problems) in self.assigner.problems() {
            let statuses = status.containers.iter_mut();
            match statuses.into_iter().find(|c| c.cgroup == container.cgroup) {
                Some(found) => found.degraded.extend_from_slice(problems),
                None => status.containers.push(ContainerStatus {
                    cgroup: container.cgroup,
                    name: container.name.clone(),
                    policy,
                    network: None,
                    reservation: None,
                    degraded: problems.to_vec(),
                }),
            }
        }
    }

    /// Logs each rule that has matched no container for a while, and each that matches again.
    pub(super) fn log_unmatched_rules(&mut self) {
        let rules = self.rules.clone();
        let lines = unmatched(&rules);
        // There may be a thousand rules, and each is looked up.
        let all: HashSet<&str> = rules.iter().map(|rule| rule.matches.as_str()).collect();
        let exists = |matches: &str| all.contains(matches);
        let changes = self.unmatched.update(lines, exists, Instant::now());
        let name = |line: &Line| {
            let matches = line.container.as_deref().unwrap_or_default();
            format!("the rule for '{matches}' ({})", line.text)
        };
        for line in &changes.begins {
            tracing::warn!("{} matches no container: it has no effect", name(line));
        }
        for line in &changes.ends {
            tracing::info!("{} matches a container now", name(line));
        }
    }

    pub(super) fn publish(&mut self, channels: &Channels) {
        let view = Arc::new(self.view());
        let now = Instant::now();
        if self.otlp.is_due(now) {
            self.otlp.send(view.clone(), now);
        }
        *channels.view.lock().unwrap_or_else(PoisonError::into_inner) = view;
    }

    /// View of the current state.
    pub fn view(&self) -> View {
        let mut degraded = Vec::new();
        let mut add = |name: &str, text: String| {
            degraded.push(Degradation {
                name: name.to_owned(),
                text,
            });
        };
        if let Some(why) = &self.configuration.refused {
            add(
                "configuration_refused",
                format!("the old configuration stays in force: {why}"),
            );
        }
        if self.restart_needed {
            add(
                "restart_needed",
                "another [socket] path is in force only after a restart: \
                 systemctl restart cofferdam"
                    .to_owned(),
            );
        }
        if self.failing_since.is_some() {
            add(
                "accounting_unreadable",
                "the accounting cannot be read; the log says why".to_owned(),
            );
        }
        for failure in &self.revert_failures {
            add("not_taken_back", failure.clone());
        }
        for pid in self.assigner.ended_processes() {
            let text = format!(
                "the process of the rule 'pid:{pid}' has ended: the rule has no effect, also where \
                 another process has its number; name the container, or remove the rule"
            );
            degraded.push(Degradation {
                name: "process_ended".to_owned(),
                text,
            });
        }
        degraded.extend(self.losses.degraded.clone());
        degraded.extend(self.latency.degraded());
        degraded.extend(self.otlp.degraded());
        degraded.extend(self.page.degraded());
        degraded.extend(self.nri.degraded());
        let history = self.recorder.view();
        degraded.extend(history.degraded());
        View {
            snapshot: self.last.clone(),
            enforcement: self.enforcement.clone(),
            losses: self.losses.view.clone(),
            conditions: self.conditions.now(),
            recent: self.recent.clone(),
            latency: self.latency.view(),
            history,
            nri: self.nri.record(),
            rules: self.rules.clone(),
            paths: self.paths.clone(),
            configuration: Arc::new(self.configuration.clone()),
            accounting: self.attention.record(),
            degraded,
            started: self.started,
            unit: self.unit.clone(),
            control_period: self.period(),
            last_step: self.last_step,
            steps: self.steps,
            failed_readings: self.failed_readings,
            cost: self.cost,
            sent: self.otlp.counts(),
            exported: self.config.metrics.containers,
        }
    }
}
