//! The positions of a document's values, packed: a control plane keeps those of thousands of documents for the few that turn out
//! to have a problem, and as a tree they take three times the memory of the document's text.

use crate::position::Position;
use crate::spanned_value::{SpanNode, SpanTree};

/// The positions of a document's values.
///
/// Each value is a number with its kind and its line, its column, and for a list or mapping the length of what is in it, so that
/// a search passes over it. Numbers have as many bytes as they need. Lines are relative to that of the value around. Names of fields
/// that each rule has are numbers, too.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spans(Box<[u8]>);

/// Names of fields that a document has often. Their positions here are their numbers.
const COMMON_NAMES: [&str; 10] = [
    "verbs",
    "apiGroups",
    "resources",
    "resourceNames",
    "users",
    "userGroups",
    "serviceAccounts",
    "namespaces",
    "nonResourceURLs",
    "rules",
];

/// Other spellings of fields, which paths do not use.
const ALIASES: [(&str, &str); 2] = [("upstreamSubset", "upsteamSubset"), ("flowControlSchemas", "schemas")];

impl From<&SpanTree> for Spans {
    fn from(tree: &SpanTree) -> Self {
        let mut bytes = Vec::new();
        write_value(&mut bytes, tree, 0);
        Self(bytes.into())
    }
}

impl Spans {
    /// The start of the document.
    pub fn start(&self) -> Position {
        self.root().at
    }

    /// The position of the field at `path`, like `spec.servers[0].endpoint` or `metadata.annotations[example.com/a]`: of a text
    /// or number itself, of a list or mapping by its key. Of a field that does not exist, the nearest one around it.
    pub fn find(&self, path: &str) -> Position {
        let mut here = self.root();
        let mut found = here.at;
        for step in steps(path) {
            let Some((at, inner)) = here.step(step) else { break };
            (found, here) = (at, inner);
        }
        found
    }

    /// The paths of the texts that are booleans to YAML 1.1, and so to kubectl.
    pub fn booleans(&self) -> Vec<String> {
        let mut found = Vec::new();
        self.root().find_booleans("", &mut found);
        found
    }

    fn root(&self) -> SpannedNode<'_> {
        let nowhere = SpannedNode { at: Position { line: 0, column: 0 }, kind: NodeKind::Scalar, content: &[] };
        read_value(&mut &*self.0, 0).unwrap_or(nowhere)
    }
}

/// The kind of a value. A number of two bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum NodeKind {
    Scalar = 0,
    /// A text without quotes that YAML 1.1 reads as a boolean.
    Boolean = 1,
    Fields = 2,
    Items = 3,
}

/// One value, and what is in it.
struct SpannedNode<'s> {
    at: Position,
    kind: NodeKind,
    content: &'s [u8],
}

impl<'s> SpannedNode<'s> {
    fn step(&self, step: &str) -> Option<(Position, Self)> {
        match self.kind {
            NodeKind::Scalar | NodeKind::Boolean => None,
            NodeKind::Items => self.items().nth(step.parse().ok()?).map(|item| (item.at, item)),
            NodeKind::Fields => {
                let other = ALIASES.iter().find(|(name, _)| *name == step).map(|(_, other)| *other);
                let is_it = |name: &[u8]| name == step.as_bytes() || other.map(str::as_bytes) == Some(name);
                let (_, key, value) = self.fields().find(|(name, ..)| is_it(name))?;
                let is_scalar = matches!(value.kind, NodeKind::Scalar | NodeKind::Boolean);
                let at = if is_scalar && value.at > key { value.at } else { key };
                Some((at, value))
            }
        }
    }

    /// The values of a list.
    fn items(&self) -> impl Iterator<Item = Self> + use<'s> {
        let (mut rest, line) = (self.content, self.at.line);
        std::iter::from_fn(move || read_value(&mut rest, line))
    }

    /// Name, place of the name and value of each field of a mapping.
    fn fields(&self) -> impl Iterator<Item = (&'s [u8], Position, Self)> + use<'s> {
        let (mut rest, line) = (self.content, self.at.line);
        std::iter::from_fn(move || {
            let name = read_name(&mut rest)?;
            let key = Position { line: read_line(read_number(&mut rest)?, line), column: read_number(&mut rest)? };
            Some((name, key, read_value(&mut rest, line)?))
        })
    }

    fn find_booleans(&self, path: &str, found: &mut Vec<String>) {
        match self.kind {
            NodeKind::Scalar => {}
            NodeKind::Boolean => found.push(path.to_owned()),
            NodeKind::Fields => {
                for (name, _, value) in self.fields() {
                    let name = String::from_utf8_lossy(name);
                    let step = match &*name {
                        name if name.contains(['.', '/', '[']) => format!("{path}[{name}]"),
                        name if path.is_empty() => name.to_owned(),
                        name => format!("{path}.{name}"),
                    };
                    value.find_booleans(&step, found);
                }
            }
            NodeKind::Items => {
                for (index, item) in self.items().enumerate() {
                    item.find_booleans(&format!("{path}[{index}]"), found);
                }
            }
        }
    }
}

/// `line`: that of the value around.
fn write_value(bytes: &mut Vec<u8>, tree: &SpanTree, line: u64) {
    let kind = match &tree.inner {
        SpanNode::Scalar => NodeKind::Scalar,
        SpanNode::Boolean => NodeKind::Boolean,
        SpanNode::Fields(_) => NodeKind::Fields,
        SpanNode::Items(_) => NodeKind::Items,
    };
    write_number(bytes, relative(tree.at.line, line) << 2 | kind as u64);
    write_number(bytes, tree.at.column);
    let mut content = Vec::new();
    match &tree.inner {
        SpanNode::Scalar | SpanNode::Boolean => return,
        SpanNode::Fields(fields) => {
            for (name, key, value) in fields {
                write_name(&mut content, name);
                write_number(&mut content, relative(key.line, tree.at.line));
                write_number(&mut content, key.column);
                write_value(&mut content, value, tree.at.line);
            }
        }
        SpanNode::Items(items) => items.iter().for_each(|item| write_value(&mut content, item, tree.at.line)),
    }
    write_bytes(bytes, &content);
}

/// `None` at the end.
fn read_value<'s>(rest: &mut &'s [u8], line: u64) -> Option<SpannedNode<'s>> {
    let head = read_number(rest)?;
    let at = Position { line: read_line(head >> 2, line), column: read_number(rest)? };
    let kind = match head & 3 {
        0 => NodeKind::Scalar,
        1 => NodeKind::Boolean,
        2 => NodeKind::Fields,
        _ => NodeKind::Items,
    };
    let content = match kind {
        NodeKind::Scalar | NodeKind::Boolean => &[],
        NodeKind::Fields | NodeKind::Items => read_bytes(rest)?,
    };
    Some(SpannedNode { at, kind, content })
}

/// The way to a line from another one. The values of an alias may stand before it. No file has so many lines that two bits are
/// missing.
fn relative(line: u64, from: u64) -> u64 {
    if line >= from { (line - from) << 1 } else { ((from - line) << 1) - 1 }
}

fn read_line(relative: u64, from: u64) -> u64 {
    let distance = relative.div_ceil(2);
    if relative.is_multiple_of(2) { from.saturating_add(distance) } else { from.saturating_sub(distance) }
}

fn write_bytes(bytes: &mut Vec<u8>, content: &[u8]) {
    write_number(bytes, u64::try_from(content.len()).unwrap_or(u64::MAX));
    bytes.extend(content);
}

fn read_bytes<'s>(rest: &mut &'s [u8]) -> Option<&'s [u8]> {
    let length = usize::try_from(read_number(rest)?).ok()?;
    read_exact(rest, length)
}

/// The number of a common name, odd, or twice the length of another one and its bytes.
fn write_name(bytes: &mut Vec<u8>, name: &str) {
    match COMMON_NAMES.iter().position(|known| *known == name).and_then(|number| u64::try_from(number).ok()) {
        Some(number) => write_number(bytes, number << 1 | 1),
        None => {
            write_number(bytes, u64::try_from(name.len()).unwrap_or(u64::MAX) << 1);
            bytes.extend(name.as_bytes());
        }
    }
}

fn read_name<'s>(rest: &mut &'s [u8]) -> Option<&'s [u8]> {
    let number = read_number(rest)?;
    let half = usize::try_from(number >> 1).ok()?;
    if number & 1 == 1 {
        return COMMON_NAMES.get(half).map(|name| name.as_bytes());
    }
    read_exact(rest, half)
}

fn read_exact<'s>(rest: &mut &'s [u8], length: usize) -> Option<&'s [u8]> {
    let (content, behind) = rest.split_at_checked(length)?;
    *rest = behind;
    Some(content)
}

/// Seven bits in each byte, the lowest first; all but the last have the eighth set.
fn write_number(bytes: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        bytes.push((number & 0x7f) as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
}

fn read_number(rest: &mut &[u8]) -> Option<u64> {
    let mut number = 0_u64;
    for shift in (0..u64::BITS).step_by(7) {
        let (byte, behind) = rest.split_first()?;
        *rest = behind;
        number |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some(number);
        }
    }
    None
}

/// The steps of a path: names between dots, and the contents of brackets.
fn steps(path: &str) -> impl Iterator<Item = &str> {
    let mut rest = path;
    std::iter::from_fn(move || {
        rest = rest.strip_prefix('.').unwrap_or(rest);
        if let Some(inner) = rest.strip_prefix('[') {
            let (step, after) = inner.split_once(']').unwrap_or((inner, ""));
            rest = after;
            return Some(step);
        }
        let (step, after) = rest.split_at(rest.find(['.', '[']).unwrap_or(rest.len()));
        rest = after;
        (!step.is_empty()).then_some(step)
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn position() -> impl Strategy<Value = Position> {
        (0..400_000_u64, 0..300_u64).prop_map(|(line, column)| Position { line, column })
    }

    fn tree() -> impl Strategy<Value = SpanTree> {
        let leaf = (position(), any::<bool>()).prop_map(|(at, is_boolean)| SpanTree {
            at,
            inner: if is_boolean { SpanNode::Boolean } else { SpanNode::Scalar },
        });
        leaf.prop_recursive(4, 40, 5, |inner| {
            let items = proptest::collection::vec(inner.clone(), 0..5);
            let name =
                prop_oneof!["[a-zä./]{0,3}", proptest::sample::select(&COMMON_NAMES[..]).prop_map(str::to_owned)];
            let fields = proptest::collection::btree_map(name, (position(), inner), 0..5);
            let fields =
                fields.prop_map(|all| all.into_iter().map(|(name, (key, value))| (name, key, value)).collect());
            prop_oneof![
                (position(), items).prop_map(|(at, items)| SpanTree { at, inner: SpanNode::Items(items) }),
                (position(), fields).prop_map(|(at, fields)| SpanTree { at, inner: SpanNode::Fields(fields) }),
            ]
        })
    }

    fn is_same(node: &SpannedNode<'_>, tree: &SpanTree) -> bool {
        let is_inner_same = match &tree.inner {
            SpanNode::Scalar => node.kind == NodeKind::Scalar,
            SpanNode::Boolean => node.kind == NodeKind::Boolean,
            SpanNode::Items(items) => {
                node.kind == NodeKind::Items
                    && node.items().count() == items.len()
                    && node.items().zip(items).all(|(node, tree)| is_same(&node, tree))
            }
            SpanNode::Fields(fields) => {
                node.kind == NodeKind::Fields
                    && node.fields().count() == fields.len()
                    && node.fields().zip(fields).all(|((name, key, value), (other, at, tree))| {
                        (name, key) == (other.as_bytes(), *at) && is_same(&value, tree)
                    })
            }
        };
        node.at == tree.at && is_inner_same
    }

    proptest! {
        #[test]
        fn packed_positions_are_those_of_the_tree(tree in tree()) {
            let spans = Spans::from(&tree);
            prop_assert!(is_same(&spans.root(), &tree), "{:?}", tree);
        }
    }
}
