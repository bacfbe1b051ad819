use std::borrow::Cow;
use std::sync::Arc;

use bytes::Bytes;

use crate::chunk::{ByteChunks, Chunk, ChunkKey, Chunks, length};
use crate::content_hash::{ContentHash, hash_of};

/// A resource, encoded. Its bytes may be secret. Copies share everything: a snapshot has thousands.
#[derive(Clone, PartialEq, Eq)]
pub struct Resource(Arc<Content>);

#[derive(Clone, PartialEq, Eq)]
struct Content {
    version: Arc<str>,
    /// The bytes, if it is in one piece.
    body: Bytes,
    companion: Option<(Cow<'static, str>, Arc<str>)>,
    owner: Option<Arc<str>>,
    is_version_only: bool,
    lingers: bool,
    is_on_demand: bool,
    is_optional: bool,
    /// The bytes before the parts, and the parts with their owners. Empty if the resource is in one piece.
    chunks: Vec<(Option<Arc<str>>, Chunk)>,
}

/// A part of a resource that belongs to an owner and can be left out without the rest. Protobuf reads concatenated encodings as
/// one message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// The owner; each part of a resource has another one.
    pub owner: Arc<str>,
    /// The bytes, in pieces that follow each other. They are shared, not copied.
    pub body: Vec<Bytes>,
    /// The bytes in its place when the part has to be left out.
    pub fallback: Option<Bytes>,
}

impl std::fmt::Debug for Resource {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} ({} bytes)", self.0.version, length(&self.pieces()))
    }
}

impl Resource {
    /// The version is a hash of the content: an unchanged resource is not sent again, also after a restart.
    pub fn new(body: impl Into<Bytes>) -> Self {
        let body = body.into();
        let version = hash_of(&body).into();
        let content = Content {
            version,
            body,
            companion: None,
            owner: None,
            is_version_only: false,
            lingers: false,
            is_on_demand: false,
            is_optional: false,
            chunks: Vec::new(),
        };
        Self(Arc::new(content))
    }

    /// A resource with a known version and unknown content, because others hold the content: it is never sent and never
    /// removed. A node that has this version has all of it; another node gets it when the content is known again.
    pub fn version_only(version: impl Into<Arc<str>>) -> Self {
        Self::new(Bytes::new()).with(|content| (content.version, content.is_version_only) = (version.into(), true))
    }

    fn with(mut self, change: impl FnOnce(&mut Content)) -> Self {
        change(Arc::make_mut(&mut self.0));
        self
    }

    /// Whether only its version is known.
    pub fn is_version_only(&self) -> bool {
        self.0.is_version_only
    }

    /// Names another resource that is sent again whenever this one is sent. Envoy builds a changed cluster anew and waits
    /// for its endpoints, but does not ask for endpoints that it is subscribed to already; meanwhile it acknowledges no
    /// cluster.
    pub fn with_companion(self, type_url: impl Into<Cow<'static, str>>, name: impl Into<Arc<str>>) -> Self {
        self.with(|content| content.companion = Some((type_url.into(), name.into())))
    }

    /// The resource that is sent again with this one.
    pub fn companion(&self) -> Option<(&str, &Arc<str>)> {
        self.0.companion.as_ref().map(|(type_url, name)| (type_url.as_ref(), name))
    }

    /// Sets the owner of the resource. The label has no meaning here: it is returned in reports about the resource.
    pub fn owned_by(self, label: impl Into<Arc<str>>) -> Self {
        self.with(|content| content.owner = Some(label.into()))
    }

    /// The owner; `None` if it belongs to all.
    pub fn owner(&self) -> Option<&str> {
        self.0.owner.as_deref()
    }

    /// The same, to be kept.
    pub(crate) fn shared_owner(&self) -> Option<&Arc<str>> {
        self.0.owner.as_ref()
    }

    /// The same resource as one that nothing new leads to: it stays for a while for requests that are on their way to it, and
    /// is no part of what its owner asks for ([`crate::Snapshot::version_of`]).
    #[must_use]
    pub fn lingering(self) -> Self {
        self.with(|content| content.lingers = true)
    }

    /// Whether it is there only for requests that are on their way to it.
    pub fn lingers(&self) -> bool {
        self.0.lingers
    }

    /// The same resource as one that only those nodes get which ask for it by name. A node that has it is kept up to date.
    #[must_use]
    pub fn on_demand(self) -> Self {
        self.with(|content| content.is_on_demand = true)
    }

    /// Whether a node has to ask for it by name.
    pub fn is_on_demand(&self) -> bool {
        self.0.is_on_demand
    }

    /// The same resource as one that a node may lack: if it refuses it, owners of its parts count as served.
    #[must_use]
    pub fn optional(self) -> Self {
        self.with(|content| content.is_optional = true)
    }

    /// Whether owners of its parts count as served where it is refused.
    pub fn is_optional(&self) -> bool {
        self.0.is_optional
    }

    /// Adds parts, whose bytes follow those that are there. A node that refuses the whole is offered it without some of the parts,
    /// until the bad one is found. They are sorted by owner; if they are not, the resource is in one piece.
    #[must_use]
    pub fn with_parts(self, parts: impl IntoIterator<Item = Part>) -> Self {
        self.with_parts_after(None, parts)
    }

    /// The same after an earlier resource: a part that this one has as well is not hashed again, if its bytes are the same allocation.
    #[must_use]
    pub fn with_parts_after(self, before: Option<&Self>, parts: impl IntoIterator<Item = Part>) -> Self {
        self.with_common_and_parts(Bytes::new(), before, parts)
    }

    /// The same with bytes in front of the parts that other resources have as well. They are shared, not copied.
    #[must_use]
    pub fn with_common_and_parts(
        self,
        common: Bytes,
        before: Option<&Self>,
        parts: impl IntoIterator<Item = Part>,
    ) -> Self {
        let chunk = |part: Part| {
            let is_known = |chunk: &&Chunk| chunk.is_made_of(&part.body, part.fallback.as_ref());
            let known = before.and_then(|before| before.part(&part.owner)).filter(is_known).cloned();
            (Some(part.owner), known.unwrap_or_else(|| Chunk::new(part.body, part.fallback)))
        };
        let common = Some(common).filter(|common| !common.is_empty());
        let head = (None, Chunk::new([self.0.body.clone()].into_iter().chain(common).collect(), None));
        let chunks: Vec<_> = std::iter::once(head).chain(parts.into_iter().map(chunk)).collect();
        if !chunks.is_sorted_by(|(owner, _), (next, _)| owner < next) {
            let body =
                Bytes::from(chunks.iter().flat_map(|(_, chunk)| chunk.body()).cloned().collect::<Vec<_>>().concat());
            return self.with(|content| (content.version, content.body) = (hash_of(&body).into(), body));
        }
        let mut hash = ContentHash::default();
        for (owner, chunk) in &chunks {
            hash.add(owner.as_deref().unwrap_or_default());
            hash.add(chunk.version());
        }
        self.with(|content| {
            (content.version, content.body, content.chunks) = (hash.finish().into(), Bytes::new(), chunks)
        })
    }

    /// The parts, as [`Resource::with_parts`] takes them; `None` if it is in one piece.
    pub fn parts(&self) -> Option<impl Iterator<Item = Part>> {
        let part = |(owner, chunk): &(Option<Arc<str>>, Chunk)| {
            let fallback = chunk.fallback().and_then(|fallback| fallback.body().first().cloned());
            Some(Part { owner: owner.clone()?, body: chunk.body().to_vec(), fallback })
        };
        (!self.0.chunks.is_empty()).then(|| self.0.chunks.iter().filter_map(part))
    }

    /// The bytes before the parts, and the parts with their owners; empty if the resource is in one piece.
    pub(crate) fn chunks(&self) -> impl Iterator<Item = (Option<&Arc<str>>, &Chunk)> {
        self.0.chunks.iter().map(|(owner, chunk)| (owner.as_ref(), chunk))
    }

    /// Whether it is made of parts, be they none at the moment.
    pub(crate) fn is_composed(&self) -> bool {
        !self.0.chunks.is_empty()
    }

    /// The owners of parts.
    pub(crate) fn part_owners(&self) -> impl Iterator<Item = &Arc<str>> {
        self.0.chunks.iter().filter_map(|(owner, _)| owner.as_ref())
    }

    /// The owner of the whole, if it has one, and those of parts.
    pub(crate) fn owners(&self) -> impl Iterator<Item = &Arc<str>> {
        self.0.owner.iter().chain(self.part_owners())
    }

    /// The version of an owner's part.
    pub(crate) fn part_version(&self, owner: &str) -> Option<&str> {
        self.part(owner).map(Chunk::version)
    }

    /// An owner's part. The parts are sorted by owner, behind what belongs to none.
    fn part(&self, owner: &str) -> Option<&Chunk> {
        let found = self.0.chunks.binary_search_by(|(other, _)| other.as_deref().cmp(&Some(owner)));
        self.0.chunks.get(found.ok()?).map(|(_, chunk)| chunk)
    }

    /// The owners of what differs between this resource and another one of its name: of the whole and of parts.
    pub(crate) fn owners_of_difference<'a>(&'a self, other: &'a Self) -> impl Iterator<Item = &'a str> + use<'a> {
        let wholes = self.owner().into_iter().chain(other.owner());
        let differs = |owner: &&str| match (self.part(owner), other.part(owner)) {
            (Some(one), Some(other_part)) => one.version() != other_part.version() || self.lingers() != other.lingers(),
            _ => true,
        };
        let parts = self.part_owners().chain(other.part_owners()).map(AsRef::as_ref);
        wholes.chain(parts.filter(differs))
    }

    /// Whether this is the other one: equal versions are equal contents.
    pub(crate) fn is(&self, other: &Self) -> bool {
        let (one, other) = (&self.0, &other.0);
        let flags =
            |content: &Content| [content.is_version_only, content.lingers, content.is_on_demand, content.is_optional];
        Arc::ptr_eq(one, other)
            || (&one.version, &one.companion, &one.owner) == (&other.version, &other.companion, &other.owner)
                && flags(one) == flags(other)
                && one.chunks == other.chunks
    }

    /// The hash of the content.
    pub fn version(&self) -> &str {
        &self.0.version
    }

    /// The same, to be kept.
    pub(crate) fn shared_version(&self) -> &Arc<str> {
        &self.0.version
    }

    /// The message, as in `Any.value`: pieces that follow each other.
    pub fn pieces(&self) -> ByteChunks {
        match self.0.chunks.as_slice() {
            [] => vec![self.0.body.clone()],
            chunks => chunks.iter().flat_map(|(_, chunk)| chunk.body()).cloned().collect(),
        }
    }
}

/// Adds the chunks of a resource that is made of parts.
pub(crate) fn add_chunks(chunks: &mut Chunks, name: &str, resource: &Resource) {
    let name: Arc<str> = name.into();
    for (owner, chunk) in resource.chunks() {
        chunks.insert(ChunkKey { resource: Arc::clone(&name), part: owner.cloned() }, chunk.clone());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(owner: &str, body: &'static str) -> Part {
        Part { owner: owner.into(), body: vec![body.into()], fallback: None }
    }

    fn shown(resource: &Resource) -> Vec<(Option<String>, Vec<u8>)> {
        resource.chunks().map(|(owner, chunk)| (owner.map(ToString::to_string), chunk.body().concat())).collect()
    }

    #[test]
    fn parts_follow_the_bytes_sorted_by_owner() {
        let head = || Resource::new("base");
        let good = head().with_parts([part("1", "one"), part("2", "two")]);
        assert_eq!(
            shown(&good),
            [(None, b"base".to_vec()), (Some("1".into()), b"one".to_vec()), (Some("2".into()), b"two".to_vec())]
        );
        assert_eq!(good.pieces(), ["base", "one", "two"]);
        assert_eq!(head().with_parts(good.parts().unwrap()), good);
        assert!(head().parts().is_none() && head().with_parts([]).parts().is_some());
        assert_eq!(shown(&head()), []);
        assert_eq!(shown(&head().with_parts([])), [(None, b"base".to_vec())]);
        for parts in [[part("2", "two"), part("1", "one")], [part("1", "two"), part("1", "one")]] {
            assert_eq!(head().with_parts(parts), Resource::new("basetwoone"), "in one piece");
        }
    }

    #[test]
    fn common_bytes_are_shared_between_the_head_and_the_parts() {
        let common = Bytes::from(vec![b'x'; 100]);
        let parts = || [part("1", "one")];
        let of = |head: &'static str| Resource::new(head).with_common_and_parts(common.clone(), None, parts());
        let (one, other) = (of("a"), of("b"));
        assert_eq!(one.pieces().concat(), [b"a".as_slice(), &common, b"one"].concat());
        assert!([&one, &other].into_iter().all(|resource| resource.pieces()[1].as_ptr() == common.as_ptr()));
        let whole = Resource::new([b"a".as_slice(), &common].concat()).with_parts(parts());
        assert_eq!(one.version(), whole.version(), "it is the same content");
        assert_ne!(one.version(), other.version());
    }

    #[test]
    fn version_of_parts_is_that_of_their_content_and_owners() {
        let version = |parts: &[(&str, &'static str)]| {
            let parts = parts.iter().map(|(owner, body)| part(owner, body));
            Resource::new("base").with_parts(parts).version().to_owned()
        };
        let all: Vec<_> = [
            version(&[]),
            version(&[("1", "one"), ("2", "two")]),
            version(&[("1", "one"), ("3", "two")]),
            version(&[("1", "onet"), ("2", "wo")]),
            version(&[("1", "one")]),
        ]
        .into();
        let mut different = all.clone();
        different.sort();
        different.dedup();
        assert_eq!(different.len(), all.len());
        assert_eq!(version(&[("1", "one"), ("2", "two")]), all[1]);
    }

    #[test]
    fn part_in_the_same_place_is_not_hashed_again() {
        let (closed, shared) = (Bytes::from("closed"), Bytes::from("shared"));
        let parts = |second: &Bytes| {
            [("1", Bytes::from("one")), ("2", second.clone())].map(|(owner, body)| Part {
                owner: owner.into(),
                body: vec![shared.clone(), body],
                fallback: Some(closed.clone()),
            })
        };
        let kept = Bytes::from(b"two".to_vec());
        let before = Resource::new("base").with_parts(parts(&kept));
        let version = |resource: &Resource| resource.part_version("2").unwrap().as_ptr();
        for (second, is_kept) in [(kept, true), (Bytes::from(b"two".to_vec()), false)] {
            let after = Resource::new("base").with_parts_after(Some(&before), parts(&second));
            assert_eq!(after, before);
            assert_eq!(version(&after) == version(&before), is_kept);
        }
        let other = Resource::new("base").with_parts_after(Some(&before), parts(&"2".into()));
        assert_ne!(other.version(), before.version());
    }
}
