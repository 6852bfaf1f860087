//! Session with a cluster: the way to it, its agents, their token, and the deadline.

use crate::args::ClusterArgs;
use crate::exit::Failure;
use crate::interrupt::Interrupt;
use cofferdam_cluster::Peer;
use cofferdam_cluster::agents::{self, Agent, Agents};
use cofferdam_cluster::ask::{self, Question, Way};
use cofferdam_cluster::kubectl::{Api, Cluster, Context};
use std::net::SocketAddr;
use std::time::Instant;

/// Open session.
pub struct Session {
    pub api: Api,
    pub agents: Agents,
    pub begun: Instant,
    pub deadline: Instant,
    context: Context,
    namespace: String,
    token: String,
    parallel: usize,
}

impl Session {
    /// Opens a session and finds the agents of the cluster.
    pub fn open(args: &ClusterArgs) -> Result<Session, Failure> {
        let cluster = Cluster {
            kubeconfig: args.kubeconfig.clone(),
            context: args.context.clone(),
        };
        let context = Context::read(&cluster).map_err(anyhow::Error::from);
        let (api, context) = match &args.proxy {
            // With a proxy, kubectl is not needed.
            Some(proxy) => (Api::through(peer(proxy)), context.unwrap_or_default()),
            None => {
                let context = context?;
                let api = Api::start(&cluster, &context).map_err(anyhow::Error::from)?;
                (api, context)
            }
        };
        let begun = Instant::now();
        let deadline = begun + args.timeout;
        let agents = agents::list(&api, &args.agents, deadline).map_err(anyhow::Error::from)?;
        let token = ask::token(&api, &args.agents, &args.token_secret, deadline)
            .map_err(anyhow::Error::from)?;
        Ok(Session {
            api,
            agents,
            begun,
            deadline,
            context,
            namespace: args.agents.clone(),
            token,
            parallel: args.parallel,
        })
    }

    /// Asks every agent for `path`. Fails if none answers.
    pub fn ask<T: Send>(
        &self,
        path: &str,
        interrupt: &Interrupt,
        read: impl Fn(&Agent, &[u8]) -> Result<T, String> + Sync,
    ) -> Result<Vec<Result<T, String>>, Failure> {
        let results = self.ask_some(&self.agents.agents, path, interrupt, read)?;
        if let Some(Err(why)) = results.first()
            && results.iter().all(Result::is_err)
        {
            let count = results.len();
            let text = format!("none of {count} agents answered; the first: {why}");
            return Err(Failure::failed(text));
        }
        Ok(results)
    }

    /// Asks `agents` for `path`.
    fn ask_some<T: Send>(
        &self,
        agents: &[Agent],
        path: &str,
        interrupt: &Interrupt,
        read: impl Fn(&Agent, &[u8]) -> Result<T, String> + Sync,
    ) -> Result<Vec<Result<T, String>>, Failure> {
        let question = Question {
            namespace: &self.namespace,
            token: &self.token,
            path,
            parallel: self.parallel,
            deadline: self.deadline,
        };
        let results = ask::all(
            Way::Api(&self.api),
            agents,
            &question,
            &interrupt.flag(),
            read,
        );
        match interrupt.raised() {
            true => Err(Failure::Interrupted(None)),
            false => Ok(results),
        }
    }

    /// Agent of `node`.
    pub fn agent_of(&self, node: &str) -> Result<&Agent, Failure> {
        let mut agents = self.agents.agents.iter();
        agents.find(|agent| agent.node == node).ok_or_else(|| {
            Failure::failed(format!(
                "there is no agent on node {node}: the DaemonSet's nodeSelector, affinity or \
         tolerations leave it out"
            ))
        })
    }

    /// Asks one agent for a document of the schema `schema`.
    pub fn document<T: serde::de::DeserializeOwned + Send>(
        &self,
        agent: &Agent,
        (path, schema): (&str, &'static str),
        interrupt: &Interrupt,
    ) -> Result<T, Failure> {
        let mut results =
            self.ask_some(std::slice::from_ref(agent), path, interrupt, |_, body| {
                ask::document(body, schema)
            })?;
        match results.pop() {
            Some(Ok(document)) => Ok(document),
            Some(Err(why)) => Err(Failure::failed(format!(
                "the agent on node {} does not answer: {why}",
                agent.node
            ))),
            None => Err(Failure::failed("no agent was asked")),
        }
    }

    /// Node of a pod.
    pub fn node_of(&self, namespace: &str, pod: &str) -> Result<String, Failure> {
        let place = agents::place(&self.api, namespace, pod, self.deadline);
        let place = place.map_err(anyhow::Error::from)?;
        place.node.ok_or_else(|| {
            Failure::failed(format!(
                "pod {namespace}/{pod} is on no node yet: \
         kubectl --namespace {namespace} describe pod {pod} says why"
            ))
        })
    }

    /// Namespace that kubectl would use.
    pub fn default_namespace(&self, given: Option<&str>) -> String {
        given.unwrap_or(self.context.namespace()).to_owned()
    }
}

/// Address `IP:PORT`, otherwise the path of a socket.
pub fn peer(text: &str) -> Peer {
    match text.parse::<SocketAddr>() {
        Ok(address) => Peer::Tcp(address),
        Err(_) => Peer::Unix(text.into()),
    }
}
