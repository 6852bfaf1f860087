//! Live page for a browser: who pays for whom on this host, now and before.
//!
//! The agent (`[web]` in its configuration) or `cofferdam web` serves it. Of its threads, one reads
//! from a [`Feed`], which may wait for the agent; another serves, and waits for nothing. A third
//! queries the dataplanes, if there are any. The page only shows: it changes neither the host nor
//! the agent.
//!
//! A reading becomes a document once for all visitors, and only while there are some. Every stream
//! holds at most one document that its reader has not taken ([`body`]), and a reader that takes
//! nothing is disconnected ([`stall`]).
#![forbid(unsafe_code)]

mod access;
mod address;
mod answer;
mod assets;
mod body;
mod dataplanes;
mod feed;
mod frame;
mod listen;
mod moment;
mod page;
mod promise;
mod ring;
mod route;
mod sampler;
mod series;
mod server;
mod stall;
mod story;
mod visitors;

pub use access::{Access, Decision, RequestFacts, Token};
pub use address::{Address, AddressError};
pub use dataplanes::{Ask, Dataplane, Dataplanes, MOST_DATAPLANES};
pub use feed::{Feed, FeedError, Latency, Past, PastError, Point, Points, Reading};
pub use listen::{ListenError, remove_url_file};
pub use page::{Options, Page, StartError};
pub use ring::{KEPT, MOST_BYTES, points};
pub use route::{MOST_POINTS, NoRoute, Route, route, token};
pub use server::{HEAD_WITHIN, LARGEST_HEAD_BYTES, READ_WITHIN};
pub use visitors::{MOST_STRANGERS, MOST_STRANGERS_OF_A_PEER, MOST_STREAMS, MOST_VIEWERS};

/// Schema of the page's documents. It is internal to the page and changes without notice.
pub const SCHEMA: &str = "cofferdam.web/1";
/// Default address of the page.
pub const DEFAULT_ADDRESS: &str = "127.0.0.1:9478";
