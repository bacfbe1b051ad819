/// The version of this configuration's format. A filter refuses any other, so that a rule that it would not understand is
/// never dropped in silence. It grows with every change of the format from the first release on.
pub const CONFIG_VERSION: u32 = 2;

/// The key in the metadata of an Envoy's node for the [`CONFIG_VERSION`] of its filter. The control plane serves no other.
pub const NODE_CONFIG_VERSION: &str = "portcullis_config_version";

/// The key in the metadata of an Envoy's node for the build of the filter that it runs: [`NODE_FILTER_MODULE`], which is the
/// default, or [`NODE_FILTER_WASM`].
pub const NODE_FILTER: &str = "portcullis_filter";

/// `libportcullis.so`.
pub const NODE_FILTER_MODULE: &str = "module";

/// `portcullis.wasm`.
pub const NODE_FILTER_WASM: &str = "wasm";

/// The key in the metadata of an Envoy's node for the Gateway that it belongs to, as `NAMESPACE/NAME`; absent if it belongs to none.
pub const NODE_GATEWAY: &str = "portcullis_gateway";

/// The key in the metadata of an Envoy's node for the addresses by which clients reach it, with commas between them: those of its
/// Gateway's status, if the Gateway asks for none.
pub const NODE_GATEWAY_ADDRESSES: &str = "portcullis_gateway_addresses";

/// The key in the metadata of an Envoy's node for the `Instance` that it belongs to; absent if it belongs to none, or to a Gateway.
pub const NODE_INSTANCE: &str = "portcullis_instance";
