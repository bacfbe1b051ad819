//! The user as whom a request acts: its client, or the one whom the client impersonates and may.

use std::sync::Arc;

use crate::cluster::Cluster;
use crate::identity::UserInfo;
use crate::impersonation::{self, Impersonation};
use crate::refusal::Refusal;
use crate::request::{Client, EffectiveUser, Interrupt, RequestContext};
use crate::request_info::RequestInfo;
use crate::resource_attributes::AccessAttributes;
use crate::review::{Requester, Review, ReviewResult, ReviewSubject, Reviewer};
use crate::upstream_user::UpstreamUser;
use crate::user_digest::UserDigest;

/// Parts of one request's impersonation that are reviewed at a time: a single request must not take all the room that a
/// cluster has for reviews.
const MAX_PARTS_AT_A_TIME: usize = 8;
/// Said where grants of constrained impersonation are not looked for.
const NOT_CONSTRAINED: &str = " (through this gateway, grants of constrained impersonation do not count)";

/// The user that the request acts as: the client itself, or the user that it may impersonate. If the upstream judges
/// impersonation, it is the client: the impersonated user is not known to be allowed.
pub(crate) fn effective_user(
    cluster: &Cluster,
    client: Client,
    anonymous: &UserInfo,
    request: &RequestContext<'_>,
    info: &RequestInfo<'_>,
) -> Result<EffectiveUser, Interrupt> {
    if request.scan.impersonation.is_empty() {
        return Ok(EffectiveUser { client, original: None });
    }
    if cluster.identity.passes() {
        if !cluster.identity.is_unchanged() {
            impersonation::check_passed_on(&request.scan.impersonation)?;
        }
        if let Some(protected) = &cluster.protected {
            protected.enforce_lines(&request.scan.impersonation)?;
        }
        return Ok(EffectiveUser { client, original: None });
    }
    let Some(reviewer) = &cluster.reviewer else {
        return Err(Refusal::impersonation().into());
    };
    let Some(asked) = impersonation::read(&request.scan.impersonation)? else {
        return Ok(EffectiveUser { client, original: None });
    };
    let subject = match client.user() {
        Some(user) => ReviewSubject { user: user.user(), digest: user.digest(), requester: Requester::User },
        None => {
            ReviewSubject { user: anonymous, digest: UserDigest::of(anonymous), requester: Requester::Unauthenticated }
        }
    };
    let target = Judge { cluster, reviewer, request }.judge(asked, subject, info)?;
    let target = UpstreamUser::new(target).map_err(|error| Refusal::bad_request(error.to_string()))?;
    Ok(EffectiveUser { client: Client::Impersonated(Arc::new(target)), original: Some(client) })
}

/// The reviews by which an impersonation is judged.
struct Judge<'a> {
    cluster: &'a Cluster,
    reviewer: &'a Reviewer,
    request: &'a RequestContext<'a>,
}

impl Judge<'_> {
    /// The user as whom a client may act. A grant of all requests counts first: it is looked for once, whatever is asked.
    fn judge(
        &self,
        mut asked: Impersonation,
        client: ReviewSubject<'_>,
        info: &RequestInfo<'_>,
    ) -> Result<UserInfo, Interrupt> {
        self.protect(&mut asked)?;
        let parts: Vec<AccessAttributes<'_>> = asked.parts.iter().map(AccessAttributes::from).collect();
        let Some(denied) = self.denied(client, &parts)? else { return Ok(asked.target) };
        if !self.reviewer.looks_for_constrained {
            return Err(Refusal::may_not_impersonate(&client.user.name, denied, NOT_CONSTRAINED).into());
        }
        let mut of_request = None;
        for mode in impersonation::modes(&asked, client.user) {
            let Some(request) = mode.request(info) else { continue };
            let mut constrained = mode.impersonation;
            self.protect(&mut constrained)?;
            let parts: Vec<AccessAttributes<'_>> = constrained.parts.iter().map(AccessAttributes::from).collect();
            let client = ReviewSubject { user: &mode.requester, digest: UserDigest::of(&mode.requester), ..client };
            // The user before the request: of a client that may not act as the user, no number of requests causes more reviews.
            if self.denied(client, &parts)?.is_some() {
                continue;
            }
            if self.denied(client, std::slice::from_ref(&request))?.is_none() {
                return Ok(constrained.target);
            }
            of_request.get_or_insert(request);
        }
        Err(Refusal::may_not_impersonate(&client.user.name, of_request.as_ref().unwrap_or(denied), "").into())
    }

    fn protect(&self, asked: &mut Impersonation) -> Result<(), Refusal> {
        self.cluster.protected.as_ref().map_or(Ok(()), |protected| protected.enforce_target(asked))
    }

    /// The first of these that a client is not allowed; `None` if it is allowed all.
    fn denied<'a>(
        &self,
        client: ReviewSubject<'_>,
        parts: &'a [AccessAttributes<'a>],
    ) -> Result<Option<&'a AccessAttributes<'a>>, Interrupt> {
        let mut unknown = Vec::new();
        for (index, part) in parts.iter().enumerate() {
            let caches = &self.cluster.caches;
            match Review::known_access(client, part, caches, self.request.answers, self.request.moment()) {
                Some(ReviewResult::Allowed) => {}
                Some(ReviewResult::Denied) => return Ok(Some(part)),
                Some(_) => return Err(Refusal::review_failed().into()),
                None => unknown.push(Review::of_access(client, part, self.reviewer, caches)),
            }
            // The user first and alone: a client that may not act as the user causes one review, however many parts it lists.
            if index == 0 && !unknown.is_empty() || unknown.len() == MAX_PARTS_AT_A_TIME {
                break;
            }
        }
        if unknown.is_empty() { Ok(None) } else { Err(Interrupt::Review(unknown)) }
    }
}
