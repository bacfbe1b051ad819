//! Short forms of messages that occur everywhere.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use envoy_types::pb::envoy::config::core::v3::config_source::ConfigSourceSpecifier;
use envoy_types::pb::envoy::config::core::v3::{
    Address, AggregatedConfigSource, ApiVersion, ConfigSource, DataSource, HeaderValue, HeaderValueOption,
    SocketAddress, TypedExtensionConfig, address, data_source, header_value_option::HeaderAppendAction, socket_address,
};
use envoy_types::pb::envoy::config::listener::v3::AdditionalAddress;
use envoy_types::pb::envoy::extensions::dynamic_modules::v3::DynamicModuleConfig;
use envoy_types::pb::envoy::extensions::transport_sockets::tls::v3::SdsSecretConfig;
use envoy_types::pb::google::protobuf::{self, Any, BoolValue, StringValue, UInt32Value};
use envoy_types::util::pack_any;
use portcullis_filter_config::names;
use prost::Name;
use serde::Serialize;

pub(crate) fn duration(value: Duration) -> protobuf::Duration {
    protobuf::Duration {
        seconds: i64::try_from(value.as_secs()).unwrap_or(i64::MAX),
        nanos: i32::try_from(value.subsec_nanos()).unwrap_or(0),
    }
}

pub(crate) fn seconds(value: u64) -> protobuf::Duration {
    duration(Duration::from_secs(value))
}

pub(crate) fn uint(value: u32) -> UInt32Value {
    UInt32Value { value }
}

pub(crate) fn boolean(value: bool) -> BoolValue {
    BoolValue { value }
}

pub(crate) fn inline_string(text: impl Into<String>) -> DataSource {
    DataSource { specifier: Some(data_source::Specifier::InlineString(text.into())), ..Default::default() }
}

pub(crate) fn inline_bytes(bytes: &[u8]) -> DataSource {
    DataSource { specifier: Some(data_source::Specifier::InlineBytes(bytes.to_vec())), ..Default::default() }
}

/// The stream that everything comes by.
pub(crate) fn ads() -> ConfigSource {
    ConfigSource {
        resource_api_version: ApiVersion::V3.into(),
        config_source_specifier: Some(ConfigSourceSpecifier::Ads(AggregatedConfigSource {})),
        ..Default::default()
    }
}

pub(crate) fn sds(name: String) -> SdsSecretConfig {
    SdsSecretConfig { name, sds_config: Some(ads()) }
}

pub(crate) fn extension<M: Name>(name: &str, config: M) -> TypedExtensionConfig {
    TypedExtensionConfig { name: name.to_owned(), typed_config: Some(pack_any(config)) }
}

pub(crate) fn socket(ip: &str, port: u16) -> Address {
    Address {
        address: Some(address::Address::SocketAddress(SocketAddress {
            address: ip.to_owned(),
            port_specifier: Some(socket_address::PortSpecifier::PortValue(u32::from(port))),
            ..Default::default()
        })),
    }
}

pub(crate) fn ip_socket(ip: IpAddr, port: u16) -> Address {
    socket(&ip.to_string(), port)
}

/// The address of a listener, which is the first of these, and its additional ones.
pub(crate) fn ip_sockets(addresses: &[SocketAddr]) -> (Option<Address>, Vec<AdditionalAddress>) {
    let mut all = addresses.iter().map(|address| ip_socket(address.ip(), address.port()));
    let additional = |address| AdditionalAddress { address: Some(address), ..Default::default() };
    (all.next(), all.map(additional).collect())
}

pub(crate) fn header(key: &str, value: &str) -> HeaderValueOption {
    HeaderValueOption {
        header: Some(HeaderValue { key: key.to_owned(), value: value.to_owned(), ..Default::default() }),
        append_action: HeaderAppendAction::OverwriteIfExistsOrAdd.into(),
        ..Default::default()
    }
}

/// The module. It is never closed, because it owns thread-local state.
pub(crate) fn module() -> DynamicModuleConfig {
    DynamicModuleConfig {
        name: names::MODULE.to_owned(),
        do_not_close: true,
        metrics_namespace: names::METRICS_NAMESPACE.to_owned(),
        ..Default::default()
    }
}

/// Configuration for the module. As text and not as a `Struct`, whose fields have no order.
pub(crate) fn json_any(value: &impl Serialize) -> Any {
    // Our own types of strings, numbers and lists always serialise; an empty text would be refused by the module.
    pack_any(StringValue { value: json_text(value) })
}

/// The text of such a configuration.
pub(crate) fn json_text(value: &impl Serialize) -> String {
    serde_json::to_string(value).unwrap_or_default()
}
