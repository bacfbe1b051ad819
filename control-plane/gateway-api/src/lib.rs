//! The Kubernetes Gateway API, as far as Portcullis reads it: `GatewayClass`, `Gateway`, `HTTPRoute`, `TLSRoute` and
//! `ReferenceGrant`.
//!
//! A type has a field for everything that is judged. All other fields of an object are kept as [`OtherFields`], so that a field
//! of a later release, or one that Portcullis does not serve, can be refused by its name and is never ignored. The release's own
//! definitions check the types (`testenv/oracle-tests/tests/gateway_api`).
//!
//! No I/O, no clock, no randomness.

mod class;
mod gateway;
mod grant;
mod http_route;
mod labels;
mod meta;
mod other_fields;
mod read;
mod route;
mod tls_route;

pub use class::{GatewayClass, GatewayClassSpec, ParametersReference};
pub use gateway::{
    AddressKind, AllowedListeners, AllowedRoutes, Gateway, GatewayAddress, GatewaySpec, GatewayTls, Infrastructure,
    Listener, ListenerNamespaces, ListenerTls, NamespacesFrom, RouteGroupKind, RouteNamespaces, SecretReference,
    TlsMode,
};
pub use gateway::{CaReference, ClientValidation, FrontendTls, PortTls, PortTlsSettings, ValidationMode};
pub use grant::{GrantFrom, GrantTo, ReferenceGrant, ReferenceGrantSpec};
pub use http_route::{HttpMatch, HttpRoute, HttpRouteSpec, HttpRule, PathMatch, PathMatchKind};
pub use labels::{LabelRequirement, LabelSelector, NAMESPACE_NAME_LABEL};
pub use meta::ObjectMeta;
pub use other_fields::OtherFields;
pub use read::{GatewayApiObject, ReadError, is_gateway_api, read_object};
pub use route::{BackendReference, HttpFilter, ParentReference, RouteStatus};
pub use tls_route::{TlsRoute, TlsRouteSpec, TlsRule};

/// The API group.
pub const GATEWAY_API_GROUP: &str = "gateway.networking.k8s.io";
