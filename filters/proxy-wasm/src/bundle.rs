//! One VM: every configuration of the filter on one worker, and every request there.

use std::collections::HashMap;
use std::rc::Rc;
use std::time::Duration;

use portcullis_core::Refusal;
use portcullis_core::farewell::{Arrival, End};
use portcullis_core::observe::{Entry, Outcome, Seen};
use portcullis_filter_config::names;

use crate::apply::refuse;
use crate::clusters::Clusters;
use crate::farewell::Farewell;
use crate::fault;
use crate::host::{Host, Map};
use crate::memory::VmMemory;
use crate::pairs;
use crate::peers::Peers;
use crate::reviews::{Answer, Asking, Reviews};
use crate::root::Root;
use crate::shelf;
use crate::stream::{Stream, Visit};

/// What becomes of a request or an answer after its headers, and of a request's trailers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// It goes on.
    Continue,
    /// It waits, or was answered.
    Wait,
}

/// Everything that one VM knows.
#[derive(Default)]
pub struct Bundle<H> {
    pub(crate) host: H,
    pub(crate) roots: HashMap<u32, Rc<Root>>,
    pub(crate) reviews: HashMap<u32, Reviews>,
    pub(crate) streams: HashMap<u32, Stream>,
    pub(crate) clusters: Clusters,
    pub(crate) farewell: Farewell,
    pub(crate) peers: Peers,
    /// From the first configuration on.
    pub(crate) memory: Option<VmMemory<H>>,
}

impl<H: Host> Bundle<H> {
    /// Takes a configuration for a root context; false refuses it.
    pub fn configure(&mut self, root: u32, config: &[u8]) -> bool {
        if self.memory.is_none() {
            self.memory = VmMemory::open(&self.host);
        }
        if self.memory.is_none() {
            self.host.log("portcullis: Envoy has no randomness for this VM, or shares no data");
            return false;
        }
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
        stream.fault.read(&self.host);
        stream.fault.strike("request-headers");
        let next = self.judge(id, &mut stream);
        self.arm(stream.root_id);
        self.streams.insert(id, stream);
        next
    }

    /// Whether what a client sends behind its headers is held back.
    pub fn holds_body(&mut self, id: u32) -> bool {
        self.streams.get_mut(&id).is_some_and(|stream| {
            stream.fault.strike("request-body");
            stream.tunnel.holds()
        })
    }

    /// Takes out of the trailers what no client may send on. [`Next::Wait`] keeps them: the request has been closed because some
    /// of that may still be there, or it was never judged.
    pub fn request_trailers(&mut self, id: u32) -> Next {
        let Some(stream) = self.streams.get(&id) else { return Next::Wait };
        let Some(root) = &stream.root else { return Next::Wait };
        stream.fault.strike("request-trailers");
        let cluster = stream.cluster.as_ref().map(|known| &known.cluster);
        let raw = self.host.headers(Map::RequestTrailers);
        let is_clean = raw.as_deref().and_then(pairs::read).is_some_and(|trailers| {
            let reserved = trailers.iter().filter(|(name, _)| root.gateway.reserves(cluster, name));
            reserved.fold(true, |all, (name, _)| self.host.remove_header(Map::RequestTrailers, name) && all)
        });
        if is_clean {
            return Next::Continue;
        }
        self.host.close_request();
        Next::Wait
    }

    /// Looks at an answer's headers.
    pub fn response_headers(&mut self, id: u32) -> Next {
        let Some(mut stream) = self.streams.remove(&id) else { return Next::Continue };
        let next = if stream.is_answered { Next::Continue } else { self.answer(id, &mut stream) };
        self.arm(stream.root_id);
        self.streams.insert(id, stream);
        next
    }

    fn answer(&mut self, id: u32, stream: &mut Stream) -> Next {
        stream.fault.strike("response-headers");
        let is_closed = stream.tunnel.is_closed();
        let token = stream.token.take();
        let needs_status = stream.owns_unauthorized || is_closed || token.is_some();
        let status = needs_status.then(|| self.host.header(Map::Response, ":status")).flatten();
        if stream.owns_unauthorized && status.as_deref() == Some(b"401") {
            let refusal = Refusal::gateway_credential();
            stream.tell(Outcome::Replaced(refusal.cause));
            stream.is_answered = true;
            refuse(&refusal, &self.host);
            return Next::Wait;
        }
        if let (Some(token), Some(b"401"), Some(now)) = (token, status.as_deref(), self.host.uptime()) {
            token.is_rejected(now);
            shelf::doubt(&self.host, &token.key(), now.as_secs());
        }
        let is_session = is_closed && status.as_deref() == Some(b"101");
        if is_session && stream.tunnel.open() {
            self.host.continue_request();
        }
        self.begin_visit(id, is_session, stream);
        Next::Continue
    }

    /// The upstream has answered, so the server is known, and whether an upgrade has become a session.
    fn begin_visit(&mut self, id: u32, is_session: bool, stream: &mut Stream) {
        let Visit::Comes(streams) = std::mem::take(&mut stream.visit) else { return };
        let server = self.host.property(names::wasm::SERVER).filter(|name| !name.is_empty());
        let server = server.as_deref().and_then(|name| std::str::from_utf8(name).ok());
        // An answer of Envoy's own may have no server.
        let (true, Some(uptime)) = (server.is_some() || is_session, self.host.uptime()) else { return };
        stream.visit = Visit::Stays(self.farewell.enter(&streams, Arrival { server, is_session }, id, uptime));
    }

    /// A callout has ended: whoever waits for its answer is judged again.
    pub fn callout_done(&mut self, root: u32, token: u32, has_headers: bool) {
        fault::strike_if_armed("callout");
        let answer = self.ask(root, |reviews, asking| reviews.done(token, has_headers, asking)).flatten();
        self.arm(root);
        self.tell(answer);
    }

    /// Does what waits for a while.
    pub fn tick(&mut self, root: u32) {
        self.host.tick_every(Duration::ZERO);
        fault::strike_if_armed("tick");
        let Some(compiled) = self.roots.get(&root).cloned() else { return };
        compiled.due.set(None);
        let answers = self.ask(root, |reviews, asking| reviews.ask_again(asking)).unwrap_or_default();
        self.tell(answers);
        if let Some(uptime) = self.host.uptime() {
            for (stream, why) in self.farewell.due(uptime) {
                self.end(stream, why);
            }
        }
        let is_held = self.memory.as_ref().is_some_and(VmMemory::renew);
        compiled.holds_places.set(is_held);
        if let (Some(memory), Some(uptime)) = (&self.memory, self.host.uptime()) {
            compiled.remembers.set(memory.store.forget_old(uptime));
        }
        // Metrics and the next call are the root context's.
        if self.host.act_for(root) {
            compiled.metrics.show(&self.host);
            self.arm(root);
        }
    }

    fn end(&mut self, id: u32, why: End) {
        let Some(stream) = self.streams.get_mut(&id) else { return };
        stream.tell(Outcome::Ended(why));
        stream.visit = Visit::None;
        if self.host.act_for(id) {
            self.host.close_request();
        }
    }

    /// A stream has ended.
    pub fn complete(&mut self, id: u32) {
        let Some(stream) = self.streams.get_mut(&id) else { return };
        stream.fault.strike("stream-complete");
        if !std::mem::replace(&mut stream.is_met, true) {
            // Envoy answers what it does not let through to any filter.
            if let Some(root) = &stream.root {
                root.metrics.count(None, &Seen::default(), Outcome::Malformed);
            }
            stream.line = Some((Entry::bare(), Outcome::Malformed));
        }
        if let Some((entry, outcome)) = stream.line.take() {
            let details = self.host.property("response\0code_details");
            let members = entry.finish(outcome, details.as_deref());
            let _ = self.host.set_filter_state(names::wasm::LOG_MEMBERS, members.as_bytes());
        }
        stream.visit = Visit::None;
        let root = stream.root_id;
        if stream.place.take().is_some()
            && let Some(root) = &stream.root
        {
            root.metrics.changed();
        }
        self.arm(root);
    }

    /// A context is gone.
    pub fn delete(&mut self, context: u32) {
        self.streams.remove(&context);
        self.roots.remove(&context);
        if let (Some(mut reviews), Some(now)) = (self.reviews.remove(&context), self.host.uptime()) {
            self.tell(reviews.give_up(now));
        }
    }

    pub(crate) fn unknown(&self) -> Next {
        refuse(&Refusal::internal(), &self.host);
        Next::Wait
    }

    /// Has the root context called when there is something to do. To be called for the context of one of its streams or its
    /// own.
    pub(crate) fn arm(&self, root: u32) {
        let Some(compiled) = self.roots.get(&root) else { return };
        let asks_again = self.reviews.get(&root).is_some_and(Reviews::has_more);
        compiled.arm(asks_again, self.farewell.next(), &self.host);
    }

    /// Something about reviews of a root context, with what that needs to know.
    fn ask<R>(&mut self, root: u32, work: impl FnOnce(&mut Reviews, &Asking<'_, H>) -> R) -> Option<R> {
        let compiled = self.roots.get(&root)?;
        let asking = Asking { host: &self.host, root, via: compiled.gateway.via(), uptime: self.host.uptime()? };
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
                    self.arm(stream.root_id);
                }
                self.streams.insert(id, stream);
            }
        }
    }

    fn resume(&mut self, id: u32, stream: &mut Stream) {
        stream.fault.strike("resumed");
        let since = stream.waits_since.take();
        if let (Some(since), Some(now), Some(root)) = (since, self.host.uptime(), &stream.root) {
            root.metrics.waited(now.saturating_sub(since), &self.host);
        }
        if self.judge(id, stream) == Next::Continue {
            self.host.continue_request();
        }
    }
}
