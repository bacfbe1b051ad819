//! The order in which a request is judged: phases 0 to 6 of the design.

mod bounds;
mod credential_mode;
mod edits;
mod identified;
mod lists;
mod seats;
mod shadowed;
mod validate;

use std::sync::Arc;

use bounds::{are_named, is_within_bounds};
use credential_mode::CredentialMode;
pub use edits::{Edit, subprotocols_without_tokens};
pub use identified::{IdentifiedRequest, Judgement};
use lists::{Lists, check_impersonated};
use portcullis_filter_config::{
    ActivityReports, CONFIG_VERSION, FilterConfig, LimitExchanges, PeerSource, Pool, RequestClass, SpanSettings,
};
use seats::take_seat;
use shadowed::{DecidedRequest, KnownUsers};
use validate::{check_message, check_target, presents_two_tokens};

use crate::access::AccessRequest;
use crate::attribution;
use crate::authenticate::{authenticate, effective_user};
use crate::cluster::{Cluster, CompileError, check_header_names};
use crate::fair::{Admission, Flow, FlowOf, Seat, SeatRequest};
use crate::flow_limit::LimitReached;
use crate::header_scan::{ForwardedHeaders, HeaderScan, Reserved};
use crate::identity::UserInfo;
use crate::limit::InFlightPermit;
use crate::observe::RequestRecord;
use crate::policy::Policies;
use crate::refusal::Refusal;
use crate::request::{Client, EffectiveUser, Interrupt, RequestContext, class_of};
use crate::request_info::{RequestInfo, RequestTarget, TargetError};
use crate::review::{PassedToken, Review};
use crate::upstream_user::UpstreamUser;

/// The listener's part of the filter: who the gateway is.
#[derive(Debug)]
pub struct Gateway {
    instance: Box<[u8]>,
    via: Box<str>,
    anonymous: UserInfo,
    peer_source: PeerSource,
    reserved: Vec<Box<[u8]>>,
    tracing: Option<SpanSettings>,
    activity: Option<ActivityReports>,
    global_limits: Option<LimitExchanges>,
}

/// The decision about a request.
#[derive(Debug)]
pub enum Decision<'c> {
    /// It goes upstream.
    Forward(Forward<'c>),
    /// It waits until these are answered, then it is judged again.
    Review(Vec<Review>),
    /// It waits for a seat of a fair queue, then it is judged again with what it got. If it cannot wait, this is the answer.
    Queue(SeatRequest, Refusal),
    /// It ends here.
    Refuse(Refusal),
}

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
}

impl Gateway {
    /// Compiles the listener's configuration.
    ///
    /// # Errors
    /// [`CompileError`], the control plane's fault.
    pub fn compile(config: &FilterConfig) -> Result<Self, CompileError> {
        if config.version != CONFIG_VERSION {
            return Err(CompileError::Version(config.version));
        }
        let is_word = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_');
        if config.instance.is_empty() || !config.instance.bytes().all(is_word) {
            return Err(CompileError::Instance);
        }
        if !config.activity.as_ref().is_none_or(is_within_bounds) {
            return Err(CompileError::Activity);
        }
        let are_named = |limits: &LimitExchanges| are_named(&limits.clusters, &limits.node);
        if !config.global_limits.as_ref().is_none_or(are_named) {
            return Err(CompileError::GlobalLimits);
        }
        check_header_names(config.reserved_headers.iter().map(String::as_str))?;
        Ok(Gateway {
            instance: config.instance.as_bytes().into(),
            via: format!("1.1 {}", config.instance).into(),
            anonymous: UserInfo::anonymous(),
            peer_source: config.peer_source,
            reserved: config.reserved_headers.iter().map(|prefix| prefix.as_bytes().into()).collect(),
            tracing: config.tracing,
            activity: config.activity.clone(),
            global_limits: config.global_limits.clone(),
        })
    }

    /// The filter's part in spans; `None` if it writes nothing into them.
    pub(crate) fn tracing(&self) -> Option<SpanSettings> {
        self.tracing
    }

    /// Reports of the activity, if the filter sends them itself.
    pub fn activity(&self) -> Option<&ActivityReports> {
        self.activity.as_ref()
    }

    /// Exchanges about limits of all gateways, if the filter has them itself.
    pub fn global_limits(&self) -> Option<&LimitExchanges> {
        self.global_limits.as_ref()
    }

    /// How the client's certificate reaches the filter.
    pub fn peer_source(&self) -> PeerSource {
        self.peer_source
    }

    /// The `Via` that everything carries which this gateway sends.
    pub fn via(&self) -> &str {
        &self.via
    }

    /// Reads the headers ([`HeaderScan::from_headers`]) of a request for this cluster.
    pub fn scan<'a>(
        &self,
        cluster: Option<&Cluster>,
        headers: impl Iterator<Item = (&'a [u8], &'a [u8])>,
    ) -> HeaderScan<'a> {
        HeaderScan::from_headers(headers, &self.instance, self.reserved(cluster))
    }

    /// Whether no client of this cluster may send on a header or trailer of this name, or one that looks like it.
    pub fn reserves(&self, cluster: Option<&Cluster>, name: &[u8]) -> bool {
        self.reserved(cluster).names(name)
    }

    /// The cluster's names are its own edition's, while the listener may be of the one before or after.
    fn reserved<'a>(&'a self, cluster: Option<&'a Cluster>) -> Reserved<'a> {
        Reserved::new(&self.reserved, cluster.map_or(&[], |cluster| &cluster.identity.reserved))
    }

    /// The answer to a request for which the host has no cluster's configuration.
    pub fn unrouted(scan: &HeaderScan<'_>) -> Refusal {
        // Without a path there is no route and so no configuration, which is not the gateway's fault.
        check_target(scan).err().unwrap_or_else(Refusal::not_configured)
    }

    /// Judges a request.
    pub fn decide<'c>(&'c self, cluster: &'c Cluster, request: &RequestContext<'_>) -> Decision<'c> {
        self.decide_recording(cluster, request, &mut RequestRecord::default())
    }

    /// Decides a request that has not waited for a seat, and records what it was.
    pub fn decide_recording<'c>(
        &'c self,
        cluster: &'c Cluster,
        request: &RequestContext<'_>,
        seen: &mut RequestRecord,
    ) -> Decision<'c> {
        self.decide_admitting(cluster, request, &mut Admission::None, seen)
    }

    /// Decides a request with what it got by waiting for a seat, and records what it was.
    pub fn decide_admitting<'c>(
        &'c self,
        cluster: &'c Cluster,
        request: &RequestContext<'_>,
        admission: &mut Admission,
        seen: &mut RequestRecord,
    ) -> Decision<'c> {
        let decided = self.try_forward(cluster, request, admission, seen);
        if !matches!(decided, Err(Interrupt::Review(_) | Interrupt::Queue(..))) {
            seen.add_message(cluster.series(), request.scan);
        }
        match decided {
            Ok(forward) => Decision::Forward(forward),
            Err(Interrupt::Review(reviews)) => Decision::Review(reviews),
            Err(Interrupt::Queue(wanted, full)) => Decision::Queue(wanted, full),
            Err(Interrupt::Refuse(refusal)) => Decision::Refuse(refusal),
        }
    }

    /// The user by which policies are dispatched: the authenticated or the impersonated user, else the anonymous one. `None` if
    /// the request is refused or the user is not known yet. For tools; [`Gateway::decide`] does this itself.
    pub fn acting_user(&self, cluster: &Cluster, request: &RequestContext<'_>) -> Option<UserInfo> {
        let (mut known, mut seen) = (KnownUsers::default(), RequestRecord::default());
        let EffectiveUser { client, .. } = self.identify(cluster, request, None, &mut known, &mut seen).ok()?;
        self.known_user(&client).cloned()
    }

    /// The flow of a user's request in the fair queue of a policy, if the policy names one. For tools.
    pub fn flow(
        cluster: &Cluster,
        policy: usize,
        user: &UserInfo,
        info: &RequestInfo<'_>,
        scan: &HeaderScan<'_>,
    ) -> Option<Flow> {
        Some(cluster.fair_queue(policy)?.flow(FlowOf { user: Some(user), info, path: scan.path }))
    }

    fn known_user<'a>(&'a self, client: &'a Client) -> Option<&'a UserInfo> {
        match client {
            Client::Opaque { .. } => None,
            client => Some(client.user().map_or(&self.anonymous, |user| user.user())),
        }
    }

    fn identify(
        &self,
        cluster: &Cluster,
        request: &RequestContext<'_>,
        lists: Lists<'_>,
        known: &mut KnownUsers,
        seen: &mut RequestRecord,
    ) -> Result<EffectiveUser, Interrupt> {
        let mut client = authenticate(cluster, request)?;
        known.client = cluster.shadow.is_some().then(|| client.clone());
        seen.client(cluster.series(), &client);
        let passes = cluster.identity.passes();
        if passes && matches!(client, Client::Bearer(..)) && presents_two_tokens(request.scan) {
            // The upstream takes the other one where it no longer believes the one that was judged.
            return Err(Refusal::bad_request("the request presents two tokens").into());
        }
        // With all its groups: some may be dropped of protected identities.
        self.check_client(lists, &client)?;
        if let Some(protected) = &cluster.protected {
            client = protected.enforce(client, &cluster.identity.names, passes)?;
            seen.client(cluster.series(), &client);
        }
        let actor = effective_user(cluster, client, &self.anonymous, request)?;
        known.acting = cluster.shadow.is_some().then(|| actor.client.clone());
        check_impersonated(lists, request.scan)?;
        seen.effective(cluster.series(), actor.client.user());
        Ok(actor)
    }

    fn try_forward<'c>(
        &'c self,
        cluster: &'c Cluster,
        request: &RequestContext<'_>,
        admission: &mut Admission,
        seen: &mut RequestRecord,
    ) -> Result<Forward<'c>, Interrupt> {
        let scan = request.scan;
        check_message(scan, cluster)?;
        let bad_request = |error: TargetError| Refusal::bad_request(error.to_string());
        let target = RequestTarget::parse(scan.path).map_err(bad_request)?;
        let info = target.resolve(scan.method).map_err(bad_request)?;
        target.check(&info).map_err(bad_request)?;
        seen.request(cluster.series(), &info, scan);
        let decided = self.identify_and_dispatch(cluster, request, &info, admission, seen);
        if !matches!(decided, Err(Interrupt::Review(_) | Interrupt::Queue(..))) {
            seen.add_request(cluster.series(), &info, scan);
        }
        decided
    }

    fn identify_and_dispatch<'c>(
        &'c self,
        cluster: &'c Cluster,
        request: &RequestContext<'_>,
        info: &RequestInfo<'_>,
        admission: &mut Admission,
        seen: &mut RequestRecord,
    ) -> Result<Forward<'c>, Interrupt> {
        let lists = cluster.access.as_ref().map(|access| (access, AccessRequest::new(info, request)));
        if let Some((access, asked)) = lists {
            access.check_origin(asked)?;
        }
        let mut known = KnownUsers::default();
        let decision = match self.identify(cluster, request, lists, &mut known, seen) {
            Ok(actor) => self.dispatch(cluster, request, info, actor, admission, seen),
            Err(interrupt) => Err(interrupt),
        };
        if let Some(shadow) = &cluster.shadow {
            let decided = DecidedRequest { cluster, request, info, policy: seen.decided_by() };
            seen.shadow = self.ask_shadow(shadow, decided, known, &decision);
        }
        decision
    }

    fn dispatch<'c>(
        &'c self,
        cluster: &'c Cluster,
        request: &RequestContext<'_>,
        info: &RequestInfo<'_>,
        EffectiveUser { client, original }: EffectiveUser,
        admission: &mut Admission,
        seen: &mut RequestRecord,
    ) -> Result<Forward<'c>, Interrupt> {
        let scan = request.scan;
        let unknown = cluster.identity.client_credential.as_ref().map(|client_credential| &client_credential.unknown);
        let policy = self.first_match(&cluster.policies, unknown, &client, info);
        let policy = policy.ok_or_else(|| Refusal::no_policy(info))?;
        seen.policy(policy);
        if let Some(denial) = cluster.denials.of(policy) {
            return Err(Refusal::denied_by_policy(policy, &denial.message, info).into());
        }
        let passes = cluster.identity.passes();
        let class = class_of(info, scan);
        let flow = |client| FlowOf { user: self.known_user(client), info, path: scan.path };
        let wanted = cluster.fair_queue(policy).and_then(|queue| queue.seat_of(flow(&client)));
        let mode = CredentialMode::for_client(client, passes);
        let pool = mode.pool(scan.is_upgrade);
        let destination = cluster.destination(policy, pool, class).ok_or_else(Refusal::internal)?;
        // Last: a request that is refused for another reason takes no token.
        let refused = |LimitReached| Refusal::too_many_requests(info.resource);
        let permit = cluster.acquire(policy, *info.verb == *b"watch", request.uptime).map_err(refused)?;
        let seat = take_seat(wanted, admission, request.uptime, info.resource)?;
        let keeps_credential = mode.keeps_credential() || cluster.identity.is_unchanged();
        let forwarded = ForwardedHeaders { credential: keeps_credential, impersonation: passes };
        // The service behind a proxy subresource or verb may ask for credentials of its own.
        let owns_answer = info.proxied_from.is_none();
        let token = mode.confirmed().filter(|_| owns_answer).map(|key| PassedToken::new(key, &cluster.caches));
        let user = mode.into_user();
        let attributed = cluster.audit_attribution && user.is_some();
        Ok(Forward {
            destination,
            // Reviewed requests need no Via: the review itself carries it.
            via: (user.is_none() || passes).then_some(&*self.via),
            attribution: if attributed {
                attribution::lines(&cluster.identity.names, scan, original.as_ref())
            } else {
                Vec::new()
            },
            user,
            forwarded,
            is_upgrade: scan.is_upgrade,
            is_long: !class.has_timeout(),
            is_start: *info.verb == *b"watch",
            is_ordinary: !info.is_long_running(),
            is_watch: *info.verb == *b"watch" && class == RequestClass::Watch,
            subprotocols: (scan.token_subprotocol && !forwarded.credential).then(|| subprotocols_without_tokens(scan)),
            permit,
            seat,
            token,
            owns_unauthorized: matches!(pool, Pool::Http2 | Pool::Upgrade) && owns_answer,
        })
    }

    /// The policy that decides where a client's request goes. `unknown`: the same policies for clients of whom nothing is known.
    fn first_match(
        &self,
        policies: &Policies,
        unknown: Option<&Policies>,
        client: &Client,
        info: &RequestInfo<'_>,
    ) -> Option<usize> {
        match (client.user(), client) {
            (Some(user), _) => user.first_match(policies, info),
            // Without rules for an unknown user tokens are not reviewed here.
            (None, Client::Opaque { .. }) => unknown?.first_match(info, &self.anonymous),
            (None, _) => policies.first_match(info, &self.anonymous),
        }
    }
}

#[cfg(test)]
pub(crate) mod tests;
