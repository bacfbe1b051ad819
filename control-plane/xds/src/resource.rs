use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;

use crate::hash::hash_of;
use crate::piece::{Key, Piece, Pieces};

/// A resource, encoded. Its bytes may be secret. Copies share everything: a snapshot has thousands.
#[derive(Clone, PartialEq, Eq)]
pub struct Resource(Arc<Content>);

#[derive(Clone, PartialEq, Eq)]
struct Content {
    version: String,
    body: Bytes,
    companion: Option<(String, String)>,
    owner: Option<String>,
    is_held: bool,
    lingers: bool,
    /// What stands before the parts, and the parts with their owners. Empty if it is in one piece.
    pieces: Vec<(Option<String>, Piece)>,
}

/// A part of a resource that belongs to somebody and can be left out without the rest. Protobuf reads encodings that stand
/// one behind the other as one message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// Whose it is; of one resource each part has another owner.
    pub owner: String,
    /// Where it stands in the resource's bytes.
    pub range: Range<usize>,
    /// What stands there when the part has to be left out.
    pub instead: Option<Bytes>,
}

impl std::fmt::Debug for Resource {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} ({} bytes)", self.0.version, self.0.body.len())
    }
}

impl Resource {
    /// The version is a hash of the content: an unchanged resource is not sent again, also after a restart.
    pub fn new(body: impl Into<Bytes>) -> Self {
        let body = body.into();
        let version = hash_of(&body);
        let content =
            Content { version, body, companion: None, owner: None, is_held: false, lingers: false, pieces: Vec::new() };
        Self(Arc::new(content))
    }

    /// A resource of which nothing is known but its version, because others hold it: it is never sent and never taken
    /// away. A node that has it in this version has all of it; one that has not gets it when somebody knows it again.
    pub fn held(version: impl Into<String>) -> Self {
        Self::new(Bytes::new()).with(|content| (content.version, content.is_held) = (version.into(), true))
    }

    fn with(mut self, change: impl FnOnce(&mut Content)) -> Self {
        change(Arc::make_mut(&mut self.0));
        self
    }

    /// Whether only its version is known.
    pub fn is_held(&self) -> bool {
        self.0.is_held
    }

    /// Names another resource that is sent again whenever this one is sent. Envoy builds a changed cluster anew and waits
    /// for its endpoints, but does not ask for endpoints that it is subscribed to already; meanwhile it acknowledges no
    /// cluster.
    pub fn with_companion(self, type_url: impl Into<String>, name: impl Into<String>) -> Self {
        self.with(|content| content.companion = Some((type_url.into(), name.into())))
    }

    /// The resource that is sent again with this one.
    pub fn companion(&self) -> Option<(&str, &str)> {
        self.0.companion.as_ref().map(|(type_url, name)| (type_url.as_str(), name.as_str()))
    }

    /// Says whose resource this is. The label means nothing here: it comes back where something is told about the
    /// resource.
    pub fn owned_by(self, label: impl Into<String>) -> Self {
        self.with(|content| content.owner = Some(label.into()))
    }

    /// Whose resource it is; `None` if nobody's in particular.
    pub fn owner(&self) -> Option<&str> {
        self.0.owner.as_deref()
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

    /// Says which bytes belong to whom. A node that refuses the whole is offered it without some of the parts, until the
    /// bad one is found. The parts stand at the end, sorted by owner and without gaps; if they do not, the resource stays in
    /// one piece.
    pub fn with_parts(self, parts: impl IntoIterator<Item = Part>) -> Self {
        let parts: Vec<_> = parts.into_iter().collect();
        let body = &self.0.body;
        let mut end = parts.first().map_or(body.len(), |part| part.range.start);
        let fits = end <= body.len();
        let mut pieces = Vec::new();
        if fits {
            pieces.push((None, Piece::new(body.slice(..end), None)));
        }
        for part in parts {
            let range = part.range;
            let is_sorted = pieces.last().is_none_or(|(last, _)| last.as_ref() < Some(&part.owner));
            if !is_sorted || range.start != end || range.end < range.start || range.end > body.len() || !fits {
                return self;
            }
            end = range.end;
            let piece = Piece::new(body.slice(range), part.instead);
            pieces.push((Some(part.owner), piece));
        }
        if end == body.len() { self.with(|content| content.pieces = pieces) } else { self }
    }

    /// The parts, as [`Resource::with_parts`] takes them; `None` if it is in one piece.
    pub fn parts(&self) -> Option<Vec<Part>> {
        let mut end = 0;
        let mut parts = Vec::new();
        for (owner, piece) in &self.0.pieces {
            let start = end;
            end += piece.body().len();
            if let Some(owner) = owner {
                let instead = piece.instead().map(|instead| instead.body().clone());
                parts.push(Part { owner: owner.clone(), range: start..end, instead });
            }
        }
        (!self.0.pieces.is_empty()).then_some(parts)
    }

    /// What stands before the parts, and the parts with their owners; nothing if it is in one piece.
    pub(crate) fn pieces(&self) -> impl Iterator<Item = (Option<&str>, &Piece)> {
        self.0.pieces.iter().map(|(owner, piece)| (owner.as_deref(), piece))
    }

    /// Whether it is made of parts, be they none at the moment.
    pub(crate) fn is_composed(&self) -> bool {
        !self.0.pieces.is_empty()
    }

    /// Everybody whom a part belongs to.
    pub(crate) fn part_owners(&self) -> impl Iterator<Item = &str> {
        self.0.pieces.iter().filter_map(|(owner, _)| owner.as_deref())
    }

    /// The version of an owner's part.
    pub(crate) fn part_version(&self, owner: &str) -> Option<&str> {
        self.pieces().find(|(other, _)| *other == Some(owner)).map(|(_, piece)| piece.version())
    }

    /// Whether this is the other one: equal versions are equal contents.
    pub(crate) fn is(&self, other: &Self) -> bool {
        let (one, other) = (&self.0, &other.0);
        Arc::ptr_eq(one, other)
            || (&one.version, &one.companion, &one.owner, one.is_held, one.lingers)
                == (&other.version, &other.companion, &other.owner, other.is_held, other.lingers)
                && one.pieces == other.pieces
    }

    /// The hash of the content.
    pub fn version(&self) -> &str {
        &self.0.version
    }

    /// The message, as it stands in `Any.value`.
    pub fn body(&self) -> &Bytes {
        &self.0.body
    }
}

/// Adds the pieces of a resource that is made of parts.
pub(crate) fn add_pieces(pieces: &mut Pieces, name: &str, resource: &Resource) {
    for (owner, piece) in resource.pieces() {
        pieces.insert(Key { resource: name.to_owned(), part: owner.map(str::to_owned) }, piece.clone());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(owner: &str, range: Range<usize>) -> Part {
        Part { owner: owner.to_owned(), range, instead: None }
    }

    #[test]
    fn parts_are_the_end_of_the_bytes_without_gaps() {
        let whole = || Resource::new(b"baseonetwo".to_vec());
        let shown = |resource: &Resource| -> Vec<(Option<String>, Vec<u8>)> {
            resource.pieces().map(|(owner, piece)| (owner.map(str::to_owned), piece.body().to_vec())).collect()
        };
        let good = whole().with_parts([part("1", 4..7), part("2", 7..10)]);
        assert_eq!(
            shown(&good),
            [(None, b"base".to_vec()), (Some("1".into()), b"one".to_vec()), (Some("2".into()), b"two".to_vec())]
        );
        assert_eq!(good.version(), whole().version());
        assert_eq!(whole().with_parts(good.parts().unwrap()), good);
        assert_eq!(whole().parts(), None);
        assert_eq!(shown(&whole()), []);
        assert_eq!(shown(&whole().with_parts([])), [(None, b"baseonetwo".to_vec())]);
        for parts in [
            vec![part("1", 4..7)],
            vec![part("1", 4..6), part("2", 7..10)],
            vec![part("1", 4..11)],
            vec![part("1", 40..41)],
            vec![part("2", 7..10), part("1", 4..7)],
            vec![part("2", 4..7), part("1", 7..10)],
        ] {
            assert_eq!(shown(&whole().with_parts(parts.clone())), [], "{parts:?}");
        }
    }
}
