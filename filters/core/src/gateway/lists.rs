use super::Gateway;
use crate::access::{Access, AccessRequest};
use crate::header_scan::HeaderScan;
use crate::identity::UserInfo;
use crate::impersonation;
use crate::protected::groups_added_to;
use crate::refusal::Refusal;
use crate::request::{Client, EffectiveUser};

impl Gateway {
    /// Judges a request by the access lists: the user whom the client authenticated as, and the one whom it acts as.
    ///
    /// # Errors
    /// What the lists refuse, and what leaves open whom they would be asked for.
    pub(super) fn check_lists(
        &self,
        access: &Access,
        asked: AccessRequest<'_>,
        actor: &EffectiveUser,
        scan: &HeaderScan<'_>,
    ) -> Result<(), Refusal> {
        if access.denies_by_user() && matches!(actor.client, Client::Opaque { .. }) {
            return Err(Refusal::token_not_reviewed());
        }
        let client = self.known_user(&actor.client);
        let target = if access.depends_on_user() && actor.original.is_none() { target(scan)? } else { None };
        match actor.original.as_ref().or(target.as_ref()) {
            Some(other) => access.check(asked, &[client, Some(other)]),
            None => access.check(asked, &[client]),
        }
    }
}

/// The user whom the client's own lines ask for, where the upstream judges impersonation.
fn target(scan: &HeaderScan<'_>) -> Result<Option<UserInfo>, Refusal> {
    if scan.impersonation.is_empty() {
        return Ok(None);
    }
    let Some(asked) = impersonation::read(&scan.impersonation)? else { return Ok(None) };
    let mut target = asked.target;
    if !scan.impersonation.iter().any(|(name, _)| *name == b"impersonate-group") {
        target.groups.extend(groups_added_to(&target.name));
    }
    Ok(Some(target))
}
