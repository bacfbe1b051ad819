use std::sync::Arc;

use portcullis_core::exchange::{Exchange, MemoryHost, Next};
use portcullis_core::refusal::Cause;
use portcullis_core::request_info::RequestTarget;
use portcullis_core::review::{Review, ReviewResult};
use portcullis_core::upstream_user::UpstreamUser;
use portcullis_core::{Peer, Refusal, RequestContext};
use rustls_pki_types::UnixTime;

use super::answer::{DispatchAnswer, Explanation, RefusalAnswer, RequestInfoAnswer, text};
use super::arguments::Impersonation;
use super::request::Request;
use super::world::{ServedCluster, World};

/// Placeholder for the credential of the user that the call names. It is reviewed and never sent.
const STAND_IN: &[u8] = b"Bearer explained";

type HeaderList = Vec<(Vec<u8>, Vec<u8>)>;

impl World {
    /// Explains how the gateway would treat a request.
    pub(super) fn explain(&self, request: &Request) -> Explanation {
        let mut answer = Explanation { id: request.id.clone(), ..Explanation::default() };
        let (headers, host) = message(request);
        let scan_of = |headers: &HeaderList, host: &str| {
            let mut headers = headers.clone();
            headers.push((b":authority".to_vec(), host.as_bytes().to_vec()));
            headers
        };
        let plain = scan_of(&headers, host.as_deref().unwrap_or_default());
        let scan = self.gateway.scan(None, pairs(&plain));
        answer.credential = Some(super::certificate::read_credential(&scan));
        let refusal = read_target(request, &mut answer);
        if !self.has_files {
            answer.refusal = refusal.map(|refusal| RefusalAnswer::new(&refusal));
            return answer;
        }
        let served = match self.find(host.as_deref()) {
            Ok(Some(served)) => served,
            Ok(None) => {
                answer.refusal = Some(RefusalAnswer::new(&unknown_name()));
                return answer;
            }
            Err(message) => {
                answer.error = Some(message);
                return answer;
            }
        };
        let host = host.unwrap_or_else(|| served.config.authorities.first().cloned().unwrap_or_default());
        self.judge(served, request, &scan_of(&headers, &host), &mut answer);
        answer
    }

    /// The cluster that owns the host name; `None` if no cluster does.
    fn find(&self, host: Option<&str>) -> Result<Option<&ServedCluster>, String> {
        match (self.clusters.as_slice(), host) {
            // The connection was made to it, whatever the request names.
            ([only], _) => Ok(Some(only)),
            (_, None) => Err("several UpstreamClusters are given: name the host".to_owned()),
            (all, Some(host)) => {
                let host = host.as_bytes();
                let exact = all.iter().find(|served| served.exact.name(host));
                Ok(exact.or_else(|| all.iter().find(|served| served.names.name(host))))
            }
        }
    }

    fn judge(&self, served: &ServedCluster, request: &Request, headers: &HeaderList, answer: &mut Explanation) {
        let as_user = self.with_user(request, headers);
        let (now, uptime) = (UnixTime::now(), self.later());
        let mut exchange = Exchange::default();
        let mut host = MemoryHost::new(as_user.clone(), now, uptime, |review: &Review| result(review, request));
        let mut next = exchange.request_headers(&self.gateway, Some(&served.route), &mut host);
        while next == Next::Pause {
            next = exchange.resume(&self.gateway, Some(&served.route), &mut host);
        }
        let is_dispatched = match &host.reply {
            None => {
                let is_upgrade = as_user.iter().any(|(name, _)| name == b"upgrade")
                    && host.headers.iter().any(|(name, value)| name == b"connection" && value == b"Upgrade");
                answer.upstream_headers = Some(outgoing(&host.headers, is_upgrade));
                true
            }
            Some(refusal) => {
                answer.refusal = Some(RefusalAnswer::new(refusal));
                matches!(refusal.cause, Cause::NoPolicy | Cause::FlowControl)
            }
        };
        if is_dispatched {
            let scan = self.gateway.scan(Some(&served.route.cluster), pairs(&as_user));
            let facts = RequestContext { scan: &scan, peer: Peer::None, settled: exchange.answers(), now, uptime };
            answer.dispatch = self.dispatch(served, &facts);
        }
    }

    /// The headers with the call's user in place of the request's own bearer credentials; several of these are wrong for any
    /// user.
    fn with_user(&self, request: &Request, headers: &HeaderList) -> HeaderList {
        let mut as_user = headers.clone();
        if request.user.is_some() && self.gateway.scan(None, pairs(headers)).authorization_lines <= 1 {
            as_user.retain(|(name, _)| name != b"authorization");
            as_user.push((b"authorization".to_vec(), STAND_IN.to_vec()));
        }
        as_user
    }

    fn dispatch(&self, served: &ServedCluster, facts: &RequestContext<'_>) -> Option<DispatchAnswer> {
        let target = RequestTarget::parse(facts.scan.path).ok()?;
        let info = target.resolve(facts.scan.method).ok()?;
        target.check(&info).ok()?;
        let user = self.gateway.acting_user(&served.route.cluster, facts)?;
        let matched = served.walk.first_match(&info, &user);
        let policy = matched.map(|matched| matched.policy);
        let count = policy.unwrap_or(usize::MAX);
        let schema = policy.and_then(|index| served.config.policies.policies().get(index)?.flow_control_schema.clone());
        let subset = policy.and_then(|index| served.subsets.get(index)).filter(|subset| !subset.is_empty());
        Some(DispatchAnswer {
            upstream_cluster: served.name.clone(),
            matched: matched.is_some(),
            policy,
            rule: matched.map(|matched| matched.rule),
            flow_control_schema: schema,
            upstream_subset: subset.cloned(),
            strategy: policy.and_then(|index| served.strategies.get(index)).copied(),
            trace: served.walk.mismatches(count, &info, &user),
        })
    }
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

/// Reads the target as kube-apiserver does, for any user, and says what is wrong with it.
fn read_target(request: &Request, answer: &mut Explanation) -> Option<Refusal> {
    let read = RequestTarget::parse(request.target.as_bytes()).and_then(|target| {
        let info = target.resolve(request.method.as_bytes())?;
        answer.request_info = Some(RequestInfoAnswer::new(&info, target.query));
        target.check(&info)
    });
    read.err().map(|error| Refusal::bad_request(error.to_string()))
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
