//! The objects to whose servers the view of a Gateway sends requests. Its Envoys report about these alone.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use portcullis_api::upstream_key;
use portcullis_attach::ObjectName;
use portcullis_filter_config::{Pool, TCP_POOL, without_generation};
use portcullis_translate::type_urls;
use portcullis_xds::Snapshot;

/// By Gateway, as `NAMESPACE/NAME`: the names of `UpstreamClusters`, and the keys of `KubernetesUpstreams`.
pub(in super::super) type RequestedObjects = BTreeMap<String, Arc<BTreeSet<String>>>;

/// Follows the views of Gateways. An edit of one view costs what that view has.
#[derive(Debug, Default)]
pub(super) struct KnownRequests {
    /// The versions of the views' pools.
    versions: BTreeMap<ObjectName, String>,
    objects: Arc<RequestedObjects>,
}

impl KnownRequests {
    /// The objects of these views. The same allocations as long as the pools of a view, or of all of them, are the same.
    pub(super) fn follow<'a>(
        &mut self,
        views: impl Iterator<Item = (&'a ObjectName, &'a Snapshot)>,
    ) -> Arc<RequestedObjects> {
        let views: BTreeMap<&ObjectName, &Snapshot> = views.collect();
        let gone: Vec<ObjectName> = self.versions.keys().filter(|one| !views.contains_key(one)).cloned().collect();
        for gateway in gone {
            self.versions.remove(&gateway);
            Arc::make_mut(&mut self.objects).remove(&gateway.to_string());
        }
        for (gateway, view) in views {
            let version = view.type_version(type_urls::cluster());
            if self.versions.get(gateway).is_some_and(|known| known == version) {
                continue;
            }
            self.versions.insert(gateway.clone(), version.to_owned());
            let (name, found) = (gateway.to_string(), objects_of(view));
            if self.objects.get(&name).is_none_or(|known| **known != found) {
                Arc::make_mut(&mut self.objects).insert(name, Arc::new(found));
            }
        }
        Arc::clone(&self.objects)
    }
}

fn objects_of(view: &Snapshot) -> BTreeSet<String> {
    view.names(type_urls::cluster()).map(without_generation).filter_map(requested_object).collect()
}

/// The object of a pool to which requests are sent: connections that are passed on meet no filter, which could report about them.
fn requested_object(pool: &str) -> Option<String> {
    let (_, kind) = pool.rsplit_once('.')?;
    let (object, _) = group_of(pool).filter(|_| kind == Pool::Http2.as_str())?;
    Some(object)
}

/// The object of a pool, and the group of its servers; `None` of other pools: a Service is no object of ours, and nothing is known of its
/// servers.
pub(in super::super) fn group_of(pool: &str) -> Option<(String, &str)> {
    let mut parts = pool.splitn(4, '/').skip(1);
    let (namespace, name, part) = (parts.next()?, parts.next()?, parts.next()?);
    let (group, kind) = part.rsplit_once('.')?;
    match namespace {
        "-" if [Pool::Http2.as_str(), TCP_POOL].contains(&kind) => Some((name.to_owned(), group)),
        "-" => None,
        _ if kind == Pool::Http2.as_str() => Some((upstream_key(namespace, name), group)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use portcullis_xds::Resource;

    use super::*;

    fn view(pools: &[&str]) -> Snapshot {
        let cluster = |pool: &&str| (type_urls::cluster(), format!("{pool}@0123"), Resource::new(vec![1]));
        Snapshot::new(pools.iter().map(cluster))
    }

    #[test]
    fn objects_of_a_view_are_those_that_get_requests_by_it() {
        let found = objects_of(&view(&[
            "lab/-/a.test/all.h2",
            "lab/-/a.test/s-0123456789.h2",
            "lab/-/passed.test/all.tcp",
            "lab/team/prod/all.h2",
            "lab/team/web/port-443.tcp",
        ]));
        assert_eq!(found, ["a.test".to_owned(), "team/prod".to_owned()].into());
    }

    #[test]
    fn objects_of_a_gateway_stay_until_its_view_has_others() {
        let (edge, other) = (ObjectName::new("infra", "edge"), ObjectName::new("team", "own"));
        let mut known = KnownRequests::default();
        let mut follow = |views: &[(&ObjectName, &Snapshot)]| known.follow(views.iter().copied());
        let (first, both, none) = (view(&["lab/-/a/all.h2"]), view(&["lab/-/a/all.h2", "lab/-/b/all.h2"]), view(&[]));
        let begin = follow(&[(&edge, &first), (&other, &first)]);
        assert!(Arc::ptr_eq(&begin, &follow(&[(&edge, &first), (&other, &first)])));
        let later = follow(&[(&edge, &both), (&other, &first)]);
        assert_eq!(*later["infra/edge"], ["a".to_owned(), "b".to_owned()].into());
        assert!(Arc::ptr_eq(&later["team/own"], &begin["team/own"]), "nothing of it is looked at");
        let ended = follow(&[(&edge, &none)]);
        assert!(ended["infra/edge"].is_empty() && !ended.contains_key("team/own"));
        assert_eq!(begin["infra/edge"].len(), 1, "as of its own moment");
    }
}
