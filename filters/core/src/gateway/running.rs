//! Judgement of long-running requests by an edition that came after them.

use std::sync::Arc;

use super::Gateway;
use super::lists::target;
use super::{KnownUsers, first_match};
use crate::access::{Access, AccessRequest};
use crate::cluster::CompiledCluster;
use crate::identity::UserInfo;
use crate::request::{Client, RequestContext};
use crate::request_info::{RequestInfo, RequestTarget};
use crate::stream_origin::{Impersonated, RequestedHost, StreamOrigin};

/// The sender of a request that runs for long, if its users are known as far as they ever will be.
pub(super) fn origin_of(known: &KnownUsers, request: &RequestContext<'_>) -> Option<StreamOrigin> {
    let scan = request.scan;
    let impersonated = match target(scan) {
        Ok(None) => Impersonated::No,
        Ok(Some(user)) => Impersonated::User(Box::new(user)),
        Err(_) => Impersonated::Unreadable,
    };
    Some(StreamOrigin {
        method: scan.method.into(),
        path: scan.path.into(),
        host: RequestedHost::Authority(scan.authority.into()),
        listener: Arc::default(),
        address: scan.client_ip(),
        // The exchange reads the header, whatever the configuration looks at.
        user_agent: Box::default(),
        client: known.client.clone()?,
        acting: known.acting.clone()?,
        impersonated,
    })
}

impl Gateway {
    /// Whether a cluster's access lists or a policy with `action: Deny` would refuse a request that runs already. One that
    /// cannot be read any more is refused. `now`: seconds since 1970.
    pub(crate) fn denies_running(cluster: &CompiledCluster, origin: &StreamOrigin, now: u64) -> bool {
        let Ok(target) = RequestTarget::parse(&origin.path) else { return true };
        let Ok(info) = target.resolve(&origin.method) else { return true };
        let is_denied = |access| denies(access, origin, &info, now);
        cluster.access.as_ref().is_some_and(is_denied) || is_denied_by_policy(cluster, origin, &info)
    }
}

fn denies(access: &Access, origin: &StreamOrigin, info: &RequestInfo<'_>, now: u64) -> bool {
    let asked = AccessRequest::of_parts(info, origin.address, &origin.user_agent, now);
    let anonymous = UserInfo::anonymous();
    let is_denied_to = |user| access.check(asked, user).is_err();
    let is_client_denied = match &origin.client {
        Client::Opaque { .. } => access.may_deny_by_user(asked) || is_denied_to(None),
        client => is_denied_to(Some(client.user().map_or(&anonymous, |user| user.user()))),
    };
    access.check_origin(asked).is_err()
        || is_client_denied
        || match &origin.impersonated {
            Impersonated::No => false,
            Impersonated::User(user) => is_denied_to(Some(user)),
            Impersonated::Unreadable => access.depends_on_user(),
        }
}

fn is_denied_by_policy(cluster: &CompiledCluster, origin: &StreamOrigin, info: &RequestInfo<'_>) -> bool {
    if cluster.denials.are_none() {
        return false;
    }
    let unknown = cluster.identity.client_credential.as_ref().map(|client_credential| &client_credential.unknown);
    let anonymous = UserInfo::anonymous();
    let policy = first_match(&cluster.policies, unknown, &origin.acting, info, &anonymous);
    policy.is_some_and(|policy| cluster.denials.of(policy).is_some())
}
