//! Accepted routes whose connections are closed at a listener all the same, in their conditions.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::Attached;
use crate::condition::{ConditionVerdict, Rejection};
use crate::name::{ObjectName, RouteKind};
use crate::route::means;
use crate::served::{ListenerRole, ServedGateway, ServedListener};
use crate::verdict::{GatewayVerdict, ParentVerdict, RouteVerdict};

/// Most listeners that a message names.
const MAX_NAMED: usize = 3;

/// A listener at which the connections of an accepted route are closed, for a reason that no object shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RouteClosure {
    /// The Gateway.
    pub gateway: ObjectName,
    /// The name of the listener.
    pub listener: String,
    /// Why, in one word for programs.
    pub reason: &'static str,
    /// Why, for people. Copies share it.
    pub message: Arc<str>,
}

/// The closures of routes.
pub type RouteClosures = BTreeMap<(RouteKind, ObjectName), Vec<RouteClosure>>;

/// The routes some of whose connections are closed, and the listeners that do not count them therefore.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClosedRoutes {
    routes: BTreeMap<(RouteKind, ObjectName), RouteVerdict>,
    /// The numbers of routes by Gateway and the place of the listener.
    uncounted: BTreeMap<(ObjectName, usize), usize>,
}

impl ClosedRoutes {
    /// Those of all verdicts.
    pub fn of(attached: &Attached, closures: &RouteClosures) -> Self {
        let mut closed = Self::default();
        if closures.is_empty() {
            return closed;
        }
        let served: BTreeMap<&ObjectName, &ServedGateway> =
            attached.served.iter().map(|one| (&one.gateway, one.as_ref())).collect();
        for route in &attached.routes {
            let key = (route.kind, route.name.clone());
            let Some(of_route) = closures.get(&key) else { continue };
            let verdict = route.with_closures(of_route, |name| served.get(name).copied());
            let still = verdict.counted();
            for place in route.counted().into_iter().filter(|place| !still.contains(place)) {
                let number = closed.uncounted.entry(place).or_default();
                *number = number.saturating_add(1);
            }
            closed.routes.insert(key, verdict);
        }
        closed
    }

    /// A route with its closures in the conditions.
    pub fn route<'a>(&self, route: &'a RouteVerdict) -> Cow<'a, RouteVerdict> {
        match self.routes.get(&(route.kind, route.name.clone())) {
            Some(closed) => Cow::Owned(closed.clone()),
            None => Cow::Borrowed(route),
        }
    }

    /// A Gateway whose listeners count the routes that are accepted all the same.
    pub fn gateway<'a>(&self, gateway: &'a GatewayVerdict) -> Cow<'a, GatewayVerdict> {
        let uncounted = |index: usize| self.uncounted.get(&(gateway.name.clone(), index)).copied();
        if (0..gateway.listeners.len()).all(|index| uncounted(index).is_none()) {
            return Cow::Borrowed(gateway);
        }
        let mut counted = gateway.clone();
        for (index, listener) in counted.listeners.iter_mut().enumerate() {
            listener.attached_routes = listener.attached_routes.saturating_sub(uncounted(index).unwrap_or_default());
        }
        Cow::Owned(counted)
    }
}

impl RouteVerdict {
    /// The listeners that count the route, by Gateway and place.
    fn counted(&self) -> BTreeSet<(ObjectName, usize)> {
        let is_accepted = |parent: &&ParentVerdict| {
            parent.conditions.iter().any(|condition| condition.kind == "Accepted" && condition.status)
        };
        let of_parent = |parent: &ParentVerdict| {
            let gateway = self.parent_gateway(parent);
            parent.counted_at.iter().map(|index| (gateway.clone(), *index)).collect::<Vec<_>>()
        };
        self.parents.iter().filter(is_accepted).flat_map(of_parent).collect()
    }

    /// The verdict with its closures in it: at a parent all of whose listeners close its connections the route is not accepted; at one
    /// of which some do, the message names them. `served` finds an accepted Gateway.
    #[must_use]
    pub(crate) fn with_closures<'a>(
        &self,
        closures: &[RouteClosure],
        served: impl Fn(&ObjectName) -> Option<&'a ServedGateway>,
    ) -> Self {
        let parents = self.parents.iter().map(|parent| {
            let gateway = served(&self.parent_gateway(parent));
            gateway.and_then(|gateway| self.closed_at(parent, gateway, closures)).unwrap_or_else(|| parent.clone())
        });
        Self { parents: parents.collect(), ..self.clone() }
    }

    /// `None` if no connection is closed at this parent.
    fn closed_at(
        &self,
        parent: &ParentVerdict,
        gateway: &ServedGateway,
        closures: &[RouteClosure],
    ) -> Option<ParentVerdict> {
        let is_meant = |listener: &&ServedListener| means(&parent.parent, &listener.name, listener.port);
        let (mut closed, mut is_open) = (Vec::new(), false);
        for listener in gateway.listeners.iter().filter(is_meant).filter(|listener| self.is_at(listener)) {
            let is_here = |one: &&RouteClosure| one.gateway == gateway.gateway && one.listener == listener.name;
            match closures.iter().find(is_here) {
                Some(closure) => closed.push(closure),
                None => is_open = true,
            }
        }
        let reason = closed.first()?.reason;
        let message = message(&closed);
        let edited = |condition: &ConditionVerdict| match condition {
            other if other.kind != "Accepted" || !other.status => other.clone(),
            accepted if is_open => {
                let before = Some(accepted.message.as_str()).filter(|text| !text.is_empty());
                let both: Vec<&str> = before.into_iter().chain([message.as_str()]).collect();
                ConditionVerdict::holds("Accepted", accepted.reason, both.join("; "))
            }
            _ => ConditionVerdict::fails("Accepted", &Rejection::new(reason, message.as_str())),
        };
        let mut conditions: Vec<ConditionVerdict> = parent.conditions.iter().map(edited).collect();
        // A part of a route that is not accepted is not said to be.
        let is_refused = conditions.iter().any(|one| one.kind == "Accepted" && !one.status);
        conditions.retain(|one| !(is_refused && one.kind == "PartiallyInvalid"));
        Some(ParentVerdict { conditions, ..parent.clone() })
    }

    /// Whether the listener has the route.
    fn is_at(&self, listener: &ServedListener) -> bool {
        let table = match &listener.role {
            ListenerRole::Terminate { routes, .. } | ListenerRole::Passthrough(routes) => routes,
            ListenerRole::Redirect(_) => return false,
        };
        table.routes.values().any(|bound| (bound.kind, &bound.route) == (self.kind, &self.name))
    }
}

fn message(closed: &[&RouteClosure]) -> String {
    let one = |one: &&RouteClosure| format!("connections at listener {} are closed: {}", one.listener, one.message);
    let more = closed.len().saturating_sub(MAX_NAMED);
    let more = (more > 0).then(|| format!("and at {more} more"));
    closed.iter().take(MAX_NAMED).map(one).chain(more).collect::<Vec<_>>().join("; ")
}
