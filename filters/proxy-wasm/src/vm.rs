//! One VM: every configuration of the filter on one worker, and every request there. Maps Envoy's calls to [`Exchange`].

use std::cell::Cell;
use std::collections::HashMap;
use std::rc::Rc;
use std::time::Duration;

use portcullis_core::exchange::{CompiledClusters, Exchange, HeaderLines, Next, RouteCache, RouteConfig, RouteUpdate};
use portcullis_core::long_streams::TerminationReason;
use portcullis_core::review::ReviewOutcome;
use portcullis_core::state_store::{SharedLimits, SharedState};
use portcullis_core::{Gateway, Moment, fault, seed_hashes, seed_request_ids};
use portcullis_filter_config::names;
use rustls_pki_types::UnixTime;

use crate::abi::header_map::OwnedHeaders;
use crate::abi::{Hostcalls, Map};
use crate::host::{LocalState, StreamHost, VmState};
use crate::limit_exchange::LimitExchange;
use crate::reviews::{ReviewCallouts, ReviewContext};
use crate::root::Root;
use crate::route_marks::RouteMarks;

/// The state of one VM.
#[derive(Default)]
pub struct Vm<H> {
    shared: VmState<H>,
    roots: HashMap<u32, Rc<Root>>,
    streams: HashMap<u32, Stream>,
    routes: RouteCache<u32>,
    clusters: CompiledClusters,
    marks: RouteMarks,
}

/// The state of a stream between its hooks.
struct Stream {
    root_id: u32,
    /// `None` if Envoy runs requests under a configuration that was refused: they fail closed.
    root: Option<Rc<Root>>,
    /// The configuration by which it is decided, also after it waited.
    route: Option<Rc<RouteConfig<u32>>>,
    exchange: Exchange<u32>,
    local: LocalState,
}

impl<H: Hostcalls> Vm<H> {
    #[cfg(test)]
    pub(crate) fn new(hostcalls: H) -> Self
    where
        H: Default,
    {
        Vm { shared: VmState { hostcalls, ..VmState::default() }, ..Vm::default() }
    }

    /// Takes a configuration for a root context; false refuses it.
    pub fn configure(&mut self, root: u32, config: &[u8]) -> bool {
        if self.shared.state.is_none() {
            self.shared.state = SharedState::open(&self.shared.hostcalls);
        }
        let (true, Some(random)) = (self.shared.state.is_some(), self.shared.hostcalls.random()) else {
            self.shared.hostcalls.log("portcullis: Envoy has no randomness for this VM, or shares no data");
            return false;
        };
        if let ([ids, hashes, ..], _) = random.as_chunks::<8>() {
            seed_request_ids(u64::from_ne_bytes(*ids));
            seed_hashes(u64::from_ne_bytes(*hashes));
        }
        let compiled = Root::compile(config, &self.shared.hostcalls);
        let is_good = compiled.is_some();
        let exchanges = compiled.as_ref().is_some_and(|compiled| compiled.exchange.is_some());
        if exchanges && self.shared.state.as_ref().is_some_and(SharedState::begin_exchanges) {
            // Those that were loaded before have local limits only.
            (self.routes, self.clusters) = (RouteCache::default(), CompiledClusters::default());
        }
        self.roots.extend(compiled.map(|compiled| (root, compiled)));
        self.arm(root);
        is_good
    }

    /// A request begins.
    pub fn new_stream(&mut self, id: u32, root_id: u32) {
        let root = self.roots.get(&root_id).map(Rc::clone);
        let (exchange, local) = (Exchange::default(), LocalState::default());
        self.shared.live.insert(id);
        self.streams.insert(id, Stream { root_id, root, route: None, exchange, local });
    }

    /// A request's headers have come. Without a stream, which Envoy does not do, nothing goes on.
    pub fn request_headers(&mut self, id: u32) -> Next {
        let uptime = self.shared.hostcalls.uptime();
        let headers = self.shared.hostcalls.headers(Map::Request).and_then(OwnedHeaders::read);
        let route = uptime.zip(headers.as_ref()).and_then(|(uptime, headers)| {
            let authority = headers.lines().find(|(name, _)| *name == b":authority").map(|(_, value)| value);
            self.route(authority.unwrap_or_default(), uptime)
        });
        if let Some(stream) = self.streams.get_mut(&id) {
            stream.route = route;
        }
        let next = self.run(id, |exchange, config, host| {
            host.uptime.set(uptime);
            host.headers.set(headers);
            match config {
                Some((gateway, route)) => exchange.request_headers(gateway, route, host),
                None => {
                    exchange.fail_closed(host);
                    Next::Stop
                }
            }
        });
        next.unwrap_or_else(|| {
            self.shared.hostcalls.close_request();
            Next::Stop
        })
    }

    /// A piece of a request's body has come.
    pub fn request_body(&mut self, id: u32) -> Next {
        if self.streams.get(&id).is_some_and(|stream| stream.exchange.follows_body()) {
            self.run(id, |exchange, _, host| exchange.follow_body(host));
        }
        self.streams.get_mut(&id).map_or(Next::Pause, |stream| stream.exchange.request_body())
    }

    /// A request's trailers have come. [`Next::Stop`] keeps them.
    pub fn request_trailers(&mut self, id: u32) -> Next {
        let next = self.run(id, |exchange, config, host| {
            config.map(|(gateway, route)| exchange.request_trailers(gateway, route, host))
        });
        next.flatten().unwrap_or(Next::Stop)
    }

    /// A response's headers have come.
    pub fn response_headers(&mut self, id: u32) -> Next {
        let next = self.run(id, |exchange, _, host| exchange.response_headers(host));
        next.unwrap_or(Next::Continue)
    }

    /// A callout has ended.
    pub fn callout_done(&mut self, root: u32, token: u32, has_headers: bool) {
        fault::strike_once("callout");
        let is_exchange = self
            .exchange(root, |exchange, limits, uptime, host| exchange.done(token, has_headers, limits, uptime, host));
        if is_exchange == Some(true) {
            self.arm(root);
            return;
        }
        let answer = self.ask(root, |reviews, context| reviews.done(token, has_headers, context)).flatten();
        self.arm(root);
        self.resume(answer);
    }

    /// A root context's time has come.
    pub fn tick(&mut self, root: u32) {
        self.shared.hostcalls.tick_every(Duration::ZERO);
        fault::strike_once("tick");
        let Some(compiled) = self.roots.get(&root).cloned() else { return };
        compiled.due.set(None);
        let answers = self.ask(root, |reviews, context| reviews.retry(context)).unwrap_or_default();
        self.resume(answers);
        let due = self.shared.hostcalls.uptime().map(|uptime| self.shared.long_streams.due(uptime)).unwrap_or_default();
        for (id, why) in due.into_iter().chain(self.of_ended_loads()) {
            if self.shared.hostcalls.act_for(id) {
                self.run(id, |exchange, _, host| exchange.terminate(why, host));
            }
        }
        compiled.maintenance.set(self.shared.state.as_ref().and_then(SharedState::maintain));
        // Metrics and the next call are the root context's.
        if self.shared.hostcalls.act_for(root) {
            compiled.metrics.publish(&self.shared.hostcalls);
            self.exchange(root, |exchange, limits, uptime, host| {
                exchange.run(limits, uptime, host);
                compiled.metrics.show_degraded(limits.is_degraded(uptime), host);
            });
            self.arm(root);
        }
    }

    /// The streams whose load has to go, whatever they are doing, if there are further ones since the last call.
    fn of_ended_loads(&mut self) -> Vec<(u32, TerminationReason)> {
        if !self.shared.long_streams.have_loads_ended() {
            return Vec::new();
        }
        let is_kept = |stream: &Stream| stream.route.as_ref().is_some_and(|route| route.is_ended());
        let ended = self.streams.iter().filter(|(_, stream)| is_kept(stream));
        ended.map(|(id, _)| (*id, TerminationReason::ConfigurationReplaced)).collect()
    }

    /// A stream has ended. Envoy shows this VM no response to a request that it answered before the filter saw it.
    pub fn complete(&mut self, id: u32) {
        self.run(id, |exchange, _, host| {
            exchange.note_unseen_request(host);
            exchange.complete(host);
        });
    }

    /// A context is gone.
    pub fn delete(&mut self, context: u32) {
        self.shared.live.remove(&context);
        self.streams.remove(&context);
        self.exchange(context, |exchange, limits, _, _| exchange.give_up(limits));
        self.roots.remove(&context);
        let reviews = self.shared.reviews.remove(&context);
        if let Some((mut reviews, now)) = reviews.and_then(|reviews| Some((reviews, self.shared.hostcalls.uptime()?))) {
            self.resume(reviews.give_up(now));
        }
    }

    /// The configuration of the current request's virtual host.
    fn route(&mut self, authority: &[u8], uptime: Duration) -> Option<Rc<RouteConfig<u32>>> {
        let VmState { hostcalls, state, long_streams, .. } = &mut self.shared;
        let (hostcalls, state) = (&*hostcalls, state.as_ref()?);
        let streams = Rc::clone(&long_streams.streams);
        let clusters = &self.clusters;
        let load = |text: &[u8]| RouteConfig::load(text, state, &streams, clusters);
        let apply = |update: &RouteUpdate<u32>| {
            // Without a time of day bans hold that may have ended.
            let now = UnixTime::since_unix_epoch(hostcalls.now().unwrap_or_default());
            for (streams, at) in update.apply(&streams, Moment { now, uptime }) {
                long_streams.call_at(&streams, at);
            }
        };
        let digest = self.marks.digest(authority, hostcalls);
        let text = || hostcalls.property(names::wasm::CONFIG);
        self.routes.get(digest, text, uptime, load, apply).unwrap_or_else(|error| {
            hostcalls.log(&error.to_string());
            None
        })
    }

    /// Runs a hook of a stream. `None` if there is no such stream.
    fn run<R>(
        &mut self,
        id: u32,
        hook: impl FnOnce(&mut Exchange<u32>, Option<(&Gateway, Option<&RouteConfig<u32>>)>, &mut StreamHost<'_, H>) -> R,
    ) -> Option<R> {
        let mut stream = self.streams.remove(&id)?;
        let Stream { root_id, root, route, exchange, local } = &mut stream;
        let config = root.as_ref().map(|root| (&root.gateway, route.as_deref()));
        let mut host = StreamHost {
            vm: &mut self.shared,
            id,
            root_id: *root_id,
            root: root.as_ref(),
            uptime: Cell::new(None),
            seen_uptime: Cell::new(None),
            headers: Cell::new(None),
            local,
        };
        let result = hook(exchange, config, &mut host);
        let now = host.seen_uptime.get();
        self.arm_at(stream.root_id, now);
        self.streams.insert(id, stream);
        Some(result)
    }

    /// Has the root context called when there is something to do. To be called for the context of one of its streams or its
    /// own.
    fn arm(&self, root: u32) {
        self.arm_at(root, None);
    }

    /// Does so at that uptime, if it was read in this hook.
    fn arm_at(&self, root: u32, now: Option<Duration>) {
        let Some(compiled) = self.roots.get(&root) else { return };
        let should_retry = self.shared.reviews.get(&root).is_some_and(ReviewCallouts::has_retries);
        compiled.arm(should_retry, self.shared.long_streams.next(), now, &self.shared.hostcalls);
    }

    /// Works on a root context's exchange about limits of all gateways, if it has one.
    fn exchange<R>(
        &self,
        root: u32,
        work: impl FnOnce(&LimitExchange, &SharedLimits<H>, Duration, &H) -> R,
    ) -> Option<R> {
        let exchange = self.roots.get(&root)?.exchange.as_ref()?;
        let VmState { hostcalls, state, .. } = &self.shared;
        Some(work(exchange, state.as_ref()?.limits(), hostcalls.uptime()?, hostcalls))
    }

    /// Works on the reviews of a root context.
    fn ask<R>(&mut self, root: u32, work: impl FnOnce(&mut ReviewCallouts, &ReviewContext<'_, H>) -> R) -> Option<R> {
        let compiled = self.roots.get(&root)?;
        let uptime = self.shared.hostcalls.uptime()?;
        let VmState { hostcalls, state, reviews, .. } = &mut self.shared;
        let context = ReviewContext { hostcalls, state: state.as_ref(), root, via: compiled.gateway.via(), uptime };
        Some(work(reviews.entry(root).or_default(), &context))
    }

    /// Gives answers to the streams that wait for them, and goes on with those that have all.
    fn resume(&mut self, answers: impl IntoIterator<Item = ReviewOutcome<u32>>) {
        for ReviewOutcome { key, result, waiters } in answers {
            for id in waiters {
                let waiting = self.streams.get_mut(&id).and_then(|stream| stream.local.waiting.as_mut());
                let is_complete = waiting.is_some_and(|waiting| waiting.push(key, result.clone()));
                if is_complete && self.shared.hostcalls.act_for(id) {
                    self.run(id, |exchange, config, host| {
                        if let Some((gateway, route)) = config {
                            exchange.resume(gateway, route, host);
                        }
                    });
                }
            }
        }
    }
}
