use serde::{Deserialize, Serialize};

/// Export of a request's attributes, as filter state and metadata ([`crate::names::request`]), also of requests that are
/// refused as far as they are known by then.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RequestInfoExport {
    /// The attributes that are exported, those that routes and logs read: each costs. `class` always is, and without this list all are.
    /// A route that refuses requests by an attribute that is not exported refuses none of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fields: Option<Vec<RequestInfoField>>,
    /// Whether the module exports them as dynamic metadata as well.
    #[serde(default = "yes", skip_serializing_if = "Clone::clone")]
    pub metadata: bool,
    /// Whether the name of the user for dispatch is exported as well: not of an unknown client.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub user: bool,
}

impl Default for RequestInfoExport {
    fn default() -> Self {
        RequestInfoExport { fields: None, metadata: true, user: false }
    }
}

/// An attribute of a request ([`crate::names::request`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
#[expect(missing_docs, reason = "described in names::request")]
pub enum RequestInfoField {
    IsResourceRequest,
    Verb,
    Class,
    ApiGroup,
    ApiVersion,
    Resource,
    Subresource,
    Namespace,
    Name,
}

impl RequestInfoExport {
    /// Whether the attribute is exported.
    pub fn has(&self, field: RequestInfoField) -> bool {
        field == RequestInfoField::Class || self.fields.as_ref().is_none_or(|fields| fields.contains(&field))
    }
}

fn yes() -> bool {
    true
}
