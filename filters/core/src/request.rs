//! A request as the phases of a decision hand it on: the client's certificate, the time, the user, and the reason to stop.

use std::sync::Arc;
use std::time::Duration;

use portcullis_filter_config::RequestClass;
use rustls_pki_types::UnixTime;

use crate::fair::SeatRequest;
use crate::header_scan::HeaderScan;
use crate::moment::Moment;
use crate::refusal::Refusal;
use crate::request_info::RequestInfo;
use crate::review::{Review, ReviewAnswers, ReviewKey};
use crate::upstream_user::UpstreamUser;

/// The client's certificate, as the host knows it.
#[derive(Clone, Copy, Debug)]
pub enum Peer<'a> {
    /// No certificate was presented.
    None,
    /// The chain that the validator kept ([`crate::x509::encode_chain`]).
    Chain(&'a [u8]),
    /// A certificate was presented, but there is no chain: the request fails closed.
    Unreadable,
}

/// A request, as the host shows it.
#[derive(Debug)]
pub struct RequestContext<'a> {
    /// The headers, scanned for the cluster that is asked.
    pub scan: &'a HeaderScan<'a>,
    /// The client's certificate.
    pub peer: Peer<'a>,
    /// Answers to reviews that this request has waited for.
    pub answers: &'a ReviewAnswers,
    /// The time of the request: what certificates and tokens are valid by.
    pub now: UnixTime,
    /// The time since any fixed point, by a clock that only goes forward: for rates and the age of answers.
    pub uptime: Duration,
}

impl RequestContext<'_> {
    /// The time of the request by both clocks.
    pub fn moment(&self) -> Moment {
        Moment { now: self.now, uptime: self.uptime }
    }
}

/// Why judging a request stops before its end.
#[derive(Debug)]
pub(crate) enum Interrupt {
    /// The request ends here.
    Refuse(Refusal),
    /// The upstream has to be asked first.
    Review(Vec<Review>),
    /// The request has to wait for a seat. If it cannot wait, this is the answer.
    Queue(SeatRequest, Refusal),
}

impl From<Refusal> for Interrupt {
    fn from(refusal: Refusal) -> Self {
        Interrupt::Refuse(refusal)
    }
}

/// An authenticated client.
#[derive(Clone, Debug)]
pub(crate) enum Client {
    /// No credential was presented.
    Anonymous,
    /// The user whom a certificate names.
    Certificate(Arc<UpstreamUser>),
    /// The user whose token was presented, and how the review is named by which the upstream has confirmed the token. `None` if the
    /// keys of its issuer did, without the upstream.
    Bearer(Arc<UpstreamUser>, Option<ReviewKey>),
    /// A client with a credential that is not reviewed.
    Opaque {
        /// It is a token. kube-apiserver overlooks an `Authorization` of another scheme, and answers as to an anonymous client.
        is_token: bool,
    },
    /// The impersonated user.
    Impersonated(Arc<UpstreamUser>),
}

impl Client {
    /// The user, if it is known.
    pub(crate) fn user(&self) -> Option<&Arc<UpstreamUser>> {
        match self {
            Client::Certificate(user) | Client::Bearer(user, _) | Client::Impersonated(user) => Some(user),
            Client::Anonymous | Client::Opaque { .. } => None,
        }
    }
}

/// As whom a request acts.
pub(crate) struct EffectiveUser {
    /// The user for dispatch and for the upstream.
    pub(crate) client: Client,
    /// The client that impersonates, if it does.
    pub(crate) original: Option<Client>,
}

/// Only GET and HEAD are ever repeated after the upstream may have seen them: the legacy `/watch/` path makes the verb
/// `watch` of any method.
pub(crate) fn class_of(info: &RequestInfo<'_>, scan: &HeaderScan<'_>) -> RequestClass {
    let is_safe = matches!(scan.method, b"GET" | b"HEAD");
    if scan.is_upgrade {
        return RequestClass::Session;
    }
    match (info.is_long_running(), is_safe) {
        (false, true) => RequestClass::Read,
        (false, false) => RequestClass::Write,
        (true, true) if *info.verb == *b"watch" || info.subresource == b"log" => RequestClass::Watch,
        (true, _) => RequestClass::Session,
    }
}
