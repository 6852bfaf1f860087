//! Protection of a part of a process by memory protection keys (pkeys(7)). The host may use all
//! memory. The guest, in the same process and thread, may not use the host's.
//!
//! - [`Region`]: one range of low addresses has everything of the host. One key is for memory that
//!   the guest may not access, the other for memory that it may only read.
//! - [`Allocator`]: allocations of the host come from the region.
//! - [`Gate`]: the host runs on a stack in the region. It calls the guest on the thread's ordinary
//!   stack, without the rights to the keys (`WRPKRU`). Each `WRPKRU` is followed by a check of the
//!   value, as in ERIM (Vahldiek-Oberwagner et al., USENIX Security'19).
//! - [`Fault`]: a fault of the guest ends only its run, at the gate.
//! - [`seal`](Region::seal): before the guest's first instruction, no other `WRPKRU` is left to
//!   jump to, no code can be added, and system calls that would change any of this are refused.
//!
//! All of this exists on x86-64 only. Elsewhere [`supported`] returns an error.

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
pub use keys::{NoKeys, facts_page, is_inside, supported};
pub use pages::Pages;
pub use region::{BASE, END, MemoryKind, OpenError, Region, host_stack};
pub use scan::{Finding, accidental, find};
pub use seal::{SealError, SealedProcess, User, bind_now, is_bound_now, relinquish};
pub use thread::Thread;
