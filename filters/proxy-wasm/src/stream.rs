use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use portcullis_core::farewell::{Stay, Streams};
use portcullis_core::limit::Place;
use portcullis_core::observe::{Entry, Outcome, Seen, Series};
use portcullis_core::review::{PassedToken, ReviewKey, Settled};
use portcullis_core::tunnel::Tunnel;

use crate::clusters::Known;
use crate::fault::Fault;
use crate::root::Root;

/// What is kept of a stream between its hooks.
pub(crate) struct Stream {
    pub(crate) root_id: u32,
    /// `None` if Envoy runs requests under a configuration that was refused: they fail closed.
    pub(crate) root: Option<Rc<Root>>,
    /// The configuration by which it is judged, again, too.
    pub(crate) cluster: Option<Rc<Known>>,
    pub(crate) owns_unauthorized: bool,
    /// The token that went upstream as good, until the upstream has answered.
    pub(crate) token: Option<PassedToken>,
    /// Given back when Envoy deletes the stream, which it does exactly once, however the stream ends.
    pub(crate) place: Option<Place>,
    /// Answers to reviews that it has waited for, and how many are missing.
    pub(crate) settled: Settled,
    pub(crate) missing: usize,
    pub(crate) rounds: u8,
    /// Answers that were looked for with the other workers.
    pub(crate) looked_for: Vec<ReviewKey>,
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
    pub(crate) visit: Visit,
    pub(crate) fault: Fault,
}

/// What a long-running stream keeps of it.
#[derive(Default)]
pub(crate) enum Visit {
    /// It does not run for long.
    #[default]
    None,
    /// It is not known yet on which server it runs.
    Comes(Arc<Streams<u32>>),
    /// It runs.
    Stays(#[expect(dead_code, reason = "held for its end")] Stay<u32>),
}

impl Stream {
    pub(crate) fn new(root_id: u32, root: Option<Rc<Root>>) -> Self {
        Stream {
            root_id,
            root,
            cluster: None,
            owns_unauthorized: false,
            token: None,
            place: None,
            settled: Settled::default(),
            missing: 0,
            rounds: 0,
            looked_for: Vec::new(),
            is_met: false,
            is_answered: false,
            judged: Duration::ZERO,
            waits_since: None,
            counted: None,
            line: None,
            tunnel: Tunnel::Open,
            visit: Visit::None,
            fault: Fault::default(),
        }
    }

    /// Counts what became of a request that was forwarded, and puts it into its line.
    pub(crate) fn tell(&mut self, outcome: Outcome) {
        if let (Some((series, seen)), Some(root)) = (&self.counted, &self.root) {
            root.metrics.count(Some(series), seen, outcome);
        }
        if let Some((_, told)) = &mut self.line {
            *told = outcome;
        }
    }
}
