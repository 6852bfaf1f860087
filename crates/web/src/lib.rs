//! The live page: who harms whom on this host, now and before, for a browser.
//!
//! Served by the agent (`[web]` in its configuration) or by `cofferdam web` beside it. Two threads: one
//! reads from a [`Feed`], which may wait for the agent; the other serves, and waits for nobody. A third
//! asks the dataplanes, where there are such. It only shows: nothing here changes the host or the agent.
//!
//! A reading becomes a document once, for all who look, and only while somebody looks. Every stream
//! holds at most one document that its reader has not taken ([`body`]), and a reader that takes
//! nothing is closed ([`stall`]).
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

pub use access::{Access, Decision, Shown, Token};
pub use address::{Address, AddressError};
pub use dataplanes::{Ask, Dataplane, Dataplanes, MOST_DATAPLANES};
pub use feed::{Feed, FeedError, Latency, Past, PastError, Point, Points, Reading};
pub use listen::{ListenError, remove_url_file};
pub use page::{Options, Page, StartError};
pub use ring::{KEPT, MOST_BYTES, points};
pub use route::{MOST_POINTS, NoRoute, Route, route, token};
pub use server::{HEAD_WITHIN, LARGEST_HEAD_BYTES, READ_WITHIN};
pub use visitors::{MOST_STRANGERS, MOST_STRANGERS_OF_A_PEER, MOST_STREAMS, MOST_VIEWERS};

/// Schema of the documents of the page. It is the page's own: it changes with the page, without notice.
pub const SCHEMA: &str = "cofferdam.web/1";
/// Default address of the page.
pub const DEFAULT_ADDRESS: &str = "127.0.0.1:9478";
