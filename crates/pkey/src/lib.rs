//! Part of a process behind memory protection keys (pkeys(7)): the host, which may use all memory,
//! and one guest in the same process and thread, which may not use the host's.
//!
//! - [`Region`]: all that is the host's lies in one range of low addresses. Two keys: one for what the guest
//!   may not touch, one for what it may only read.
//! - [`Allocator`]: what the host allocates comes from the region.
//! - [`Gate`]: the host runs on a stack in the region and calls the guest, on the thread's ordinary
//!   stack, with the keys' rights taken away (`WRPKRU`). Each `WRPKRU` is followed by a check of the
//!   value, as in ERIM (Vahldiek-Oberwagner et al., USENIX Security'19).
//! - [`Fault`]: a fault of the guest ends its run at the gate, and only that.
//! - [`seal`](Region::seal): before the guest's first instruction no other `WRPKRU` is left to jump to, no code
//!   can be added, and the system calls that would undo any of it are refused.
//!
//! x86-64 alone has all of this; elsewhere [`supported`] says so.

mod allocator;
mod arch;
mod fault;
#[cfg(target_arch = "x86_64")]
mod filter;
mod gate;
mod heap;
mod keys;
mod lock;
mod maps;
mod pages;
mod region;
mod scan;
mod seal;
pub mod seccomp;
mod spans;
mod thread;
mod watch;

pub use allocator::{Allocator, ordinary};
pub use fault::Fault;
#[cfg(target_arch = "x86_64")]
pub use filter::{Action, Bounds, decide};
pub use gate::{Gate, Sites, sites};
pub use keys::{Unsupported, facts_page, is_inside, supported};
pub use pages::Pages;
pub use region::{BASE, END, Kind, OpenError, Region, host_stack};
pub use scan::{Finding, accidental, find};
pub use seal::{SealError, Sealed, User, bind_now, is_bound_now, relinquish};
pub use thread::Thread;
