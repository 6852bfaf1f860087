//! Start and end of a page.

use crate::access::{Access, Token};
use crate::address::{Address, AddressError};
use crate::feed::{Feed, Past};
use crate::listen::{CreatedFile, ListenError, Listener, listen, write_secret};
use crate::sampler::{self, PageState};
use crate::server::Server;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::{oneshot, watch};

/// Limit on the threads that may wait for the past.
const PAST_THREADS: usize = 1;
/// Time after which a thread without work ends.
const KEEP_THREAD: Duration = Duration::from_secs(5);

/// Options of a page.
#[derive(Clone, Debug)]
pub struct Options {
    /// Address to listen on.
    pub address: Address,
    /// Further host names of the page.
    pub hosts: Vec<String>,
    /// Whether other hosts may reach the page.
    pub remote: bool,
    /// Group that may use the socket, if the address is a path.
    pub group: Option<u32>,
    /// File to which the URL with the token is written, for its owner alone. `None` writes none.
    pub url_file: Option<PathBuf>,
}

/// Reason why the page cannot be served.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The address is not allowed.
    #[error(transparent)]
    Address(#[from] AddressError),
    /// The page cannot listen on the address.
    #[error(transparent)]
    Listen(#[from] ListenError),
    /// The file for the URL cannot be written.
    #[error("cannot write {}: {why}", path.display())]
    UrlFile {
        /// Path of the file.
        path: PathBuf,
        /// Cause.
        why: io::Error,
    },
    /// Failure of the process itself.
    #[error("cannot {what}: {why}")]
    Process {
        /// Failed operation.
        what: &'static str,
        /// Cause.
        why: io::Error,
    },
}

/// Running page. Dropping it ends the page.
#[derive(Debug)]
pub struct Page {
    address: Address,
    url: Option<String>,
    shared: Arc<PageState>,
    end: Option<oneshot::Sender<()>>,
    threads: Vec<JoinHandle<()>>,
    _url_file: Option<CreatedFile>,
}

impl Page {
    /// Serves the readings of `feed` and the intervals of `past`, in threads of its own.
    ///
    /// # Errors
    /// [`StartError`]; nothing is left running then.
    pub fn start(
        options: &Options,
        feed: Box<dyn Feed>,
        past: Option<Box<dyn Past>>,
    ) -> Result<Page, StartError> {
        options.address.check(options.remote)?;
        let process = |what: &'static str| move |why: io::Error| StartError::Process { what, why };
        let runtime = Builder::new_current_thread()
            .enable_io()
            .enable_time()
            .max_blocking_threads(PAST_THREADS)
            .thread_keep_alive(KEEP_THREAD)
            .thread_name("cofferdam-past")
            .build()
            .map_err(process("start a runtime"))?;
        let listener = {
            let _within = runtime.enter();
            listen(&options.address, options.group)?
        };
        let address = bound_address(&options.address, &listener);
        let token = match address {
            Address::Tcp(_) => Some(Token::new().map_err(process("read random numbers"))?),
            Address::Unix(_) => None,
        };
        let url = token.as_ref().map(|token| url(&address, token));
        let secret = url.as_ref().zip(options.url_file.as_ref());
        let url_file = secret.map(|(url, path)| {
            write_secret(path, &format!("{url}\n")).map_err(|why| StartError::UrlFile {
                path: path.clone(),
                why,
            })
        });
        let url_file = url_file.transpose()?;
        let hint = match &options.url_file {
            Some(path) => format!("open the URL in {} (sudo cat it)", path.display()),
            None => "open the URL that 'cofferdam web' has printed".to_owned(),
        };
        let shared = Arc::new(PageState::new(host_name()));
        let (live, messages) = watch::channel(None);
        let access = Access::new(&address, token, &options.hosts);
        let server = Server::new(access, shared.clone(), messages, past, hint);
        let (end, ended) = oneshot::channel();
        let mut page = Page {
            address,
            url,
            shared: shared.clone(),
            end: Some(end),
            threads: Vec::new(),
            _url_file: url_file,
        };
        page.spawn("cofferdam-feed", move || sampler::run(&shared, feed, &live))?;
        page.spawn("cofferdam-web", move || {
            serve(runtime, Arc::new(server), listener, ended);
        })?;
        Ok(page)
    }

    fn spawn(
        &mut self,
        name: &'static str,
        work: impl FnOnce() + Send + 'static,
    ) -> Result<(), StartError> {
        let thread = std::thread::Builder::new().name(name.to_owned());
        let thread = thread.spawn(work).map_err(|why| StartError::Process {
            what: "start a thread",
            why,
        })?;
        self.threads.push(thread);
        Ok(())
    }

    /// Address of the page, with the port that the kernel chose if port 0 was requested.
    pub fn address(&self) -> &Address {
        &self.address
    }

    /// URL with the token. `None` for a socket with a path, which needs none.
    pub fn url(&self) -> Option<&str> {
        self.url.as_deref()
    }

    /// Whether one of its threads has ended, by a defect.
    pub fn has_ended(&self) -> bool {
        self.threads.iter().any(JoinHandle::is_finished)
    }
}

impl Drop for Page {
    fn drop(&mut self) {
        drop(self.end.take());
        self.shared.stop();
        for thread in self.threads.drain(..) {
            if thread.join().is_err() {
                tracing::error!("a thread of the page had panicked");
            }
        }
    }
}

fn serve(runtime: Runtime, server: Arc<Server>, listener: Listener, ended: oneshot::Receiver<()>) {
    runtime.block_on(async move {
        let serving = tokio::spawn(server.run(listener));
        // The wait ends when the other end is dropped.
        let _ = ended.await;
        serving.abort();
    });
    // Do not wait for a thread that waits for a disk.
    runtime.shutdown_background();
}

fn bound_address(requested: &Address, listener: &Listener) -> Address {
    match listener {
        Listener::Tcp(tcp) => tcp.local_addr().map_or(requested.clone(), Address::Tcp),
        Listener::Unix(..) => requested.clone(),
    }
}

fn url(address: &Address, token: &Token) -> String {
    let token = token.as_str();
    match address {
        Address::Tcp(at) if at.ip().is_unspecified() => {
            let (host, port) = (host_name(), at.port());
            format!("http://{host}:{port}/?token={token}")
        }
        other => format!("http://{other}/?token={token}"),
    }
}

fn host_name() -> String {
    let name = nix::unistd::gethostname().ok();
    name.and_then(|n| n.into_string().ok())
        .unwrap_or_else(|| "this host".to_owned())
}
