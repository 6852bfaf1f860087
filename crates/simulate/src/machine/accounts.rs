//! Accounts of CPU time: running and idle CPUs, and the waits of tenants by cause, with the
//! definitions of the diagnosis (docs/src/diagnosis.md).

use crate::cpus::CpuSet;
use cofferdam_types::ScheduleTime;
use hdrhistogram::Histogram;

/// Length below which waits are not compared with idle CPUs one by one.
const LONG_WAIT_NS: u64 = 1_000_000;
/// Scheduling period of the diagnosis.
pub(crate) const WINDOW_NS: u64 = 100_000_000;
/// Longest wake-up delay that is distinguished, nanoseconds.
const LONGEST_DELAY_NS: u64 = 600_000_000_000;

/// State of a tenant on one CPU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum TenantState {
    /// The tenant has no runnable thread there.
    #[default]
    Away,
    /// One of its threads runs.
    Running,
    /// The tenant has runnable threads, and none of them runs.
    Waiting,
    /// The tenant's quota, or one above, is used up.
    Throttled,
}

#[derive(Clone, Copy, Debug, Default)]
struct Place {
    state: TenantState,
    since_ns: u64,
}

/// Sums of one tenant.
#[derive(Clone, Debug)]
pub(super) struct Account {
    pub time: ScheduleTime,
    /// CPU time including the warm-up.
    pub used_ns: u64,
    /// Completed runs or phases.
    pub rounds: u64,
    /// Delays between wake-up and run, nanoseconds.
    pub delays: Histogram<u32>,
    /// Waits in this window whose cause is not determined yet.
    window_wait_ns: u64,
    /// Idle time in this window caused by its own throttling.
    window_own_ns: u64,
}

/// Idle time of one CPU.
#[derive(Clone, Copy, Debug, Default)]
struct Idle {
    total_ns: u64,
    /// Last idle period; still open if `until_ns` is `None`.
    from_ns: u64,
    until_ns: Option<u64>,
    is_idle: bool,
    /// Idle time in this window while other tenants were throttled here.
    window_left_ns: u64,
}

/// Accounts of all tenants and CPUs.
#[derive(Debug)]
pub(super) struct Accounts {
    pub tenants: Vec<Account>,
    places: Vec<Place>,
    idle: Vec<Idle>,
    /// Throttled tenants of each CPU.
    throttled: Vec<Vec<u32>>,
    cpus: usize,
    begun_ns: u64,
    last_idle_ns: u64,
    idle_now: usize,
}

impl Accounts {
    pub fn new(tenants: usize, cpus: usize) -> Accounts {
        let empty = Histogram::new_with_bounds(1, LONGEST_DELAY_NS, 2)
            .expect("bounds and digits are constants that the crate accepts");
        let account = Account {
            time: ScheduleTime::default(),
            used_ns: 0,
            rounds: 0,
            delays: empty,
            window_wait_ns: 0,
            window_own_ns: 0,
        };
        Accounts {
            tenants: vec![account; tenants],
            places: vec![Place::default(); tenants * cpus],
            idle: vec![Idle::default(); cpus],
            throttled: vec![Vec::new(); cpus],
            cpus,
            begun_ns: 0,
            last_idle_ns: 0,
            idle_now: 0,
        }
    }

    /// Starts the accounts. All CPUs have been updated to now.
    pub fn begin(&mut self, now_ns: u64) {
        for account in &mut self.tenants {
            account.time = ScheduleTime::default();
            (
                account.rounds,
                account.window_wait_ns,
                account.window_own_ns,
            ) = (0, 0, 0);
            account.delays.reset();
        }
        for place in &mut self.places {
            place.since_ns = now_ns;
        }
        for idle in &mut self.idle {
            (idle.total_ns, idle.window_left_ns) = (0, 0);
        }
        self.begun_ns = now_ns;
    }

    /// Adds `ran_ns` of a thread of `tenant`.
    pub fn add_run(&mut self, tenant: usize, ran_ns: u64) {
        self.tenants[tenant].time.run_ns += ran_ns;
        self.tenants[tenant].used_ns += ran_ns;
    }

    /// Adds `idle_ns` of idle time of `cpu`.
    pub fn add_idle(&mut self, cpu: usize, idle_ns: u64) {
        let idle = &mut self.idle[cpu];
        idle.total_ns += idle_ns;
        match self.throttled[cpu][..] {
            [] => {}
            [only] => {
                idle.window_left_ns += idle_ns;
                self.tenants[only as usize].window_own_ns += idle_ns;
            }
            _ => idle.window_left_ns += idle_ns,
        }
    }

    /// Records that `cpu` becomes idle or busy.
    pub fn set_idle(&mut self, cpu: usize, is_idle: bool, now_ns: u64) {
        let idle = &mut self.idle[cpu];
        if idle.is_idle == is_idle {
            return;
        }
        idle.is_idle = is_idle;
        if is_idle {
            (idle.from_ns, idle.until_ns) = (now_ns, None);
            self.idle_now += 1;
        } else {
            idle.until_ns = Some(now_ns);
            self.last_idle_ns = now_ns;
            self.idle_now -= 1;
        }
    }

    /// Sets the state of `tenant` on `cpu` from now on.
    pub fn set(
        &mut self,
        tenant: usize,
        cpu: usize,
        state: TenantState,
        now_ns: u64,
        allowed: &CpuSet,
    ) {
        let place = tenant * self.cpus + cpu;
        if self.places[place].state == state {
            return;
        }
        self.cut(tenant, cpu, now_ns, allowed);
        let was = std::mem::replace(&mut self.places[place].state, state);
        if was == TenantState::Throttled {
            self.throttled[cpu].retain(|t| *t as usize != tenant);
        }
        if state == TenantState::Throttled {
            self.throttled[cpu].push(tenant as u32);
        }
    }

    /// Adds the time that has passed in the state of `tenant` on `cpu`.
    fn cut(&mut self, tenant: usize, cpu: usize, now_ns: u64, allowed: &CpuSet) {
        let place = &mut self.places[tenant * self.cpus + cpu];
        let since = std::mem::replace(&mut place.since_ns, now_ns);
        let passed = now_ns - since;
        match place.state {
            TenantState::Away | TenantState::Running => {}
            TenantState::Throttled => self.tenants[tenant].time.throttled_ns += passed,
            TenantState::Waiting => {
                let phantom = match passed >= LONG_WAIT_NS {
                    true => self.idle_elsewhere(since, now_ns, allowed),
                    false => 0,
                };
                let account = &mut self.tenants[tenant];
                account.time.phantom_ns += phantom;
                account.window_wait_ns += passed - phantom;
            }
        }
    }

    /// Longest time since `since` for which one of the CPUs was idle.
    fn idle_elsewhere(&self, since: u64, now_ns: u64, allowed: &CpuSet) -> u64 {
        if self.idle_now == 0 && self.last_idle_ns <= since {
            return 0;
        }
        let overlap = |cpu: usize| {
            let idle = &self.idle[cpu];
            let until = idle.until_ns.unwrap_or(now_ns);
            let ever = idle.is_idle || idle.until_ns.is_some();
            if ever {
                until.saturating_sub(idle.from_ns.max(since))
            } else {
                0
            }
        };
        allowed.iter().map(overlap).max().unwrap_or(0)
    }

    /// Adds the passed time of a tenant on all CPUs, before its CPUs change.
    pub fn close(&mut self, tenant: usize, now_ns: u64, allowed: &CpuSet) {
        for cpu in 0..self.cpus {
            self.cut(tenant, cpu, now_ns, allowed);
        }
    }

    /// Ends a window: waits in it are phantom as far as throttled others left CPUs idle.
    pub fn end_window<'a>(&mut self, now_ns: u64, allowed: impl Fn(usize) -> &'a CpuSet) {
        for tenant in 0..self.tenants.len() {
            for cpu in 0..self.cpus {
                if self.places[tenant * self.cpus + cpu].state != TenantState::Away {
                    self.cut(tenant, cpu, now_ns, allowed(tenant));
                }
            }
            let account = &self.tenants[tenant];
            let (wait, own) = (account.window_wait_ns, account.window_own_ns);
            let left: u64 = match wait {
                0 => 0,
                _ => {
                    let cpus = allowed(tenant).iter();
                    cpus.map(|cpu| self.idle[cpu].window_left_ns).sum()
                }
            };
            let phantom = wait.min(left.saturating_sub(own));
            let account = &mut self.tenants[tenant];
            account.time.phantom_ns += phantom;
            account.time.shared_ns += wait - phantom;
            (account.window_wait_ns, account.window_own_ns) = (0, 0);
        }
        for idle in &mut self.idle {
            idle.window_left_ns = 0;
        }
    }

    /// Records that a thread of `tenant` ran `delay_ns` after its wake-up.
    pub fn delayed(&mut self, tenant: usize, delay_ns: u64) {
        self.tenants[tenant].delays.saturating_record(delay_ns);
    }

    /// Idle time of each CPU since the start.
    pub fn idle_ns(&self) -> Vec<u64> {
        self.idle.iter().map(|idle| idle.total_ns).collect()
    }
}
