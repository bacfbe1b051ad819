//! Responses as they are sent. The bytes of resources are not copied: a listener of thousands of filter chains has hundreds of
//! megabytes, and each stream would have them once more.

use bytes::{BufMut, Bytes, BytesMut};
use envoy_types::pb::envoy::service::discovery::v3::{DeltaDiscoveryResponse, Resource as WireResource};
use envoy_types::pb::google::protobuf::Any;
use prost::{EncodeError, Message, encode_length_delimiter, length_delimiter_len};

use super::subscription::{Change, Update};
use crate::chunk::{ByteChunks, length};

/// A field of bytes with the number 2: `resources` of `DeltaDiscoveryResponse`, `resource` of `Resource`, `value` of `Any`.
const FIELD: u8 = 2 << 3 | 2;
/// Bytes in front of each message of gRPC: that it is not compressed, and its length.
const PREFIX: usize = 5;

/// A response, its bytes shared with the snapshot.
#[derive(Clone, Debug)]
pub(crate) struct PendingResponse {
    pub(super) type_url: String,
    pub(super) version: String,
    pub(super) nonce: String,
    pub(super) change: Change,
}

/// Why a response cannot be sent.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum EncodingError {
    #[error("a response has more than 4 GiB")]
    TooLong,
    #[error("the length of a resource cannot be written")]
    Length(#[from] EncodeError),
}

impl PendingResponse {
    pub(crate) fn type_url(&self) -> &str {
        &self.type_url
    }

    /// The bytes for which it has room.
    #[cfg(any(test, feature = "fuzzing"))]
    pub(crate) fn size(&self) -> usize {
        self.change.size()
    }

    /// The response as a message of gRPC, with its prefix: pieces that follow each other. Those of resources are the snapshot's.
    pub(crate) fn encode(self) -> Result<ByteChunks, EncodingError> {
        let Self { type_url, version, nonce, change } = self;
        let any = Any { type_url: type_url.clone(), ..Default::default() }.encode_to_vec();
        let head = DeltaDiscoveryResponse {
            system_version_info: version,
            type_url,
            removed_resources: change.removals.iter().map(ToString::to_string).collect(),
            nonce,
            ..Default::default()
        };
        let mut pieces = vec![Bytes::from(head.encode_to_vec())];
        // All that is in front of a body, in few allocations.
        let mut fronts = BytesMut::new();
        for (name, update) in change.updates {
            begin_resource(&mut fronts, &name, &update, &any)?;
            pieces.push(fronts.split().freeze());
            pieces.extend(update.body);
        }
        let length = u32::try_from(length(&pieces)).map_err(|_| EncodingError::TooLong)?;
        let mut prefix = BytesMut::with_capacity(PREFIX);
        prefix.put_u8(0);
        prefix.put_u32(length);
        pieces.insert(0, prefix.freeze());
        Ok(pieces)
    }

    /// The response as the other side reads it.
    #[cfg(any(test, feature = "fuzzing"))]
    #[allow(clippy::expect_used, reason = "for tests")]
    pub(crate) fn decoded(self) -> DeltaDiscoveryResponse {
        let bytes = self.encode().expect("it has a length").concat();
        let (prefix, message) = bytes.split_at(PREFIX);
        let length = u32::try_from(message.len()).expect("it is short").to_be_bytes();
        assert_eq!(prefix, [&[0], &length[..]].concat(), "it is not compressed, and has this length");
        DeltaDiscoveryResponse::decode(message).expect("it is a response")
    }
}

/// Everything of a resource, as a field of a response, up to its body.
fn begin_resource(to: &mut BytesMut, name: &str, update: &Update, any: &[u8]) -> Result<(), EncodeError> {
    let (name, version) = (name.to_owned(), update.version.to_string());
    let own = WireResource { name, version, ..Default::default() };
    let field = |length: usize| 1 + length_delimiter_len(length) + length;
    let body = length(&update.body);
    let any_length = any.len() + field(body);
    begin_field(to, own.encoded_len() + field(any_length))?;
    own.encode(to)?;
    begin_field(to, any_length)?;
    to.put_slice(any);
    begin_field(to, body)
}

fn begin_field(to: &mut BytesMut, length: usize) -> Result<(), EncodeError> {
    to.put_u8(FIELD);
    encode_length_delimiter(length, to)
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use std::sync::Arc;

    use super::*;
    use crate::kind::LDS;

    fn update(body: &[Bytes]) -> Update {
        Update { version: "v".into(), owner: None, body: body.to_vec() }
    }

    fn response(updates: BTreeMap<Arc<str>, Update>, removals: &[&str]) -> PendingResponse {
        let removals: BTreeSet<_> = removals.iter().map(|name| (*name).into()).collect();
        let change = Change { updates, removals };
        PendingResponse { type_url: LDS.to_owned(), version: "all".to_owned(), nonce: "7".to_owned(), change }
    }

    #[test]
    fn names_that_are_removed_count_as_unread() {
        let long = "n".repeat(1_024);
        assert_eq!(response(BTreeMap::new(), &[&long, "short"]).size(), 1_029);
        let updates = BTreeMap::from([(Arc::from("name"), update(&["body".into()]))]);
        assert_eq!(response(updates, &[]).size(), 9, "name, version and body");
    }

    fn resource(name: &str, value: Vec<u8>) -> WireResource {
        WireResource {
            name: name.to_owned(),
            version: "v".to_owned(),
            resource: Some(Any { type_url: LDS.to_owned(), value }),
            ..Default::default()
        }
    }

    #[test]
    fn response_is_read_as_it_was_meant() {
        let pieces = [Bytes::from(vec![1; 100]), Bytes::from(vec![2; 20_000]), Bytes::new(), Bytes::from(vec![3])];
        let updates = [("a", &pieces[..]), ("b", &[]), ("c", &pieces[3..])];
        let wanted = updates.map(|(name, body)| resource(name, body.concat()));
        let updates = updates.map(|(name, body)| (name.into(), update(body)));
        let read = response(updates.into(), &[]).decoded();
        let head = DeltaDiscoveryResponse {
            system_version_info: "all".to_owned(),
            type_url: LDS.to_owned(),
            nonce: "7".to_owned(),
            ..Default::default()
        };
        assert_eq!(read, DeltaDiscoveryResponse { resources: wanted.to_vec(), ..head.clone() });
        let removed_resources = vec!["d".to_owned(), "e".to_owned()];
        let removal = response(BTreeMap::new(), &["d", "e"]).decoded();
        assert_eq!(removal, DeltaDiscoveryResponse { removed_resources, ..head });
    }

    #[test]
    fn bodies_of_a_response_are_not_copied() {
        let pieces = [Bytes::from(vec![1; 100]), Bytes::from(vec![2; 100])];
        let sent = response([("a".into(), update(&pieces))].into(), &[]).encode().unwrap();
        let places = |pieces: &[Bytes]| pieces.iter().map(|piece| piece.as_ptr()).collect::<Vec<_>>();
        assert!(places(&sent).ends_with(&places(&pieces)));
    }
}
