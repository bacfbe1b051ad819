//! Users and groups that no request may act as through this gateway, whatever the upstream would allow.

use std::sync::Arc;

use portcullis_filter_config as config;

use crate::go_strings::trim_space;
use crate::identity::{
    ANONYMOUS, AUTHENTICATED, NODE_PREFIX, NODES, UNAUTHENTICATED, UserInfo, service_account, service_account_groups,
};
use crate::impersonation::Impersonation;
use crate::refusal::Refusal;
use crate::request::Client;
use crate::upstream_user::HeaderNames;
use crate::upstream_user::UpstreamUser;

/// [`config::ProtectedIdentities`], compiled.
#[derive(Debug)]
pub(crate) struct Protected {
    /// Sorted.
    users: Box<[Box<[u8]>]>,
    /// The parts before a trailing `*`.
    prefixes: Box<[Box<[u8]>]>,
    /// Sorted.
    groups: Box<[Box<[u8]>]>,
    drops_groups: bool,
}

impl Protected {
    pub(crate) fn compile(config: &config::ProtectedIdentities) -> Self {
        let sorted = |texts: &mut dyn Iterator<Item = &String>| {
            let mut sorted: Vec<Box<[u8]>> = texts.map(|text| text.as_bytes().into()).collect();
            sorted.sort_unstable();
            sorted.into_boxed_slice()
        };
        let prefix = |user: &'_ String| user.strip_suffix('*').map(|prefix| prefix.as_bytes().into());
        Protected {
            users: sorted(&mut config.users.iter().filter(|user| !user.ends_with('*'))),
            prefixes: config.users.iter().filter_map(prefix).collect(),
            groups: sorted(&mut config.groups.iter()),
            drops_groups: config.drop_groups,
        }
    }

    /// The client, as far as it may act. `names`: the headers that carry its groups; `is_proxy`: the upstream finds them out
    /// itself.
    ///
    /// # Errors
    /// Refused are protected users, members of a protected group that cannot be dropped, and clients that were not reviewed.
    pub(crate) fn enforce(&self, client: Client, names: &HeaderNames, is_proxy: bool) -> Result<Client, Refusal> {
        Ok(match client {
            Client::Anonymous => {
                // The upstream makes it who it is.
                self.check(&UserInfo::anonymous())?;
                Client::Anonymous
            }
            // The token was not reviewed, so the user is unknown.
            Client::Opaque { .. } => return Err(Refusal::token_not_reviewed()),
            Client::Bearer(user, key) if is_proxy => {
                self.check(user.user())?;
                Client::Bearer(user, key)
            }
            Client::Bearer(user, key) => Client::Bearer(self.without_protected_groups(user, names)?, key),
            Client::Certificate(user) => Client::Certificate(self.without_protected_groups(user, names)?),
            Client::Impersonated(user) => Client::Impersonated(self.without_protected_groups(user, names)?),
        })
    }

    /// Enforces protection on an impersonation. A group that it names is refused and never dropped: each part takes effect or
    /// is refused.
    ///
    /// # Errors
    /// Refused if a part is protected.
    pub(crate) fn enforce_target(&self, asked: &mut Impersonation) -> Result<(), Refusal> {
        let named = asked.parts.iter().filter(|part| part.resource == "groups");
        for group in named.map(|part| &part.name) {
            self.check_group(group.as_bytes())?;
        }
        self.check_user(asked.target.name.as_bytes())?;
        self.reduce(&mut asked.target)
    }

    /// The client's own `Impersonate-*` lines, where the upstream judges them.
    ///
    /// # Errors
    /// Lines that ask for what is protected, or for what is not known.
    pub(crate) fn enforce_lines(&self, lines: &[(&[u8], &[u8])]) -> Result<(), Refusal> {
        let mut has_groups = false;
        for (name, value) in lines {
            let value = trim_space(value);
            match *name {
                b"impersonate-user" => self.check_user(value)?,
                b"impersonate-group" => {
                    has_groups = true;
                    self.check_group(value)?;
                }
                b"impersonate-uid" => {}
                extra if extra.starts_with(b"impersonate-extra-") => {}
                _ => return Err(Refusal::unknown_impersonation()),
            }
        }
        if has_groups {
            return Ok(());
        }
        let users = lines.iter().filter(|(name, _)| *name == b"impersonate-user");
        users
            // By its start the upstream knows a node, whatever bytes follow.
            .flat_map(|(_, user)| groups_added_to(&String::from_utf8_lossy(trim_space(user))))
            .try_for_each(|group| self.check_group(group.as_bytes()))
    }

    /// Refuses protected users and members of protected groups.
    ///
    /// # Errors
    /// The refusal.
    pub(crate) fn check(&self, user: &UserInfo) -> Result<(), Refusal> {
        self.check_user(user.name.as_bytes())?;
        user.groups.iter().try_for_each(|group| self.check_group(group.as_bytes()))
    }

    fn check_user(&self, name: &[u8]) -> Result<(), Refusal> {
        if name == ANONYMOUS.as_bytes() {
            // The upstream puts every user of this name into the group.
            self.check_group(UNAUTHENTICATED.as_bytes())?;
        }
        let is_protected = holds(&self.users, name) || self.prefixes.iter().any(|prefix| name.starts_with(prefix));
        if is_protected { Err(Refusal::protected_user(&String::from_utf8_lossy(name))) } else { Ok(()) }
    }

    fn check_group(&self, name: &[u8]) -> Result<(), Refusal> {
        let is_protected = holds(&self.groups, name);
        if is_protected { Err(Refusal::protected_group(&String::from_utf8_lossy(name))) } else { Ok(()) }
    }

    /// The user without the groups that are dropped.
    fn without_protected_groups(
        &self,
        user: Arc<UpstreamUser>,
        names: &HeaderNames,
    ) -> Result<Arc<UpstreamUser>, Refusal> {
        if !user.user().groups.iter().any(|group| holds(&self.groups, group.as_bytes())) {
            self.check_user(user.user().name.as_bytes())?;
            return Ok(user);
        }
        let mut reduced = user.user().clone();
        self.check_user(reduced.name.as_bytes())?;
        self.reduce(&mut reduced)?;
        // Headers that carried all groups carry fewer.
        UpstreamUser::with_header_names(names, reduced).map(Arc::new).map_err(|_| Refusal::internal())
    }

    fn reduce(&self, user: &mut UserInfo) -> Result<(), Refusal> {
        for group in user.groups.iter().map(String::as_str) {
            // These the upstream adds itself, so that it does not help to leave them out.
            if !self.drops_groups || group == AUTHENTICATED || group == UNAUTHENTICATED {
                self.check_group(group.as_bytes())?;
            }
        }
        user.groups.retain(|group| !holds(&self.groups, group.as_bytes()));
        Ok(())
    }
}

/// The groups into which an upstream puts a user who is asked for by name alone: a service account always, a node by
/// constrained impersonation (apiserver, `pkg/endpoints/filters/impersonation/mode.go`), which is the default from 1.36 on.
pub(crate) fn groups_added_to(user: &str) -> Vec<String> {
    match service_account(user) {
        Some((namespace, _)) => service_account_groups(namespace).into(),
        None if user.starts_with(NODE_PREFIX) => vec![NODES.to_owned()],
        None => Vec::new(),
    }
}

fn holds(sorted: &[Box<[u8]>], name: &[u8]) -> bool {
    sorted.binary_search_by(|one| (**one).cmp(name)).is_ok()
}
