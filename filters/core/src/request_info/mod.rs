//! A request as kube-apiserver's `RequestInfoFactory` resolves it (apiserver, `pkg/endpoints/request/requestinfo.go`).
//!
//! The path is percent-decoded once and not cleaned: what is judged here is what the upstream sees, byte for byte.

mod escape;
mod field_selector;
mod label_selector;
pub(crate) mod list_options;
mod shape;
mod target;

use std::borrow::Cow;

pub use escape::{InvalidEscape, unescape_path};
pub use list_options::Selectors;
pub use shape::{AmbiguousPath, AmbiguousQuery, check_query, check_shape};
pub use target::{RequestTarget, TargetError};

/// The attributes of a request, in Kubernetes' words. Bytes, because a client chooses them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RequestInfo<'a> {
    /// Whether the request is for an API resource, or for a plain path such as `/healthz`.
    pub is_resource: bool,
    /// The Kubernetes verb; the lower-case HTTP method for a plain path; empty for an unknown method on a resource.
    pub verb: Cow<'a, [u8]>,
    /// The decoded path.
    pub path: &'a [u8],
    /// `api` or `apis`, also for discovery paths below them.
    pub api_prefix: &'a [u8],
    /// The API group, empty for core.
    pub api_group: &'a [u8],
    /// The API version.
    pub api_version: &'a [u8],
    /// The namespace, empty for cluster-scoped requests.
    pub namespace: &'a [u8],
    /// The resource, in the plural.
    pub resource: &'a [u8],
    /// The subresource, or empty.
    pub subresource: &'a [u8],
    /// The object's name; for lists and watches the name that a field selector requires.
    pub name: Cow<'a, [u8]>,
    /// Index of the first path segment behind a `proxy` subresource or verb: from there on the path belongs to the proxied
    /// server.
    pub proxied_from: Option<usize>,
    /// Index of the path segment that names the resource; behind the namespace, where there is one.
    pub parts_from: usize,
    /// Whether the verb is in the path (`/api/v1/watch/pods`) rather than in the method.
    pub verb_in_path: bool,
}

/// A path that kube-apiserver answers with 500, because nothing follows `watch` or `proxy`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unable to determine kind and namespace from url")]
pub struct UnresolvablePath;

/// Path segments below which a verb or a namespace is looked for; kube-apiserver's own words.
const SPECIAL_VERBS: [&[u8]; 2] = [b"proxy", b"watch"];
const NAMESPACE_SUBRESOURCES: [&[u8]; 2] = [b"status", b"finalize"];

impl<'a> RequestInfo<'a> {
    /// Resolves a request. `path` is percent-decoded ([`unescape_path`]), `query` is raw.
    ///
    /// # Errors
    /// [`UnresolvablePath`] is the client's fault; the same request fails again.
    pub fn resolve(method: &'a [u8], path: &'a [u8], query: &'a [u8]) -> Result<Self, UnresolvablePath> {
        let mut info = RequestInfo { verb: lower_case(method), path, ..RequestInfo::default() };
        let mut segments = Segments::new(path);
        if segments.len() < 3 {
            return Ok(info);
        }
        let prefix = segments.take();
        if prefix != b"api" && prefix != b"apis" {
            return Ok(info);
        }
        info.api_prefix = prefix;
        if prefix == b"apis" {
            if segments.len() < 3 {
                return Ok(info);
            }
            info.api_group = segments.take();
        }
        info.is_resource = true;
        info.api_version = segments.take();
        info.take_verb(method, &mut segments)?;
        info.take_object(&mut segments);
        info.narrow(query);
        Ok(info)
    }

    fn take_verb(&mut self, method: &'a [u8], segments: &mut Segments<'a>) -> Result<(), UnresolvablePath> {
        let word = segments.peek(0);
        if !SPECIAL_VERBS.contains(&word) {
            self.verb = Cow::Borrowed(verb_of(method));
            return Ok(());
        }
        if segments.len() < 2 {
            return Err(UnresolvablePath);
        }
        self.verb = Cow::Borrowed(segments.take());
        self.verb_in_path = true;
        if word == b"proxy" {
            self.proxied_from = Some(segments.taken());
        }
        Ok(())
    }

    fn take_object(&mut self, segments: &mut Segments<'a>) {
        if segments.peek(0) == b"namespaces" && segments.len() > 1 {
            self.namespace = segments.peek(1);
            if segments.len() > 2 && !NAMESPACE_SUBRESOURCES.contains(&segments.peek(2)) {
                segments.take();
                segments.take();
            }
        }
        self.parts_from = segments.taken();
        if segments.len() >= 3 && *self.verb != *b"proxy" {
            self.subresource = segments.peek(2);
            if self.subresource == b"proxy" {
                self.proxied_from = Some(segments.taken().saturating_add(3));
            }
        }
        self.name = Cow::Borrowed(segments.peek(1));
        self.resource = segments.peek(0);
    }

    fn narrow(&mut self, query: &'a [u8]) {
        if !self.name.is_empty() {
            return;
        }
        match &*self.verb {
            b"get" => {
                let options = list_options::read(query);
                self.verb = Cow::Borrowed(if options.watch { b"watch" } else { b"list" });
                if let Some(name) = options.required_name {
                    self.name = name;
                }
            }
            b"delete" => self.verb = Cow::Borrowed(b"deletecollection"),
            _ => {}
        }
    }

    /// The path segments from the resource on; none for a plain path.
    pub fn parts(&self) -> impl Iterator<Item = &'a [u8]> {
        let count = if self.is_resource { usize::MAX } else { 0 };
        trim_slashes(self.path).split(|byte| *byte == b'/').skip(self.parts_from).take(count)
    }

    /// The selectors that kube-apiserver shows its authorizers: of lists, watches and deletecollections whose verb is not in
    /// the path, as they are written, also if they do not parse. `query` is raw.
    pub fn selectors<'q>(&self, query: &'q [u8]) -> Selectors<'q> {
        let has_selectors = matches!(&*self.verb, b"list" | b"watch" | b"deletecollection");
        if self.is_resource && has_selectors && !self.verb_in_path {
            list_options::selectors(query)
        } else {
            Selectors::default()
        }
    }

    /// Whether kube-apiserver counts the request as long-running: it may stay open for as long as both sides like
    /// (apiserver, `pkg/server/config.go`, with kube-apiserver's own verbs and subresources).
    pub fn is_long_running(&self) -> bool {
        // A method named PROXY makes the verb of a plain path, too.
        matches!(&*self.verb, b"watch" | b"proxy")
            || matches!(self.subresource, b"attach" | b"exec" | b"proxy" | b"log" | b"portforward")
            || (!self.is_resource && self.path.starts_with(b"/debug/pprof/"))
    }
}

/// Number of segments found at once: those of a namespaced subresource below an API group. Longer paths are rare.
const FOUND_AT_ONCE: usize = 8;

/// The path's segments: outer slashes trimmed, inner empty ones kept.
struct Segments<'a> {
    /// The first segments.
    found: [&'a [u8]; FOUND_AT_ONCE],
    /// The bytes behind them.
    rest: &'a [u8],
    len: usize,
    taken: usize,
}

impl<'a> Segments<'a> {
    fn new(path: &'a [u8]) -> Self {
        let mut segments = Segments { found: [&[]; FOUND_AT_ONCE], rest: trim_slashes(path), len: 0, taken: 0 };
        if segments.rest.is_empty() {
            return segments;
        }
        for place in &mut segments.found {
            segments.len = segments.len.saturating_add(1);
            let Some(end) = segments.rest.iter().position(|byte| *byte == b'/') else {
                *place = std::mem::take(&mut segments.rest);
                return segments;
            };
            let (segment, tail) = segments.rest.split_at(end);
            (*place, segments.rest) = (segment, tail.get(1..).unwrap_or_default());
        }
        segments.len = segments.len.saturating_add(segments.rest.split(|byte| *byte == b'/').count());
        segments
    }

    /// How many are left.
    fn len(&self) -> usize {
        self.len.saturating_sub(self.taken)
    }

    fn taken(&self) -> usize {
        self.taken
    }

    /// The segment `ahead` places on, or empty where the path has ended.
    fn peek(&self, ahead: usize) -> &'a [u8] {
        let at = self.taken.saturating_add(ahead);
        match self.found.get(at) {
            Some(segment) => segment,
            None => self.rest.split(|byte| *byte == b'/').nth(at.saturating_sub(FOUND_AT_ONCE)).unwrap_or_default(),
        }
    }

    fn take(&mut self) -> &'a [u8] {
        let segment = self.peek(0);
        self.taken = self.taken.saturating_add(1);
        segment
    }
}

fn trim_slashes(path: &[u8]) -> &[u8] {
    let start = path.iter().position(|byte| *byte != b'/').unwrap_or(path.len());
    let end = path.iter().rposition(|byte| *byte != b'/').map_or(start, |last| last.saturating_add(1));
    path.get(start..end).unwrap_or_default()
}

fn verb_of(method: &[u8]) -> &'static [u8] {
    match method {
        b"POST" => b"create",
        b"GET" | b"HEAD" => b"get",
        b"PUT" => b"update",
        b"PATCH" => b"patch",
        b"DELETE" => b"delete",
        _ => b"",
    }
}

fn lower_case(method: &[u8]) -> Cow<'_, [u8]> {
    match method {
        b"GET" => Cow::Borrowed(b"get"),
        b"HEAD" => Cow::Borrowed(b"head"),
        b"POST" => Cow::Borrowed(b"post"),
        b"PUT" => Cow::Borrowed(b"put"),
        b"PATCH" => Cow::Borrowed(b"patch"),
        b"DELETE" => Cow::Borrowed(b"delete"),
        b"OPTIONS" => Cow::Borrowed(b"options"),
        other => Cow::Owned(other.to_ascii_lowercase()),
    }
}

#[cfg(test)]
mod tests;
