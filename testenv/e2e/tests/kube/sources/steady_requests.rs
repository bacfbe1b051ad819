use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::JoinHandle;

use portcullis_harness::client::{H2Client, TlsTarget};
use portcullis_harness::wait;

use super::control_plane::SOON;

/// Requests for the version of a kube-apiserver, one after the other, in a thread of their own.
pub(super) struct SteadyRequests {
    ended: Arc<AtomicBool>,
    asked: Arc<AtomicUsize>,
    thread: JoinHandle<Vec<String>>,
}

impl SteadyRequests {
    /// By turns on a connection that stays and on a new one.
    pub(super) fn start(target: &TlsTarget) -> Self {
        Self::of(target, Some(H2Client::connect(target).unwrap()))
    }

    /// On a new connection each.
    pub(super) fn on_new_connections(target: &TlsTarget) -> Self {
        Self::of(target, None)
    }

    fn of(target: &TlsTarget, open: Option<H2Client>) -> Self {
        let (ended, asked) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
        let (end, count, target) = (Arc::clone(&ended), Arc::clone(&asked), target.clone());
        let thread = std::thread::spawn(move || {
            let mut failed = Vec::new();
            while !end.load(Ordering::Relaxed) {
                let new = H2Client::connect(&target).and_then(|client| client.get("/version", &[]));
                let on_open = open.iter().map(|client| ("open", client.get("/version", &[])));
                for (which, answer) in on_open.chain([("new", new)]) {
                    count.fetch_add(1, Ordering::Relaxed);
                    match answer {
                        Ok(answer) if answer.status == 200 => {}
                        other => failed.push(format!("on the {which} connection: {other:?}")),
                    }
                }
            }
            failed
        });
        Self { ended, asked, thread }
    }

    /// Waits for so many requests more.
    pub(super) fn wait_for(&self, more: usize) {
        let wanted = self.asked.load(Ordering::Relaxed) + more;
        let has = || (self.asked.load(Ordering::Relaxed) >= wanted).then_some(());
        wait::until("more requests", SOON, has).unwrap();
    }

    /// Ends them; each has to have had its answer.
    pub(super) fn none_failed(self) {
        self.ended.store(true, Ordering::Relaxed);
        let failed = self.thread.join().unwrap();
        assert!(failed.is_empty(), "{} of {}: {failed:?}", failed.len(), self.asked.load(Ordering::Relaxed));
    }
}
