//! The past of claims to host names.

use crate::gateway::JudgedGateway;
use crate::holders::{FormerHolders, FormerNames, HeldName, HolderNamespaces};
use crate::host::HostPattern;
use crate::input::Inventory;
use crate::name::ObjectName;
use crate::route::JudgedRoute;

/// The holders of before.
#[derive(Clone, Copy)]
pub(crate) struct PastHolders<'a> {
    former: &'a FormerHolders,
    listed: &'a FormerHolders,
}

/// The past of a route's claims at a Gateway.
#[derive(Clone, Copy)]
pub(crate) struct PastClaims<'a, 'b> {
    gateway: &'a JudgedGateway<'b>,
    former: Option<FormerNames<'a>>,
    listed: Option<FormerNames<'a>>,
}

/// The host names that a route had at a port of a Gateway.
pub(crate) enum PastNames<'a> {
    /// All that it claims.
    All,
    /// These, as far as it claims them.
    These(Vec<&'a HostPattern>),
}

/// The past of a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PastClaim {
    /// A status that is news lists it as held.
    Listed,
    /// It was held in the judgement before.
    Held,
    /// It was not.
    New,
}

impl<'a> PastHolders<'a> {
    pub(crate) fn of(inventory: &'a Inventory) -> Self {
        Self { former: &inventory.former_holders, listed: &inventory.listed_holders }
    }

    /// Whether a route, or one before it of the same name, had a host name anywhere.
    pub(crate) fn has_any(self, route: &JudgedRoute<'_>) -> bool {
        [self.former, self.listed].iter().any(|holders| holders.has_any(route.kind, &route.name))
    }

    /// The namespaces of those that held names: by the lists that are news, and in the judgement before.
    pub(crate) fn namespaces(self) -> [HolderNamespaces<'a>; 2] {
        [self.listed.namespaces(), self.former.namespaces()]
    }

    /// The names that were held at some ports of Gateways: by the lists that are news, and in the judgement before.
    pub(crate) fn at_ports(self, is_wanted: impl Fn(&ObjectName, u16) -> bool) -> [Vec<HeldName<'a>>; 2] {
        [self.listed.at_ports(&is_wanted), self.former.at_ports(&is_wanted)]
    }

    pub(crate) fn claims<'b>(self, route: &JudgedRoute<'_>, gateway: &'a JudgedGateway<'b>) -> PastClaims<'a, 'b> {
        let names = |holders: &'a FormerHolders| {
            holders.names(route.kind, &route.name, route.metadata.uid.as_deref(), &gateway.name)
        };
        PastClaims { gateway, former: names(self.former), listed: names(self.listed) }
    }
}

impl<'a> PastClaims<'a, '_> {
    /// The host names of before at a port; some may be there twice.
    pub(crate) fn names(self, port: u16) -> PastNames<'a> {
        let names = [self.listed, self.former].into_iter().flatten().filter_map(|names| names.at(port));
        let names: Vec<&HostPattern> = names.flatten().collect();
        let has_all = names.iter().any(|host| **host == HostPattern::Any);
        if has_all { PastNames::All } else { PastNames::These(names) }
    }

    /// That of a claim at a listener, by its index.
    pub(crate) fn claim(self, listener: usize, host: &HostPattern) -> PastClaim {
        let port = self.gateway.leading_port(listener);
        let had = |names: Option<FormerNames<'_>>| {
            port.zip(names).is_some_and(|(port, names): (u16, FormerNames<'_>)| names.has(port, host))
        };
        match (had(self.listed), had(self.former)) {
            (true, _) => PastClaim::Listed,
            (false, true) => PastClaim::Held,
            (false, false) => PastClaim::New,
        }
    }
}
