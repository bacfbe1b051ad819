use super::Gateway;
use crate::access::{Access, AccessRequest};
use crate::go_strings::trim_space;
use crate::header_scan::HeaderScan;
use crate::identity::UserInfo;
use crate::impersonation;
use crate::protected::groups_added_to;
use crate::refusal::Refusal;
use crate::request::Client;

/// The access lists of a cluster, and the request that they are asked for.
pub(super) type Lists<'a> = Option<(&'a Access, AccessRequest<'a>)>;

impl Gateway {
    /// Judges a request by the user whom its credential is for, before it is asked as whom the request may act.
    ///
    /// # Errors
    /// A refusal by the lists, and of a token of an unknown user if they may deny users.
    pub(super) fn check_client(&self, lists: Lists<'_>, client: &Client) -> Result<(), Refusal> {
        let Some((access, asked)) = lists else { return Ok(()) };
        if matches!(client, Client::Opaque { .. }) && access.may_deny_by_user(asked) {
            return Err(Refusal::token_not_reviewed());
        }
        access.check(asked, self.known_user(client))
    }
}

/// Judges a request by the user whom the client's own lines ask for, with the groups that an upstream gives to that user.
///
/// # Errors
/// A refusal by the lists, and of lines that cannot be read.
pub(super) fn check_impersonated(lists: Lists<'_>, scan: &HeaderScan<'_>) -> Result<(), Refusal> {
    let Some((access, asked)) = lists.filter(|(access, _)| access.depends_on_user()) else { return Ok(()) };
    if scan.impersonation.is_empty() {
        return Ok(());
    }
    target(scan)?.map_or(Ok(()), |target| access.check(asked, Some(&target)))
}

/// The user whom the client's own lines ask for, if there are such lines.
///
/// # Errors
/// A refusal of lines that cannot be read.
pub(super) fn target(scan: &HeaderScan<'_>) -> Result<Option<UserInfo>, Refusal> {
    // An upstream may overlook blanks around a value.
    let lines: Vec<_> = scan.impersonation.iter().map(|(name, value)| (*name, trim_space(value))).collect();
    let Some(mut asked) = impersonation::read(&lines)? else { return Ok(None) };
    if !lines.iter().any(|(name, _)| *name == b"impersonate-group") {
        let known = &asked.target.groups;
        let added: Vec<_> =
            groups_added_to(&asked.target.name).into_iter().filter(|group| !known.contains(group)).collect();
        asked.target.groups.extend(added);
    }
    Ok(Some(asked.target))
}
