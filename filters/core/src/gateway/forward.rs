use std::sync::Arc;

use crate::fair::Seat;
use crate::header_scan::ForwardedHeaders;
use crate::limit::InFlightPermit;
use crate::review::PassedToken;
use crate::stream_origin::StreamOrigin;
use crate::upstream_user::UpstreamUser;

/// How a request goes upstream. Whatever the decision, [`HeaderScan::removals`] is taken out first.
#[derive(Debug)]
pub struct Forward<'c> {
    /// The filter state value that opens the route.
    pub destination: &'c str,
    /// The user as header lines, or nothing for a request without credential.
    pub user: Option<Arc<UpstreamUser>>,
    /// The client's own identity headers that are kept.
    pub forwarded: ForwardedHeaders,
    /// Further lines about the user, for the upstream's audit log.
    pub attribution: Vec<(String, String)>,
    /// Whether the request is an upgrade: `Connection` becomes exactly `Upgrade`. Otherwise it is taken out.
    pub is_upgrade: bool,
    /// The `Sec-WebSocket-Protocol` without the entries that carry a token, where there are such.
    pub subprotocols: Option<Vec<u8>>,
    /// The `Via` line to add, to a request that carries no user. One that does is reviewed by the next gateway before it goes
    /// on, and reviews carry the line.
    pub via: Option<&'c str>,
    /// Whether the request may run for as long as it likes.
    pub is_long: bool,
    /// Whether it takes its seats until the answer begins only: a watch, whatever carries it.
    pub is_start: bool,
    /// Whether kube-apiserver does not let it run for long: an upgrade of such a request may be ignored.
    pub is_ordinary: bool,
    /// Whether it is a watch of which the end is the end of an answer: the client opens it again, from where it was, whenever it ends.
    pub is_watch: bool,
    /// The request's permit among those that run, to be kept until it ends.
    pub permit: Option<InFlightPermit>,
    /// The request's seat of a fair queue, to be kept until it ends; of a watch, until its answer begins.
    pub seat: Option<Seat>,
    /// The token that goes upstream as good. A 401 is then about it ([`PassedToken::report_rejected`]).
    pub token: Option<PassedToken>,
    /// Whether a 401 can only be about the gateway's own credential ([`Refusal::gateway_credential`]).
    pub owns_unauthorized: bool,
    /// The sender of a request that may run for as long as it likes.
    pub origin: Option<Arc<StreamOrigin>>,
}
