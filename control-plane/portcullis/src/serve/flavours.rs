use std::collections::BTreeSet;

use portcullis_filter_config::{CONFIG_VERSION, NODE_FILTER, NODE_METADATA};
use portcullis_translate::{Filter, Flavour};
use portcullis_xds::{NodeInfo, View, Views};
use tokio::sync::watch;

/// Which flavour every Envoy is told, and which flavours some Envoy has asked for: only those are translated.
pub(crate) struct Flavours {
    wanted: watch::Sender<BTreeSet<Flavour>>,
}

impl Default for Flavours {
    fn default() -> Self {
        Self { wanted: watch::Sender::new(BTreeSet::new()) }
    }
}

impl Flavours {
    /// Those beside the default one, of which there are a handful at most.
    pub(crate) fn wanted(&self) -> watch::Receiver<BTreeSet<Flavour>> {
        self.wanted.subscribe()
    }
}

/// The name of a flavour's view.
pub(crate) fn view_of(flavour: Flavour) -> View {
    View((flavour != Flavour::default()).then(|| flavour.to_string()))
}

impl Views for Flavours {
    fn view(&self, node: &NodeInfo) -> Result<View, String> {
        let version = match node.metadata.get(NODE_METADATA) {
            None => CONFIG_VERSION,
            Some(told) => told.parse().map_err(|_| format!("its {NODE_METADATA} is no version"))?,
        };
        let filter = Filter::of_metadata(node.metadata.get(NODE_FILTER).map(String::as_str));
        let flavour = filter.and_then(|filter| Flavour::of_node(node.envoy, filter, version));
        let flavour = flavour.map_err(|error| error.to_string())?;
        if flavour != Flavour::default() {
            self.wanted.send_if_modified(|wanted| wanted.insert(flavour));
        }
        Ok(view_of(flavour))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_tells_what_it_understands() {
        let node = |envoy, version: Option<&str>| NodeInfo {
            id: "n".to_owned(),
            envoy,
            metadata: version.map(|version| (NODE_METADATA.to_owned(), version.to_owned())).into_iter().collect(),
        };
        let flavours = Flavours::default();
        let view = |envoy, version| flavours.view(&node(envoy, version));
        assert_eq!(view(Some((1, 40)), None), Ok(View(None)));
        assert_eq!(view(Some((1, 40)), Some("2")), Ok(View(None)));
        assert!(flavours.wanted().borrow().is_empty());
        assert_eq!(view(Some((1, 40)), Some("1")), Ok(View(Some("config-1/validator".to_owned()))));
        assert_eq!(view(Some((1, 38)), None), Ok(View(None)));
        assert!(view(Some((1, 40)), Some("99")).is_err() && view(Some((1, 40)), Some("x")).is_err());
        assert_eq!(flavours.wanted().borrow().len(), 1);
    }
}
