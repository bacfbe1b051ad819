//! Accepted routes whose connections are closed at a listener all the same, in their conditions.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::condition::{ConditionVerdict, Rejection};
use crate::name::{ObjectName, RouteKind};
use crate::route::means;
use crate::served::{ListenerRole, ServedGateway, ServedListener};
use crate::verdict::{ParentVerdict, RouteVerdict};

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

impl RouteVerdict {
    /// The verdict with its closures in it: at a parent all of whose listeners close its connections the route is not accepted; at one
    /// of which some do, the message names them. `served` finds an accepted Gateway.
    #[must_use]
    pub fn with_closures<'a>(
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
        Some(ParentVerdict { conditions: parent.conditions.iter().map(edited).collect(), ..parent.clone() })
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
