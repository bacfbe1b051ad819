//! The snapshots that a stream follows. A stream that waits for its peer follows them, too: as long as the peer lets it wait, it would
//! keep one of before.

use std::future::Future;
use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use tokio::sync::watch;

use crate::admission::Admission;
use crate::delta::{DeltaStream, NextResponse};
use crate::lock::lock;
use crate::node::View;
use crate::snapshot::Snapshot;

/// Time that a stream may take for a snapshot at no charge: a part for each resource, and one for all.
const FREE_OF_RESOURCE: Duration = Duration::from_micros(2);
const FREE: Duration = Duration::from_millis(5);

/// A stream, and the snapshots for it.
pub(super) struct FollowedSnapshots {
    snapshots: watch::Receiver<Option<Arc<Snapshot>>>,
    view: View,
    stream: Arc<Mutex<DeltaStream>>,
    admission: Arc<Admission>,
    /// Whether one came since the stream began.
    is_newer: bool,
    /// Whether one came that was not responded to.
    is_due: bool,
    /// The rest of the time for the last one.
    free: Duration,
}

/// The newest snapshot for nodes of a view.
pub(super) fn of_view(newest: &Option<Arc<Snapshot>>, view: &View) -> Option<Arc<Snapshot>> {
    newest.as_ref().and_then(|newest| newest.shared_view(view))
}

impl FollowedSnapshots {
    /// Those that come after the one that the stream began with.
    pub(super) fn after(
        snapshots: watch::Receiver<Option<Arc<Snapshot>>>,
        view: View,
        stream: Arc<Mutex<DeltaStream>>,
        admission: Arc<Admission>,
    ) -> Self {
        Self { snapshots, view, stream, admission, is_newer: false, is_due: false, free: Duration::ZERO }
    }

    pub(super) fn stream(&self) -> &Mutex<DeltaStream> {
        &self.stream
    }

    pub(super) fn view(&self) -> &View {
        &self.view
    }

    pub(super) fn is_newer(&self) -> bool {
        self.is_newer
    }

    pub(super) fn is_due(&self) -> bool {
        self.is_due
    }

    /// Waits for a newer one, which the stream takes. Returns false if there is none any more.
    pub(super) async fn next(&mut self) -> bool {
        let is_open = self.snapshots.changed().await.is_ok();
        if is_open {
            self.take();
        }
        is_open
    }

    /// Waits for something else. The stream takes newer ones meanwhile. `None` if there is none any more.
    pub(super) async fn during<T>(&mut self, wait: impl Future<Output = T>) -> Option<T> {
        let mut wait = pin!(wait);
        loop {
            tokio::select! {
                biased;
                output = &mut wait => return Some(output),
                is_open = self.next() => if !is_open {
                    return None;
                }
            }
        }
    }

    fn take(&mut self) {
        (self.is_newer, self.is_due) = (true, true);
        let Some(newest) = of_view(&self.snapshots.borrow_and_update(), &self.view) else { return };
        let resources = u32::try_from(newest.len()).unwrap_or(u32::MAX);
        self.free = FREE.saturating_add(FREE_OF_RESOURCE.saturating_mul(resources));
        let start = Instant::now();
        lock(&self.stream).take_snapshot(newest);
        self.worked(start.elapsed());
    }

    /// The next response of the stream, if there is room for its bytes. Names and refusals of a node can make that take longer than the
    /// resources of a snapshot do: the rest is the node's work.
    pub(super) fn respond<R>(&mut self, take_room: impl FnOnce(usize) -> Option<R>) -> NextResponse<R> {
        let start = Instant::now();
        let next = lock(&self.stream).respond(take_room);
        self.worked(start.elapsed());
        if matches!(next, NextResponse::None) {
            (self.is_due, self.free) = (false, Duration::ZERO);
        }
        next
    }

    /// Records time that the stream took.
    pub(super) fn worked(&mut self, took: Duration) {
        self.admission.worked(took.saturating_sub(self.free));
        self.free = self.free.saturating_sub(took);
    }
}
