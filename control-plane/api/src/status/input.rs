use std::collections::BTreeSet;

use super::{DiscoveryFacts, GatewayHealth, Health, LimitFacts, ShadowFacts, TokenKeysFacts};
use crate::kind::PolicyKind;

/// The facts about an `UpstreamCluster` at one time.
#[derive(Clone, Debug, Default)]
pub struct StatusInput<'a> {
    /// The diagnosis of its newest version.
    pub acceptance: Acceptance<'a>,
    /// The `metadata.generation` of that version; an object of a file has none.
    pub generation: Option<i64>,
    /// The version that is served.
    pub served: Served,
    /// A hash of what is served, the same at every replica of the control plane; empty if nothing is.
    pub content_hash: &'a str,
    /// The `Instance` that it belongs to, or will at the end of a hand-over.
    pub instance: Option<&'a str>,
    /// Every gateway that is known to live, and belongs to no Gateway.
    pub gateways: Vec<Gateway<'a>>,
    /// Gateways of the Gateway API at which it is, as their Envoys find its servers.
    pub at_gateways: Vec<GatewayHealth>,
    /// The source of discovered servers, if it has one.
    pub discovery: Option<DiscoveryFacts>,
    /// Reports about its shadow, if it has one.
    pub shadow: Option<ShadowFacts>,
    /// The sources of keys of tokens, if the control plane reads any.
    pub token_keys: Vec<TokenKeysFacts>,
    /// Reports about its limits of all gateways, if it has any.
    pub limits: Option<LimitFacts>,
    /// The kinds of policies that are attached to it, each with which it is and why.
    pub policies: Vec<(PolicyKind, String)>,
}

impl StatusInput<'_> {
    /// The number of gateways that report, of all that are there if those are more.
    pub(super) fn reporting(&self, gateways: usize) -> String {
        let all = self.gateways.iter().map(|one| one.name).collect::<BTreeSet<_>>().len();
        match (gateways, all) {
            (reporting, all) if reporting < all => format!("{reporting} of {all} gateways"),
            (1, _) => "1 gateway".to_owned(),
            (reporting, _) => format!("{reporting} gateways"),
        }
    }
}

/// The diagnosis of an object.
#[derive(Clone, Copy, Debug, Default)]
pub struct Acceptance<'a> {
    /// Whether it is valid and owns its names.
    pub accepted: bool,
    /// Why, in one word: `Accepted`, `Invalid`, `Conflicted` and what else there is.
    pub reason: &'a str,
    /// The problem. It names the owner where that is another object.
    pub message: &'a str,
    /// Accepted fields that may not do what their author expects.
    pub warnings: &'a [String],
    /// The host names and virtual IPs that it owns.
    pub names: &'a [String],
}

/// Which version of an object is served.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Served {
    /// None.
    #[default]
    Nothing,
    /// The newest.
    Newest,
    /// One that was accepted before, of this generation: the newest is not acceptable.
    Older(Option<i64>),
}

/// A gateway, and what it makes of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gateway<'a> {
    /// The node's id. A client wrote it.
    pub name: &'a str,
    /// Its progress with the served version.
    pub progress: GatewayProgress,
    /// Which endpoints it finds healthy; `None` if it does not report, or not of late.
    pub health: Option<Health>,
    /// The same of each subset of the servers that policies name, as far as no server of it is healthy, or enabled.
    pub lost_subsets: Vec<Health>,
}

/// A gateway's progress with the served version of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GatewayProgress {
    /// It has taken all of it.
    Acknowledged,
    /// It has not answered for all of it.
    Pending,
    /// It refuses some of it, and keeps what it had.
    Refused {
        /// Why, in Envoy's words.
        message: String,
    },
    /// It follows another replica of the control plane, which knows. This one only hears of its endpoints.
    Elsewhere,
}
