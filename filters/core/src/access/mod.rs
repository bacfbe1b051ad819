//! Access lists: requests that are refused, and those that alone are let in, before policies are looked at.

mod entry;
mod ranges;

use std::cell::LazyCell;
use std::net::IpAddr;

use portcullis_filter_config::{AccessLists, AccessScope};

use crate::compile_error::CompileError;
use crate::identity::UserInfo;
use crate::policy::{RequestWords, RuleSetCompiler, RuleWords};
use crate::refusal::Refusal;
use crate::request::RequestContext;
use crate::request_info::RequestInfo;
use entry::ListEntry;

/// The access lists that hold for a cluster, compiled.
#[derive(Debug)]
pub(crate) struct Access {
    lists: Box<[Lists]>,
    /// The words of all entries.
    words: RuleWords,
    reads_user_agent: bool,
    depends_on_user: bool,
}

#[derive(Debug)]
struct Lists {
    scope: AccessScope,
    deny: Box<[ListEntry]>,
    allow: Box<[ListEntry]>,
}

/// The part of a request that entries look at, beside its user.
#[derive(Clone, Copy)]
pub(crate) struct AccessRequest<'a> {
    info: &'a RequestInfo<'a>,
    /// `None` if it is not known: entries that deny addresses deny it, and entries that allow some do not let it in.
    address: Option<IpAddr>,
    user_agent: &'a [u8],
    /// Seconds since 1970.
    now: u64,
}

impl<'a> AccessRequest<'a> {
    pub(crate) fn new(info: &'a RequestInfo<'a>, request: &RequestContext<'a>) -> Self {
        Self::of_parts(info, request.scan.client_ip(), request.scan.user_agent, request.now.as_secs())
    }

    pub(crate) fn of_parts(info: &'a RequestInfo<'a>, address: Option<IpAddr>, user_agent: &'a [u8], now: u64) -> Self {
        AccessRequest { info, address, user_agent, now }
    }
}

impl Access {
    /// `None` if there are no lists.
    ///
    /// # Errors
    /// An address that is none, and a start of user agents that is too long.
    pub(crate) fn compile(lists: &[AccessLists]) -> Result<Option<Self>, CompileError> {
        let mut compiler = RuleSetCompiler::default();
        let compiled =
            lists.iter().map(|list| Lists::compile(list, &mut compiler)).collect::<Result<_, CompileError>>()?;
        Ok((!lists.is_empty()).then(|| Access {
            lists: compiled,
            words: compiler.words(),
            reads_user_agent: lists.iter().flat_map(AccessLists::all).any(|entry| !entry.user_agents.is_empty()),
            depends_on_user: lists.iter().any(AccessLists::depends_on_user),
        }))
    }

    /// Whether an entry looks at `User-Agent`.
    pub(crate) fn reads_user_agent(&self) -> bool {
        self.reads_user_agent
    }

    /// Whether an entry asks for users, service accounts or groups.
    pub(crate) fn depends_on_user(&self) -> bool {
        self.depends_on_user
    }

    /// Whether an entry may deny this request by its user.
    pub(crate) fn may_deny_by_user(&self, asked: AccessRequest<'_>) -> bool {
        let denies = |entry: &ListEntry| entry.depends_on_user() && entry.denies_origin(asked);
        self.lists.iter().any(|lists| lists.deny.iter().any(denies))
    }

    /// Judges a request before its user is known: what is refused whatever the user costs no review.
    ///
    /// # Errors
    /// Refused are requests that an entry denies to all users, and those that no entry lets in, whatever their user.
    pub(crate) fn check_origin(&self, asked: AccessRequest<'_>) -> Result<(), Refusal> {
        let words = self.words_of(asked, None);
        let matches = |entry: &ListEntry| entry.matches(false, || LazyCell::force(&words));
        self.lists.iter().try_for_each(|lists| {
            lists.check(
                asked,
                |entry| entry.denies_origin(asked) && matches(entry),
                |entry| entry.lets_in_origin(asked) && (entry.depends_on_user() || matches(entry)),
            )
        })
    }

    /// Judges a request by one of its users: the one whom the client authenticated as, or the one whom the request acts as.
    /// `None` is a user who is not known.
    ///
    /// # Errors
    /// Refused are requests that an entry denies to the user, and those that no entry lets in.
    pub(crate) fn check(&self, asked: AccessRequest<'_>, user: Option<&UserInfo>) -> Result<(), Refusal> {
        let words = self.words_of(asked, user);
        let matches = |entry: &ListEntry| entry.matches(user.is_some(), || LazyCell::force(&words));
        self.lists.iter().try_for_each(|lists| {
            lists.check(
                asked,
                |entry| entry.denies_origin(asked) && matches(entry),
                |entry| entry.lets_in_origin(asked) && matches(entry),
            )
        })
    }

    /// The request as rules see it, once an entry asks for it.
    fn words_of<'a>(
        &'a self,
        asked: AccessRequest<'a>,
        user: Option<&'a UserInfo>,
    ) -> LazyCell<RequestWords, impl FnOnce() -> RequestWords + 'a> {
        LazyCell::new(move || self.words.of(asked.info, user.unwrap_or(&UserInfo::default())))
    }
}

impl Lists {
    fn compile<'c>(config: &'c AccessLists, compiler: &mut RuleSetCompiler<'c>) -> Result<Self, CompileError> {
        let mut entries =
            |list: &'c [_]| list.iter().map(|entry| ListEntry::compile(entry, compiler)).collect::<Result<_, _>>();
        Ok(Lists { scope: config.scope, deny: entries(&config.deny)?, allow: entries(&config.allow)? })
    }

    fn check(
        &self,
        asked: AccessRequest<'_>,
        denies: impl Fn(&ListEntry) -> bool,
        lets_in: impl Fn(&ListEntry) -> bool,
    ) -> Result<(), Refusal> {
        if let Some((number, entry)) = self.deny.iter().enumerate().find(|(_, entry)| denies(entry)) {
            return Err(Refusal::denied_by_list(self.scope, number, entry.message(), asked.info));
        }
        if self.allow.is_empty() || self.allow.iter().any(lets_in) {
            Ok(())
        } else {
            Err(Refusal::not_let_in(self.scope, asked.info))
        }
    }
}

#[cfg(test)]
mod tests {
    use portcullis_filter_config::{AccessEntry, Rule};

    use super::*;
    use crate::policy::names::lookups;

    /// An owner writes as many entries as an object has room for, and a user has up to 256 groups.
    #[test]
    fn groups_of_a_user_are_looked_up_once_for_all_entries() {
        let all = || vec!["*".to_owned()];
        let of_group = |number: usize| {
            let rule = Rule { verbs: all(), non_resource_urls: all(), ..Rule::default() };
            let rules = vec![Rule { user_groups: vec![format!("group-{number}")], ..rule }];
            AccessEntry { rules, ..AccessEntry::default() }
        };
        let deny = (256..512).map(of_group).collect();
        let lists = [AccessLists { scope: AccessScope::Cluster, deny, allow: vec![of_group(1), of_group(255)] }];
        let access = Access::compile(&lists).unwrap().unwrap();
        let groups = (0..256).map(|number| format!("group-{number}")).collect();
        let user = UserInfo { groups, ..UserInfo::default() };
        let info = RequestInfo { verb: b"get".into(), path: b"/version", ..RequestInfo::default() };
        let before = lookups();
        assert!(access.check(AccessRequest::of_parts(&info, None, b"", 0), Some(&user)).is_ok());
        let found = lookups() - before;
        assert!((256..300).contains(&found), "{found}");
    }
}
