//! Messages of peers, whose size in memory is bounded before they are decoded: a field of two bytes becomes a structure of hundreds,
//! and 16 MiB of such fields gigabytes.

/// Depth of messages within messages up to which prost reads.
const MAX_DEPTH: usize = 100;

/// The content of a field, as far as it decides how many fields are in it.
enum Shape {
    /// A text or bytes.
    Text,
    /// A message with these fields. The content of any other is not known.
    Message(&'static [(u64, &'static Shape)]),
}

use Shape::{Message as Fielded, Text};

/// `google.protobuf.Struct`, and what is in one.
static STRUCT: Shape = Fielded(&[(1, &Fielded(&[(1, &Text), (2, &VALUE)]))]);
static VALUE: Shape = Fielded(&[(3, &Text), (5, &STRUCT), (6, &Fielded(&[(1, &VALUE)]))]);
/// `envoy.config.core.v3.BuildVersion`.
static BUILD: Shape = Fielded(&[(1, &TEXTS), (2, &STRUCT)]);
/// `envoy.config.core.v3.Address`, of a socket, a pipe or a listener within Envoy.
static ADDRESS: Shape =
    Fielded(&[(1, &Fielded(&[(2, &Text), (4, &Text), (5, &Text), (7, &Text)])), (2, &TEXTS), (3, &TEXTS)]);
/// `envoy.config.core.v3.Extension`.
static EXTENSION: Shape = Fielded(&[(1, &Text), (2, &Text), (3, &Text), (4, &BUILD), (6, &Text)]);
/// `envoy.config.core.v3.Node`.
static NODE: Shape = Fielded(&[
    (1, &Text),
    (2, &Text),
    (3, &STRUCT),
    (4, &TEXTS),
    (6, &Text),
    (7, &Text),
    (8, &BUILD),
    (9, &EXTENSION),
    (10, &Text),
    (11, &ADDRESS),
    (12, &Fielded(&[(1, &Text), (2, &Fielded(&[(1, &TEXTS)]))])),
]);
/// A message of three texts at most: an entry of a map, `google.protobuf.Any`, `envoy.config.core.v3.Locality`.
static TEXTS: Shape = Fielded(&[(1, &Text), (2, &Text), (3, &Text)]);
/// `DeltaDiscoveryRequest`.
static REQUEST: Shape = Fielded(&[
    (1, &NODE),
    (2, &Text),
    (3, &Text),
    (4, &Text),
    (5, &TEXTS),
    (6, &Text),
    (7, &Fielded(&[(2, &Text), (3, &TEXTS)])),
    (8, &LOCATOR),
    (9, &LOCATOR),
]);
/// `ResourceLocator`.
static LOCATOR: Shape = Fielded(&[(1, &Text), (2, &TEXTS)]);
/// `EndpointHealth`.
static ENDPOINT: Shape = Fielded(&[
    (1, &Fielded(&[(1, &ADDRESS), (2, &CHECK), (3, &Text), (4, &Fielded(&[(1, &ADDRESS)])), (5, &Text)])),
    (3, &STRUCT),
]);
/// `envoy.config.endpoint.v3.Endpoint.HealthCheckConfig`.
static CHECK: Shape = Fielded(&[(2, &Text), (3, &ADDRESS)]);
/// `ClusterEndpointsHealth`.
static CLUSTER: Shape = Fielded(&[(1, &Text), (2, &Fielded(&[(1, &TEXTS), (2, &ENDPOINT)]))]);
/// `HealthCheckRequestOrEndpointHealthResponse`.
static REPORT: Shape = Fielded(&[(1, &Fielded(&[(1, &NODE)])), (2, &Fielded(&[(1, &ENDPOINT), (2, &CLUSTER)]))]);

/// Bounds of the number of fields of a message, those of the messages within it among them.
#[derive(Clone, Copy)]
pub(crate) struct FieldBounds {
    shape: &'static Shape,
    /// Most fields within those of these numbers, and these.
    most: usize,
    numbers: &'static [u64],
    /// Most fields within all others, such as the description of a node.
    others: usize,
}

impl FieldBounds {
    /// Those of a `DeltaDiscoveryRequest`. A name is a field, a version that the node has are three. An Envoy describes itself by some
    /// thousand fields.
    pub(crate) const DISCOVERY: Self = Self { shape: &REQUEST, most: 400_000, numbers: &[3, 4, 5, 7], others: 65_536 };
    /// Those of a health report, whose endpoint has one field at least.
    pub(crate) const HEALTH: Self = Self { shape: &REPORT, most: 200_000, numbers: &[2], others: 65_536 };

    /// Whether an encoded message has no more fields than these, and whether no length reaches beyond the message that it is in: prost
    /// refuses such a one when all that follows is decoded. The time that it takes grows with these bounds at most.
    pub(crate) fn allow(&self, message: &[u8]) -> bool {
        let (mut left, mut left_others) = (self.most, self.others);
        for field in Fields(message) {
            let Some((number, content)) = field else { return false };
            let room = if self.numbers.contains(&number) { &mut left } else { &mut left_others };
            let rest = room.checked_sub(1).and_then(|rest| within(self.shape, number, content, rest, MAX_DEPTH));
            let Some(rest) = rest else { return false };
            *room = rest;
        }
        true
    }
}

/// Counts the fields of a message against a number of them. Returns what is left, `None` if there are more, or if prost refuses the
/// message. Without a shape, a text is taken for a message as far as it looks like one.
fn count(shape: Option<&Shape>, message: &[u8], mut left: usize, depth: usize) -> Option<usize> {
    for field in Fields(message) {
        let Some((number, content)) = field else { return shape.is_none().then_some(left) };
        left = left.checked_sub(1)?;
        if depth > 0 {
            left = match shape {
                Some(shape) => within(shape, number, content, left, depth - 1)?,
                None => count(None, content, left, depth - 1)?,
            };
        }
    }
    Some(left)
}

/// The same for what is in a field of a message of that shape.
fn within(shape: &Shape, number: u64, content: &[u8], left: usize, depth: usize) -> Option<usize> {
    let fields = match shape {
        Text => return Some(left),
        Fielded(fields) => fields,
    };
    match fields.iter().find(|(known, _)| *known == number) {
        Some((_, Text)) => Some(left),
        Some((_, shape)) => count(Some(shape), content, left, depth),
        None => count(None, content, left, depth),
    }
}

/// The fields of an encoded message: number and, where the encoding says its length, content. Ends with `None` where prost refuses the
/// message. A field of a group counts as one beside the group, which prost passes over.
struct Fields<'a>(&'a [u8]);

impl<'a> Iterator for Fields<'a> {
    type Item = Option<(u64, &'a [u8])>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.0.is_empty() {
            return None;
        }
        let field = self.field();
        if field.is_none() {
            self.0 = &[];
        }
        Some(field)
    }
}

impl<'a> Fields<'a> {
    fn field(&mut self) -> Option<(u64, &'a [u8])> {
        let key = self.varint()?;
        let content = match key & 7 {
            0 => self.varint().map(|_| &[][..]),
            1 => self.take(8).map(|_| &[][..]),
            2 => self.varint().and_then(|length| self.take(usize::try_from(length).ok()?)),
            3 | 4 => Some(&[][..]),
            5 => self.take(4).map(|_| &[][..]),
            _ => None,
        };
        Some((key >> 3, content?))
    }

    fn varint(&mut self) -> Option<u64> {
        prost::encoding::decode_varint(&mut self.0).ok()
    }

    fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let (content, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(content)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use bytes::Buf;
    use envoy_types::pb::envoy::config::core::v3::Node;
    use envoy_types::pb::envoy::service::discovery::v3::{DeltaDiscoveryRequest, ResourceLocator};
    use envoy_types::pb::google::protobuf::value::Kind;
    use envoy_types::pb::google::protobuf::{Struct, Value};
    use proptest::prelude::*;
    use prost::Message;

    use super::*;

    fn small(most: usize, others: usize) -> FieldBounds {
        FieldBounds { most, others, ..FieldBounds::DISCOVERY }
    }

    fn is_allowed(bounds: FieldBounds, message: &DeltaDiscoveryRequest) -> bool {
        bounds.allow(&message.encode_to_vec())
    }

    #[test]
    fn fields_of_two_bytes_are_counted() {
        for (key, others) in [(0x1a, false), (0x22, false), (0x2a, false), (0x42, true), (0x0a, true), (0x08, true)] {
            let message = |count: usize| [key, 0].repeat(count);
            let bounds = if others { small(0, 10) } else { small(10, 0) };
            assert!(bounds.allow(&message(10)), "{key:#x}");
            assert!(!bounds.allow(&message(11)), "{key:#x}");
            assert!(!FieldBounds::DISCOVERY.allow(&message(8 << 20)), "{key:#x}");
        }
    }

    #[test]
    fn fields_of_messages_within_are_counted() {
        let null = Value { kind: Some(Kind::NullValue(0)) };
        let fields: HashMap<_, _> = (0..10).map(|number| (format!("k{number}"), null.clone())).collect();
        let node = Node { metadata: Some(Struct { fields }), ..Default::default() };
        let message = DeltaDiscoveryRequest { node: Some(node), ..Default::default() };
        // The node, its metadata, and an entry with its key, value and null each.
        assert!(is_allowed(small(0, 42), &message));
        assert!(!is_allowed(small(1_000, 41), &message));
    }

    #[test]
    fn fields_beside_a_group_and_before_an_error_are_counted() {
        let names = [0x1a, 0].repeat(10);
        for before in [&[0xfb_u8, 0x01][..], &[0xfc, 0x01], &[]] {
            for after in [&[0xff_u8][..], &[0x1a, 0x7f], &[]] {
                let message = [before, &names, after].concat();
                assert!(!small(9, 1).allow(&message), "{before:?} {after:?}");
            }
        }
    }

    #[test]
    fn usual_messages_are_allowed() {
        let names = |count: usize| (0..count).map(|number| format!("c{number:05}.example.com/get-{number}"));
        let many = DeltaDiscoveryRequest {
            resource_names_subscribe: names(100_000).collect(),
            initial_resource_versions: names(90_000).map(|name| (name, "a".repeat(64))).collect(),
            ..Default::default()
        };
        assert!(is_allowed(FieldBounds::DISCOVERY, &many));
    }

    /// A buffer that counts how often prost goes on in it: three times for each field at most.
    struct CountingBuf<'a> {
        left: &'a [u8],
        steps: usize,
    }

    impl Buf for CountingBuf<'_> {
        fn remaining(&self) -> usize {
            self.left.len()
        }

        fn chunk(&self) -> &[u8] {
            self.left
        }

        fn advance(&mut self, bytes: usize) {
            self.steps += 1;
            self.left.advance(bytes);
        }
    }

    fn steps(message: &[u8]) -> usize {
        let mut buffer = CountingBuf { left: message, steps: 0 };
        let _ = DeltaDiscoveryRequest::decode(&mut buffer);
        buffer.steps
    }

    /// Prost looks at a length that is within another one when all that follows is decoded.
    #[test]
    fn length_beyond_the_message_that_it_is_in_is_refused() {
        let values = [0x0a, 0].repeat(5_000);
        // A node's metadata, an entry of them and its value, which is a list of null values; for the message it is a nonce.
        let node = [0x0a, 9, 0x1a, 0x99, 0x4e, 0x0a, 0x96, 0x4e, 0x12, 0x93, 0x4e];
        // An address of a node: its length follows where the node has ended.
        let address = [0x0a, 1, 0x5a];
        for (start, key) in [(&node[..], 0x32), (&address, 0x12)] {
            let message = [start, &[key, 0x90, 0x4e], &values].concat();
            assert!(!small(10, 20).allow(&message), "{start:?}");
            assert!(!FieldBounds::DISCOVERY.allow(&message), "{start:?}");
        }
        let message = [&node[..], &[0x32, 0x90, 0x4e], &values].concat();
        assert!(steps(&message) >= 10_000, "it would be decoded");
    }

    proptest! {
        /// Prost makes no more elements of any bytes than were counted, whether it refuses them or not.
        #[test]
        fn no_more_is_decoded_than_was_counted(
            pieces in proptest::collection::vec(
                prop_oneof![
                    Just(vec![0x1a, 0]), Just(vec![0x42, 0]), Just(vec![0x42, 2, 0x0a, 0]), Just(vec![0x0a, 2, 0x0a, 0]),
                    Just(vec![0x2a, 2, 0x0a, 0]), Just(vec![0x7b]), Just(vec![0x7c]), proptest::collection::vec(any::<u8>(), 0..3),
                    (Just(0x0a), 0..9_u8, prop_oneof![Just(0x1a), Just(0x4a), Just(0x5a)], 0..60_u8)
                        .prop_map(|(outer, length, inner, beyond)| vec![outer, length, inner, beyond]),
                    (prop_oneof![Just(0x32), Just(0x12), Just(0x22)], 0..60_u8).prop_map(|(key, length)| vec![key, length]),
                ],
                0..40,
            ),
            fields in 0..60_usize,
        ) {
            let message = pieces.concat();
            if small(fields, fields).allow(&message) {
                // A number of the last bytes may take as many steps as it has bytes.
                prop_assert!(steps(&message) <= 6 * fields + 12);
            }
            if small(fields, fields).allow(&message) && let Ok(decoded) = DeltaDiscoveryRequest::decode(&*message) {
                let locators: &[ResourceLocator] = &decoded.resource_locators_subscribe;
                prop_assert!(decoded.resource_names_subscribe.len() + decoded.initial_resource_versions.len() <= fields);
                prop_assert!(locators.len() <= fields);
            }
        }
    }
}
