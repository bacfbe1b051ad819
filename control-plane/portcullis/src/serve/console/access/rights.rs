//! The objects that a reader may see.

use std::collections::BTreeSet;
use std::time::Instant;

use super::reviewer::{ReadKind, ReviewFailed, Reviewer};
use super::subject::{MAX_OBJECTS, Subject};
use super::{Access, Denied, LoginPolicy, Reader};

/// The longest name of an object, in bytes (`DNS1123SubdomainMaxLength` in Kubernetes).
const MAX_NAME: usize = 253;

/// The names of all objects to which readers have rights.
#[derive(Default)]
pub(in super::super) struct ObjectNames {
    pub(in super::super) clusters: Vec<String>,
    pub(in super::super) instances: Vec<String>,
}

/// Whether a reader may get one of the objects.
pub(super) async fn may_get_any(
    subject: &Subject,
    reviewer: &dyn Reviewer,
    names: ObjectNames,
    now: Instant,
) -> Result<bool, ReviewFailed> {
    let ObjectNames { clusters, instances } = names;
    // Of more objects than are reviewed, it may read one that was not.
    Ok(clusters.len() > MAX_OBJECTS
        || !subject.visible(reviewer, (ReadKind::Cluster, clusters), now).await?.is_empty()
        || !subject.visible(reviewer, (ReadKind::Instance, instances), now).await?.is_empty())
}

impl Access {
    /// Whether a reader may see everything.
    pub(in super::super) async fn sees_all(&self, reader: &Reader, now: Instant) -> Result<bool, Denied> {
        match (reader, &self.policy) {
            (Reader::Everything(_), _) => Ok(true),
            (Reader::Subject(subject, _), LoginPolicy::Reviewed(reviewer)) => {
                Ok(subject.may_list(reviewer.as_ref(), now).await?)
            }
            (Reader::Subject(..), _) => Ok(false),
        }
    }

    /// Whether a reader may see an object. A name that no object can have costs no review and no memory.
    pub(in super::super) async fn sees(
        &self,
        reader: &Reader,
        (kind, name): (ReadKind, &str),
        now: Instant,
    ) -> Result<bool, Denied> {
        if self.sees_all(reader, now).await? {
            return Ok(true);
        }
        if !may_be_name(kind, name) {
            return Ok(false);
        }
        match (reader, &self.policy) {
            (Reader::Subject(subject, _), LoginPolicy::Reviewed(reviewer)) => {
                Ok(subject.may_get(reviewer.as_ref(), (kind, name), now).await?)
            }
            _ => Ok(false),
        }
    }

    /// Those of the objects that a reader may see who may not see all.
    pub(in super::super) async fn visible(
        &self,
        reader: &Reader,
        objects: (ReadKind, Vec<String>),
        now: Instant,
    ) -> Result<BTreeSet<String>, Denied> {
        match (reader, &self.policy) {
            (Reader::Subject(subject, _), LoginPolicy::Reviewed(reviewer)) => {
                Ok(subject.visible(reviewer.as_ref(), objects, now).await?)
            }
            _ => Ok(BTreeSet::new()),
        }
    }
}

/// Whether an object may have this name. To Kubernetes the right to an empty one is that to all objects.
fn may_be_name(kind: ReadKind, name: &str) -> bool {
    let is_in_label = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-.".contains(&byte);
    !name.is_empty() && name.len() <= MAX_NAME && (kind == ReadKind::Cluster || name.bytes().all(is_in_label))
}
