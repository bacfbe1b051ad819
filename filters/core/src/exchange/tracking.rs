use std::sync::Arc;

use super::host::Host;
use super::route::RouteConfig;
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
    /// The response has not come, and so the server is not known.
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
    Active { stream: T, is_watch: bool, is_terminated: bool, _guard: StreamGuard<T> },
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
