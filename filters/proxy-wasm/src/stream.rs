use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use portcullis_core::Cluster;
use portcullis_core::limit::Place;
use portcullis_core::observe::{Entry, Outcome, Seen, Series};
use portcullis_core::review::Settled;

use crate::root::Root;
use crate::tunnel::Tunnel;

/// What is kept of a stream between its hooks.
pub(crate) struct Stream {
    pub(crate) root_id: u32,
    /// `None` if Envoy runs requests under a configuration that was refused: they fail closed.
    pub(crate) root: Option<Rc<Root>>,
    /// The configuration by which it is judged, again, too.
    pub(crate) cluster: Option<Rc<Cluster>>,
    pub(crate) owns_unauthorized: bool,
    /// Given back when Envoy deletes the stream, which it does exactly once, however the stream ends.
    pub(crate) place: Option<Place>,
    /// Answers to reviews that it has waited for, and how many are missing.
    pub(crate) settled: Settled,
    pub(crate) missing: usize,
    pub(crate) rounds: u8,
    /// Whether the request came here at all.
    pub(crate) is_met: bool,
    /// Whether it was answered here: it must not be touched any more.
    pub(crate) is_answered: bool,
    /// How long it was worked on so far, and since when it waits.
    pub(crate) judged: Duration,
    pub(crate) waits_since: Option<Duration>,
    /// What it was counted as.
    pub(crate) counted: Option<(Arc<Series>, Seen)>,
    /// The access log's line, if there is to be one.
    pub(crate) line: Option<(Entry, Outcome)>,
    pub(crate) tunnel: Tunnel,
}

impl Stream {
    pub(crate) fn new(root_id: u32, root: Option<Rc<Root>>) -> Self {
        Stream {
            root_id,
            root,
            cluster: None,
            owns_unauthorized: false,
            place: None,
            settled: Settled::default(),
            missing: 0,
            rounds: 0,
            is_met: false,
            is_answered: false,
            judged: Duration::ZERO,
            waits_since: None,
            counted: None,
            line: None,
            tunnel: Tunnel::Open,
        }
    }
}
