//! Access to the history that an agent keeps.

use crate::args::{HistoryArgs, SocketArgs};
use crate::exit::Failure;
use cofferdam_agent::Client;
use cofferdam_agent::config::{DEFAULT_HISTORY, Source};
use cofferdam_history::{OpenError, Reader};
use std::io::ErrorKind;
use std::path::PathBuf;

/// Opens the history that `args` name.
pub fn open(args: &HistoryArgs) -> Result<Reader, Failure> {
    open_at(args.history.clone(), &args.agent)
}

/// Opens `path`; without one the running agent's history, or that of a service that does not run.
pub fn open_at(path: Option<PathBuf>, agent: &SocketArgs) -> Result<Reader, Failure> {
    let path = match path {
        Some(path) => path,
        None => of_agent(agent)?,
    };
    Reader::open(&path).map_err(|why| {
        let advice = match &why {
            OpenError::Io { source, .. } if source.kind() == ErrorKind::NotFound => {
                ": give --history, or have the agent keep one ([history] path)"
            }
            OpenError::Io { source, .. } if source.kind() == ErrorKind::PermissionDenied => {
                ": run this as root, or as a member of [socket] group"
            }
            _ => "",
        };
        Failure::failed(format!("{why}{advice}"))
    })
}

fn of_agent(agent: &SocketArgs) -> Result<PathBuf, Failure> {
    // Without a running agent, or the right to ask it, the history of the service is used.
    let Some(status) = Client::connect(&agent.path())
        .and_then(|mut c| c.status())
        .ok()
    else {
        let configured = Source::new(None).load().ok();
        let file = configured.and_then(|loaded| loaded.config.history.file());
        return Ok(file.unwrap_or_else(|| DEFAULT_HISTORY.into()));
    };
    match status.history {
        Some(history) => Ok(history.path.into()),
        None => Err(Failure::failed(
            "the running agent keeps no history: set [history] path in its configuration, or give \
             --history"
                .to_owned(),
        )),
    }
}

/// Reports on standard error the damaged frames that an answer leaves out.
pub fn report_damage(reader: &Reader) {
    const MOST: usize = 5;
    let damage = reader.damage();
    for one in damage.iter().take(MOST) {
        eprintln!("cofferdam: history: {one}");
    }
    if damage.len() > MOST {
        let more = damage.len() - MOST;
        eprintln!("cofferdam: history: {more} more frames are damaged and left out");
    }
}
