//! How a request is judged: the core decides, Envoy is told.

use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use portcullis_core::hygiene::{PassedOn, Scan};
use portcullis_core::observe::{Entry, Outcome, Seen};
use portcullis_core::review::Review;
use portcullis_core::tunnel::Tunnel;
use portcullis_core::{Decision, Gateway, Moment, Refusal, RequestFacts};
use rustls_pki_types::UnixTime;

use crate::apply::{apply, refuse, show};
use crate::bundle::{Bundle, Next};
use crate::clusters::Known;
use crate::host::{Host, Map};
use crate::pairs::{self, Pairs};
use crate::reviews::Asking;
use crate::root::Root;
use crate::shelf;
use crate::stream::{Stream, Visit};

/// How often a request may wait for reviews: twice for its tokens, nine times for its impersonation, and some more for what
/// was forgotten because the configuration changed meanwhile, or was found with another worker.
const ROUNDS: u8 = 24;

/// How far a request has come.
enum Judged {
    Waits,
    Again,
    Goes,
    Ends(Refusal),
}

impl<H: Host> Bundle<H> {
    /// Judges a request, the first time or with answers that it waited for.
    pub(crate) fn judge(&mut self, id: u32, stream: &mut Stream) -> Next {
        let (Some(root), Some(now), Some(uptime)) = (stream.root.clone(), self.host.now(), self.host.uptime()) else {
            stream.is_answered = true;
            return self.unknown();
        };
        if let (None, Some(memory)) = (&stream.cluster, &self.memory) {
            stream.cluster = self.clusters.current(&self.host, memory, &mut self.farewell, uptime);
        }
        let known = stream.cluster.clone();
        let times = Moment { now: UnixTime::since_unix_epoch(now), uptime };
        let raw = self.host.headers(Map::Request);
        let (mut seen, judged) = match raw.as_deref().and_then(pairs::read) {
            Some(lines) => loop {
                match self.decide(id, stream, &root, known.as_deref(), &lines, times) {
                    (_, Judged::Again) => {}
                    decided => break decided,
                }
            },
            None => (Seen::default(), Judged::Ends(Refusal::internal())),
        };
        let end = self.host.uptime().unwrap_or(uptime);
        stream.judged = stream.judged.saturating_add(end.saturating_sub(uptime));
        let outcome = match &judged {
            Judged::Waits | Judged::Again => {
                stream.waits_since = Some(end);
                return Next::Wait;
            }
            Judged::Goes => Outcome::Forwarded,
            Judged::Ends(refusal) => Outcome::Refused(refusal.cause),
        };
        let series = known.as_ref().map(|known| Arc::clone(known.cluster.series()));
        root.metrics.judged(stream.judged, &self.host);
        root.metrics.count(series.as_ref(), &seen, outcome);
        stream.line = seen.entry.take().map(|entry| (entry, outcome));
        if let Judged::Ends(refusal) = &judged {
            stream.is_answered = true;
            refuse(refusal, &self.host);
            return Next::Wait;
        }
        stream.counted = series.map(|series| (series, seen));
        Next::Continue
    }

    fn decide(
        &mut self,
        id: u32,
        stream: &mut Stream,
        root: &Rc<Root>,
        known: Option<&Known>,
        lines: &Pairs<'_>,
        times: Moment,
    ) -> (Seen, Judged) {
        let scan = root.gateway.scan(known.map(|known| &known.cluster), lines.iter().copied());
        let mut seen = Seen::default();
        let decision = match known {
            Some(known) => {
                stream.fault.strike("decide");
                let presented = self.peers.of(&scan, &self.host);
                let request = RequestFacts {
                    scan: &scan,
                    peer: presented.peer(),
                    settled: &stream.settled,
                    now: times.now,
                    uptime: times.uptime,
                };
                root.gateway.decide_seen(&known.cluster, &request, &mut seen)
            }
            None => Decision::Refuse(Gateway::unrouted(&scan)),
        };
        if let Some(entry) = &mut seen.entry {
            tell_client(entry, lines);
        }
        let decision = match decision {
            // The headers stay as they are until they are judged again; nothing goes upstream meanwhile.
            Decision::Review(reviews) => match self.wait(reviews, id, stream, root, times) {
                Ok(waits) => return (seen, waits),
                Err(refusal) => Decision::Refuse(refusal),
            },
            decided => decided,
        };
        let is_shown = seen.shown.take().is_none_or(|shown| show(&shown, &self.host));
        let decision = if is_shown { decision } else { Decision::Refuse(Refusal::internal()) };
        let judged = self.carry_out(decision, &scan, stream, known);
        if matches!(judged, Judged::Goes) {
            stream.fault.strike("decided");
        }
        (seen, judged)
    }

    fn carry_out(&self, decision: Decision<'_>, scan: &Scan<'_>, stream: &mut Stream, known: Option<&Known>) -> Judged {
        let passed_on = match &decision {
            Decision::Forward(forward) => forward.passed_on,
            Decision::Review(_) | Decision::Refuse(_) => PassedOn::default(),
        };
        let mut is_clean = true;
        for name in scan.taken_out(passed_on).names() {
            is_clean &= self.host.remove_header(Map::Request, name);
        }
        stream.fault.strike("removed");
        match decision {
            Decision::Forward(mut forward) if is_clean => match apply(&forward, scan.has_connection, &self.host) {
                Ok(()) => {
                    stream.fault.strike("applied");
                    stream.place = forward.place.take();
                    stream.owns_unauthorized = forward.owns_unauthorized;
                    stream.token = forward.token.take();
                    stream.tunnel = Tunnel::of(forward.is_upgrade);
                    if let (true, Some(known)) = (forward.is_long, known) {
                        stream.visit = Visit::Comes(Arc::clone(&known.streams));
                    }
                    Judged::Goes
                }
                Err(refusal) => Judged::Ends(refusal),
            },
            Decision::Refuse(refusal) => Judged::Ends(refusal),
            Decision::Forward(_) | Decision::Review(_) => Judged::Ends(Refusal::internal()),
        }
    }

    fn wait(
        &mut self,
        reviews: Vec<Review>,
        id: u32,
        stream: &mut Stream,
        root: &Root,
        Moment { uptime, .. }: Moment,
    ) -> Result<Judged, Refusal> {
        stream.rounds = stream.rounds.saturating_add(1);
        if stream.rounds > ROUNDS {
            return Err(Refusal::review_failed());
        }
        if self.finds_answers(&reviews, stream) {
            return Ok(Judged::Again);
        }
        stream.missing = reviews.len();
        let asking = Asking { host: &self.host, root: stream.root_id, via: root.gateway.via(), uptime };
        let is_there = |other| self.streams.contains_key(&other);
        let at_once = self.reviews.entry(stream.root_id).or_default().ask(reviews, id, is_there, &asking)?;
        stream.fault.strike("asked");
        // Nobody else waits for a question that was new.
        if at_once.is_empty() { Ok(Judged::Waits) } else { Err(Refusal::review_failed()) }
    }

    /// Whether another worker knows some answer. It is kept as if it had come here when it came there, so that it is believed
    /// no longer than there; looked for once only, because by then it may be too old.
    fn finds_answers(&self, reviews: &[Review], stream: &mut Stream) -> bool {
        let mut has_found = false;
        for review in reviews {
            let key = review.key();
            if stream.looked_for.contains(&key) {
                continue;
            }
            stream.looked_for.push(key);
            if let Some((answer, at)) = shelf::find(&self.host, &key) {
                review.settle(201, &answer, Duration::from_secs(at));
                has_found = true;
            }
        }
        has_found
    }
}

fn tell_client(entry: &mut Entry, lines: &Pairs<'_>) {
    let header = |wanted: &[u8]| lines.iter().find(|(name, _)| *name == wanted).map(|(_, value)| *value);
    entry.client(header(b"user-agent"), header(b"x-request-id"));
}
