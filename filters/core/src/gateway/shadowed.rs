use std::panic::{AssertUnwindSafe, catch_unwind};

use super::Gateway;
use super::lists::check_impersonated;
use crate::access::AccessRequest;
use crate::cluster::Cluster;
use crate::fault;
use crate::observe::ShadowOutcome;
use crate::refusal::Cause;
use crate::request::{Client, Interrupt, RequestContext};
use crate::request_info::RequestInfo;
use crate::shadow::{RealOutcome, Shadow, ShadowChoice};

/// The users of a request as they become known, for the shadow and for later editions.
#[derive(Debug, Default)]
pub(super) struct KnownUsers {
    /// Whether they are asked for later.
    pub(super) are_kept: bool,
    /// With all its groups.
    pub(super) client: Option<Client>,
    /// By whom policies are chosen.
    pub(super) acting: Option<Client>,
}

/// A request that is decided, but for what its users are.
#[derive(Clone, Copy)]
pub(super) struct DecidedRequest<'a> {
    pub(super) cluster: &'a Cluster,
    pub(super) request: &'a RequestContext<'a>,
    pub(super) info: &'a RequestInfo<'a>,
    pub(super) policy: Option<usize>,
}

impl Gateway {
    /// Judges a request by the shadow. `None` if its user is not known, or if access lists, policies and limits had no part in its
    /// refusal. A panic ends here, and the decision stays as it is.
    pub(super) fn ask_shadow<T>(
        &self,
        shadow: &Shadow,
        decided: DecidedRequest<'_>,
        known: KnownUsers,
        decision: &Result<T, Interrupt>,
    ) -> Option<ShadowOutcome> {
        let (refused, is_final) = match decision {
            Ok(_) => (None, true),
            Err(Interrupt::Refuse(refusal)) => (Some(refusal.cause), true),
            // It is judged again, unless it is refused because the queue is full.
            Err(Interrupt::Queue(_, full)) => (Some(full.cause), false),
            Err(Interrupt::Review(_)) => return None,
        };
        let real = RealOutcome { policy: decided.policy, refused, is_final };
        catch_unwind(AssertUnwindSafe(|| self.judge_by_shadow(shadow, decided, known, real))).ok().flatten()
    }

    fn judge_by_shadow(
        &self,
        shadow: &Shadow,
        decided: DecidedRequest<'_>,
        known: KnownUsers,
        real: RealOutcome,
    ) -> Option<ShadowOutcome> {
        let DecidedRequest { request, info, .. } = decided;
        fault::strike_if_named("shadow", info.path);
        let client = known.client?;
        let choice = if self.is_refused_by_lists(shadow, decided, &client)? {
            ShadowChoice::Refused
        } else {
            let acting = known.acting.or_else(|| acting_of_refused(client, decided, real.refused))?;
            ShadowChoice::Policy(self.first_match(&shadow.policies, shadow.unknown.as_ref(), &acting, info))
        };
        shadow.judge(choice, real, *info.verb == *b"watch", request.moment())
    }

    /// `None` if it takes a user who is not known.
    fn is_refused_by_lists(&self, shadow: &Shadow, decided: DecidedRequest<'_>, client: &Client) -> Option<bool> {
        let DecidedRequest { request, info, .. } = decided;
        let Some(access) = &shadow.access else { return Some(false) };
        if matches!(client, Client::Opaque { .. }) && access.depends_on_user() {
            return None;
        }
        let asked = AccessRequest::new(info, request);
        let lists = Some((access, asked));
        let is_let_in = access.check_origin(asked).is_ok()
            && self.check_client(lists, client).is_ok()
            && check_impersonated(lists, request.scan).is_ok();
        Some(!is_let_in)
    }
}

/// As whom a request acts that the access lists have refused before that was found out: as its client, unless it impersonates.
fn acting_of_refused(client: Client, decided: DecidedRequest<'_>, refused: Option<Cause>) -> Option<Client> {
    let DecidedRequest { cluster, request, .. } = decided;
    if refused != Some(Cause::DeniedByList) || !request.scan.impersonation.is_empty() {
        return None;
    }
    match &cluster.protected {
        Some(protected) => protected.enforce(client, &cluster.identity.names, cluster.identity.passes()).ok(),
        None => Some(client),
    }
}
