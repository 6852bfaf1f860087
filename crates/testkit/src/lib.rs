//! Fixtures for tests that need root: network namespaces, links, cgroups, containers, traffic.
//!
//! Each fixture undoes itself when dropped, also on panic, and also when a test runs into its
//! [`time_limit`]. Locals drop in reverse order, so a test needs no clean-up code.
//!
//! Fixtures panic, with one clear line, when the host refuses: a test that cannot set up its
//! scene has failed, it is never skipped. (`Result` was tried on paper: every call would have
//! ended in `unwrap`.)
//!
//! Names begin with `cf-PID-` (links with `cf` and the process id in base 36), so leftovers of a
//! killed test can be distinguished from those of a running one: see [`leftovers`].
//!
//! ```no_run
//! use cofferdam_testkit::*;
//! use std::time::Duration;
//! # fn main() {
//! let _alone = exclusive();
//! time_limit(Duration::from_secs(30), || {
//!     let router = Router::new("net");
//!     let a = FakeContainer::new("a");
//!     let b = FakeContainer::new("b");
//!     router.attach(&a);
//!     let to = router.attach(&b);
//!     let sink = traffic::udp_sink(&b, None, to.v4(9000), 1000);
//!     let sent = traffic::udp_send(&a, Some(0), traffic::Udp::to(to.v4(9000)).packets(1000));
//!     assert_eq!((sent.finish()[0], sink.finish()[0]), (1000, 1000));
//! });
//! # }
//! ```

mod cgroup;
mod command;
mod container;
mod crowd;
pub mod hardware;
pub mod leftovers;
mod limit;
mod links;
mod names;
mod net;
mod place;
mod podman;
mod router;
pub mod traffic;

pub use cgroup::Cgroup;
pub use cofferdam_lab::Process;
pub use cofferdam_lab::place::Spot;
pub(crate) use command::must;
pub use command::{run, try_run};
pub use container::FakeContainer;
pub use crowd::Crowd;
pub use leftovers::assert_nothing_left;
pub use limit::{Exclusive, exclusive, repeat_when_hidden, time_limit, wait_until};
pub use links::{Bridge, VethPair, htb, macvlan, masquerade, port_forward, vxlan};
pub use names::{unique, unique_link};
pub use net::{Host, Namespace, Net};
pub use place::{Child, Forked, Place, fork};
pub use podman::{Network, PodmanContainer};
pub use router::{Lan, Port, Router};
