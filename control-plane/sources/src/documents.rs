use portcullis_api::{CLUSTER_API_VERSION, CLUSTER_KIND};
use serde_json::Value;
use serde_saphyr::{Error, ExternalMessageSource};

use crate::position::Position;
use crate::spanned_value::{SpanTree, SpannedValue};
use crate::spans::Spans;

/// Why a file has no documents. The text itself is not shown: it may hold keys.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum DocumentError {
    #[error("is not UTF-8")]
    Encoding,
    #[error("is not well-formed YAML or JSON: {1}")]
    Syntax(Option<Position>, String),
    #[error("holds a document that is not a mapping")]
    NotAMapping(Position),
}

impl DocumentError {
    pub(crate) fn at(&self) -> Option<Position> {
        match self {
            Self::Encoding => None,
            Self::Syntax(at, _) => *at,
            Self::NotAMapping(at) => Some(*at),
        }
    }
}

/// A document of a file, with the positions of its values.
#[derive(Debug)]
pub(crate) struct LocatedDocument {
    pub(crate) value: Value,
    pub(crate) spans: Spans,
}

impl LocatedDocument {
    fn new(value: Value, spans: &SpanTree) -> Self {
        Self { value, spans: Spans::from(spans) }
    }
}

/// The documents of a file, `List`s unfolded, empty documents left out.
pub(crate) fn parse(bytes: &[u8]) -> Result<Vec<LocatedDocument>, DocumentError> {
    let text = std::str::from_utf8(bytes).map_err(|_| DocumentError::Encoding)?;
    // As YAML 1.2 has it: `mode: on` is a text.
    let options = serde_saphyr::options! { strict_booleans: true };
    let values: Vec<SpannedValue> = serde_saphyr::from_multiple_with_options(text, options)
        .map_err(|error| DocumentError::Syntax(error.location().map(Position::of), reason(&error)))?;
    let mut documents = Vec::new();
    let lines: Vec<&str> = text.lines().collect();
    for mut located in values {
        located.spans.mark_booleans(&located.value, &lines);
        match located.value {
            Value::Null => {}
            Value::Object(_) => unfold(located, &mut documents)?,
            _ => return Err(DocumentError::NotAMapping(located.spans.at)),
        }
    }
    Ok(documents)
}

/// The parser's reason, as far as it quotes nothing of the text: that may hold keys.
fn reason(error: &Error) -> String {
    let known = match error {
        Error::WithSnippet { error, .. } | Error::AliasError { error, .. } => return reason(error),
        Error::ExternalMessage { source, msg, .. } if matches!(**source, ExternalMessageSource::Parser(_)) => {
            return msg.clone();
        }
        Error::Eof { .. } => "it ends too early",
        Error::DuplicateMappingKey { .. } => "a mapping has the same key twice",
        Error::UnknownAnchor { .. } => "an alias names an anchor that is not there",
        Error::NonFiniteFloat { .. } => "a number is not finite",
        Error::MergeValueNotMapOrSeqOfMaps { .. } => "what << merges is no mapping",
        Error::ContainerEndMismatch { .. } => "a list or mapping is not closed",
        Error::AliasReplayCounterOverflow { .. }
        | Error::AliasReplayLimitExceeded { .. }
        | Error::AliasExpansionLimitExceeded { .. }
        | Error::AliasReplayStackDepthExceeded { .. }
        | Error::Budget { .. } => "it is too large or too deep once its aliases are written out",
        _ => "a value is of no kind that JSON has",
    };
    known.to_owned()
}

/// `kubectl get -o yaml` writes a `List`, and the API itself an `UpstreamClusterList`.
fn unfold(located: SpannedValue, documents: &mut Vec<LocatedDocument>) -> Result<(), DocumentError> {
    let SpannedValue { value, spans } = &located;
    let text = |field| value.get(field).and_then(Value::as_str).unwrap_or_default();
    let kind = match (text("apiVersion"), text("kind")) {
        ("v1", "List") => None,
        (version, kind) if version == CLUSTER_API_VERSION && kind.strip_suffix("List") == Some(CLUSTER_KIND) => {
            Some([("apiVersion", CLUSTER_API_VERSION), ("kind", CLUSTER_KIND)])
        }
        _ => {
            documents.push(LocatedDocument::new(located.value, &located.spans));
            return Ok(());
        }
    };
    let items = value.get("items").and_then(Value::as_array).into_iter().flatten();
    for (item, spans) in items.zip(spans.items_of("items")) {
        let mut value = item.clone();
        let Some(fields) = value.as_object_mut() else { return Err(DocumentError::NotAMapping(spans.at)) };
        // The items of a list of one kind need not say which it is.
        for (field, text) in kind.into_iter().flatten() {
            fields.entry(field).or_insert_with(|| text.into());
        }
        documents.push(LocatedDocument::new(value, spans));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn documents_are_separated_and_lists_unfolded() {
        let text = "a: 1\n---\n# nothing\n---\napiVersion: v1\nkind: List\nitems: [{b: 2}, {c: 3}]\n";
        let read: Vec<String> = parse(text.as_bytes()).unwrap().iter().map(|one| one.value.to_string()).collect();
        assert_eq!(read, [r#"{"a":1}"#, r#"{"b":2}"#, r#"{"c":3}"#]);
        assert!(parse(b"").unwrap().is_empty());
        assert_eq!(parse(br#"{"a": {"t": "2024-01-01T00:00:00Z", "l": "on"}}"#).unwrap()[0].value["a"]["l"], "on");
        let yaml = parse(b"t: 2024-01-01T00:00:00Z\nl: on\nn: 5\nb: true\n").unwrap();
        assert_eq!(yaml[0].value.to_string(), r#"{"b":true,"l":"on","n":5,"t":"2024-01-01T00:00:00Z"}"#);
    }

    #[test]
    fn items_of_a_list_of_one_kind_are_of_that_kind() {
        let list = "apiVersion: proxy.kubegateway.io/v1alpha1\nkind: UpstreamClusterList\nmetadata: {}\nitems:\n";
        let items = "- metadata: {name: a}\n- {apiVersion: v1, kind: Secret, metadata: {name: b}}\n";
        let read = parse(format!("{list}{items}").as_bytes()).unwrap();
        let kinds: Vec<_> = read.iter().map(|one| (&one.value["apiVersion"], &one.value["kind"])).collect();
        assert_eq!(kinds, [(&CLUSTER_API_VERSION.into(), &CLUSTER_KIND.into()), (&"v1".into(), &"Secret".into())]);
        assert_eq!(read[1].spans.find("metadata.name").line, 6);
        assert_eq!(parse(format!("{list}- x\n").as_bytes()).unwrap_err().at().map(|at| at.line), Some(5));
        assert_eq!(parse(b"apiVersion: v2\nkind: UpstreamClusterList\nitems: [{}]").unwrap().len(), 1, "not ours");
    }

    /// Line and column of each path in each document.
    fn places(text: &str, document: usize, paths: &[&str]) -> Vec<(u64, u64)> {
        let spans = &parse(text.as_bytes()).unwrap()[document].spans;
        paths.iter().map(|path| spans.find(path)).map(|at| (at.line, at.column)).collect()
    }

    #[test]
    fn fields_are_found_where_they_stand() {
        let text = "\
# comment
metadata:
  annotations: {example.com/a.b: x}
spec:
  servers:
  - endpoint: https://a
    disabled: true
  dispatchPolicies:
  - upsteamSubset: [https://a, https://b]
    rules:
    - verbs: [get,
              \"list\"]
      resources:
      - pods
    -
      verbs: []
";
        let rows = [
            ("", (2, 1)),
            ("metadata.annotations[example.com/a.b]", (3, 34)),
            ("spec", (4, 1)),
            ("spec.servers", (5, 3)),
            ("spec.servers[0]", (6, 5)),
            ("spec.servers[0].endpoint", (6, 15)),
            ("spec.servers[0].disabled", (7, 15)),
            ("spec.servers[7].endpoint", (5, 3)),
            ("spec.clientConfig.caData", (4, 1)),
            ("spec.dispatchPolicies[0].upstreamSubset", (9, 5)),
            ("spec.dispatchPolicies[0].upstreamSubset[1]", (9, 32)),
            ("spec.dispatchPolicies[0].rules[0].verbs[1]", (12, 15)),
            ("spec.dispatchPolicies[0].rules[0].resources[0]", (14, 9)),
            ("spec.dispatchPolicies[0].rules[0].apiGroups", (11, 7)),
            ("spec.dispatchPolicies[0].rules[1].verbs", (16, 7)),
            ("nowhere", (2, 1)),
        ];
        let paths: Vec<_> = rows.iter().map(|(path, _)| *path).collect();
        let wanted: Vec<_> = rows.iter().map(|(_, at)| *at).collect();
        let found = places(text, 0, &paths);
        assert_eq!(paths.iter().zip(found).collect::<Vec<_>>(), paths.iter().zip(wanted).collect::<Vec<_>>());
    }

    #[test]
    fn every_document_and_item_has_its_own_lines() {
        let text =
            "a: 1\n---\napiVersion: v1\nkind: List\nitems:\n- spec:\n    b: 2\n- {spec: {b: 3}}\n---\nspec: {b: 4}\n";
        for (document, places_of_b) in [(1, (7, 8)), (2, (8, 14)), (3, (10, 11))] {
            assert_eq!(places(text, document, &["spec.b"]), [places_of_b], "{document}");
        }
        let json = "{\n  \"spec\": {\"servers\": [\n    {\"endpoint\": \"x\"}]}}";
        assert_eq!(places(json, 0, &["spec.servers", "spec.servers[0].endpoint"]), [(2, 12), (3, 18)]);
        let alias = "x: &a [get]\nspec:\n  verbs: *a\n";
        assert_eq!(places(alias, 0, &["spec.verbs"]), [(3, 3)]);
        assert_eq!(places("spec:\n  äöü: {b: 1}\n", 0, &["spec.äöü.b"]), [(2, 12)]);
    }

    #[test]
    fn located_document_is_the_document() {
        let text = "a: [1, -2, 1.5, true, null, ~, 'x', \"y\", |\n  long\n]\nb: {c: {}, d: []}\n1: 0x10\ne: &e {f: g}\nh: *e\ni:\n  <<: *e\n  k: .5\nl: 18446744073709551615\n";
        let text = text.replace(", |\n  long\n]", "]");
        let options = serde_saphyr::options! { strict_booleans: true };
        let plain: Vec<Value> = serde_saphyr::from_multiple_with_options(&text, options).unwrap();
        assert_eq!(parse(text.as_bytes()).unwrap()[0].value, plain[0]);
        assert!(parse(b"a: .nan").is_err(), "as everywhere in JSON");
    }

    #[test]
    fn syntax_error_has_the_parsers_reason() {
        for (text, reason) in [
            ("a: 1\na: 2\n", "a mapping has the same key twice"),
            ("a: *x\n", "an alias names an anchor that is not there"),
            ("a: [1, 2\n", "unclosed bracket '['"),
            ("a: b: c\n", "mapping values are not allowed in this context"),
            ("a: .nan\n", "a number is not finite"),
        ] {
            let message = parse(text.as_bytes()).unwrap_err().to_string();
            assert_eq!(message, format!("is not well-formed YAML or JSON: {reason}"), "{text:?}");
        }
    }

    #[test]
    fn booleans_of_yaml_1_1_are_marked() {
        let text = "a: on\nb: 'on'\nc: [No, \"no\", y, nope]\nd: {e: OFF, f: true}\ng: |\n  on\n";
        let documents = parse(text.as_bytes()).unwrap();
        assert_eq!(documents[0].spans.booleans(), ["a", "c[0]", "c[2]", "d.e"]);
        assert_eq!(parse(br#"{"a": "on"}"#).unwrap()[0].spans.booleans(), Vec::<String>::new());
    }

    #[test]
    fn error_shows_the_place_and_nothing_of_the_text() {
        for text in ["a: [TOPSECRET", "- TOPSECRET", "a: b: TOPSECRET", "a: \"TOPSECRET", "TOPSECRET: 1\nTOPSECRET: 2"]
        {
            let error = parse(text.as_bytes()).unwrap_err();
            assert!(!error.to_string().contains("TOPSECRET"), "{error}");
        }
        assert_eq!(parse(b"a: 1\nb: [\n").unwrap_err().at().map(|at| at.line), Some(2));
        assert_eq!(parse(b"a: 1\n---\n- x\n").unwrap_err().at(), Some(Position { line: 3, column: 1 }));
        assert_eq!(parse(&[0xff, 0xfe]).unwrap_err(), DocumentError::Encoding);
    }
}
