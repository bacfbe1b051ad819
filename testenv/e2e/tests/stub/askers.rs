//! Clients that ask as fast as they can, and how many of their requests go through.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use portcullis_harness::client::H2Client;
use portcullis_harness::wait;

use crate::fixture::{PODS, StopOnDrop};

/// The time in which a rate has to settle.
const SETTLED: Duration = Duration::from_secs(40);
/// Seconds that a rate is measured over.
const WINDOW: usize = 8;
/// The pause of a client after a refusal.
const PAUSE: Duration = Duration::from_millis(20);

/// A client that asks again and again.
pub(crate) struct Asker<'a> {
    pub(crate) client: &'a H2Client,
    /// How many requests it has under way.
    pub(crate) threads: usize,
    /// Whether its gateway may go.
    pub(crate) may_end: bool,
}

impl<'a> Asker<'a> {
    pub(crate) fn new(client: &'a H2Client, threads: usize) -> Self {
        Self { client, threads, may_end: false }
    }

    /// Whether its gateway has gone: a request may fail a moment before its connection is known to be closed.
    fn has_ended(&self) -> bool {
        let is_closed = || self.client.is_closed().then_some(());
        wait::until("the connection is closed", Duration::from_secs(5), is_closed).is_ok()
    }

    /// Asks until it is stopped, and counts the good answers.
    fn run(&self, stop: &AtomicBool, good: &AtomicU64) {
        while !stop.load(Ordering::Acquire) {
            match self.client.get(PODS, &[]).map(|answer| answer.status) {
                Ok(200) => _ = good.fetch_add(1, Ordering::Relaxed),
                Ok(429) => std::thread::park_timeout(PAUSE),
                Err(_) if self.may_end && self.has_ended() => return,
                other => panic!("{other:?}"),
            }
        }
    }
}

/// Has each client ask as fast as it can while `watch` looks on, which is given the count of good answers.
pub(crate) fn storm<T>(askers: &[Asker<'_>], watch: impl FnOnce(&AtomicU64) -> T) -> T {
    let (good, stop) = (AtomicU64::new(0), AtomicBool::new(false));
    std::thread::scope(|scope| {
        let _stop = StopOnDrop(&stop);
        for asker in askers {
            (0..asker.threads).for_each(|_| _ = scope.spawn(|| asker.run(&stop, &good)));
        }
        watch(&good)
    })
}

/// Has each client ask as fast as it can, with that many threads, until the requests that went through in [`WINDOW`] seconds are
/// as many as `enough` says. Returns how many went through in a second.
pub(crate) fn ask(clients: &[&H2Client], threads: usize, enough: impl Fn(u64) -> bool) -> u64 {
    let askers: Vec<_> = clients.iter().map(|client| Asker::new(client, threads)).collect();
    storm(&askers, |good| {
        let mut samples = vec![(Instant::now(), 0)];
        let settled = wait::until("the rate settles", SETTLED, || {
            let last = samples.last()?.0;
            if last.elapsed() < Duration::from_secs(1) {
                return None;
            }
            samples.push((Instant::now(), good.load(Ordering::Relaxed)));
            let (end, after) = *samples.last()?;
            let (start, before) = *samples.iter().rev().nth(WINDOW)?;
            let rate = ((after - before) as f64 / end.duration_since(start).as_secs_f64()).round() as u64;
            enough(rate).then_some(rate)
        });
        settled.unwrap_or_else(|error| panic!("{error}: {samples:?}"))
    })
}
