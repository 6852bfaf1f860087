//! Map tasks over chunks, then one reduce, on a given number of threads.

/// Runs `map` on 0..`tasks` and folds the results with `reduce`, in the order of tasks on each
/// thread. `reduce` must be commutative and associative, with `R::default()` as its neutral
/// element, so that the answer does not depend on `threads`.
pub(crate) fn run<R: Send + Default>(
    tasks: u64,
    threads: usize,
    map: impl Fn(u64) -> R + Sync,
    reduce: impl Fn(R, R) -> R + Sync,
) -> R {
    let some = |first: u64, step: usize| {
        (first..tasks)
            .step_by(step)
            .map(&map)
            .fold(R::default(), &reduce)
    };
    if threads <= 1 {
        return some(0, 1);
    }
    std::thread::scope(|scope| {
        let some = &some;
        let workers: Vec<_> = (0..threads)
            .map(|t| scope.spawn(move || some(t as u64, threads)))
            .collect();
        workers
            .into_iter()
            .map(|w| {
                w.join()
                    .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
            })
            .fold(R::default(), &reduce)
    })
}
