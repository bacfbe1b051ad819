//! One VM: every configuration of the filter on one worker, and every request there.

use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use portcullis_core::hygiene::PassedOn;
use portcullis_core::observe::{Entry, Outcome, Seen};
use portcullis_core::review::Review;
use portcullis_core::{Cluster, Decision, Gateway, Refusal, RequestFacts};
use portcullis_filter_config::names;
use rustls_pki_types::UnixTime;

use crate::apply::{apply, refuse};
use crate::clusters::Clusters;
use crate::fault;
use crate::host::{Host, Map};
use crate::memory::VmMemory;

use crate::pairs::{self, Pairs};
use crate::peers::Peers;
use crate::reviews::{AGAIN, Answer, Asking, Reviews};
use crate::root::Root;
use crate::stream::Stream;
use crate::tunnel::Tunnel;

/// How often a request may wait for reviews: twice for its tokens, eight times for its impersonation, and some more for what
/// was forgotten because the configuration changed meanwhile.
const ROUNDS: u8 = 14;

/// What becomes of a request or an answer after its headers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// It goes on.
    Continue,
    /// It waits, or was answered.
    Wait,
}

/// How far a request has come.
enum Judged {
    Waits,
    Goes,
    Ends(Refusal),
}

/// Everything that one VM knows.
#[derive(Default)]
pub struct Bundle<H> {
    host: H,
    roots: HashMap<u32, Rc<Root>>,
    reviews: HashMap<u32, Reviews>,
    streams: HashMap<u32, Stream>,
    clusters: Clusters,
    peers: Peers,
    memory: VmMemory,
}

impl<H: Host> Bundle<H> {
    /// Takes a configuration for a root context; false refuses it.
    pub fn configure(&mut self, root: u32, config: &[u8]) -> bool {
        match Root::compile(config, &self.host) {
            Some(compiled) => {
                self.roots.insert(root, compiled);
                true
            }
            None => false,
        }
    }

    /// A request begins.
    pub fn new_stream(&mut self, stream: u32, root: u32) {
        let compiled = self.roots.get(&root).map(Rc::clone);
        self.streams.insert(stream, Stream::new(root, compiled));
    }

    /// Judges a request.
    pub fn request_headers(&mut self, id: u32) -> Next {
        let Some(mut stream) = self.streams.remove(&id) else { return self.unknown() };
        stream.is_met = true;
        let next = self.judge(id, &mut stream);
        self.streams.insert(id, stream);
        next
    }

    /// Whether what a client sends behind its headers is held back.
    pub fn holds_body(&mut self, id: u32) -> bool {
        self.streams.get_mut(&id).is_some_and(|stream| stream.tunnel.holds())
    }

    /// Takes out of the trailers what no client may send on.
    pub fn request_trailers(&mut self, id: u32) {
        let Some(root) = self.streams.get(&id).and_then(|stream| stream.root.clone()) else { return };
        let raw = self.host.headers(Map::RequestTrailers).unwrap_or_default();
        for (name, _) in pairs::read(&raw).unwrap_or_default() {
            if root.gateway.reserves(name) && !self.host.remove_header(Map::RequestTrailers, name) {
                self.host.close_request();
            }
        }
    }

    /// Looks at an answer's headers.
    pub fn response_headers(&mut self, id: u32) -> Next {
        let Some(stream) = self.streams.get_mut(&id) else { return Next::Continue };
        if stream.is_answered {
            return Next::Continue;
        }
        let needs_status = stream.owns_unauthorized || stream.tunnel.is_closed();
        let status = needs_status.then(|| self.host.header(Map::Response, ":status")).flatten();
        if stream.owns_unauthorized && status.as_deref() == Some(b"401") {
            return replace_unauthorized(stream, &self.host);
        }
        if !std::mem::replace(&mut stream.is_met, true) {
            // Envoy answers what it does not let through to any filter.
            if let Some(root) = &stream.root {
                root.metrics.count(None, &Seen::default(), Outcome::Malformed, &self.host);
            }
            stream.line = Some((Entry::bare(), Outcome::Malformed));
        }
        if stream.tunnel.is_closed() && status.as_deref() == Some(b"101") && stream.tunnel.open() {
            self.host.continue_request();
        }
        Next::Continue
    }

    /// A callout has ended: whoever waits for its answer is judged again.
    pub fn callout_done(&mut self, root: u32, token: u32, has_headers: bool) {
        let answer = self.ask(root, |reviews, asking| reviews.done(token, has_headers, asking)).flatten();
        if self.reviews.get(&root).is_some_and(Reviews::has_more) {
            self.host.tick_every(AGAIN);
        }
        self.tell(answer);
    }

    /// Does what waits for a while.
    pub fn tick(&mut self, root: u32) {
        self.host.tick_every(Duration::ZERO);
        let answers = self.ask(root, |reviews, asking| reviews.ask_again(asking)).unwrap_or_default();
        if !self.host.act_for(root) {
            return;
        }
        if let Some(root) = self.roots.get(&root) {
            root.metrics.show(&self.host);
        }
        self.tell(answers);
    }

    /// A stream has ended.
    pub fn complete(&mut self, id: u32) {
        let Some(stream) = self.streams.get_mut(&id) else { return };
        if let Some((entry, outcome)) = stream.line.take() {
            let details = self.host.property("response\0code_details");
            let members = entry.finish(outcome, details.as_deref());
            let _ = self.host.set_filter_state(names::wasm::LOG_MEMBERS, members.as_bytes());
        }
        if stream.place.take().is_some()
            && let Some(root) = &stream.root
        {
            root.metrics.changed(&self.host);
        }
    }

    /// A context is gone.
    pub fn delete(&mut self, context: u32) {
        self.streams.remove(&context);
        self.roots.remove(&context);
        if let (Some(mut reviews), Some(now)) = (self.reviews.remove(&context), self.host.now()) {
            self.tell(reviews.give_up(UnixTime::since_unix_epoch(now)));
        }
    }

    fn unknown(&self) -> Next {
        refuse(&Refusal::internal(), &self.host);
        Next::Wait
    }

    /// Judges a request, the first time or with answers that it waited for.
    fn judge(&mut self, id: u32, stream: &mut Stream) -> Next {
        let (Some(root), Some(now), Some(start)) = (stream.root.clone(), self.host.now(), self.host.uptime()) else {
            stream.is_answered = true;
            return self.unknown();
        };
        if stream.cluster.is_none() {
            stream.cluster = self.clusters.current(&self.host, &self.memory, start);
        }
        let cluster = stream.cluster.clone();
        let raw = self.host.headers(Map::Request);
        let (mut seen, judged) = match raw.as_deref().and_then(pairs::read) {
            Some(lines) => {
                let times = (UnixTime::since_unix_epoch(now), start);
                self.decide(id, stream, &root, cluster.as_deref(), &lines, times)
            }
            None => (Seen::default(), Judged::Ends(Refusal::internal())),
        };
        let end = self.host.uptime().unwrap_or(start);
        stream.judged = stream.judged.saturating_add(end.saturating_sub(start));
        let outcome = match &judged {
            Judged::Waits => {
                stream.waits_since = Some(end);
                return Next::Wait;
            }
            Judged::Goes => Outcome::Forwarded,
            Judged::Ends(refusal) => Outcome::Refused(refusal.cause),
        };
        let series = cluster.as_ref().map(|cluster| Arc::clone(cluster.series()));
        root.metrics.judged(stream.judged, &self.host);
        root.metrics.count(series.as_ref(), &seen, outcome, &self.host);
        stream.line = seen.entry.take().map(|entry| (entry, outcome));
        match judged {
            Judged::Ends(refusal) => {
                stream.is_answered = true;
                refuse(&refusal, &self.host);
                Next::Wait
            }
            _ => {
                stream.counted = series.map(|series| (series, seen));
                Next::Continue
            }
        }
    }

    fn decide(
        &mut self,
        id: u32,
        stream: &mut Stream,
        root: &Root,
        cluster: Option<&Cluster>,
        lines: &Pairs<'_>,
        (now, uptime): (UnixTime, Duration),
    ) -> (Seen, Judged) {
        let scan = root.gateway.scan(lines.iter().copied());
        let mut seen = Seen::default();
        let decision = match cluster {
            Some(cluster) => {
                fault::maybe("decide", lines);
                let presented = self.peers.of(&scan, &self.host);
                let request =
                    RequestFacts { scan: &scan, peer: presented.peer(), settled: &stream.settled, now, uptime };
                root.gateway.decide_seen(cluster, &request, &mut seen)
            }
            None => Decision::Refuse(Gateway::unrouted(&scan)),
        };
        if let Some(entry) = &mut seen.entry {
            tell_client(entry, lines);
        }
        let decision = match decision {
            // The headers stay as they are until they are judged again; nothing goes upstream meanwhile.
            Decision::Review(reviews) => match self.wait(reviews, id, stream, root, (now, uptime)) {
                Ok(()) => return (seen, Judged::Waits),
                Err(refusal) => Decision::Refuse(refusal),
            },
            decided => decided,
        };
        let passed_on = match &decision {
            Decision::Forward(forward) => forward.passed_on,
            Decision::Review(_) | Decision::Refuse(_) => PassedOn::default(),
        };
        let mut is_clean = true;
        for name in scan.taken_out(passed_on).names() {
            is_clean &= self.host.remove_header(Map::Request, name);
        }
        let judged = match decision {
            Decision::Forward(mut forward) if is_clean => match apply(&forward, scan.has_connection, &self.host) {
                Ok(()) => {
                    stream.place = forward.place.take();
                    stream.owns_unauthorized = forward.owns_unauthorized;
                    stream.tunnel = if forward.is_upgrade { Tunnel::Closed } else { Tunnel::Open };
                    fault::maybe("decided", lines);
                    Judged::Goes
                }
                Err(refusal) => Judged::Ends(refusal),
            },
            Decision::Refuse(refusal) => Judged::Ends(refusal),
            Decision::Forward(_) | Decision::Review(_) => Judged::Ends(Refusal::internal()),
        };
        (seen, judged)
    }

    fn wait(
        &mut self,
        reviews: Vec<Review>,
        id: u32,
        stream: &mut Stream,
        root: &Root,
        (now, uptime): (UnixTime, Duration),
    ) -> Result<(), Refusal> {
        stream.rounds = stream.rounds.saturating_add(1);
        if stream.rounds > ROUNDS {
            return Err(Refusal::review_failed());
        }
        stream.missing = reviews.len();
        let asking = Asking { host: &self.host, root: stream.root_id, via: root.gateway.via(), uptime, now };
        let at_once = self.reviews.entry(stream.root_id).or_default().ask(reviews, id, &asking)?;
        // Nobody else waits for a question that was new.
        if at_once.is_empty() { Ok(()) } else { Err(Refusal::review_failed()) }
    }

    /// Something about reviews of a root context, with what that needs to know.
    fn ask<R>(&mut self, root: u32, work: impl FnOnce(&mut Reviews, &Asking<'_, H>) -> R) -> Option<R> {
        let compiled = self.roots.get(&root)?;
        let now = UnixTime::since_unix_epoch(self.host.now()?);
        let asking = Asking { host: &self.host, root, via: compiled.gateway.via(), uptime: self.host.uptime()?, now };
        Some(work(self.reviews.entry(root).or_default(), &asking))
    }

    /// Tells answers to whoever waits for them.
    fn tell(&mut self, answers: impl IntoIterator<Item = Answer>) {
        for Answer { key, result, waiters } in answers {
            for id in waiters {
                let Some(mut stream) = self.streams.remove(&id) else { continue };
                stream.settled.push(key, result.clone());
                stream.missing = stream.missing.saturating_sub(1);
                if stream.missing == 0 && !stream.is_answered && self.host.act_for(id) {
                    self.resume(id, &mut stream);
                }
                self.streams.insert(id, stream);
            }
        }
    }

    fn resume(&mut self, id: u32, stream: &mut Stream) {
        let since = stream.waits_since.take();
        if let (Some(since), Some(now), Some(root)) = (since, self.host.uptime(), &stream.root) {
            root.metrics.waited(now.saturating_sub(since), &self.host);
        }
        if self.judge(id, stream) == Next::Continue {
            self.host.continue_request();
        }
    }
}

/// A 401 that can only be about the gateway's own credential.
fn replace_unauthorized(stream: &mut Stream, host: &impl Host) -> Next {
    let refusal = Refusal::gateway_credential();
    let outcome = Outcome::Replaced(refusal.cause);
    if let (Some((series, seen)), Some(root)) = (&stream.counted, &stream.root) {
        root.metrics.count(Some(series), seen, outcome, host);
    }
    if let Some((_, told)) = &mut stream.line {
        *told = outcome;
    }
    stream.is_answered = true;
    refuse(&refusal, host);
    Next::Wait
}

fn tell_client(entry: &mut Entry, lines: &Pairs<'_>) {
    let header = |wanted: &[u8]| lines.iter().find(|(name, _)| *name == wanted).map(|(_, value)| *value);
    entry.client(header(b"user-agent"), header(b"x-request-id"));
}
