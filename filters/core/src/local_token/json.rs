use std::cell::Cell;
use std::collections::BTreeMap;

use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};

/// Maximum depth of values, and their number: a token has a few dozen.
const MAX_DEPTH: u32 = 8;
const MAX_VALUES: u32 = 2_048;

/// A JSON value in which no object has a name twice. Of two equal names kube-apiserver takes the last in some places and none in others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Json {
    Null,
    Bool(bool),
    Integer(u64),
    /// A number that is no time.
    Number,
    Text(String),
    List(Vec<Json>),
    Object(BTreeMap<String, Json>),
}

impl Json {
    /// Reads a whole text.
    pub(super) fn read(text: &[u8]) -> Option<Json> {
        let left = Cell::new(MAX_VALUES);
        let mut deserializer = serde_json::Deserializer::from_slice(text);
        let value = Bounded { depth: MAX_DEPTH, left: &left }.deserialize(&mut deserializer).ok()?;
        deserializer.end().ok()?;
        Some(value)
    }

    /// Reads a whole text that is an object.
    pub(super) fn read_object(text: &[u8]) -> Option<BTreeMap<String, Json>> {
        match Json::read(text)? {
            Json::Object(members) => Some(members),
            _ => None,
        }
    }

    pub(super) fn text(&self) -> Option<&str> {
        match self {
            Json::Text(text) => Some(text),
            _ => None,
        }
    }

    /// A time in seconds since 1970, up to where it is the same number as a float, as which kube-apiserver reads some.
    pub(super) fn time(&self) -> Option<u64> {
        match self {
            Json::Integer(time) if *time <= 1 << 53 => Some(*time),
            _ => None,
        }
    }

    /// A text, or the texts of a list.
    pub(super) fn texts(&self) -> Option<Vec<&str>> {
        match self {
            Json::Text(text) => Some(vec![text]),
            Json::List(list) => list.iter().map(Json::text).collect(),
            _ => None,
        }
    }
}

#[derive(Clone, Copy)]
struct Bounded<'a> {
    depth: u32,
    left: &'a Cell<u32>,
}

impl Bounded<'_> {
    fn inner<E: Error>(self) -> Result<Self, E> {
        match self.depth.checked_sub(1) {
            Some(depth) => Ok(Bounded { depth, ..self }),
            None => Err(E::custom("too deep")),
        }
    }
}

impl<'de> DeserializeSeed<'de> for Bounded<'_> {
    type Value = Json;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Json, D::Error> {
        let left = self.left.get().checked_sub(1).ok_or_else(|| D::Error::custom("too many values"))?;
        self.left.set(left);
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Bounded<'_> {
    type Value = Json;

    fn expecting(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Json, E> {
        Ok(Json::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Json, E> {
        Ok(Json::Bool(value))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Json, E> {
        Ok(Json::Integer(value))
    }

    fn visit_i64<E>(self, _: i64) -> Result<Json, E> {
        Ok(Json::Number)
    }

    fn visit_f64<E>(self, _: f64) -> Result<Json, E> {
        Ok(Json::Number)
    }

    fn visit_str<E>(self, value: &str) -> Result<Json, E> {
        Ok(Json::Text(value.to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Json, A::Error> {
        let inner = self.inner()?;
        let mut values = Vec::new();
        while let Some(value) = list.next_element_seed(inner)? {
            values.push(value);
        }
        Ok(Json::List(values))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Json, A::Error> {
        let inner = self.inner()?;
        let mut members = BTreeMap::new();
        while let Some(name) = map.next_key::<String>()? {
            if members.insert(name, map.next_value_seed(inner)?).is_some() {
                return Err(A::Error::custom("a name stands twice"));
            }
        }
        Ok(Json::Object(members))
    }
}
