use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use portcullis_translate::{Resource, ResourceGroup, misdirected_routes, type_urls};
use portcullis_xds::Snapshot;

/// The number of ended route configurations of a Gateway above which the oldest go, as soon as they may, and no new one is opened; or
/// twice the number of those that are served, if that is more: all may get other names.
const MAX_KEPT: usize = 1_024;
/// How long each is kept at the least: longer than Envoy's drain time of ten minutes.
const KEPT_FOR: Duration = Duration::from_secs(15 * 60);

/// Route configurations of a Gateway to which no chain refers any more.
///
/// Connections of before go on for Envoy's drain time, and Envoy keeps the routes of a configuration that is removed. As long as
/// another route leads to the same servers, their next requests would reach these. Each is therefore replaced by one that answers 421,
/// after which clients connect anew. Authors of routes choose the names, and none may be forgotten too early: where there are too many
/// of them, new configurations answer 421, too, until the oldest are old enough.
#[derive(Debug, Default)]
pub(super) struct EndedRoutes {
    /// In the order of their end.
    kept: VecDeque<EndedRoute>,
    /// New ones that are not opened. Connections have nothing else of them.
    withheld: BTreeMap<String, Arc<Resource>>,
}

#[derive(Debug)]
struct EndedRoute {
    resource: Arc<Resource>,
    since: Instant,
}

impl EndedRoutes {
    /// Takes the newest resources; none if the Gateway is not served any more. Returns those to serve.
    pub(super) fn follow(
        &mut self,
        before: &Snapshot,
        group: Option<&ResourceGroup>,
        now: Instant,
    ) -> Option<ResourceGroup> {
        let url = type_urls::route_configuration();
        let routes = || group.iter().flat_map(|group| group.iter()).filter(|one| one.type_url == url);
        let served: BTreeSet<&str> = routes().map(|one| one.name.as_ref()).collect();
        let opened = |name: &str| before.get(url, name).is_some() && !self.withheld.contains_key(name);
        let known: BTreeSet<&str> = served.iter().copied().filter(|name| opened(name)).collect();
        let ended: Vec<&str> = before.names(url).filter(|name| !served.contains(name) && opened(name)).collect();
        let returning = |name: &str| self.kept.iter().any(|kept| *kept.resource.name == *name);
        let new: Vec<&str> = served.difference(&known).copied().filter(|name| !returning(name)).collect();
        self.kept.retain(|kept| !served.contains(&*kept.resource.name));
        for name in ended {
            if !self.kept.iter().any(|kept| *kept.resource.name == *name) {
                self.kept.push_back(EndedRoute { resource: Arc::new(misdirected_routes(name)), since: now });
            }
        }
        let is_full = |kept: &VecDeque<EndedRoute>| kept.len() > MAX_KEPT.max(served.len().saturating_mul(2));
        while is_full(&self.kept) && self.expiry().is_some_and(|expiry| expiry <= now) {
            self.kept.pop_front();
        }
        let new = if is_full(&self.kept) { new } else { Vec::new() };
        let mut before = std::mem::take(&mut self.withheld);
        let mut withheld = |name: &str| {
            let known = before.remove(name).unwrap_or_else(|| Arc::new(misdirected_routes(name)));
            (name.to_owned(), known)
        };
        let withheld: BTreeMap<String, Arc<Resource>> = new.into_iter().map(&mut withheld).collect();
        if !withheld.is_empty() {
            tracing::warn!(
                count = withheld.len(),
                "new routes of a Gateway answer 421: too many others have ended of late"
            );
        }
        self.withheld = withheld;
        let group = group?;
        if self.withheld.is_empty() {
            return Some(Arc::clone(group));
        }
        let served = |one: &Arc<Resource>| {
            let closed = self.withheld.get(&*one.name).filter(|closed| closed.type_url == one.type_url);
            Arc::clone(closed.unwrap_or(one))
        };
        Some(group.iter().map(served).collect())
    }

    fn expiry(&self) -> Option<Instant> {
        self.kept.front().map(|kept| kept.since + KEPT_FOR)
    }

    /// When configurations may be opened that are not, though nothing else changes.
    pub(super) fn next_expiry(&self) -> Option<Instant> {
        self.expiry().filter(|_| !self.withheld.is_empty())
    }

    pub(super) fn tombstones(&self) -> Vec<Arc<Resource>> {
        self.kept.iter().map(|kept| Arc::clone(&kept.resource)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn snapshot(names: &[String]) -> Snapshot {
        let routes =
            |name: &String| (type_urls::route_configuration(), name.clone(), portcullis_xds::Resource::new(vec![1]));
        Snapshot::new(names.iter().map(routes))
    }

    fn group<S: AsRef<str>>(names: &[S]) -> ResourceGroup {
        let routes = |name: &S| Arc::new(Resource { value: vec![1], ..misdirected_routes(name.as_ref()) });
        names.iter().map(routes).collect()
    }

    fn names(ended: &EndedRoutes) -> Vec<String> {
        ended.tombstones().iter().map(|one| one.name.to_string()).collect()
    }

    /// Of the routes that are served, those that lead to servers.
    fn open(group: Option<ResourceGroup>) -> Vec<String> {
        let group = group.into_iter().flat_map(|group| group.to_vec());
        group.filter(|one| one.value == [1]).map(|one| one.name.to_string()).collect()
    }

    #[test]
    fn routes_that_are_gone_answer_until_they_are_back() {
        let (mut ended, now) = (EndedRoutes::default(), Instant::now());
        let before = snapshot(&["a".to_owned(), "b".to_owned()]);
        ended.follow(&before, Some(&group(&["b"])), now);
        assert_eq!(names(&ended), ["a"]);
        let first = ended.tombstones();
        ended.follow(&before, Some(&group(&["b"])), now);
        assert!(Arc::ptr_eq(&first[0], &ended.tombstones()[0]), "it is the same one");
        let back = ended.follow(&before, Some(&group(&["a"])), now);
        assert_eq!((names(&ended), open(back)), (vec!["b".to_owned()], vec!["a".to_owned()]));
        assert!(ended.follow(&before, None, now).is_none());
        assert_eq!(names(&ended), ["b", "a"], "the Gateway may be served again, and connections of before are there");
    }

    #[test]
    fn routes_that_are_gone_outlive_connections() {
        let (mut ended, start) = (EndedRoutes::default(), Instant::now());
        let [first, second] =
            [0, 1].map(|round| (0..700).map(|index| format!("{round}-{index:03}")).collect::<Vec<_>>());
        let [stays, both] = [vec!["stays".to_owned()], vec!["stays".to_owned(), "late".to_owned()]];
        let mut at = |before: &[String], now: &[String], time| {
            let served = open(ended.follow(&snapshot(before), Some(&group(now)), time));
            (served, names(&ended), ended.next_expiry())
        };
        let half = start + KEPT_FOR / 2;
        at(&[&first[..], &stays].concat(), &stays, start);
        assert_eq!(at(&[&second[..], &stays].concat(), &stays, half).1, [&first[..], &second].concat());
        let kept = at(&stays, &both, half);
        assert_eq!(
            (kept.0, kept.2),
            (stays.clone(), Some(start + KEPT_FOR)),
            "what is open stays so, and nothing else is"
        );
        // It ends without a connection.
        let gone = at(&both, &stays, half);
        assert_eq!((gone.1.len(), gone.2), (1_400, None));
        at(&stays, &both, half);
        assert_eq!(at(&both, &both, start + KEPT_FOR - Duration::from_secs(1)).0, stays);
        let (served, kept, expiry) = at(&both, &both, start + KEPT_FOR);
        assert_eq!((served, kept.len(), expiry), (both, MAX_KEPT, None));
        assert_eq!(kept.last(), second.last());
    }

    #[test]
    fn routes_that_all_get_other_names_are_served() {
        let (mut ended, now) = (EndedRoutes::default(), Instant::now());
        let [first, second] =
            [0, 1].map(|round| (0..3_000).map(|index| format!("{round}-{index}")).collect::<Vec<_>>());
        assert_eq!(open(ended.follow(&snapshot(&first), Some(&group(&second)), now)), second);
        assert_eq!(names(&ended).len(), 3_000);
    }
}
