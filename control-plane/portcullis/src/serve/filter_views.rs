use portcullis_filter_config::{CONFIG_VERSION, NODE_CONFIG_VERSION, NODE_FILTER};
use portcullis_translate::FilterBuild;
use portcullis_xds::{Membership, NodeInfo, ReportScope, StreamGuard, Unserved, View, Views};
use tokio::sync::watch;

use super::gateway_views::{ClaimGuard, GatewayClaims, claimed, gateway_of_view, gateway_view};
use super::instance_views::{claimed_instance, instance_view, view_for};
use super::wanted_views::{WantedGuard, WantedView, WantedViews};

/// Chooses the view of each Envoy by its Gateway, or by its instance and the build of its filter, and collects the Gateways and
/// builds of those with a stream: only these are translated. An Envoy whose filter reads another configuration version gets none, and keeps what it has (decision 0080).
/// One of a Gateway, too, but it never counts as one that keeps what it has of the `UpstreamClusters`.
pub(crate) struct FilterViews {
    wanted: watch::Sender<WantedViews>,
    claims: watch::Sender<GatewayClaims>,
}

impl Default for FilterViews {
    fn default() -> Self {
        Self {
            wanted: watch::Sender::new(WantedViews::default()),
            claims: watch::Sender::new(GatewayClaims::default()),
        }
    }
}

impl FilterViews {
    /// The views for builds other than the module.
    pub(crate) fn wanted(&self) -> watch::Receiver<WantedViews> {
        self.wanted.subscribe()
    }

    /// The Gateways that Envoys belong to.
    pub(super) fn claims(&self) -> watch::Receiver<GatewayClaims> {
        self.claims.subscribe()
    }
}

/// The reason that an Envoy with this metadata is not served; `None` if its filter reads the version that is written.
fn frozen_because(version: Option<&str>) -> Option<String> {
    let found = match version.map(str::parse::<u32>) {
        Some(Ok(CONFIG_VERSION)) => return None,
        Some(Ok(other)) => format!("its filter reads configuration version {other}"),
        Some(Err(_)) => format!("the {NODE_CONFIG_VERSION} of its bootstrap is no version"),
        None => format!("its bootstrap has no {NODE_CONFIG_VERSION}"),
    };
    Some(format!(
        "{found}, and this control plane writes version {CONFIG_VERSION}: it keeps its last configuration until the gateway \
         (filter and bootstrap) is of the same release"
    ))
}

/// The filter of a node, or why it cannot read what is written.
fn readable(node: &NodeInfo) -> Result<FilterBuild, String> {
    if let Some(reason) = frozen_because(node.metadata.get(NODE_CONFIG_VERSION).map(String::as_str)) {
        return Err(reason);
    }
    let filter = FilterBuild::from_metadata(node.metadata.get(NODE_FILTER).map(String::as_str));
    filter.map_err(|error| error.to_string())
}

impl Views for FilterViews {
    fn view(&self, node: &NodeInfo) -> Result<View, Unserved> {
        let gateway = claimed(node)?;
        let filter = readable(node);
        if let Some(gateway) = gateway {
            // A tenant decides about its metadata: no version in them may count against the clusters of all.
            let filter = filter.map_err(Unserved::Foreign)?;
            return match filter {
                FilterBuild::Module => Ok(gateway_view(&gateway)),
                FilterBuild::Wasm => Err(Unserved::Foreign("an Envoy of a Gateway runs the module".to_owned())),
            };
        }
        let instance = claimed_instance(node)?;
        // The same holds for a tenant's Envoy of an instance.
        let unserved = if instance.is_some() { Unserved::Foreign } else { Unserved::Frozen };
        let filter = filter.map_err(unserved)?;
        Ok(instance.map_or_else(|| view_for(filter), |instance| instance_view(instance, filter)))
    }

    fn hold(&self, node: &NodeInfo, view: &View) -> StreamGuard {
        let name = view.0.as_deref()?;
        match gateway_of_view(name) {
            Some(gateway) => Some(Box::new(ClaimGuard::open(&self.claims, gateway, node))),
            None => Some(Box::new(WantedGuard::open(&self.wanted, WantedView::of(name)?))),
        }
    }

    /// Names of statistics are the same for all builds of the filter: the views of the module have all of them.
    fn reported(&self, node: &NodeInfo) -> Result<ReportScope, Unserved> {
        if let Some(gateway) = claimed(node)? {
            let membership = match &node.membership {
                Membership::Local => Membership::Bound([gateway.to_string()].into()),
                of_certificate => of_certificate.clone(),
            };
            return Ok(ReportScope { membership, views: Some(vec![gateway_view(&gateway)]) });
        }
        let views = match &node.membership {
            Membership::Local => None,
            Membership::Free => Some(vec![View(None)]),
            Membership::Bound(_) => Some(Vec::new()),
            Membership::Instances(names) => {
                Some(names.iter().map(|name| instance_view(name, FilterBuild::Module)).collect())
            }
        };
        Ok(ReportScope { membership: node.membership.clone(), views })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::time::{Duration, Instant};

    use portcullis_attach::ObjectName;
    use portcullis_filter_config::{NODE_GATEWAY, NODE_INSTANCE};

    use super::super::wanted_views::GRACE;
    use super::*;

    fn node(metadata: &[(&str, &str)]) -> NodeInfo {
        let metadata = metadata.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        NodeInfo { id: "n".to_owned(), envoy: Some((1, 40)), metadata, ..NodeInfo::default() }
    }

    /// The views that are wanted so much later.
    fn wanted(views: &FilterViews, later: Duration) -> BTreeSet<WantedView> {
        views.wanted.borrow().at(Instant::now() + later)
    }

    fn frozen(views: &FilterViews, metadata: &[(&str, &str)]) -> String {
        match views.view(&node(metadata)) {
            Err(Unserved::Frozen(reason)) => reason,
            found => panic!("{metadata:?}: {found:?}"),
        }
    }

    #[test]
    fn node_of_a_gateway_gets_that_view_alone() {
        let views = FilterViews::default();
        let version = CONFIG_VERSION.to_string();
        let of = |membership: Membership| {
            let metadata =
                [(NODE_CONFIG_VERSION, version.as_str()), (NODE_GATEWAY, "infra/edge"), (NODE_FILTER, "module")];
            NodeInfo { membership, ..node(&metadata) }
        };
        assert!(matches!(views.view(&of(Membership::Free)), Err(Unserved::Foreign(_))));
        let bound = of(Membership::Bound(["infra/edge".to_owned()].into()));
        let view = views.view(&bound).unwrap();
        assert_eq!(view, View(Some("gateway/infra/edge".to_owned())));
        assert_eq!(views.claims().borrow().gateways().len(), 0, "without a stream it has no claim");
        let held = views.hold(&bound, &view);
        assert_eq!(views.claims().borrow().gateways(), [ObjectName::new("infra", "edge")].into());
        drop(held);
        assert_eq!(views.claims().borrow().gateways().len(), 0);
        assert!(
            views.hold(&bound, &View(None)).is_none()
                && views.hold(&bound, &instance_view("a", FilterBuild::Module)).is_none()
        );
        assert!(wanted(&views, Duration::ZERO).is_empty(), "Gateways are translated for the module alone");
    }

    /// Else it would count as one that refuses each `UpstreamCluster`.
    #[test]
    fn node_of_a_gateway_with_another_filter_is_foreign_not_frozen() {
        let views = FilterViews::default();
        let membership = || Membership::Bound(["infra/edge".to_owned()].into());
        let version = CONFIG_VERSION.to_string();
        let current = (NODE_CONFIG_VERSION, version.as_str());
        for (more, words) in [
            (vec![], "has no"),
            (vec![(NODE_CONFIG_VERSION, "1")], "reads configuration version 1, "),
            (vec![(NODE_CONFIG_VERSION, "x")], "is no version"),
            (vec![current, (NODE_FILTER, "x")], "neither module nor wasm"),
            (vec![current, (NODE_FILTER, "wasm")], "runs the module"),
        ] {
            let metadata: Vec<(&str, &str)> = more.iter().copied().chain([(NODE_GATEWAY, "infra/edge")]).collect();
            let found = views.view(&NodeInfo { membership: membership(), ..node(&metadata) });
            assert!(matches!(&found, Err(Unserved::Foreign(why)) if why.contains(words)), "{metadata:?}: {found:?}");
            let silent = views.view(&NodeInfo { membership: membership(), ..node(&more) });
            assert!(matches!(silent, Err(Unserved::Foreign(_))), "{more:?}: {silent:?}");
        }
    }

    #[test]
    fn node_of_an_instance_gets_that_view_alone() {
        let views = FilterViews::default();
        let version = CONFIG_VERSION.to_string();
        let membership = || Membership::Instances(["a".to_owned()].into());
        let of = |version: &str, filter: &str| {
            let metadata = [(NODE_CONFIG_VERSION, version), (NODE_INSTANCE, "a"), (NODE_FILTER, filter)];
            views.view(&NodeInfo { membership: membership(), ..node(&metadata) })
        };
        assert_eq!(of(&version, "module"), Ok(View(Some("instance/a".to_owned()))));
        assert_eq!(of(&version, "wasm"), Ok(View(Some("instance/a/wasm".to_owned()))));
        // A tenant's Envoy counts against no object of others.
        for (version, filter) in [("1", "module"), ("x", "wasm"), (version.as_str(), "x")] {
            assert!(matches!(of(version, filter), Err(Unserved::Foreign(_))), "{version} {filter}");
        }
        let silent = NodeInfo { membership: membership(), ..node(&[(NODE_CONFIG_VERSION, &version)]) };
        assert!(matches!(views.view(&silent), Err(Unserved::Foreign(_))), "not the keys of all");
    }

    #[test]
    fn agent_reports_about_the_view_of_its_own_envoy() {
        let set = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        let bound = |names: &[&str]| Membership::Bound(set(names));
        let instances = Membership::Instances(set(&["a"]));
        let view = |name: &str| View(Some(name.to_owned()));
        let edge = || Some(vec![view("gateway/infra/edge")]);
        for (gateway, membership, expected) in [
            (None, Membership::Local, Some((Membership::Local, None))),
            (None, Membership::Free, Some((Membership::Free, Some(vec![View(None)])))),
            (None, instances.clone(), Some((instances.clone(), Some(vec![view("instance/a")])))),
            (Some("infra/edge"), bound(&["infra/edge"]), Some((bound(&["infra/edge"]), edge()))),
            (
                Some("infra/edge"),
                bound(&["infra/edge", "team/own"]),
                Some((bound(&["infra/edge", "team/own"]), edge())),
            ),
            (Some("infra/edge"), Membership::Local, Some((bound(&["infra/edge"]), edge()))),
            // Another one's, or none that can be.
            (Some("team/own"), bound(&["infra/edge"]), None),
            (None, bound(&["infra/edge"]), None),
            (None, bound(&[]), None),
            (Some("infra/edge"), Membership::Free, None),
            (Some("infra/edge"), instances, None),
            (Some("edge"), Membership::Local, None),
        ] {
            let metadata: Vec<(&str, &str)> = gateway.map(|named| (NODE_GATEWAY, named)).into_iter().collect();
            let node = NodeInfo { membership: membership.clone(), ..node(&metadata) };
            let found = FilterViews::default().reported(&node).ok();
            let found = found.map(|scope| (scope.membership, scope.views));
            assert_eq!(found, expected, "{gateway:?} {membership:?}");
        }
    }

    #[test]
    fn node_gets_the_view_of_its_filter_build() {
        let views = FilterViews::default();
        let version = CONFIG_VERSION.to_string();
        let current = (NODE_CONFIG_VERSION, version.as_str());
        assert_eq!(views.view(&node(&[current])), Ok(View(None)));
        assert_eq!(views.view(&node(&[current, (NODE_FILTER, "module")])), Ok(View(None)));
        assert_eq!(views.view(&node(&[current, (NODE_FILTER, "wasm")])), Ok(View(Some("wasm".to_owned()))));
        assert!(views.view(&node(&[current, (NODE_FILTER, "x")])).is_err());
    }

    #[test]
    fn build_is_wanted_as_long_as_an_envoy_of_it_has_a_stream() {
        let views = FilterViews::default();
        let version = CONFIG_VERSION.to_string();
        let membership = Membership::Instances(["a".to_owned()].into());
        let metadata = [(NODE_CONFIG_VERSION, version.as_str()), (NODE_INSTANCE, "a"), (NODE_FILTER, "wasm")];
        let node = NodeInfo { membership, ..node(&metadata) };
        let view = views.view(&node).unwrap();
        assert!(wanted(&views, Duration::ZERO).is_empty(), "it has no stream");
        let held = views.hold(&node, &view);
        let of_a = BTreeSet::from([WantedView { filter: FilterBuild::Wasm, instance: Some("a".to_owned()) }]);
        assert_eq!(wanted(&views, 10 * GRACE), of_a, "and for no other instance");
        drop(held);
        assert_eq!(wanted(&views, GRACE / 2), of_a, "it may come back");
        assert!(wanted(&views, GRACE).is_empty());
    }

    #[test]
    fn node_of_another_or_no_version_is_not_served() {
        let views = FilterViews::default();
        let (older, newer) = ((CONFIG_VERSION - 1).to_string(), (CONFIG_VERSION + 1).to_string());
        for version in [older.as_str(), newer.as_str()] {
            let reason = frozen(&views, &[(NODE_CONFIG_VERSION, version), (NODE_FILTER, "wasm")]);
            assert!(reason.contains(&format!("reads configuration version {version}, ")), "{reason}");
        }
        for (metadata, words) in [(&[][..], "has no"), (&[(NODE_CONFIG_VERSION, "x")], "is no version")] {
            let reason = frozen(&views, metadata);
            assert!(reason.contains(words) && reason.contains(NODE_CONFIG_VERSION), "{reason}");
        }
    }
}
