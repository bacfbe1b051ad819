//! The routes that hold host names, from one judgement to the next.
//!
//! The first judgement of a process has those that statuses list: a name does not move because a control plane starts. Later ones have
//! those of the judgement before. Replicas see edits in an order of their own; one that does not lead follows what the leading one
//! writes, so that all of them serve a name to the same route.

use std::sync::Arc;

use portcullis_attach::{FormerHolders, ObjectName, RouteKind, lists_are_newest};
use portcullis_sources::{ObjectKey, StoredStatus, StoredStatuses, WatchedKind};

/// The kinds of routes.
const ROUTES: [(WatchedKind, RouteKind); 2] =
    [(WatchedKind::HttpRoute, RouteKind::Http), (WatchedKind::TlsRoute, RouteKind::Tls)];

/// The holders of the judgement before.
#[derive(Debug, Default)]
pub(super) struct HostHolders {
    /// None before the first.
    former: Option<Arc<FormerHolders>>,
    /// The statuses that were looked at.
    seen: Arc<StoredStatuses>,
    /// All names that they list.
    lists: FormerHolders,
    /// Those among them that came to a list, and that its route had in no judgement since: a replica may know a list before the
    /// version of the route that it is about.
    news: FormerHolders,
    /// Whether a list has changed since the judgement before.
    has_changed: bool,
    /// Whether this replica led at the judgement before.
    has_led: bool,
}

impl HostHolders {
    /// Whether everything is here that a judgement needs: without the statuses of routes the first one would go by age alone.
    pub(super) fn are_known(&self, statuses: &StoredStatuses) -> bool {
        self.former.is_some() || ROUTES.iter().all(|(kind, _)| statuses.is_listed(*kind))
    }

    /// Looks at statuses. A list that is the same in a newer status, as after an edit of labels, is no news.
    pub(super) fn follow(&mut self, statuses: &Arc<StoredStatuses>) {
        let before = std::mem::replace(&mut self.seen, Arc::clone(statuses));
        for (watched, kind) in ROUTES {
            for key in statuses.changed_keys(&before, watched) {
                let (route, mut newer) = (route_of(key), FormerHolders::default());
                if let Some(stored) = statuses.get(key) {
                    newer.add_status(kind, &route, stored.uid.as_deref(), &stored.status);
                }
                let (older, news) = (self.lists.take(kind, &route), self.news.take(kind, &route));
                self.has_changed |= older != newer;
                self.news.extend(newer.without(&older.without(&news)));
                self.lists.extend(newer);
            }
        }
    }

    /// Those of the judgement before. Before the first one they are those that statuses list of earlier versions of routes, and those
    /// for which a list has no room.
    pub(super) fn former(&self) -> Arc<FormerHolders> {
        let stored = |found: &mut FormerHolders, kind: RouteKind, route: &ObjectName, one: &StoredStatus| {
            let uid = one.uid.as_deref();
            if lists_are_newest(&one.status, one.generation) {
                found.add_unlisted(kind, route, uid, &one.status);
            } else {
                found.add_status(kind, route, uid, &one.status);
            }
        };
        self.former.clone().unwrap_or_else(|| Arc::new(self.stored(stored)))
    }

    /// Those that statuses list and that are news. The replica that leads has written them itself, and knows better. For others a name
    /// leaves its holder only when the holder's own list no longer has it: a route that was hidden comes back with a list of before.
    pub(super) fn listed(&self, leads: bool) -> FormerHolders {
        match &self.former {
            None => self.stored(|found, kind, route, one| {
                if lists_are_newest(&one.status, one.generation) {
                    found.add_status(kind, route, one.uid.as_deref(), &one.status);
                }
            }),
            Some(_) if self.news.is_empty() || (leads && self.has_led) => FormerHolders::default(),
            Some(former) => self.news.unless_of_other_routes(&former.also_in(&self.lists)),
        }
    }

    /// Whether the judgement before has these.
    pub(super) fn have(&self, listed: &FormerHolders) -> bool {
        self.former.as_ref().is_some_and(|former| !self.has_changed || listed.is_part_of(former))
    }

    /// Takes the holders of a judgement.
    pub(super) fn remember(&mut self, holders: &Arc<FormerHolders>, leads: bool) {
        let former = self.former.replace(Arc::clone(holders)).unwrap_or_default();
        self.news = if leads { FormerHolders::default() } else { self.news.without(holders) };
        if !leads {
            // The leading replica may not have seen the edit by which a route let go for a moment, and then its list stays the same.
            self.news.add_all(&former.without(holders).also_in(&self.lists));
        }
        (self.has_changed, self.has_led) = (false, leads);
    }

    /// Those that are added by the status of each route.
    fn stored(&self, add: impl Fn(&mut FormerHolders, RouteKind, &ObjectName, &StoredStatus)) -> FormerHolders {
        let (none, mut found) = (StoredStatuses::default(), FormerHolders::default());
        for (watched, kind) in ROUTES {
            for key in self.seen.changed_keys(&none, watched) {
                if let Some(stored) = self.seen.get(key) {
                    add(&mut found, kind, &route_of(key), stored);
                }
            }
        }
        found
    }
}

fn route_of(key: &ObjectKey) -> ObjectName {
    ObjectName::new(key.namespace.as_str(), key.name.as_str())
}

#[cfg(test)]
mod tests {
    use portcullis_attach::{GatewayObjects, Inventory, RouteVerdict, attach, route_parents};
    use portcullis_gateway_api::read_object;
    use serde_json::{Value, json};

    use super::*;

    fn object(kind: &str, name: &str, year: u32, spec: &Value) -> Value {
        let metadata = json!({
            "name": name, "namespace": if kind == "GatewayClass" { "" } else { "infra" }, "uid": name,
            "creationTimestamp": format!("{year}-01-01T00:00:00Z"),
        });
        json!({"apiVersion": "gateway.networking.k8s.io/v1", "kind": kind, "metadata": metadata, "spec": spec})
    }

    fn route(name: &str, year: u32, hosts: &[&str]) -> Value {
        let rules = json!([{"backendRefs": [{"name": "server", "port": 443}]}]);
        object("TLSRoute", name, year, &json!({"parentRefs": [{"name": "g"}], "hostnames": hosts, "rules": rules}))
    }

    fn objects(routes: &[Value]) -> GatewayObjects {
        let listeners = json!([{"name": "l", "port": 443, "protocol": "TLS", "tls": {"mode": "Passthrough"}}]);
        let class = object("GatewayClass", "c", 2020, &json!({"controllerName": portcullis_attach::CONTROLLER_NAME}));
        let gateway = object("Gateway", "g", 2020, &json!({"gatewayClassName": "c", "listeners": listeners}));
        let mut objects = GatewayObjects::default();
        [class, gateway].iter().chain(routes).for_each(|document| objects.add(read_object(document).unwrap()));
        objects
    }

    /// Judges routes as a process does.
    fn judge(
        holders: &mut HostHolders,
        routes: &[Value],
        (stored, leads): (&StoredStatuses, bool),
    ) -> Vec<RouteVerdict> {
        holders.follow(&Arc::new(stored.clone()));
        let listed_holders = Arc::new(holders.listed(leads));
        let inventory = Inventory { former_holders: holders.former(), listed_holders, ..Inventory::default() };
        let attached = attach(&objects(routes), &inventory);
        holders.remember(&attached.holders, leads);
        attached.routes
    }

    /// The statuses that the verdicts lead to, beside a kind of which there is none.
    fn stored(verdicts: &[RouteVerdict]) -> StoredStatuses {
        let one = |verdict: &RouteVerdict| {
            let ObjectName { namespace, name } = verdict.name.clone();
            let status = json!({"parents": route_parents(&[], verdict, None, "2026-01-02T03:04:05Z").parents});
            let stored = StoredStatus { uid: Some(name.clone()), status, ..StoredStatus::default() };
            (ObjectKey { kind: WatchedKind::TlsRoute, namespace, name }, stored)
        };
        let of_another_kind = (ObjectKey::cluster_scoped(WatchedKind::HttpRoute, "other"), StoredStatus::default());
        verdicts.iter().map(one).chain([of_another_kind]).collect()
    }

    /// The holder of `x.test` by what the statuses list.
    fn holder(verdicts: &[RouteVerdict]) -> Vec<&str> {
        let holds = |verdict: &&RouteVerdict| {
            verdict.parents.iter().filter_map(|one| one.held.as_ref()).any(|held| held.message.contains("x.test"))
        };
        verdicts.iter().filter(holds).map(|verdict| verdict.name.name.as_str()).collect()
    }

    #[test]
    fn host_name_stays_over_edits_and_restarts() {
        let young = || route("young", 2024, &["x.test"]);
        let edited = [route("old", 2020, &["x.test"]), young()];
        let (mut process, none) = (HostHolders::default(), StoredStatuses::default());
        assert!(!process.are_known(&none), "the first judgement waits for statuses");
        let first = judge(&mut process, &[route("old", 2020, &["y.test"]), young()], (&none, true));
        assert_eq!(holder(&first), ["young"]);
        assert!(process.are_known(&none), "and later ones do not");
        let after = judge(&mut process, &edited, (&none, true));
        assert_eq!(holder(&after), ["young"]);
        for leads in [false, true] {
            let (mut restarted, stored) = (HostHolders::default(), stored(&first));
            assert!(restarted.are_known(&stored));
            assert_eq!(holder(&judge(&mut restarted, &edited, (&stored, leads))), ["young"], "leads: {leads}");
        }
        assert_eq!(holder(&judge(&mut HostHolders::default(), &edited, (&none, true))), ["old"], "without a past");
    }

    #[test]
    fn replica_follows_statuses_unless_it_leads() {
        let routes = [route("old", 2020, &["x.test"]), route("young", 2024, &["x.test"])];
        let none = StoredStatuses::default();
        let mut leading = HostHolders::default();
        judge(&mut leading, &routes[1..], (&none, true));
        let of_leading = stored(&judge(&mut leading, &routes, (&none, true)));
        for (leads, expected) in [(true, "old"), (false, "young")] {
            let mut other = HostHolders::default();
            assert_eq!(holder(&judge(&mut other, &routes, (&none, leads))), ["old"]);
            other.follow(&Arc::new(of_leading.clone()));
            assert_eq!(other.have(&other.listed(leads)), leads, "news for one that does not lead");
            assert_eq!(holder(&judge(&mut other, &routes, (&of_leading, leads))), [expected], "leads: {leads}");
            assert!(other.have(&other.listed(leads)), "no news any more");
        }
    }

    #[test]
    fn route_that_was_hidden_takes_no_name_back() {
        let (old, young) = (|| route("old", 2020, &["x.test"]), || route("young", 2024, &["x.test"]));
        let (mut leading, mut other, none) =
            (HostHolders::default(), HostHolders::default(), StoredStatuses::default());
        let of_old = judge(&mut leading, &[old(), young()], (&none, true));
        let with_old = stored(&of_old);
        assert_eq!(holder(&judge(&mut other, &[old(), young()], (&with_old, false))), ["old"]);
        // It is not among the objects that are looked at, and neither is its status.
        let hidden = judge(&mut leading, &[young()], (&with_old, true));
        assert_eq!(holder(&judge(&mut other, &[young()], (&stored(&hidden), false))), ["young"]);
        let stale = of_old.iter().filter(|one| one.name.name == "old");
        let with_stale = stored(&stale.chain(&hidden).cloned().collect::<Vec<_>>());
        for leads in [false, true, true] {
            assert_eq!(
                holder(&judge(&mut other, &[old(), young()], (&with_stale, leads))),
                ["young"],
                "leads: {leads}"
            );
        }
    }

    /// The leading replica sees both edits in one judgement.
    #[test]
    fn name_that_was_let_go_for_a_moment_comes_back() {
        let claims = [route("old", 2020, &["x.test"]), route("young", 2024, &["x.test"])];
        let (mut leading, none) = (HostHolders::default(), StoredStatuses::default());
        judge(&mut leading, &claims[1..], (&none, true));
        let listed = stored(&judge(&mut leading, &claims, (&none, true)));
        let mut other = HostHolders::default();
        assert_eq!(holder(&judge(&mut other, &claims, (&listed, false))), ["young"]);
        let without = [claims[0].clone(), route("young", 2024, &["y.test"])];
        assert_eq!(holder(&judge(&mut other, &without, (&listed, false))), ["old"]);
        assert_eq!(holder(&judge(&mut other, &claims, (&listed, false))), ["young"]);
    }

    #[test]
    fn list_is_taken_when_the_version_of_its_route_is_there() {
        let old = || route("old", 2020, &["x.test"]);
        let (mut leading, none) = (HostHolders::default(), StoredStatuses::default());
        let claims = [old(), route("young", 2024, &["x.test"])];
        judge(&mut leading, &claims[1..], (&none, true));
        let listed = stored(&judge(&mut leading, &claims, (&none, true)));
        for leads in [false, true] {
            let mut other = HostHolders::default();
            let earlier = [old(), route("young", 2024, &["y.test"])];
            judge(&mut other, &earlier, (&none, false));
            assert_eq!(holder(&judge(&mut other, &earlier, (&listed, false))), ["old"]);
            assert_eq!(holder(&judge(&mut other, &claims, (&listed, leads))), ["young"], "leads: {leads}");
        }
    }

    #[test]
    fn lists_of_newest_versions_go_first_at_a_start() {
        let claims = [route("old", 2020, &["x.test"]), route("young", 2024, &["x.test"])];
        let verdicts = |index: usize| judge(&mut HostHolders::default(), &claims[index..=index], (&stored(&[]), true));
        let both = [verdicts(0), verdicts(1)].concat();
        let of_earlier = |edited: &str| -> StoredStatuses {
            let all = stored(&both);
            let none = StoredStatuses::default();
            let keys = ROUTES.iter().flat_map(|(kind, _)| all.changed_keys(&none, *kind));
            let one = |key: &ObjectKey| {
                let generation = (key.name == edited).then_some(2);
                (key.clone(), StoredStatus { generation, ..all.get(key).unwrap().clone() })
            };
            keys.map(one).collect()
        };
        for (edited, expected) in [("none", "old"), ("young", "old"), ("old", "young")] {
            let found = judge(&mut HostHolders::default(), &claims, (&of_earlier(edited), true));
            assert_eq!(holder(&found), [expected], "{edited} was edited since");
        }
    }
}
