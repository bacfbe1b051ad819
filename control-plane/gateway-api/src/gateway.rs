use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::GATEWAY_API_GROUP;
use crate::class::ParametersReference;
use crate::labels::LabelSelector;
use crate::meta::ObjectMeta;
use crate::other_fields::OtherFields;

/// Listeners at addresses, to which routes attach.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Gateway {
    /// Name, namespace and generation.
    pub metadata: ObjectMeta,
    /// The wanted state.
    pub spec: GatewaySpec,
}

/// The wanted state of a [`Gateway`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct GatewaySpec {
    /// The name of its class.
    pub gateway_class_name: String,
    /// The listeners.
    pub listeners: Vec<Listener>,
    /// The addresses; none are chosen by the implementation.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub addresses: Vec<GatewayAddress>,
    /// Metadata and settings of what is made for the Gateway.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub infrastructure: Option<Infrastructure>,
    /// The `ListenerSets` that may attach.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allowed_listeners: Option<AllowedListeners>,
    /// TLS of all listeners.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tls: Option<GatewayTls>,
    /// Fields that are not served.
    #[serde(flatten)]
    pub other: OtherFields,
}

/// An address that is asked for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GatewayAddress {
    /// Its kind.
    #[serde(rename = "type", default)]
    pub kind: AddressKind,
    /// The address; empty is any of its kind.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub value: String,
}

/// The kind of an address.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum AddressKind {
    /// IPv4 or IPv6.
    #[default]
    #[serde(rename = "IPAddress")]
    IpAddress,
    /// Another kind.
    #[serde(untagged)]
    Other(String),
}

/// Metadata and settings of what is made for a Gateway.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Infrastructure {
    /// Labels.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// Annotations.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, String>,
    /// Settings of this Gateway alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parameters_ref: Option<ParametersReference>,
    /// Fields that are not served.
    #[serde(flatten)]
    pub other: OtherFields,
}

/// The `ListenerSets` that may attach.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct AllowedListeners {
    /// Their namespaces.
    pub namespaces: ListenerNamespaces,
    /// Fields that are not served.
    #[serde(flatten)]
    pub other: OtherFields,
}

/// The namespaces of `ListenerSets`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ListenerNamespaces {
    /// `None` is none of them.
    pub from: String,
    /// Fields that are not served.
    #[serde(flatten)]
    pub other: OtherFields,
}

impl Default for ListenerNamespaces {
    fn default() -> Self {
        Self { from: "None".to_owned(), other: OtherFields::default() }
    }
}

/// A port with a protocol, for some host names.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Listener {
    /// Its name in the Gateway.
    pub name: String,
    /// The host names; none are all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hostname: Option<String>,
    /// The port.
    pub port: u16,
    /// The protocol.
    pub protocol: String,
    /// TLS.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tls: Option<ListenerTls>,
    /// The routes that may attach.
    #[serde(default)]
    pub allowed_routes: AllowedRoutes,
    /// Fields that are not served.
    #[serde(flatten)]
    pub other: OtherFields,
}

/// TLS of a [`Listener`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ListenerTls {
    /// Whether TLS ends here.
    pub mode: TlsMode,
    /// The certificates.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub certificate_refs: Vec<SecretReference>,
    /// Settings of the implementation.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub options: BTreeMap<String, String>,
    /// Fields that are not served.
    #[serde(flatten)]
    pub other: OtherFields,
}

/// Whether TLS ends at a listener.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum TlsMode {
    /// It ends here.
    #[default]
    Terminate,
    /// It is passed on.
    Passthrough,
    /// A mode of a later release.
    #[serde(untagged)]
    Other(String),
}

/// A certificate with its key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SecretReference {
    /// The API group; empty is the core group.
    #[serde(default)]
    pub group: String,
    /// The kind.
    #[serde(default = "secret_kind")]
    pub kind: String,
    /// The name.
    pub name: String,
    /// The namespace; none is the Gateway's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
}

/// The routes that may attach to a listener.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct AllowedRoutes {
    /// Their namespaces.
    pub namespaces: RouteNamespaces,
    /// Their kinds; none are those of the protocol.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub kinds: Vec<RouteGroupKind>,
    /// Fields that are not known: they could narrow what may attach.
    #[serde(flatten)]
    pub other: OtherFields,
}

/// The namespaces of routes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct RouteNamespaces {
    /// Which of them.
    pub from: NamespacesFrom,
    /// Their labels, for `Selector`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub selector: Option<LabelSelector>,
    /// Fields that are not known: they could narrow what may attach.
    #[serde(flatten)]
    pub other: OtherFields,
}

/// Which namespaces.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum NamespacesFrom {
    /// All of them.
    All,
    /// Those that a selector selects.
    Selector,
    /// The Gateway's own.
    #[default]
    Same,
    /// A word of a later release, which allows none.
    #[serde(untagged)]
    Other(String),
}

/// A kind of routes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RouteGroupKind {
    /// The API group.
    #[serde(default = "gateway_group")]
    pub group: String,
    /// The kind.
    pub kind: String,
}

/// TLS of all listeners of a Gateway.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct GatewayTls {
    /// TLS of clients.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub frontend: Option<FrontendTls>,
    /// Fields that are not served: a client certificate for servers.
    #[serde(flatten)]
    pub other: OtherFields,
}

/// Client certificates, by port.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FrontendTls {
    /// Those of ports without settings of their own.
    pub default: PortTlsSettings,
    /// Those of single ports.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub per_port: Vec<PortTls>,
    /// Fields that are not served.
    #[serde(flatten)]
    pub other: OtherFields,
}

/// Client certificates at a port.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PortTls {
    /// The port.
    pub port: u16,
    /// The settings.
    pub tls: PortTlsSettings,
}

/// Client certificates.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct PortTlsSettings {
    /// Their verification; none is asked for without it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub validation: Option<ClientValidation>,
    /// Fields that are not served.
    #[serde(flatten)]
    pub other: OtherFields,
}

/// The verification of client certificates.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ClientValidation {
    /// The CAs.
    pub ca_certificate_refs: Vec<CaReference>,
    /// Whether a connection needs a valid certificate.
    #[serde(default)]
    pub mode: ValidationMode,
    /// Fields that are not served.
    #[serde(flatten)]
    pub other: OtherFields,
}

/// A CA certificate.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CaReference {
    /// The API group; empty is the core group.
    pub group: String,
    /// The kind.
    pub kind: String,
    /// The name.
    pub name: String,
    /// The namespace; none is the Gateway's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
}

/// Whether a connection needs a valid client certificate.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum ValidationMode {
    /// It does.
    #[default]
    AllowValidOnly,
    /// It does not, and a certificate that is not valid is accepted as none.
    AllowInsecureFallback,
    /// A mode of a later release.
    #[serde(untagged)]
    Other(String),
}

fn gateway_group() -> String {
    GATEWAY_API_GROUP.to_owned()
}

fn secret_kind() -> String {
    "Secret".to_owned()
}
