//! Filter chains of the object: those that pass connections on decide by the name in the handshake.

use std::collections::BTreeSet;

use envoy_types::pb::envoy::config::listener::v3::filter::ConfigType;
use envoy_types::pb::envoy::config::listener::v3::{FilterChain, Listener};
use envoy_types::pb::envoy::extensions::filters::network::tcp_proxy::v3::TcpProxy;
use envoy_types::pb::envoy::extensions::filters::network::tcp_proxy::v3::tcp_proxy::ClusterSpecifier;
use portcullis_translate::type_urls;
use prost::{Message, Name};

use super::edits::NAME;
use super::envoy::{Applied, Decided};

/// The filter chains of the object in a listener.
pub(super) fn of(listener: &[u8]) -> Vec<Applied> {
    let own = format!("portcullis/-/{NAME}");
    let chains = Listener::decode(listener).unwrap().filter_chains.into_iter();
    let applied = |chain: FilterChain| Applied {
        url: type_urls::listener().to_owned(),
        body: chain.encode_to_vec(),
        name: chain.name,
    };
    chains.filter(|chain| chain.name.starts_with(&own)).map(applied).collect()
}

/// The decision of a chain which passes connections on.
pub(super) fn decided(chain: Applied) -> Option<Decided> {
    let decoded = FilterChain::decode(chain.body.as_slice()).unwrap();
    let Some(ConfigType::TypedConfig(config)) = &decoded.filters.first()?.config_type else { return None };
    let proxy = (config.type_url == TcpProxy::type_url()).then(|| TcpProxy::decode(config.value.as_slice()).unwrap());
    let Some(ClusterSpecifier::Cluster(target)) = proxy?.cluster_specifier else { return None };
    Some(Decided { routes: chain, destinations: [("tcp".to_owned(), target)].into() })
}

/// The name of the object's routes, if a chain of the listener names them.
pub(super) fn routes(listener: &[u8]) -> BTreeSet<String> {
    assert!(Listener::decode(listener).is_ok());
    let name = format!("portcullis/-/{NAME}/routes");
    let is_named = listener.windows(name.len()).any(|window| window == name.as_bytes());
    is_named.then_some(name).into_iter().collect()
}
