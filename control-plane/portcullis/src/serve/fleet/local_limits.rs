use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use portcullis_api::status::LimitFacts;
use portcullis_xds::ChangedNames;

use super::activity::GatewayActivity;
use super::fleet_time::FleetTime;
use super::served_objects::{ServedObject, ServedObjects};
use crate::serve::changed_keys::changed_keys;

/// The time for which a gateway is not counted that goes by a local limit: one that starts does, and one whose limiter restarts. Longer
/// than a turn of the limits that a report has no room for, 15 seconds, and the first parts after it: a turn is no news.
const GRACE: Duration = Duration::from_secs(30);

/// The reports about limits of all gateways, by the object's name, of those that have any. A gateway whose configuration has the
/// limit as its own, or not at all, has another edition of the object, and says nothing about this one.
#[derive(Debug, Default)]
pub(super) struct SharedLimitFacts {
    facts: Arc<BTreeMap<String, LimitFacts>>,
    /// The objects that they are about.
    objects: Arc<BTreeMap<Arc<str>, Arc<ServedObject>>>,
    /// The gateways whose reports counted.
    reporting: Vec<String>,
    /// The objects of which a gateway goes by its local limit, and is not counted yet.
    waiting: BTreeSet<String>,
}

impl SharedLimitFacts {
    /// Follows the reports, the objects and the time. The same allocation as long as nothing is otherwise.
    pub(super) fn follow(
        &mut self,
        activity: &mut GatewayActivity,
        served: &ServedObjects,
        now: FleetTime,
    ) -> &Arc<BTreeMap<String, LimitFacts>> {
        let mut names = activity.take_touched();
        if !activity.reporting(now).map(|(node, ..)| node).eq(self.reporting.iter().map(String::as_str)) {
            self.reporting = activity.reporting(now).map(|(node, ..)| node.to_owned()).collect();
            names.add_all();
        }
        let before = std::mem::replace(&mut self.objects, Arc::clone(&served.by_name));
        if !Arc::ptr_eq(&before, &served.by_name) {
            changed_keys(&before, &served.by_name).into_iter().for_each(|name| names.add(Arc::clone(name)));
        }
        std::mem::take(&mut self.waiting).into_iter().for_each(|name| names.add(name));
        match names {
            ChangedNames::Named(names) => names.iter().for_each(|name| self.look(name, activity, served, now)),
            ChangedNames::All => {
                let known: Vec<String> = self.facts.keys().chain(&**served.limited()).cloned().collect();
                known.iter().for_each(|name| self.look(name, activity, served, now));
            }
        }
        &self.facts
    }

    fn look(&mut self, name: &str, activity: &GatewayActivity, served: &ServedObjects, now: FleetTime) {
        let object = served.by_name.get(name).filter(|object| !object.global_limits.is_empty());
        let found = object.map(|object| facts(activity, name, object, now));
        if self.facts.get(name) != found.as_ref() {
            let facts = Arc::make_mut(&mut self.facts);
            match found {
                Some(found) => drop(facts.insert(name.to_owned(), found)),
                None => drop(facts.remove(name)),
            }
        }
        let of_cluster = || activity.reporting(now).filter_map(|(_, gateway, _)| gateway.cluster(name)?.local_since);
        if object.is_some() && of_cluster().any(|since| now.since(since) < GRACE) {
            self.waiting.insert(name.to_owned());
        }
    }
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
