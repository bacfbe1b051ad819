use std::sync::Arc;

use portcullis_api::PASSED_ON;
use portcullis_core::exchange::{Exchange, MemoryHost, Next};
use portcullis_core::header_scan::HeaderScan;
use portcullis_core::identity::UserInfo;
use portcullis_core::request_info::{RequestInfo, RequestTarget};
use portcullis_core::review::{Review, ReviewResult};
use portcullis_core::upstream_user::UpstreamUser;
use portcullis_core::{Gateway, Peer, Refusal, RequestContext};
use rustls_pki_types::UnixTime;

use super::answer::{DispatchAnswer, Explanation, RefusalAnswer, RequestInfoAnswer, ShadowAnswer, text};
use super::arguments::Impersonation;
use super::attached::{answers, decided_by};
use super::environment::{Environment, ServedCluster};
use super::local_token::read_local_token;
use super::request::Request;

/// The credential in place of the request's own, where the call names the user. It is reviewed and never sent.
const ASSUMED_CREDENTIAL: &[u8] = b"Bearer explained";

type HeaderList = Vec<(Vec<u8>, Vec<u8>)>;

impl Environment {
    /// Explains how the gateway would treat a request.
    pub(super) fn explain(&self, request: &Request) -> Explanation {
        let mut answer = Explanation { id: request.id.clone(), ..Explanation::default() };
        let (mut headers, host) = message(request);
        let found = self.find(host.as_deref());
        let served = found.as_ref().ok().copied().flatten();
        answer.instance = served.and_then(|served| served.instance.clone());
        let default_host = || served.and_then(|served| served.config.authorities.first().cloned());
        headers.push((b":authority".to_vec(), host.or_else(default_host).unwrap_or_default().into_bytes()));
        let scan = self.gateway.scan(served.map(|served| &served.route.cluster), pairs(&headers));
        answer.credential = Some(super::certificate::read_credential(&scan));
        let target = RequestTarget::parse(scan.path);
        let read = target.as_ref().map_err(|error| *error);
        let read = read.and_then(|target| Ok((target, target.resolve(scan.method)?)));
        if let Ok((target, info)) = &read {
            answer.request_info = Some(RequestInfoAnswer::new(info, target.query));
        }
        match found {
            _ if !self.has_files => {
                let checked = read.and_then(|(target, info)| target.check(&info));
                let refusal = checked.err().map(|error| Refusal::bad_request(error.to_string()));
                answer.refusal = refusal.as_ref().map(RefusalAnswer::new);
            }
            Ok(Some(served)) if served.is_passed_on => answer.passed_on = Some(PASSED_ON),
            Ok(Some(served)) => {
                answer.policies = answers(served, &self.attached);
                let info = read.as_ref().ok().map(|(_, info)| info);
                self.evaluate(served, request, (&headers, &scan), info, &mut answer);
                if let Some(shadow) = served.shadow.as_ref().filter(|_| self.asks_shadow) {
                    let mut beside = Explanation::default();
                    self.evaluate(shadow, request, (&headers, &scan), info, &mut beside);
                    let Explanation { dispatch, refusal, .. } = beside;
                    answer.shadow = Some(ShadowAnswer { dispatch, refusal });
                }
            }
            Ok(None) => answer.refusal = Some(RefusalAnswer::new(&unknown_name())),
            Err(message) => answer.error = Some(message),
        }
        answer
    }

    /// The cluster that owns the host name, or to which an HTTPRoute leads under it; `None` if there is none.
    fn find(&self, host: Option<&str>) -> Result<Option<&ServedCluster>, String> {
        let owns = |served: &ServedCluster| host.is_some_and(|host| served.names.name(host.as_bytes()));
        let unowned = host.filter(|_| !self.clusters.iter().any(owns));
        if let Some(routed) = unowned.and_then(|host| self.routed_to(host)) {
            return routed.map(Some);
        }
        match (self.clusters.as_slice(), host) {
            ([], None) => Err("no UpstreamCluster is given: name the host of an HTTPRoute".to_owned()),
            // The connection was made to it, whatever the request names.
            ([only], _) => Ok(Some(only)),
            (_, None) => Err("several UpstreamClusters are given: name the host".to_owned()),
            (all, Some(host)) => Ok(by_host(all, host)),
        }
    }

    /// The cluster behind the route that has the connections for a host, or why they lead nowhere: as at a listener, the closest name
    /// has them, whether its route is open or closed. Of routes at several listeners that are as close, an open one counts.
    fn routed_to(&self, host: &str) -> Option<Result<&ServedCluster, String>> {
        let host = host.as_bytes();
        let open = self.routed.iter().map(|served| (served.names.cover_connection(host), Ok(served)));
        let closed = self.closed.iter().map(|(hosts, why)| (hosts.cover_connection(host), Err(why)));
        // Backwards, because the last one of the closest is taken.
        let all = open.chain(closed).rev().filter_map(|(cover, found)| Some((cover?, found)));
        let (_, closest) = all.max_by_key(|(cover, _)| *cover)?;
        Some(closest.map_err(Clone::clone))
    }

    /// Runs the request through the filter's own exchange. `info` is its target, if kube-apiserver can read that.
    fn evaluate(
        &self,
        served: &ServedCluster,
        request: &Request,
        (headers, scan): (&HeaderList, &HeaderScan<'_>),
        info: Option<&RequestInfo<'_>>,
        answer: &mut Explanation,
    ) {
        let replaced = with_user(request, headers, scan);
        let sent = replaced.as_ref().unwrap_or(headers);
        let (now, uptime) = (UnixTime::now(), self.later());
        let token = replaced.is_none().then(|| super::certificate::presented_token(scan)).flatten();
        answer.local_token = token.and_then(|token| read_local_token(&served.config, &token, now.as_secs()));
        let mut exchange = Exchange::default();
        let mut host = MemoryHost::new(sent.clone(), now, uptime, |review: &Review| result(review, request));
        let mut next = exchange.request_headers(&self.gateway, Some(&served.route), &mut host);
        while next == Next::Pause {
            next = exchange.resume(&self.gateway, Some(&served.route), &mut host);
        }
        let is_dispatched = match &host.reply {
            None => {
                let is_upgrade = sent.iter().any(|(name, _)| name == b"upgrade")
                    && host.headers.iter().any(|(name, value)| name == b"connection" && value == b"Upgrade");
                answer.upstream_headers = Some(outgoing(&host.headers, is_upgrade));
                true
            }
            Some(refusal) => {
                answer.refusal = Some(RefusalAnswer::new(refusal));
                refusal.cause.is_of_policies()
            }
        };
        if let Some(info) = info.filter(|_| is_dispatched) {
            let cluster = &served.route.cluster;
            let rescanned = replaced.as_ref().map(|headers| self.gateway.scan(Some(cluster), pairs(headers)));
            let scan = rescanned.as_ref().unwrap_or(scan);
            let context = RequestContext { scan, peer: Peer::None, answers: exchange.answers(), now, uptime };
            answer.dispatch =
                self.gateway.acting_user(cluster, &context).map(|user| served.dispatch(info, &user, scan));
        }
    }
}

/// A name without a wildcard wins.
fn by_host<'a>(all: &'a [ServedCluster], host: &str) -> Option<&'a ServedCluster> {
    let host = host.as_bytes();
    let exact = all.iter().find(|served| served.exact.name(host));
    exact.or_else(|| all.iter().find(|served| served.names.name(host)))
}

impl ServedCluster {
    fn dispatch(&self, info: &RequestInfo<'_>, user: &UserInfo, scan: &HeaderScan<'_>) -> DispatchAnswer {
        let matched = self.matcher.first_match(info, user);
        let policy = matched.map(|matched| matched.policy);
        let count = policy.unwrap_or(usize::MAX);
        let schema = policy.and_then(|index| self.config.policies.policies().get(index)?.flow_control_schema.clone());
        let subset = policy.and_then(|index| self.subsets.get(index)).filter(|subset| !subset.is_empty());
        DispatchAnswer {
            upstream_cluster: self.name.clone(),
            matched: matched.is_some(),
            policy,
            rule: matched.map(|matched| matched.rule),
            decided_by: policy.and_then(|index| decided_by(&self.origins, self.has_profile, index)),
            flow_control_schema: schema,
            flow: policy.and_then(|index| Gateway::flow(&self.route.cluster, index, user, info, scan)).map(Into::into),
            upstream_subset: subset.cloned(),
            strategy: policy.and_then(|index| self.strategies.get(index)).copied(),
            trace: self.matcher.mismatches(count, info, user),
        }
    }
}

/// The headers with the call's user in place of the request's own bearer credentials, if it names one; several credentials are
/// wrong for any user.
fn with_user(request: &Request, headers: &HeaderList, scan: &HeaderScan<'_>) -> Option<HeaderList> {
    if request.user.is_none() || scan.authorization_lines > 1 {
        return None;
    }
    let others = headers.iter().filter(|(name, _)| name != b"authorization").cloned();
    Some(others.chain([(b"authorization".to_vec(), ASSUMED_CREDENTIAL.to_vec())]).collect())
}

/// Headers as Envoy hands them to the filter, and the host.
fn message(request: &Request) -> (HeaderList, Option<String>) {
    let mut headers: HeaderList = vec![
        (b":method".to_vec(), request.method.as_bytes().to_vec()),
        (b":path".to_vec(), request.target.as_bytes().to_vec()),
    ];
    let mut host = request.host.clone();
    for (name, value) in request.headers.iter().flatten() {
        let name = name.trim().to_ascii_lowercase();
        if name == "host" {
            host.get_or_insert_with(|| value.clone());
        } else if !name.starts_with(':') {
            headers.push((name.into_bytes(), value.trim_matches([' ', '\t']).as_bytes().to_vec()));
        }
    }
    (headers, host)
}

fn pairs(headers: &HeaderList) -> impl Iterator<Item = (&[u8], &[u8])> {
    headers.iter().map(|(name, value)| (name.as_slice(), value.as_slice()))
}

/// The upstream's answer to a review.
fn result(review: &Review, request: &Request) -> ReviewResult {
    let reviews = request.reviews.as_ref();
    if review.is_of_token() {
        if let Some(user) = &request.user {
            let user = UpstreamUser::new(user.info());
            return user.map_or(ReviewResult::Rejected, |user| ReviewResult::User(Arc::new(user)));
        }
        let Some(status) = reviews.and_then(|reviews| reviews.token.as_ref()) else { return ReviewResult::Failed };
        let status = status.get("status").unwrap_or(status);
        let body = serde_json::json!({"kind": "TokenReview", "status": status}).to_string();
        return review.read(201, body.as_bytes());
    }
    match reviews.and_then(|reviews| reviews.impersonation).unwrap_or_default() {
        Impersonation::Allow => ReviewResult::Allowed,
        Impersonation::Deny => ReviewResult::Denied,
        Impersonation::Error => ReviewResult::Failed,
    }
}

/// The headers that the upstream receives: what the exchange left, without what Envoy removes itself.
fn outgoing(headers: &HeaderList, is_upgrade: bool) -> Vec<(String, String)> {
    let is_sent = |name: &[u8], value: &[u8]| !name.starts_with(b":") && !is_envoys(name, value, is_upgrade);
    let sent = headers.iter().filter(|(name, value)| is_sent(name, value));
    sent.map(|(name, value)| (text(name), text(value))).collect()
}

/// Whether the header is about the hop from the client; Envoy removes these from every request.
fn is_envoys(name: &[u8], value: &[u8], is_upgrade: bool) -> bool {
    match name {
        b"keep-alive" | b"proxy-connection" | b"transfer-encoding" => true,
        b"upgrade" => !is_upgrade,
        b"te" => value != b"trailers",
        _ => false,
    }
}

/// As the gateway's default chain answers.
fn unknown_name() -> Refusal {
    Refusal {
        code: 503,
        reason: "ServiceUnavailable",
        message: portcullis_translate::UNKNOWN_NAME.into(),
        ..Refusal::not_configured()
    }
}
