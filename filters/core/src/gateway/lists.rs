use super::Gateway;
use crate::access::{Access, AccessRequest};
use crate::header_scan::HeaderScan;
use crate::identity::UserInfo;
use crate::impersonation;
use crate::protected::groups_added_to;
use crate::refusal::Refusal;
use crate::request::{Client, IdentifiedUser};

impl Gateway {
    /// Judges a request by the access lists: the user whom the client authenticated as, and the one whom it acts as.
    ///
    /// # Errors
    /// What the lists refuse, and what leaves open whom they would be asked for.
    pub(super) fn check_lists(
        &self,
        access: &Access,
        asked: AccessRequest<'_>,
        IdentifiedUser { presented, actor }: &IdentifiedUser,
        scan: &HeaderScan<'_>,
    ) -> Result<(), Refusal> {
        if access.may_deny_by_user(asked) && matches!(actor.client, Client::Opaque { .. }) {
            return Err(Refusal::token_not_reviewed());
        }
        let client = self.known_user(&actor.client);
        let target = if access.depends_on_user() && actor.original.is_none() { target(scan)? } else { None };
        let presented = presented.as_ref().map(|user| user.user());
        match (actor.original.as_ref(), target.as_ref()) {
            (Some(original), _) => access.check(asked, &[client, presented.or(Some(original))]),
            (None, Some(target)) => access.check(asked, &[presented.or(client), Some(target)]),
            (None, None) => access.check(asked, &[presented.or(client)]),
        }
    }
}

/// The user whom the client's own lines ask for, where the upstream judges impersonation.
fn target(scan: &HeaderScan<'_>) -> Result<Option<UserInfo>, Refusal> {
    if scan.impersonation.is_empty() {
        return Ok(None);
    }
    let Some(asked) = impersonation::read(&scan.impersonation)? else { return Ok(None) };
    let mut target = asked.target.clone();
    if !scan.impersonation.iter().any(|(name, _)| *name == b"impersonate-group") {
        let added = groups_added_to(&target.name);
        target.groups.extend(added.into_iter().filter(|group| !asked.target.groups.contains(group)));
    }
    Ok(Some(target))
}
