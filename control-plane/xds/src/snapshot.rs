use std::collections::BTreeMap;
use std::fmt::Write;

use bytes::Bytes;
use ring::digest::{Context, SHA256};

/// A resource, encoded. Its bytes may be secret.
#[derive(Clone, PartialEq, Eq)]
pub struct Resource {
    version: String,
    body: Bytes,
    companion: Option<(String, String)>,
}

impl std::fmt::Debug for Resource {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} ({} bytes)", self.version, self.body.len())
    }
}

impl Resource {
    /// The version is a hash of the content: an unchanged resource is not sent again, also after a restart.
    pub fn new(body: impl Into<Bytes>) -> Self {
        let body = body.into();
        let mut context = Context::new(&SHA256);
        context.update(&body);
        Self { version: short_hex(context), body, companion: None }
    }

    /// Names another resource that is sent again whenever this one is sent. Envoy builds a changed cluster anew and waits
    /// for its endpoints, but does not ask for endpoints that it is subscribed to already; meanwhile it acknowledges no
    /// cluster.
    pub fn with_companion(self, type_url: impl Into<String>, name: impl Into<String>) -> Self {
        Self { companion: Some((type_url.into(), name.into())), ..self }
    }

    /// The resource that is sent again with this one.
    pub fn companion(&self) -> Option<(&str, &str)> {
        self.companion.as_ref().map(|(type_url, name)| (type_url.as_str(), name.as_str()))
    }

    /// The hash of the content.
    pub fn version(&self) -> &str {
        &self.version
    }

    /// The message, as it stands in `Any.value`.
    pub fn body(&self) -> &Bytes {
        &self.body
    }
}

/// Everything that Envoy may ask for at one time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Snapshot {
    types: BTreeMap<String, BTreeMap<String, Resource>>,
    versions: BTreeMap<String, String>,
    version: String,
}

impl Snapshot {
    /// A snapshot of `(type URL, name, resource)`. Of two with one type and name the later stays.
    pub fn new(resources: impl IntoIterator<Item = (String, String, Resource)>) -> Self {
        let mut types: BTreeMap<String, BTreeMap<String, Resource>> = BTreeMap::new();
        for (type_url, name, resource) in resources {
            types.entry(type_url).or_default().insert(name, resource);
        }
        let mut whole = Context::new(&SHA256);
        let mut versions = BTreeMap::new();
        for (type_url, resources) in &types {
            let mut context = Context::new(&SHA256);
            for (name, resource) in resources {
                for part in [name, &resource.version] {
                    context.update(part.as_bytes());
                    context.update(&[0]);
                }
            }
            let version = short_hex(context);
            for part in [type_url, &version] {
                whole.update(part.as_bytes());
                whole.update(&[0]);
            }
            versions.insert(type_url.clone(), version);
        }
        Self { types, versions, version: short_hex(whole) }
    }

    /// A hash of everything.
    pub fn version(&self) -> &str {
        &self.version
    }

    /// A hash of one type's resources; empty if there are none.
    pub fn type_version(&self, type_url: &str) -> &str {
        self.versions.get(type_url).map_or("", String::as_str)
    }

    /// One resource.
    pub fn get(&self, type_url: &str, name: &str) -> Option<&Resource> {
        self.types.get(type_url)?.get(name)
    }

    /// The names of one type's resources.
    pub fn names<'a>(&'a self, type_url: &str) -> impl Iterator<Item = &'a String> + use<'a> {
        self.types.get(type_url).into_iter().flat_map(BTreeMap::keys)
    }
}

/// 16 of the 32 bytes: far more than is needed to tell versions apart.
fn short_hex(context: Context) -> String {
    context.finish().as_ref().iter().take(16).fold(String::new(), |mut text, byte| {
        // Writing to a String cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}
