//! Judgement of requests whose users are known from elsewhere, such as a line of a log: without credentials and reviews. For tools.

use std::net::IpAddr;
use std::sync::Arc;

use super::Gateway;
use super::lists::Lists;
use crate::access::AccessRequest;
use crate::cluster::Cluster;
use crate::identity::{ANONYMOUS, UserInfo};
use crate::impersonation::Impersonation;
use crate::refusal::Refusal;
use crate::request::Client;
use crate::request_info::RequestInfo;
use crate::resource_attributes::ResourceAttributes;
use crate::upstream_user::UpstreamUser;

/// A request, and who sent it.
#[derive(Clone, Copy, Debug)]
pub struct IdentifiedRequest<'a> {
    /// The request's attributes.
    pub info: &'a RequestInfo<'a>,
    /// The client's address; `None` if it is not known.
    pub address: Option<IpAddr>,
    /// `User-Agent`.
    pub user_agent: &'a [u8],
    /// Seconds since 1970.
    pub now: u64,
    /// The user whom the client authenticated as; `None` if the gateway does not know it.
    pub user: Option<&'a UserInfo>,
    /// Whether the user has authenticated by a token, and not by a certificate.
    pub has_token: bool,
    /// As whom the request acts, if that is another user. The client may act as this one.
    pub impersonated: Option<&'a UserInfo>,
}

/// The decision about an [`IdentifiedRequest`], as far as it is not of limits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Judgement {
    /// The policy that matches, unless the request is refused before.
    pub policy: Option<usize>,
    /// The refusal of the request, if it is refused.
    pub refusal: Option<Refusal>,
    /// Whether it is refused for the user as whom it would act, and not for the client's own.
    pub is_for_impersonated: bool,
}

impl Gateway {
    /// Judges a request by the cluster's access lists, protected identities and policies, in the order of [`Gateway::decide`].
    /// Limits are not asked.
    pub fn judge_identified(&self, cluster: &Cluster, request: &IdentifiedRequest<'_>) -> Judgement {
        let refused = |is_for_impersonated| {
            move |refusal| Judgement { policy: None, refusal: Some(refusal), is_for_impersonated }
        };
        let admitted = self.admit_identified(cluster, request).map_err(refused(false));
        let acting = admitted.and_then(|client| act(cluster, request, client).map_err(refused(true)));
        let client = match acting {
            Ok(client) => client,
            Err(judgement) => return judgement,
        };
        let unknown = cluster.identity.client_credential.as_ref().map(|client_credential| &client_credential.unknown);
        let policy = self.first_match(&cluster.policies, unknown, &client, request.info);
        let refusal = match policy.map(|policy| (policy, cluster.denials.of(policy))) {
            None => Some(Refusal::no_policy(request.info)),
            Some((policy, Some(denial))) => Some(Refusal::denied_by_policy(policy, &denial.message, request.info)),
            Some((_, None)) => None,
        };
        Judgement { policy, refusal, is_for_impersonated: false }
    }

    fn admit_identified(&self, cluster: &Cluster, request: &IdentifiedRequest<'_>) -> Result<Client, Refusal> {
        if cluster.deny_all_requests {
            return Err(Refusal::denied());
        }
        let lists = lists(cluster, request);
        if let Some((access, asked)) = lists {
            access.check_origin(asked)?;
        }
        let mut client = client(request.user)?;
        if matches!(client, Client::Anonymous) && !cluster.anonymous {
            return Err(Refusal::unauthorized());
        }
        self.check_client(lists, &client)?;
        if let Some(protected) = &cluster.protected {
            let passes = cluster.identity.passes();
            match (&client, request.has_token && passes) {
                (Client::Certificate(user), true) => protected.check(user.user())?,
                _ => client = protected.enforce(client, &cluster.identity.names, passes)?,
            }
        }
        Ok(client)
    }
}

/// The user as whom a client's request acts. Whatever the upstream judges itself, policies are chosen by the client.
fn act(cluster: &Cluster, request: &IdentifiedRequest<'_>, client: Client) -> Result<Client, Refusal> {
    let Some(target) = request.impersonated.filter(|_| !cluster.identity.passes()) else { return Ok(client) };
    let mut asked = Impersonation { target: target.clone(), parts: groups(target) };
    if let Some(protected) = &cluster.protected {
        protected.enforce_target(&mut asked)?;
    }
    if let Some((access, request)) = lists(cluster, request) {
        access.check(request, Some(target))?;
    }
    let target = UpstreamUser::new(asked.target).map_err(|error| Refusal::bad_request(error.to_string()))?;
    Ok(Client::Impersonated(Arc::new(target)))
}

fn lists<'a>(cluster: &'a Cluster, request: &IdentifiedRequest<'a>) -> Lists<'a> {
    let IdentifiedRequest { info, address, user_agent, now, .. } = *request;
    cluster.access.as_ref().map(|access| (access, AccessRequest::of_parts(info, address, user_agent, now)))
}

fn client(user: Option<&UserInfo>) -> Result<Client, Refusal> {
    Ok(match user {
        None => Client::Opaque { is_token: true },
        Some(user) if user.name == ANONYMOUS => Client::Anonymous,
        Some(user) => {
            let user = UpstreamUser::new(user.clone()).map_err(|_| Refusal::unauthorized())?;
            Client::Certificate(Arc::new(user))
        }
    })
}

/// The groups as an impersonation names them.
fn groups(target: &UserInfo) -> Vec<ResourceAttributes> {
    let part = |name: &String| ResourceAttributes {
        verb: "impersonate".into(),
        group: "".into(),
        version: "".into(),
        resource: "groups".into(),
        subresource: String::new(),
        namespace: String::new(),
        name: name.clone(),
    };
    target.groups.iter().map(part).collect()
}
