use std::sync::Arc;

use super::certificate::PresentedChain;
use super::{HeaderLines, Host, RouteConfig};
use crate::fair::Admission;
use crate::gateway::{Decision, Gateway};
use crate::header_scan::{ForwardedHeaders, HeaderRemovals};
use crate::moment::Moment;
use crate::observe::RequestRecord;
use crate::request::RequestContext;
use crate::request_id::request_id;
use crate::review::ReviewAnswers;

/// A decision with what it takes to carry it out. Borrows nothing of the proxy, whose first edit ends every borrow.
pub(super) struct Decided<'c> {
    pub(super) decision: Decision<'c>,
    pub(super) removals: HeaderRemovals,
    pub(super) has_connection: bool,
}

/// Reads the request and decides it. `None` if it cannot be read.
pub(super) fn decide<'c, T: Clone, H: Host<Stream = T>>(
    gateway: &'c Gateway,
    route: Option<&'c RouteConfig<T>>,
    answers: &ReviewAnswers,
    admission: &mut Admission,
    at: Moment,
    host: &H,
    seen: &mut RequestRecord,
) -> Option<Decided<'c>> {
    let headers = host.request_headers()?;
    let cluster = route.map(|route| &route.cluster);
    if let Some(settings) = gateway.tracing() {
        seen.begin_span(settings, headers.lines());
    }
    let mut scan = gateway.scan(cluster, headers.lines());
    let id;
    if scan.request_id.is_empty() && cluster.is_some_and(|cluster| cluster.audit_attribution) {
        id = seen.id.get_or_insert_with(request_id).clone();
        scan.request_id = id.as_bytes();
    }
    let mut decision = match cluster {
        Some(cluster) => {
            if cluster.reads_user_agent() {
                scan.user_agent = first(&headers, b"user-agent").unwrap_or_default();
            }
            let chain = if cluster.identity.is_unchanged() {
                // Certificates end here, and nothing asks for them.
                PresentedChain::None
            } else {
                PresentedChain::find(gateway.peer_source(), &scan, host)
            };
            let Moment { now, uptime } = at;
            let request = RequestContext { scan: &scan, peer: chain.peer(), answers, now, uptime };
            gateway.decide_admitting(cluster, &request, admission, seen)
        }
        None => Decision::Refuse(Gateway::unrouted(&scan)),
    };
    if let Decision::Forward(forward) = &mut decision
        && let Some(origin) = forward.origin.as_mut().and_then(Arc::get_mut)
    {
        // A later configuration may deny by it although this one does not. Now: `Connection` may list it, and it is removed then.
        origin.keep_user_agent(first(&headers, b"user-agent").unwrap_or_default());
    }
    if let Some(entry) = &mut seen.entry {
        let id = if scan.request_id.is_empty() {
            seen.id.get_or_insert_with(request_id).as_bytes()
        } else {
            scan.request_id
        };
        entry.client(first(&headers, b"user-agent"), id);
    }
    let forwarded = match &decision {
        Decision::Forward(forward) => forward.forwarded,
        Decision::Review(_) | Decision::Queue(..) | Decision::Refuse(_) => ForwardedHeaders::default(),
    };
    let (removals, has_connection) = (scan.removals(forwarded), scan.has_connection);
    Some(Decided { decision, removals, has_connection })
}

/// The value of the first line of a name.
fn first<'h>(headers: &'h impl HeaderLines, wanted: &[u8]) -> Option<&'h [u8]> {
    headers.lines().find(|(name, _)| *name == wanted).map(|(_, value)| value)
}
