//! A document while it is read: its values, and the position of each.

use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};
use serde_saphyr::{Location, Spanned};

use crate::position::Position;

impl Position {
    pub(crate) fn of(location: Location) -> Self {
        Self { line: location.line(), column: location.column() }
    }

    /// The rest of the line from here on.
    fn text<'l>(self, lines: &[&'l str]) -> Option<&'l str> {
        let line = lines.get(usize::try_from(self.line.checked_sub(1)?).ok()?)?;
        let (start, _) = line.char_indices().nth(usize::try_from(self.column.checked_sub(1)?).ok()?)?;
        line.get(start..)
    }
}

/// Texts that YAML 1.1 reads as booleans and YAML 1.2 does not.
const BOOLEANS: [&str; 16] =
    ["y", "Y", "yes", "Yes", "YES", "on", "On", "ON", "n", "N", "no", "No", "NO", "off", "Off", "OFF"];

/// The positions of a value and of all in it.
#[derive(Clone, Debug)]
pub(crate) struct SpanTree {
    pub(crate) at: Position,
    pub(crate) inner: SpanNode,
}

/// The kind of a value, as far as positions are concerned.
#[derive(Clone, Debug)]
pub(crate) enum SpanNode {
    Scalar,
    /// A text without quotes that YAML 1.1, and with it kubectl, reads as a boolean.
    Boolean,
    /// Each with the place of its key.
    Fields(Vec<(String, Position, SpanTree)>),
    Items(Vec<SpanTree>),
}

impl SpanTree {
    /// Marks the texts of a document that stand without quotes in these lines and are booleans to YAML 1.1.
    pub(crate) fn mark_booleans(&mut self, value: &Value, lines: &[&str]) {
        match (&mut self.inner, value) {
            (SpanNode::Fields(fields), Value::Object(values)) => {
                for (name, _, spans) in fields {
                    values.get(name).into_iter().for_each(|value| spans.mark_booleans(value, lines));
                }
            }
            (SpanNode::Items(items), Value::Array(values)) => {
                items.iter_mut().zip(values).for_each(|(spans, value)| spans.mark_booleans(value, lines));
            }
            (SpanNode::Scalar, Value::String(text)) if BOOLEANS.contains(&text.as_str()) => {
                let here = self.at.text(lines).unwrap_or_default();
                if here.starts_with(text.as_str()) {
                    self.inner = SpanNode::Boolean;
                }
            }
            _ => {}
        }
    }

    /// The places of a list's items; none if it is no list.
    pub(crate) fn items_of(&self, field: &str) -> &[SpanTree] {
        let SpanNode::Fields(fields) = &self.inner else { return &[] };
        match fields.iter().find(|(name, ..)| name == field) {
            Some((_, _, SpanTree { inner: SpanNode::Items(items), .. })) => items,
            _ => &[],
        }
    }
}

/// A value and where it and all in it stand.
#[derive(Clone, Debug)]
pub(crate) struct SpannedValue {
    pub(crate) value: Value,
    pub(crate) spans: SpanTree,
}

impl<'de> Deserialize<'de> for SpannedValue {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let Spanned { value: Body { value, inner }, referenced, .. } = Spanned::<Body>::deserialize(deserializer)?;
        Ok(SpannedValue { value, spans: SpanTree { at: Position::of(referenced), inner } })
    }
}

struct Body {
    value: Value,
    inner: SpanNode,
}

impl Body {
    fn scalar(value: Value) -> Self {
        Body { value, inner: SpanNode::Scalar }
    }
}

impl<'de> Deserialize<'de> for Body {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(BodyVisitor)
    }
}

struct BodyVisitor;

impl<'de> Visitor<'de> for BodyVisitor {
    type Value = Body;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_bool<E>(self, value: bool) -> Result<Body, E> {
        Ok(Body::scalar(Value::Bool(value)))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Body, E> {
        Ok(Body::scalar(value.into()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Body, E> {
        Ok(Body::scalar(value.into()))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Body, E> {
        Ok(Body::scalar(Number::from_f64(value).map_or(Value::Null, Value::Number)))
    }

    fn visit_str<E>(self, value: &str) -> Result<Body, E> {
        Ok(Body::scalar(value.into()))
    }

    fn visit_none<E>(self) -> Result<Body, E> {
        Ok(Body::scalar(Value::Null))
    }

    fn visit_unit<E>(self) -> Result<Body, E> {
        Ok(Body::scalar(Value::Null))
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Body, D::Error> {
        Body::deserialize(deserializer)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Body, A::Error> {
        let (mut values, mut spans) = (Vec::new(), Vec::new());
        while let Some(item) = items.next_element::<SpannedValue>()? {
            values.push(item.value);
            spans.push(item.spans);
        }
        Ok(Body { value: Value::Array(values), inner: SpanNode::Items(spans) })
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<Body, A::Error> {
        let (mut values, mut spans) = (Map::new(), Vec::new());
        while let Some(key) = fields.next_key::<Spanned<String>>()? {
            let SpannedValue { value, spans: inner } = fields.next_value()?;
            spans.push((key.value.clone(), Position::of(key.referenced), inner));
            values.insert(key.value, value);
        }
        Ok(Body { value: Value::Object(values), inner: SpanNode::Fields(spans) })
    }
}
