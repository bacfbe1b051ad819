//! Which count it is, packed into a number.

use crate::activity_report::OTHER;

/// The positions of 4xx and 5xx among answers.
const CLIENT_ERRORS: u8 = 4;
const SERVER_ERRORS: u8 = 5;
/// The server of answers that the gateway gives itself to requests that were not forwarded.
pub(super) const NO_SERVER: &str = "-";
/// The server of forwarded requests that came to none.
pub(super) const MISSING_SERVER: &str = "none";
/// The position of [`NO_SERVER`], which is none of [`Names::servers`].
pub(super) const GATEWAY: u8 = u8::MAX;
/// Most names of servers, and of schemas, that a process may have used for one cluster.
const MAX_NAMES: usize = 127;

/// Which count it is. Order and equality are those of the packed number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Key {
    /// Forwarded requests of a policy: its number plus one, 0 for none, [`REST`] for the rest.
    Forwarded(u16),
    /// Refused requests of a policy, by the position of the reason.
    Refused(u16, u8),
    /// Answers of the server at this position of [`Names::servers`], by kind.
    Answers(u8, u8),
    /// Answers of that server, by duration.
    Latency(u8, u8),
    /// Requests beyond the limit at this position of [`Names::schemas`].
    Limited(u8),
}

/// The policy that is the rest of a list.
pub(super) const REST: u16 = u16::MAX;

/// The number of a policy, as a report has it.
pub(super) fn policy(number: u32) -> u16 {
    u16::try_from(number).unwrap_or(REST)
}

/// Whether this answer of a server is an error: 5xx, of a server or for want of one. The gateway's own refusals are none, because
/// any client can be refused, and requests that ended without an answer are none, because their clients have left.
pub(super) fn is_error(server: u8, kind: u8) -> bool {
    server != GATEWAY && kind == SERVER_ERRORS
}

/// Whether this answer of a server is one that errors are compared with. 4xx and refusals are none: clients that are not let in
/// would make errors as small a part of them as they like.
pub(super) fn is_conclusive(server: u8, kind: u8) -> bool {
    server != GATEWAY && kind != 0 && kind != CLIENT_ERRORS
}

impl Key {
    pub(super) fn pack(self) -> u32 {
        let (kind, one, two) = match self {
            Self::Forwarded(policy) => (0, policy, 0),
            Self::Refused(policy, reason) => (1, policy, reason),
            Self::Answers(server, kind) => (2, u16::from(server), kind),
            Self::Latency(server, bucket) => (3, u16::from(server), bucket),
            Self::Limited(schema) => (4, u16::from(schema), 0),
        };
        (kind << 24) | (u32::from(one) << 8) | u32::from(two)
    }

    pub(super) fn unpack(packed: u32) -> Self {
        let [kind, high, middle, two] = packed.to_be_bytes();
        let one = u16::from_be_bytes([high, middle]);
        match kind {
            0 => Self::Forwarded(one),
            1 => Self::Refused(one, two),
            2 => Self::Answers(middle, two),
            3 => Self::Latency(middle, two),
            _ => Self::Limited(middle),
        }
    }
}

/// Names of servers and schemas, by position. They are added and never moved.
#[derive(Clone, Debug, Default)]
pub(super) struct Names {
    pub(super) servers: Vec<Box<str>>,
    pub(super) schemas: Vec<Box<str>>,
}

impl Names {
    /// Whether there is no room for others: servers were replaced many times.
    pub(super) fn is_full(&self) -> bool {
        self.servers.len() >= MAX_NAMES || self.schemas.len() >= MAX_NAMES
    }

    pub(super) fn server(&mut self, name: &str) -> Option<u8> {
        if name == NO_SERVER { Some(GATEWAY) } else { position(&mut self.servers, name) }
    }

    /// The name of the server at a position.
    pub(super) fn server_name(&self, position: u8) -> &str {
        if position == GATEWAY { NO_SERVER } else { self.servers.get(usize::from(position)).map_or(OTHER, |name| name) }
    }

    /// The name of the schema at a position.
    pub(super) fn schema_name(&self, position: u8) -> &str {
        self.schemas.get(usize::from(position)).map_or(OTHER, |name| name)
    }

    pub(super) fn schema(&mut self, name: &str) -> Option<u8> {
        position(&mut self.schemas, name)
    }

    pub(super) fn bytes(&self) -> usize {
        self.servers.iter().chain(&self.schemas).map(|name| name.len() + size_of::<Box<str>>()).sum()
    }
}

/// The position of a name, which is added if it is new. Those beyond the bound share one.
fn position(names: &mut Vec<Box<str>>, name: &str) -> Option<u8> {
    let of = |names: &[Box<str>], name: &str| names.iter().position(|known| **known == *name);
    let name = if of(names, name).is_none() && names.len() + 1 >= MAX_NAMES { OTHER } else { name };
    let position = of(names, name).unwrap_or_else(|| {
        names.push(name.into());
        names.len() - 1
    });
    position.try_into().ok()
}

/// Counts, most of which are smaller than 2^32, in the order of their keys.
#[derive(Clone, Debug)]
pub(super) enum CountValues {
    Small(Box<[u32]>),
    Large(Box<[u64]>),
}

impl Default for CountValues {
    fn default() -> Self {
        Self::Small(Box::default())
    }
}

impl From<Vec<u64>> for CountValues {
    fn from(values: Vec<u64>) -> Self {
        let small: Result<Box<[u32]>, _> = values.iter().map(|value| u32::try_from(*value)).collect();
        small.map_or_else(|_| Self::Large(values.into()), Self::Small)
    }
}

impl CountValues {
    fn get(&self, position: usize) -> u64 {
        match self {
            Self::Small(values) => values.get(position).copied().map(u64::from),
            Self::Large(values) => values.get(position).copied(),
        }
        .unwrap_or_default()
    }

    pub(super) fn bytes(&self) -> usize {
        match self {
            Self::Small(values) => size_of_val(&**values),
            Self::Large(values) => size_of_val(&**values),
        }
    }
}

/// Counts that are asked for in the order of their keys.
pub(super) struct Cursor<'a> {
    keys: &'a [u32],
    values: &'a CountValues,
    next: usize,
}

impl<'a> Cursor<'a> {
    pub(super) fn new(keys: &'a [u32], values: &'a CountValues) -> Self {
        Self { keys, values, next: 0 }
    }

    /// The count of a key; 0 if it is not among them.
    pub(super) fn at(&mut self, wanted: u32) -> u64 {
        while let Some(key) = self.keys.get(self.next).filter(|key| **key <= wanted) {
            self.next += 1;
            if *key == wanted {
                return self.values.get(self.next - 1);
            }
        }
        0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn key_is_the_same_after_it_was_packed() {
        let keys = [
            Key::Forwarded(0),
            Key::Forwarded(REST),
            Key::Refused(258, 127),
            Key::Answers(126, 5),
            Key::Answers(GATEWAY, 4),
            Key::Latency(0, 12),
            Key::Limited(126),
        ];
        assert_eq!(keys.map(|key| Key::unpack(key.pack())), keys);
        assert!(keys.map(Key::pack).is_sorted());
    }

    #[test]
    fn names_beyond_the_bound_share_a_position() {
        let mut names = Names::default();
        let positions: Vec<_> = (0..300).map(|number| names.server(&format!("s{number}")).unwrap()).collect();
        assert!(names.is_full() && names.servers.len() == MAX_NAMES);
        assert_eq!(names.server("s0"), Some(0));
        assert_eq!(names.server(NO_SERVER).map(|gateway| names.server_name(gateway)), Some(NO_SERVER));
        assert!(positions[126..].iter().all(|position| *names.servers[usize::from(*position)] == *OTHER));
    }
}
