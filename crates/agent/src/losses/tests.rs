use super::*;
use crate::testing::interval_with_losses;
use cofferdam_diagnosis::windows::PERIOD;
use std::cell::RefCell;
use std::rc::Rc;

/// Synthetic input of the diagnosis, and the calls that it received.
#[derive(Default)]
struct Host {
    /// Milliseconds that the container loses to others in each second.
    lost_ms: u64,
    broken: bool,
    counts: bool,
    now: Duration,
    read: Duration,
    log: Vec<String>,
}

struct SyntheticDiagnosis(Rc<RefCell<Host>>);

impl Diagnose for SyntheticDiagnosis {
    fn read(
        &mut self,
        containers: &[Arc<Container>],
        _: BTreeMap<CgroupId, CpuAmount>,
    ) -> Result<Option<ScheduleInterval>, String> {
        let mut host = self.0.borrow_mut();
        assert!(host.counts, "read while nothing is counted");
        let length = host.now - host.read;
        host.read = host.now;
        host.log.push(format!("read {} ms", length.as_millis()));
        Ok((!length.is_zero()).then(|| interval_with_losses(containers, length, host.lost_ms)))
    }

    fn rest(&mut self) -> Result<(), String> {
        let mut host = self.0.borrow_mut();
        host.counts = false;
        host.log.push("rests".to_owned());
        Ok(())
    }

    fn resume(&mut self, _: &[Arc<Container>]) -> Result<(), String> {
        let mut host = self.0.borrow_mut();
        if host.broken {
            return Err("it is broken".to_owned());
        }
        (host.counts, host.read) = (true, host.now);
        host.log.push("counts".to_owned());
        Ok(())
    }
}

struct Scene {
    host: Rc<RefCell<Host>>,
    losses: Losses,
    start: Instant,
}

impl Scene {
    fn new(mode: AccountingMode) -> Scene {
        let host = Rc::new(RefCell::new(Host {
            counts: true,
            ..Host::default()
        }));
        let theirs = Rc::clone(&host);
        let open =
            move || Ok(Box::new(SyntheticDiagnosis(Rc::clone(&theirs))) as Box<dyn Diagnose>);
        let mut losses = Losses::new(Box::new(open));
        losses.switch(DiagnosisConfig {
            enabled: true,
            mode,
        });
        Scene {
            host,
            start: losses.covered_until,
            losses,
        }
    }

    /// Runs the control loop's calls for `length`. Returns the calls that the diagnosis received.
    fn pass(&mut self, length: Duration) -> Vec<String> {
        let until = self.host.borrow().now + length;
        let container = Arc::new(Container::plain(CgroupId(7), "/a", "a"));
        while let Some(due) = self.losses.due().filter(|due| *due <= self.start + until) {
            let now = due.max(self.start + self.host.borrow().now);
            self.host.borrow_mut().now = now - self.start;
            let containers = std::slice::from_ref(&container);
            self.losses.step(containers, BTreeMap::new(), now);
        }
        self.host.borrow_mut().now = until;
        std::mem::take(&mut self.host.borrow_mut().log)
    }

    fn got(&self) -> Duration {
        let totals = self.losses.view.totals.get(&CgroupId(7));
        Duration::from_nanos(totals.map_or(0, |t| t.got_ns))
    }

    fn counted_part(&self) -> f64 {
        let interval = self.losses.view.interval.as_ref().expect("there was one");
        interval.counted.as_secs_f64() / interval.length.as_secs_f64()
    }
}

/// Promise 5.
#[test]
fn windows_begin_after_a_while_without_losses() {
    let mut scene = Scene::new(AccountingMode::Sampled);
    let log = scene.pass(QUIET + Duration::from_millis(10));
    assert_eq!(log.last().map(String::as_str), Some("rests"), "{log:?}");
    assert_eq!(scene.counted_part(), 1.0);
    let before = scene.got();
    let log = scene.pass(PERIOD * 100);
    let windows = log.iter().filter(|l| *l == "read 400 ms").count();
    assert!((80..125).contains(&windows), "{windows} in 100 periods");
    assert_eq!(
        log.iter().filter(|l| l.starts_with("read")).count(),
        windows
    );
    assert!(scene.counted_part() < 0.5);
    // Half a CPU all the time.
    let got = (scene.got() - before).as_secs_f64();
    assert!((95.0..=100.1).contains(&got), "{got}");
}

/// Promise 5.
#[test]
fn a_loss_in_a_window_starts_exact_counting() {
    let mut scene = Scene::new(AccountingMode::Sampled);
    scene.pass(QUIET * 4);
    // 2% of a CPU is below the threshold, 3% is above it.
    scene.host.borrow_mut().lost_ms = 20;
    assert!(scene.pass(PERIOD * 10).contains(&"rests".to_owned()));
    scene.host.borrow_mut().lost_ms = 30;
    scene.pass(PERIOD * 2);
    let log = scene.pass(PERIOD * 10);
    assert_eq!(log, vec!["read 1000 ms"; log.len()]);
    assert_eq!(scene.counted_part(), 1.0);
    scene.host.borrow_mut().lost_ms = 0;
    let log = scene.pass(QUIET + PERIOD);
    assert!(log.contains(&"rests".to_owned()), "{log:?}");
}

/// Promise 5.
#[test]
fn a_client_sees_exact_counts() {
    let mut scene = Scene::new(AccountingMode::Sampled);
    scene.pass(QUIET * 4);
    scene
        .losses
        .look_closely(scene.start + scene.host.borrow().now);
    scene.pass(READING_INTERVAL * 2);
    let log = scene.pass(WATCHED - READING_INTERVAL * 3);
    assert_eq!(log, vec!["read 1000 ms"; log.len()]);
    assert_eq!(scene.counted_part(), 1.0);
    assert!(
        scene
            .pass(READING_INTERVAL * 4)
            .contains(&"rests".to_owned())
    );
}

/// Promise 5.
#[test]
fn a_configured_exact_mode_stays_exact() {
    let mut scene = Scene::new(AccountingMode::Exact);
    let log = scene.pass(QUIET * 10);
    assert_eq!(log[1..], vec!["read 1000 ms"; 50]);
    scene.losses.switch(DiagnosisConfig {
        enabled: false,
        mode: AccountingMode::Exact,
    });
    assert_eq!(scene.losses.due(), None);
}

#[test]
fn a_failed_resume_is_reported_and_retried() {
    let mut scene = Scene::new(AccountingMode::Sampled);
    scene.pass(QUIET * 2);
    scene.host.borrow_mut().broken = true;
    scene.pass(PERIOD * 3);
    let degraded = scene.losses.degraded.clone().expect("it is said");
    assert_eq!(degraded.name, "diagnosis_unreadable");
    assert!(degraded.text.contains("it is broken"), "{degraded:?}");
    scene.host.borrow_mut().broken = false;
    let log = scene.pass(PERIOD * 3);
    assert!(log.contains(&"read 400 ms".to_owned()), "{log:?}");
    assert_eq!(scene.losses.degraded, None);
}
