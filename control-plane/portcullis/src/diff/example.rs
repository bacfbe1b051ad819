//! A request of a region, as it is written on the wire.

use portcullis_core::identity::UserInfo;
use portcullis_core::request_info::RequestInfo;

use super::region::{Axis, Region};
use super::space::{ANONYMOUS, NAMESPACES, RequestKind, Space};
use super::target_text::{encoded, encoded_path, reads};
use crate::explain::ExplainCall;

/// A request, and its sender.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ExampleRequest {
    pub(super) method: String,
    pub(super) target: String,
    /// `None` for a token that is not reviewed.
    pub(super) user: Option<UserInfo>,
    pub(super) address: std::net::IpAddr,
    pub(super) user_agent: String,
    /// Whether an access list looks at the client's address, and at the user agent.
    pub(super) shows_origin: bool,
}

impl ExampleRequest {
    /// The request of a point: of the region's first atom on each axis, and of a member of those groups that the region asks for.
    /// `None` if no request has these attributes.
    pub(super) fn of(space: &Space, point: &Region, knows_user: bool) -> Option<Self> {
        let atom = |axis| point.axis(axis).any().unwrap_or_default();
        let (method, target) = wire(space, &atom)?;
        let members = point.groups().iter().filter(|(_, is_member)| *is_member);
        let user = UserInfo {
            name: space.users.text(atom(Axis::User)).to_owned(),
            groups: members.map(|(group, _)| space.groups.text(*group).to_owned()).collect(),
            ..UserInfo::default()
        };
        Some(ExampleRequest {
            method,
            target,
            user: knows_user.then_some(user),
            address: space.addresses.address(atom(Axis::Address)),
            user_agent: space.user_agents.text(atom(Axis::UserAgent)).to_owned(),
            shows_origin: false,
        })
    }

    /// The call that explains it.
    pub(super) fn call(&self, host: &str) -> ExplainCall {
        let (mut headers, mut user, mut groups) = (Vec::new(), None, Vec::new());
        if self.shows_origin {
            headers.push(("X-Forwarded-For".to_owned(), self.address.to_string()));
            headers.push(("User-Agent".to_owned(), self.user_agent.clone()));
        }
        match &self.user {
            None => headers.push(("Authorization".to_owned(), "Bearer x".to_owned())),
            Some(known) if known.name == ANONYMOUS => {}
            Some(known) => (user, groups) = (Some(known.name.clone()), known.groups.clone()),
        }
        ExplainCall {
            host: host.to_owned(),
            method: self.method.clone(),
            target: self.target.clone(),
            user,
            groups,
            impersonated: None,
            headers,
        }
    }
}

/// Method and target of a request with these attributes.
fn wire(space: &Space, atom: &impl Fn(Axis) -> u32) -> Option<(String, String)> {
    let verb = space.verbs.text(atom(Axis::Verb));
    if space.kind == RequestKind::Path {
        let (method, target) = (verb.to_ascii_uppercase(), encoded_path(space.paths.text(atom(Axis::Path))));
        return reads(&method, &target, |info| !info.is_resource && *info.verb == *verb.as_bytes())
            .then_some((method, target));
    }
    let (resource, subresource) = space.resources.pair(atom(Axis::Resource));
    let group = space.api_groups.text(atom(Axis::ApiGroup));
    let version = space.api_versions.text(atom(Axis::ApiVersion));
    let (namespace, name) = (space.namespaces.text(atom(Axis::Namespace)), space.names.text(atom(Axis::Name)));
    let is_it = |info: &RequestInfo<'_>| {
        let found = [info.api_group, info.api_version, info.resource, info.subresource, info.namespace, &info.name];
        let wanted = [group, version, resource, subresource, namespace, name];
        info.is_resource && *info.verb == *verb.as_bytes() && found == wanted.map(str::as_bytes)
    };
    let root = if group.is_empty() {
        format!("/api/{}", encoded(version))
    } else {
        format!("/apis/{}/{}", encoded(group), encoded(version))
    };
    let mut segments = Vec::new();
    // A namespace is in its own.
    let is_own = resource == NAMESPACES && name == namespace;
    if !namespace.is_empty() && !is_own {
        segments.extend([NAMESPACES, namespace]);
    }
    segments.push(resource);
    let collection = joined(&root, &segments);
    segments.extend([name, subresource].into_iter().filter(|segment| !segment.is_empty()));
    let object = joined(&root, &segments);
    let selector =
        if name.is_empty() { String::new() } else { format!("fieldSelector=metadata.name%3D{}", encoded(name)) };
    let (watch, and) = if verb == "watch" { ("watch=true", "&") } else { ("", "") };
    let query = [watch, and, &selector].concat();
    let queried = format!("{collection}?{}", query.trim_end_matches('&'));
    let in_path = joined(&format!("{root}/{verb}"), &segments);
    let twice = joined(&root, &[&[NAMESPACES, namespace], segments.as_slice()].concat());
    let forms = [object, queried, in_path, twice];
    forms.into_iter().find(|target| reads(method(verb), target, is_it)).map(|target| (method(verb).to_owned(), target))
}

fn method(verb: &str) -> &'static str {
    match verb {
        "create" => "POST",
        "update" => "PUT",
        "patch" => "PATCH",
        "delete" | "deletecollection" => "DELETE",
        "" => "OPTIONS",
        _ => "GET",
    }
}

fn joined(root: &str, segments: &[&str]) -> String {
    segments.iter().fold(root.to_owned(), |path, segment| format!("{path}/{}", encoded(segment)))
}
