use serde_json::Value;

use crate::spans::{Located, Position};

/// Why a file has no documents. The text itself is not shown: it may hold keys.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum DocumentError {
    #[error("is not UTF-8")]
    Encoding,
    #[error("is not well-formed YAML or JSON")]
    Syntax(Option<Position>),
    #[error("holds a document that is no mapping")]
    NotAMapping(Position),
}

impl DocumentError {
    pub(crate) fn at(&self) -> Option<Position> {
        match self {
            Self::Encoding => None,
            Self::Syntax(at) => *at,
            Self::NotAMapping(at) => Some(*at),
        }
    }
}

/// The documents of a file, `List`s unfolded, empty documents left out.
pub(crate) fn parse(bytes: &[u8]) -> Result<Vec<Located>, DocumentError> {
    let text = std::str::from_utf8(bytes).map_err(|_| DocumentError::Encoding)?;
    // As YAML 1.2 has it: `mode: on` is a text.
    let options = serde_saphyr::options! { strict_booleans: true };
    let values: Vec<Located> = serde_saphyr::from_multiple_with_options(text, options)
        .map_err(|error| DocumentError::Syntax(error.location().map(Position::of)))?;
    let mut documents = Vec::new();
    for located in values {
        match located.value {
            Value::Null => {}
            Value::Object(_) => unfold(located, &mut documents)?,
            _ => return Err(DocumentError::NotAMapping(located.spans.start())),
        }
    }
    Ok(documents)
}

/// `kubectl get -o yaml` writes a `List`.
fn unfold(located: Located, documents: &mut Vec<Located>) -> Result<(), DocumentError> {
    let Located { value, spans } = &located;
    let is_list = value.get("apiVersion").and_then(Value::as_str) == Some("v1")
        && value.get("kind").and_then(Value::as_str) == Some("List");
    if !is_list {
        documents.push(located);
        return Ok(());
    }
    let items = value.get("items").and_then(Value::as_array).into_iter().flatten();
    for (item, spans) in items.zip(spans.items_of("items")) {
        if !item.is_object() {
            return Err(DocumentError::NotAMapping(spans.start()));
        }
        documents.push(Located { value: item.clone(), spans: spans.clone() });
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
    fn an_error_shows_the_place_and_nothing_of_the_text() {
        for text in ["a: [TOPSECRET", "- TOPSECRET", "a: b: TOPSECRET", "a: \"TOPSECRET", "TOPSECRET: 1\nTOPSECRET: 2"]
        {
            let error = parse(text.as_bytes()).unwrap_err();
            assert!(!error.to_string().contains("TOPSECRET"), "{error}");
        }
        assert_eq!(parse(&[0xff, 0xfe]).unwrap_err(), DocumentError::Encoding);
    }
}
