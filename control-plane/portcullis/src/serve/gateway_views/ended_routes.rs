use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

use portcullis_translate::{Resource, ResourceGroup, misdirected_routes, type_urls};
use portcullis_xds::Snapshot;

/// The most route configurations that are kept for a Gateway; the latest stay.
const MAX_KEPT: usize = 64;

/// Route configurations of a Gateway to which no chain refers any more.
///
/// Connections of before go on for Envoy's drain time, and Envoy keeps the routes of a configuration that is removed. As long as
/// another route leads to the same servers, their next requests would reach these. Each is therefore replaced by one that answers 421,
/// after which clients connect anew.
#[derive(Debug, Default)]
pub(super) struct EndedRoutes(VecDeque<Arc<Resource>>);

impl EndedRoutes {
    /// Takes the newest resources; none if the Gateway is not served any more, and has no servers.
    pub(super) fn follow(&mut self, before: &Snapshot, group: Option<&ResourceGroup>) {
        let url = type_urls::route_configuration();
        let Some(group) = group else { return self.0.clear() };
        let served: BTreeSet<&str> =
            group.iter().filter(|one| one.type_url == url).map(|one| one.name.as_ref()).collect();
        self.0.retain(|kept| !served.contains(&*kept.name));
        for name in before.names(url).filter(|name| !served.contains(name)) {
            if !self.0.iter().any(|kept| *kept.name == *name) {
                self.0.push_back(Arc::new(misdirected_routes(name)));
            }
        }
        while self.0.len() > MAX_KEPT {
            self.0.pop_front();
        }
    }

    pub(super) fn tombstones(&self) -> Vec<Arc<Resource>> {
        self.0.iter().cloned().collect()
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

    fn group(names: &[&str]) -> ResourceGroup {
        names.iter().map(|name| Arc::new(misdirected_routes(name))).collect()
    }

    fn names(ended: &EndedRoutes) -> Vec<String> {
        ended.tombstones().iter().map(|one| one.name.to_string()).collect()
    }

    #[test]
    fn routes_that_are_gone_answer_until_they_are_back() {
        let mut ended = EndedRoutes::default();
        let before = snapshot(&["a".to_owned(), "b".to_owned()]);
        ended.follow(&before, Some(&group(&["b"])));
        assert_eq!(names(&ended), ["a"]);
        let first = ended.tombstones();
        ended.follow(&before, Some(&group(&["b"])));
        assert!(Arc::ptr_eq(&first[0], &ended.tombstones()[0]), "it is the same one");
        ended.follow(&before, Some(&group(&["a"])));
        assert_eq!(names(&ended), ["b"]);
        ended.follow(&before, None);
        assert!(names(&ended).is_empty(), "without any server");
    }

    #[test]
    fn routes_that_are_gone_are_bounded() {
        let mut ended = EndedRoutes::default();
        for round in 0..3 {
            let all: Vec<String> = (0..40).map(|index| format!("{round}-{index:02}")).collect();
            ended.follow(&snapshot(&all), Some(&group(&[])));
        }
        let names = names(&ended);
        assert_eq!((names.len(), names.last().map(String::as_str)), (MAX_KEPT, Some("2-39")));
    }
}
