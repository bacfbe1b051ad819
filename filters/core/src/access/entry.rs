use portcullis_filter_config::{AccessEntry, MAX_USER_AGENT};

use super::AccessRequest;
use super::ranges::AddressRanges;
use crate::compile_error::CompileError;
use crate::policy::{RequestWords, RuleSet, RuleSetCompiler};

/// One entry of an access list.
#[derive(Debug)]
pub(super) struct ListEntry {
    until: Option<u64>,
    addresses: Option<AddressRanges>,
    user_agents: Box<[Box<[u8]>]>,
    rules: Option<Rules>,
    depends_on_user: bool,
    message: Box<str>,
}

/// The rules of an entry: for users who are known, and for one who is not. The latter has no rule that asks for a user, so that the
/// user makes no difference.
#[derive(Debug)]
struct Rules {
    known: RuleSet,
    unknown: RuleSet,
}

impl ListEntry {
    pub(super) fn compile<'c>(
        config: &'c AccessEntry,
        compiler: &mut RuleSetCompiler<'c>,
    ) -> Result<Self, CompileError> {
        if config.user_agents.iter().any(|start| start.len() > MAX_USER_AGENT) {
            return Err(CompileError::UserAgent);
        }
        let addresses = Some(&config.addresses).filter(|addresses| !addresses.is_empty());
        let rules = (!config.rules.is_empty()).then(|| Rules {
            known: compiler.add(config.rules.iter()),
            unknown: compiler.add(config.rules.iter().filter(|rule| !rule.depends_on_user())),
        });
        Ok(ListEntry {
            until: config.until_seconds,
            addresses: addresses
                .map(|ranges| AddressRanges::compile(ranges))
                .transpose()
                .map_err(|text| CompileError::Access(text.to_owned()))?,
            user_agents: config.user_agents.iter().map(|start| start.as_bytes().into()).collect(),
            rules,
            depends_on_user: config.depends_on_user(),
            message: config.message.as_str().into(),
        })
    }

    pub(super) fn message(&self) -> &str {
        &self.message
    }

    /// Whether its rules ask for users, service accounts or groups.
    pub(super) fn depends_on_user(&self) -> bool {
        self.depends_on_user
    }

    /// Whether an entry that denies matches, as far as the time and the client's address and user agent go.
    pub(super) fn denies_origin(&self, asked: AccessRequest<'_>) -> bool {
        self.matches_origin(asked, true)
    }

    /// The same of an entry that allows.
    pub(super) fn lets_in_origin(&self, asked: AccessRequest<'_>) -> bool {
        self.matches_origin(asked, false)
    }

    fn matches_origin(&self, asked: AccessRequest<'_>, if_unknown: bool) -> bool {
        let is_in = |ranges: &AddressRanges| asked.address.map_or(if_unknown, |address| ranges.contain(address));
        self.until.is_none_or(|until| asked.now < until)
            && self.addresses.as_ref().is_none_or(is_in)
            && (self.user_agents.is_empty() || self.user_agents.iter().any(|start| asked.user_agent.starts_with(start)))
    }

    /// Whether its rules match a request of a user. A rule that matches that of a user who is not known matches for all users.
    pub(super) fn matches<'w>(&self, is_known: bool, asked: impl FnOnce() -> &'w RequestWords) -> bool {
        let match_it =
            |rules: &Rules| if is_known { rules.known.matches(asked()) } else { rules.unknown.matches(asked()) };
        self.rules.as_ref().is_none_or(match_it)
    }
}
