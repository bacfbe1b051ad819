use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use portcullis_api::status::LimitFacts;

use super::activity::GatewayActivity;
use super::fleet_time::FleetTime;
use super::served_objects::{ServedObject, ServedObjects};

/// The time for which a gateway is not counted that goes by a local limit: one that starts does, and one whose limiter restarts. Longer
/// than a turn of the limits that a report has no room for, 15 seconds, and the first parts after it: a turn is no news.
const GRACE: Duration = Duration::from_secs(30);

/// The reports about limits of all gateways, by the object's name, of those that have any. A gateway whose configuration has the
/// limit as its own, or not at all, has another edition of the object, and says nothing about this one.
pub(super) fn limit_facts(
    activity: &GatewayActivity,
    served: &ServedObjects,
    now: FleetTime,
) -> BTreeMap<String, LimitFacts> {
    let objects = served.by_name.iter().filter(|(_, object)| !object.global_limits.is_empty());
    objects.map(|(name, object)| (name.clone(), facts(activity, name, object, now))).collect()
}

fn facts(activity: &GatewayActivity, name: &str, object: &ServedObject, now: FleetTime) -> LimitFacts {
    let (mut facts, mut schemas) = (LimitFacts::default(), BTreeSet::new());
    for (node, gateway, _) in activity.reporting(now) {
        let Some(cluster) = gateway.cluster(name) else { continue };
        let shared = cluster.limits.iter().filter(|one| one.shared);
        let named = shared.map(|one| (cluster.names.schema_name(one.schema), one.local));
        let mut of_all = named.filter(|(schema, _)| object.global_limits.contains_key(*schema)).peekable();
        let is_local = cluster.local_since.is_some_and(|since| now.since(since) >= GRACE);
        let has_any = of_all.peek().is_some();
        let local: Vec<&str> = of_all.filter(|(_, local)| *local).map(|(schema, _)| schema).collect();
        facts.gateways += usize::from(has_any);
        if is_local && !local.is_empty() {
            facts.local += 1;
            if facts.local_names.len() < LimitFacts::MAX_NAMED {
                facts.local_names.push(node.to_owned());
            }
            schemas.extend(local);
        }
    }
    facts.schemas = schemas.len();
    facts.schema_names = schemas.into_iter().take(LimitFacts::MAX_NAMED).map(str::to_owned).collect();
    facts
}
