//! Time that a container runtime waits for the agent: NRI between a simulated runtime and a real
//! agent.
//!
//! The agent manages live containers, as in `cost`. The runtime reports 1,000 further pods and then
//! makes 1,000 containers, one after the other, like a node that takes over a drained node's pods.
//! Every tenth container asks for CPUs of its own. The runtime times each answer, from the first
//! byte of the request to the last byte of the answer.

use super::cost::Crowd;
use super::process::Agent;
use super::{Options, sample};
use crate::agent::data::{AgentExperiment, AgentResult, AnswerRow};
use crate::error::BenchError;
use crate::experiment::Rig;
use crate::scratch_folder::Folder;
use crate::stats::estimate;
use cofferdam_nri::api::{ContainerRequest, CreateContainerResponse, PodSandbox};
use cofferdam_nri::simulated::{Runtime, container, pod};
use std::io::{self, ErrorKind};
use std::os::unix::net::UnixListener;
use std::time::{Duration, Instant};

/// Pods at the start, and containers that a round makes.
const CONTAINERS: u32 = 1_000;
/// Distance between two containers that ask for CPUs of their own.
const STRICT_EVERY: u32 = 10;
/// CPU shares of a container, a hundredth of a CPU as the kubelet writes it: all requests fit on
/// any host.
const SHARES: u64 = 10;
/// Mean time between two containers.
const BETWEEN: Duration = Duration::from_millis(5);
const PATIENCE: Duration = Duration::from_secs(20);

pub(super) fn measure(
    rig: &mut Rig<'_>,
    options: &Options,
    result: &mut AgentResult,
) -> Result<(), BenchError> {
    let (rounds, live) = (options.rounds(), options.containers());
    let what = format!("answers: making {live} containers");
    rig.progress.step(0, rounds as usize, &what);
    let _crowd = Crowd::make(rig, live)?;
    let (mut medians, mut tails, mut most_ms) = (Vec::new(), Vec::new(), 0.0_f64);
    for round in 0..rounds {
        rig.progress
            .step(round as usize, rounds as usize, "answers over NRI");
        let mut answers = one(rig, round)?;
        answers.sort_by(f64::total_cmp);
        let (p50, p99) = (at(&answers, 0.5), at(&answers, 0.99));
        let longest = at(&answers, 1.0);
        rig.dir.sample(&crate::agent::data::AgentSample {
            answer_p50_ms: Some(p50),
            answer_p99_ms: Some(p99),
            answer_max_ms: Some(longest),
            ..sample(AgentExperiment::Answers, "create-container", round)
        })?;
        medians.push(p50);
        tails.push(p99);
        most_ms = most_ms.max(longest);
    }
    if let (Some(p50_ms), Some(p99_ms)) = (estimate(&medians, rig.seed), estimate(&tails, rig.seed))
    {
        result.answers.push(AnswerRow {
            containers: CONTAINERS,
            live,
            p50_ms,
            p99_ms,
            max_ms: most_ms,
        });
    }
    Ok(())
}

/// Runs one agent with one runtime. Returns the time of each container's request, milliseconds.
fn one(rig: &mut Rig<'_>, round: u32) -> Result<Vec<f64>, BenchError> {
    let dir = Folder::of_this_process(&format!("nri-{round}"))?;
    let socket = dir.path().join("nri.sock");
    let listener = UnixListener::bind(&socket).map_err(BenchError::host("make", &socket))?;
    let rules = format!(
        "[history]\npath = \"off\"\n[nri]\nsocket = \"{}\"\nmay_ask = [\"*\"]\n",
        socket.display()
    );
    let agent = Agent::start(dir.path(), &rules, "off")?;
    let failed = |e: io::Error| BenchError::Worker {
        worker: "agent".to_owned(),
        reason: format!("its session with the simulated runtime failed: {e}"),
    };
    let mut runtime = accept(&listener).map_err(failed)?;
    let pods: Vec<PodSandbox> = (0..CONTAINERS).map(|i| a_pod(i, false)).collect();
    let containers = pods
        .iter()
        .map(|p| container(&format!("c{}", p.id), &p.id, "app", SHARES));
    let containers = containers.collect();
    runtime.greet(pods, containers).map_err(failed)?;
    let mut answers = Vec::with_capacity(CONTAINERS as usize);
    for i in 0..CONTAINERS {
        // A random wait: requests arrive anywhere in the agent's step, never in time with it.
        let chance = rig.random.u64(0..2 * BETWEEN.as_micros() as u64);
        rig.pass(Duration::from_micros(chance))?;
        let pod = a_pod(CONTAINERS + i, i.is_multiple_of(STRICT_EVERY));
        let app = container(&format!("c{}", pod.id), &pod.id, "app", SHARES);
        let request = ContainerRequest {
            pod: Some(pod),
            container: Some(app),
            linux_resources: None,
        };
        let begin = Instant::now();
        let answer: CreateContainerResponse =
            runtime.call("CreateContainer", &request).map_err(failed)?;
        answers.push(begin.elapsed().as_secs_f64() * 1e3);
        // A figure of an agent that grants nothing would be worthless.
        if i.is_multiple_of(STRICT_EVERY) != answer.adjust.is_some() {
            return Err(failed(ErrorKind::InvalidData.into()));
        }
        let _: CreateContainerResponse =
            runtime.call("RemoveContainer", &request).map_err(failed)?;
    }
    drop(agent);
    Ok(answers)
}

fn a_pod(number: u32, is_strict: bool) -> PodSandbox {
    let mut sandbox = pod(&number.to_string(), "bench", &format!("pod-{number}"));
    sandbox.labels = [("app", "bench"), ("tier", "web")]
        .map(|(k, v)| (k.to_owned(), v.to_owned()))
        .into();
    if is_strict {
        let asked = ("cofferdam.dev/cpu".to_owned(), "strict".to_owned());
        sandbox.annotations = [asked].into();
    }
    sandbox
}

fn accept(listener: &UnixListener) -> io::Result<Runtime> {
    listener.set_nonblocking(true)?;
    let deadline = Instant::now() + PATIENCE;
    loop {
        match listener.accept() {
            Ok((stream, _)) => {
                stream.set_nonblocking(false)?;
                stream.set_read_timeout(Some(PATIENCE))?;
                return Ok(Runtime::new(stream));
            }
            Err(e) if e.kind() == ErrorKind::WouldBlock && Instant::now() < deadline => {
                std::thread::sleep(Duration::from_millis(10));
            }
            Err(e) => return Err(e),
        }
    }
}

/// Quantile `part` of the sorted `values`.
fn at(values: &[f64], part: f64) -> f64 {
    let last = values.len().saturating_sub(1);
    let index = (part * values.len() as f64).ceil() as usize;
    values
        .get(index.saturating_sub(1).min(last))
        .copied()
        .unwrap_or(f64::NAN)
}
