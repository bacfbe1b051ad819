use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};
use serde_saphyr::{Location, Spanned};

/// A place in a file, both counted from 1. Columns count characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Position {
    /// The line.
    pub line: u64,
    /// The column.
    pub column: u64,
}

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

/// The positions of a document's values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spans {
    at: Position,
    inner: Inner,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Inner {
    Scalar,
    /// A text without quotes that YAML 1.1, and with it kubectl, reads as a boolean.
    Boolean,
    /// Each with the place of its key.
    Fields(Vec<(String, Position, Spans)>),
    Items(Vec<Spans>),
}

/// Other spellings of fields, which paths do not use.
const ALIASES: [(&str, &str); 2] = [("upstreamSubset", "upsteamSubset"), ("flowControlSchemas", "schemas")];

impl Spans {
    /// The start of the document.
    pub fn start(&self) -> Position {
        self.at
    }

    /// The position of the field at `path`, like `spec.servers[0].endpoint` or `metadata.annotations[example.com/a]`: of a text
    /// or number itself, of a list or mapping by its key. Of a field that does not exist, the nearest one around it.
    pub fn find(&self, path: &str) -> Position {
        let mut found = self.at;
        let mut here = self;
        for step in steps(path) {
            let Some((at, inner)) = here.step(step) else { break };
            (found, here) = (at, inner);
        }
        found
    }

    fn step(&self, step: &str) -> Option<(Position, &Spans)> {
        match &self.inner {
            Inner::Scalar | Inner::Boolean => None,
            Inner::Items(items) => items.get(step.parse::<usize>().ok()?).map(|item| (item.at, item)),
            Inner::Fields(fields) => {
                let other = ALIASES.iter().find(|(name, _)| *name == step).map(|(_, other)| *other);
                let is_it = |name: &String| name == step || other == Some(name);
                let (_, key, value) = fields.iter().find(|(name, ..)| is_it(name))?;
                let at = if value.is_scalar() && value.at > *key { value.at } else { *key };
                Some((at, value))
            }
        }
    }

    fn is_scalar(&self) -> bool {
        matches!(self.inner, Inner::Scalar | Inner::Boolean)
    }

    /// Marks the texts of a document that stand without quotes in these lines and are booleans to YAML 1.1.
    pub(crate) fn mark_booleans(&mut self, value: &Value, lines: &[&str]) {
        match (&mut self.inner, value) {
            (Inner::Fields(fields), Value::Object(values)) => {
                for (name, _, spans) in fields {
                    values.get(name).into_iter().for_each(|value| spans.mark_booleans(value, lines));
                }
            }
            (Inner::Items(items), Value::Array(values)) => {
                items.iter_mut().zip(values).for_each(|(spans, value)| spans.mark_booleans(value, lines));
            }
            (Inner::Scalar, Value::String(text)) if BOOLEANS.contains(&text.as_str()) => {
                let here = self.at.text(lines).unwrap_or_default();
                if here.starts_with(text.as_str()) {
                    self.inner = Inner::Boolean;
                }
            }
            _ => {}
        }
    }

    /// The paths of the texts that are booleans to YAML 1.1, and so to kubectl.
    pub fn booleans(&self) -> Vec<String> {
        let mut found = Vec::new();
        self.find_booleans("", &mut found);
        found
    }

    fn find_booleans(&self, path: &str, found: &mut Vec<String>) {
        match &self.inner {
            Inner::Scalar => {}
            Inner::Boolean => found.push(path.to_owned()),
            Inner::Fields(fields) => {
                for (name, _, spans) in fields {
                    let step = match name {
                        name if name.contains(['.', '/', '[']) => format!("{path}[{name}]"),
                        name if path.is_empty() => name.clone(),
                        name => format!("{path}.{name}"),
                    };
                    spans.find_booleans(&step, found);
                }
            }
            Inner::Items(items) => {
                for (index, spans) in items.iter().enumerate() {
                    spans.find_booleans(&format!("{path}[{index}]"), found);
                }
            }
        }
    }

    /// The places of a list's items; none if it is no list.
    pub(crate) fn items_of(&self, field: &str) -> &[Spans] {
        let Inner::Fields(fields) = &self.inner else { return &[] };
        match fields.iter().find(|(name, ..)| name == field) {
            Some((_, _, Spans { inner: Inner::Items(items), .. })) => items,
            _ => &[],
        }
    }
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

/// A value and where it and all in it stand.
#[derive(Clone, Debug)]
pub(crate) struct SpannedValue {
    pub(crate) value: Value,
    pub(crate) spans: Spans,
}

impl<'de> Deserialize<'de> for SpannedValue {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let Spanned { value: Body { value, inner }, referenced, .. } = Spanned::<Body>::deserialize(deserializer)?;
        Ok(SpannedValue { value, spans: Spans { at: Position::of(referenced), inner } })
    }
}

struct Body {
    value: Value,
    inner: Inner,
}

impl Body {
    fn scalar(value: Value) -> Self {
        Body { value, inner: Inner::Scalar }
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
        Ok(Body { value: Value::Array(values), inner: Inner::Items(spans) })
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<Body, A::Error> {
        let (mut values, mut spans) = (Map::new(), Vec::new());
        while let Some(key) = fields.next_key::<Spanned<String>>()? {
            let SpannedValue { value, spans: inner } = fields.next_value()?;
            spans.push((key.value.clone(), Position::of(key.referenced), inner));
            values.insert(key.value, value);
        }
        Ok(Body { value: Value::Object(values), inner: Inner::Fields(spans) })
    }
}
