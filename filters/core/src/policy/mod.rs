//! Dispatch policies: the first one that matches a request decides its server group.

mod rule;
mod selector;

use portcullis_filter_config as config;

use crate::identity::UserInfo;
use crate::request_info::RequestInfo;
use rule::Rule;

/// The policies of a cluster, compiled.
#[derive(Debug)]
pub struct Policies {
    policies: Vec<Policy>,
}

#[derive(Debug)]
struct Policy {
    rules: Vec<Rule>,
    group: String,
}

impl Policies {
    /// Compiles policies, in the order in which they are tried.
    pub fn new(policies: &[config::Policy]) -> Self {
        let compile = |policy: &config::Policy| Policy {
            rules: policy.rules.iter().map(Rule::new).collect(),
            group: policy.group.clone(),
        };
        Policies { policies: policies.iter().map(compile).collect() }
    }

    /// The index of the first policy that the request matches.
    pub fn first_match(&self, info: &RequestInfo<'_>, user: &UserInfo) -> Option<usize> {
        self.policies.iter().position(|policy| policy.rules.iter().any(|rule| rule.matches(info, user)))
    }

    /// The server groups, in the order of the policies.
    pub fn groups(&self) -> impl Iterator<Item = &str> {
        self.policies.iter().map(|policy| policy.group.as_str())
    }
}

#[cfg(test)]
mod tests;
