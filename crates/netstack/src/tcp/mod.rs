//! TCP (RFC 9293): the state of one connection and the rules that change it.
//!
//! A [`state::Tcb`] knows neither routes nor frames. [`input`] processes a segment, [`output`]
//! produces the next one to send, and [`tick`] handles expired timers. The stack around it finds
//! the connection, writes headers and reports events.
//!
//! The state consists of parts, and only the file of a part changes it: [`sender`] with [`queue`],
//! [`rto`] and [`congestion`]; [`recovery`] with [`sack`], [`rack`], [`sent_log`] and [`prr`];
//! [`tail`]; [`receiver`] with [`reassembly`], [`offer`] and [`acks`]; [`timers`]; [`notices`];
//! [`terms`] and [`timestamps`]. Rules that involve several parts are methods of the connection.

pub mod ack;
pub mod acks;
pub mod calls;
pub mod congestion;
pub mod context;
pub mod ecn;
pub mod fast_open;
pub mod input;
pub mod isn;
pub mod loss;
pub mod notices;
pub mod offer;
pub mod options;
pub mod output;
pub mod path;
pub mod prr;
pub mod queue;
pub mod rack;
pub mod reassembly;
pub mod receiver;
pub mod recovery;
pub mod rto;
pub mod sack;
pub mod segment;
pub mod sender;
pub mod sent_log;
pub mod seq;
pub mod state;
pub mod syncookie;
pub mod synsent;
pub mod tail;
pub mod tail_probe;
pub mod terms;
pub mod tick;
pub mod timers;
pub mod timestamps;
pub mod timewait;
