//! The order in which a request is judged: phases 0 to 6 of the design.

mod bounds;
mod credential_mode;
mod edits;
mod forward;
mod identified;
mod lists;
mod running;
mod seats;
mod shadowed;
mod validate;

use std::sync::Arc;

use bounds::{are_named, is_within_bounds};
use credential_mode::CredentialMode;
pub use edits::{Edit, subprotocols_without_tokens};
pub use forward::Forward;
pub use identified::{IdentifiedRequest, Judgement};
use lists::{Lists, check_impersonated};
use portcullis_filter_config::{
    ActivityReports, CONFIG_VERSION, FilterConfig, LimitExchanges, PeerSource, Pool, RequestClass, SpanSettings,
};
use running::origin_of;
use seats::take_seat;
use shadowed::{DecidedRequest, KnownUsers};
use validate::{check_message, check_target, presents_two_tokens};

use crate::access::AccessRequest;
use crate::attribution;
use crate::authenticate::authenticate;
use crate::cluster::{Cluster, CompileError, check_header_names};
use crate::effective_user::effective_user;
use crate::fair::{Admission, Flow, FlowOf, SeatRequest};
use crate::flow_limit::LimitReached;
use crate::header_scan::{ForwardedHeaders, HeaderScan, Reserved};
use crate::identity::UserInfo;
use crate::observe::RequestRecord;
use crate::policy::Policies;
use crate::refusal::Refusal;
use crate::request::{Client, EffectiveUser, Interrupt, RequestContext, class_of};
use crate::request_info::{RequestInfo, RequestTarget, TargetError};
use crate::review::{PassedToken, Review};

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
        let target = RequestTarget::parse(request.scan.path).ok()?;
        let info = target.resolve(request.scan.method).ok()?;
        let EffectiveUser { client, .. } = self.identify(cluster, request, &info, None, &mut known, &mut seen).ok()?;
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
            client => Some(self.user_of(client)),
        }
    }

    fn user_of<'a>(&'a self, client: &'a Client) -> &'a UserInfo {
        client.user().map_or(&self.anonymous, |user| user.user())
    }

    fn identify(
        &self,
        cluster: &Cluster,
        request: &RequestContext<'_>,
        info: &RequestInfo<'_>,
        lists: Lists<'_>,
        known: &mut KnownUsers,
        seen: &mut RequestRecord,
    ) -> Result<EffectiveUser, Interrupt> {
        let mut client = authenticate(cluster, request, &mut seen.revocation_check)?;
        known.client = known.are_kept.then(|| client.clone());
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
        let actor = effective_user(cluster, client, &self.anonymous, request, info)?;
        known.acting = known.are_kept.then(|| actor.client.clone());
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
        let class = class_of(info, request.scan);
        let is_long = !class.has_timeout();
        let mut known = KnownUsers { are_kept: is_long || cluster.shadow.is_some(), ..KnownUsers::default() };
        let mut decision = match self.identify(cluster, request, info, lists, &mut known, seen) {
            Ok(actor) => self.dispatch(cluster, request, (info, class), actor, admission, seen),
            Err(interrupt) => Err(interrupt),
        };
        if let (true, Ok(forward)) = (is_long, &mut decision) {
            forward.origin = origin_of(&known, request).map(Arc::new);
        }
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
        (info, class): (&RequestInfo<'_>, RequestClass),
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
                let original = original.as_ref().map(|client| self.user_of(client));
                attribution::lines(&cluster.identity.names, scan, original)
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
            origin: None,
        })
    }

    fn first_match(
        &self,
        policies: &Policies,
        unknown: Option<&Policies>,
        client: &Client,
        info: &RequestInfo<'_>,
    ) -> Option<usize> {
        first_match(policies, unknown, client, info, &self.anonymous)
    }
}

/// The policy that decides where a client's request goes. `unknown`: the same policies for clients of whom nothing is known.
fn first_match(
    policies: &Policies,
    unknown: Option<&Policies>,
    client: &Client,
    info: &RequestInfo<'_>,
    anonymous: &UserInfo,
) -> Option<usize> {
    match (client.user(), client) {
        // It was made for this request: nothing would find again what it remembers.
        (Some(user), Client::Impersonated(_)) => policies.first_match(info, user.user()),
        (Some(user), _) => user.first_match(policies, info),
        // Without rules for an unknown user tokens are not reviewed here.
        (None, Client::Opaque { .. }) => unknown?.first_match(info, anonymous),
        (None, _) => policies.first_match(info, anonymous),
    }
}

#[cfg(test)]
pub(crate) mod tests;
