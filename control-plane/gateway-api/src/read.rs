use portcullis_api::without_nulls;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::GATEWAY_API_GROUP;
use crate::class::GatewayClass;
use crate::gateway::Gateway;
use crate::grant::ReferenceGrant;
use crate::http_route::HttpRoute;
use crate::tls_route::TlsRoute;

/// An object of the Gateway API.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GatewayApiObject {
    /// A `GatewayClass`.
    GatewayClass(GatewayClass),
    /// A `Gateway`.
    Gateway(Box<Gateway>),
    /// An `HTTPRoute`.
    HttpRoute(Box<HttpRoute>),
    /// A `TLSRoute`.
    TlsRoute(Box<TlsRoute>),
    /// A `ReferenceGrant`.
    ReferenceGrant(ReferenceGrant),
}

/// Why a document cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReadError {
    /// Of a kind of the group that Portcullis does not serve.
    #[error(
        "Portcullis does not serve kind {0}; it serves GatewayClass, Gateway, HTTPRoute, TLSRoute and ReferenceGrant"
    )]
    Kind(String),
    /// Of a version that the kind does not have, or no longer has.
    #[error("{kind} has no version {version:?}; {known} is served")]
    Version {
        /// The kind.
        kind: String,
        /// Its version.
        version: String,
        /// Its known versions.
        known: &'static str,
    },
    /// Of another shape.
    #[error("{0}")]
    Shape(String),
}

/// Whether a document's API group is the Gateway API's.
pub fn is_gateway_api(document: &Value) -> bool {
    names(document).is_some_and(|(group, _, _)| group == GATEWAY_API_GROUP)
}

/// Reads an object of the Gateway API.
pub fn read_object(document: &Value) -> Result<GatewayApiObject, ReadError> {
    let Some((_, version, kind)) = names(document) else { return Err(ReadError::Kind(String::new())) };
    let known = match kind {
        "GatewayClass" | "Gateway" | "HTTPRoute" | "ReferenceGrant" => "v1",
        // Its older versions have other fields, and the release's definition does not serve them.
        "TLSRoute" => "v1 alone",
        _ => return Err(ReadError::Kind(kind.to_owned())),
    };
    if version != "v1" && (version != "v1beta1" || kind == "TLSRoute") {
        return Err(ReadError::Version { kind: kind.to_owned(), version: version.to_owned(), known });
    }
    Ok(match kind {
        "GatewayClass" => GatewayApiObject::GatewayClass(decode(document)?),
        "Gateway" => GatewayApiObject::Gateway(Box::new(decode(document)?)),
        "HTTPRoute" => GatewayApiObject::HttpRoute(Box::new(decode(document)?)),
        "TLSRoute" => GatewayApiObject::TlsRoute(Box::new(decode(document)?)),
        _ => GatewayApiObject::ReferenceGrant(decode(document)?),
    })
}

/// Group, version and kind.
fn names(document: &Value) -> Option<(&str, &str, &str)> {
    let (group, version) = document.get("apiVersion")?.as_str()?.split_once('/')?;
    Some((group, version, document.get("kind")?.as_str()?))
}

fn decode<T: DeserializeOwned>(document: &Value) -> Result<T, ReadError> {
    T::deserialize(without_nulls(document)).map_err(|error| ReadError::Shape(error.to_string()))
}
