use std::sync::Arc;

use super::Exchange;
use super::host::Host;
use super::route_config::RouteConfig;
use crate::gateway::Forward;
use crate::host_names::is_address;
use crate::long_streams::{RouteLoad, StreamGuard, StreamRegistry};
use crate::stream_origin::{RequestedHost, StreamOrigin};

/// How a long-running stream is followed until its server is removed or its time is over.
#[derive(Debug, Default)]
pub(super) enum Tracking<T> {
    /// The request ends by itself.
    #[default]
    None,
    /// It is yet to be registered.
    Pending {
        streams: Arc<StreamRegistry<T>>,
        kept: RouteLoad,
        /// Its number when the request was decided.
        load: u64,
        origin: Option<Arc<StreamOrigin>>,
        is_watch: bool,
        is_ordinary: bool,
    },
    /// It runs.
    Active { stream: T, is_watch: bool, edition: u64, known: KnownPart, is_terminated: bool, guard: StreamGuard<T> },
}

/// The last part of a registered stream that is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum KnownPart {
    Request,
    /// It has reached a server, which may have no name.
    Server,
    Answer,
}

impl<T> Tracking<T> {
    /// That of a request that may run for long. It is for the host name of its connection if its authority is an address.
    pub(super) fn of(route: &RouteConfig<T>, forward: &mut Forward<'_>, host: &impl Host) -> Self {
        let mut origin = forward.origin.take();
        if let Some(origin) = origin.as_mut().and_then(Arc::get_mut) {
            origin.listener = Arc::clone(&route.listener);
            if matches!(&origin.host, RequestedHost::Authority(authority) if is_address(authority))
                && let Some(name) = host.server_name().filter(|name| !name.is_empty())
            {
                origin.host = RequestedHost::ServerName(name.into());
            }
        }
        Tracking::Pending {
            streams: Arc::clone(&route.streams),
            kept: route.load.clone(),
            load: route.load.number(),
            origin,
            is_watch: forward.is_watch,
            is_ordinary: forward.is_ordinary,
        }
    }
}

impl<T: Clone> Exchange<T> {
    /// Registers a request that goes upstream now, if it runs for long and may do so without an answer: a log, and what is proxied.
    /// A watch is answered at once, and registered then: one lock less. Nothing of an upgrade goes on before its answer.
    pub(super) fn track_forwarded(&mut self, host: &mut impl Host<Stream = T>) {
        if matches!(self.tracking, Tracking::Pending { is_watch: false, .. }) && !self.upgrade.is_closed() {
            self.track(KnownPart::Request, false, host);
        }
    }

    /// Whether [`Exchange::follow_body`] has to see the next piece of the request's body.
    pub fn follows_body(&self) -> bool {
        let is_open = match self.tracking {
            Tracking::None => false,
            Tracking::Pending { .. } => true,
            Tracking::Active { known, .. } => known == KnownPart::Request,
        };
        is_open && self.is_forwarded() && !self.upgrade.is_closed()
    }

    /// Takes note that a piece of the request's body goes on before the answer: the server may never give one. A watch of which that
    /// is so is none to a proxy that shuts down.
    pub fn follow_body(&mut self, host: &mut impl Host<Stream = T>) {
        if !self.follows_body() {
            return;
        }
        self.track(KnownPart::Request, false, host);
        if let Some(server) = reached_server(host) {
            self.place(server, KnownPart::Server, host);
        }
    }

    /// Takes note of the answer. Nothing of an answer of the proxy's own runs.
    pub(super) fn track_answer(&mut self, is_session: bool, host: &mut impl Host<Stream = T>) {
        match self.tracking {
            Tracking::None | Tracking::Active { known: KnownPart::Answer, .. } => {}
            Tracking::Pending { .. } => self.track(KnownPart::Answer, is_session, host),
            Tracking::Active { .. } => match reached_server(host) {
                Some(server) => self.place(server, KnownPart::Answer, host),
                None => self.tracking = Tracking::None,
            },
        }
    }

    /// Notes the server of a registered stream, if it has a name.
    fn place(&mut self, server: Option<String>, next: KnownPart, host: &mut impl Host<Stream = T>) {
        let Tracking::Active { edition, known, guard, .. } = &mut self.tracking else { return };
        *known = next;
        let (Some(server), Some(now)) = (server, host.uptime()) else { return };
        if let Some(at) = guard.place(&server, *edition, now) {
            host.call_at(guard.registry(), at);
        }
    }
}

/// The name of the server that a request has reached. `None` if it has reached none, `Some(None)` for a server without a name.
pub(super) fn reached_server(host: &impl Host) -> Option<Option<String>> {
    let name = host.server().and_then(|name| String::from_utf8(name.into_owned()).ok());
    (name.is_some() || host.reached_server()).then_some(name)
}
