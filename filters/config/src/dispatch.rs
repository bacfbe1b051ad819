use std::borrow::Cow;

use serde::de::value::SeqAccessDeserializer;
use serde::de::{Error, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::policy::{Policy, Rule};

/// Dispatch of requests to server groups.
///
/// Written as the list, or as the word `All`. Nothing in its place is an error, so that a list that got lost opens
/// nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Dispatch {
    /// By the first policy that matches. No match is 403.
    Policies(Vec<Policy>),
    /// All of them to the group [`Dispatch::GROUP`].
    All,
}

const ALL: &str = "All";

impl Dispatch {
    /// The server group of [`Dispatch::All`].
    pub const GROUP: &str = "all";

    /// The policies that hold: [`Dispatch::All`] is one that every request matches.
    pub fn policies(&self) -> Cow<'_, [Policy]> {
        match self {
            Dispatch::Policies(policies) => Cow::Borrowed(policies),
            Dispatch::All => Cow::Owned(vec![match_all()]),
        }
    }
}

impl FromIterator<Policy> for Dispatch {
    fn from_iter<I: IntoIterator<Item = Policy>>(policies: I) -> Self {
        Dispatch::Policies(policies.into_iter().collect())
    }
}

impl From<Vec<Policy>> for Dispatch {
    fn from(policies: Vec<Policy>) -> Self {
        Dispatch::Policies(policies)
    }
}

fn match_all() -> Policy {
    let all = || vec!["*".to_owned()];
    let rule = Rule { verbs: all(), api_groups: all(), resources: all(), non_resource_urls: all(), ..Rule::default() };
    Policy { group: Dispatch::GROUP.to_owned(), flow_control_schema: None, log: false, deny: None, rules: vec![rule] }
}

impl Serialize for Dispatch {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Dispatch::Policies(policies) => policies.serialize(serializer),
            Dispatch::All => serializer.serialize_str(ALL),
        }
    }
}

impl<'de> Deserialize<'de> for Dispatch {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(DispatchVisitor)
    }
}

/// By hand, so that an error in a policy has its place.
struct DispatchVisitor;

impl<'de> Visitor<'de> for DispatchVisitor {
    type Value = Dispatch;

    fn expecting(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("a list of policies or the word All")
    }

    fn visit_str<E: Error>(self, word: &str) -> Result<Dispatch, E> {
        if word == ALL { Ok(Dispatch::All) } else { Err(E::unknown_variant(word, &[ALL])) }
    }

    fn visit_seq<A: SeqAccess<'de>>(self, policies: A) -> Result<Dispatch, A::Error> {
        Vec::deserialize(SeqAccessDeserializer::new(policies)).map(Dispatch::Policies)
    }
}

#[cfg(test)]
impl schemars::JsonSchema for Dispatch {
    fn schema_name() -> Cow<'static, str> {
        "Dispatch".into()
    }

    fn json_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({
            "oneOf": [
                {"type": "array", "items": generator.subschema_for::<Policy>()},
                {"type": "string", "const": ALL},
            ],
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn list_that_got_lost_opens_nothing() {
        let read = |text: &str| serde_json::from_str::<Dispatch>(text);
        assert_eq!(read("[]").unwrap(), Dispatch::Policies(vec![]));
        assert_eq!(read(r#""All""#).unwrap(), Dispatch::All);
        for other in ["null", "{}", r#""all""#, r#""""#, "true", r#"["All"]"#] {
            assert!(read(other).is_err(), "{other}");
        }
        let cluster = r#"{"version": 2, "name": "a", "authorities": ["a"], "upstreamIdentity": "ClientCredential"}"#;
        let error = serde_json::from_str::<crate::ClusterConfig>(cluster).unwrap_err().to_string();
        assert!(error.contains("missing field `policies`"), "{error}");
    }

    #[test]
    fn configuration_is_read_as_written() {
        for dispatch in [Dispatch::All, vec![].into(), vec![match_all()].into()] {
            let text = serde_json::to_string(&dispatch).unwrap();
            assert_eq!(serde_json::from_str::<Dispatch>(&text).unwrap(), dispatch, "{text}");
        }
    }

    #[test]
    fn mistake_is_told_where_it_is() {
        let text = r#"[{"group": "all", "rules": [{"verb": ["*"]}]}]"#;
        let error = serde_json::from_str::<Dispatch>(text).unwrap_err().to_string();
        assert!(error.contains("unknown field `verb`"), "{error}");
    }
}
