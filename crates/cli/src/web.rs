//! `cofferdam web`: serves the live page of a running agent.

use crate::args::WebArgs;
use crate::exit::{Failure, Outcome};
use crate::interrupt::Interrupt;
use crate::output::Output;
use cofferdam_agent::Watch;
use cofferdam_web::{
    Dataplanes, Feed, FeedError, MOST_DATAPLANES, Options, Page, Reading, StartError,
};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use std::time::Duration;

/// Interval of readings while nobody watches the page: each reading costs the agent one.
const IDLE: Duration = Duration::from_secs(10);
/// Interval between two checks whether the page still runs.
const LOOK_MS: u16 = 1000;

/// Serves until a signal.
pub fn run(args: &WebArgs, interrupt: &Interrupt) -> Outcome {
    // Before anything is served: a failure to reach the agent is reported here and not on the page.
    let watch = Watch::connect(args.agent.path())?;
    let options = Options {
        address: args.address.clone(),
        hosts: args.hosts.clone(),
        remote: args.remote,
        group: None,
        url_file: None,
    };
    if args.dataplanes.len() > MOST_DATAPLANES {
        let text = format!("--dataplane can be given {MOST_DATAPLANES} times at most");
        return Err(Failure::Usage(text));
    }
    let dataplanes = Dataplanes::new(args.dataplanes.clone(), cofferdam_dataplane::status)
        .map_err(|why| Failure::failed(format!("cannot start a thread: {why}")))?;
    let feed = SocketFeed { watch, dataplanes };
    let page = Page::start(&options, Box::new(feed), None).map_err(|why| match why {
        StartError::Address(why) => {
            Failure::Usage(why.to_string().replace("remote = true", "--remote"))
        }
        other => Failure::Failed(other.into()),
    })?;
    let text = match page.url() {
        Some(url) => format!("{url}\n"),
        None => format!("{}\n", page.address()),
    };
    Output::stdout().write(&text)?;
    while !interrupt.raised() {
        let mut fds = [PollFd::new(interrupt.fd(), PollFlags::POLLIN)];
        // Interrupted: the flag says why.
        let _ = poll(&mut fds, PollTimeout::from(LOOK_MS));
        if page.has_ended() {
            let text = "the page has ended by a defect: please report it";
            return Err(Failure::failed(text));
        }
    }
    Err(Failure::Interrupted(None))
}

/// Feed of the page from the agent's socket.
struct SocketFeed {
    watch: Watch,
    dataplanes: Dataplanes,
}

impl Feed for SocketFeed {
    fn read(&mut self, looks: bool) -> Result<Option<Reading>, FeedError> {
        let (status, ledger) = (self.watch.read()).map_err(|why| FeedError(why.to_string()))?;
        Ok(ledger.map(|ledger| Reading {
            ledger,
            status,
            // The socket has no latency reports.
            latency: Vec::new(),
            dataplanes: self.dataplanes.latest_if(looks),
        }))
    }

    fn idle_interval(&self) -> Duration {
        IDLE
    }
}
