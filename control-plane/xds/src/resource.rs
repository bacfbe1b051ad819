use bytes::Bytes;

use crate::hash::hash_of;

/// A resource, encoded. Its bytes may be secret.
#[derive(Clone, PartialEq, Eq)]
pub struct Resource {
    version: String,
    body: Bytes,
    companion: Option<(String, String)>,
    owner: Option<String>,
    is_held: bool,
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
        Self { version: hash_of(&body), body, companion: None, owner: None, is_held: false }
    }

    /// A resource of which nothing is known but its version, because others hold it: it is never sent and never taken
    /// away. A node that has it in this version has all of it; one that has not gets it when somebody knows it again.
    pub fn held(version: impl Into<String>) -> Self {
        Self { version: version.into(), is_held: true, ..Self::new(Bytes::new()) }
    }

    /// Whether only its version is known.
    pub fn is_held(&self) -> bool {
        self.is_held
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

    /// Says whose resource this is. The label means nothing here: it comes back where something is told about the
    /// resource.
    pub fn owned_by(self, label: impl Into<String>) -> Self {
        Self { owner: Some(label.into()), ..self }
    }

    /// Whose resource it is; `None` if nobody's in particular.
    pub fn owner(&self) -> Option<&str> {
        self.owner.as_deref()
    }

    /// Whether this is the other one: equal versions are equal contents.
    pub(crate) fn is(&self, other: &Self) -> bool {
        (&self.version, &self.companion, &self.owner, self.is_held)
            == (&other.version, &other.companion, &other.owner, other.is_held)
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
