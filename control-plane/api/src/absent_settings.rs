use serde_json::{Value, json};

use crate::kind::{SETTINGS_API_VERSION, SETTINGS_KIND};
use crate::problem::Problem;

/// The field by which the document is known. Neither a definition nor a type has it.
const ABSENT: &str = "absent";

/// A document in the place of `GatewaySettings` that have to be there and are not. It is refused wherever it is read: without any
/// document the defaults would hold, which protect nothing.
pub fn absent_settings(name: &str) -> Value {
    json!({"apiVersion": SETTINGS_API_VERSION, "kind": SETTINGS_KIND, "metadata": {"name": name}, ABSENT: true})
}

/// The problem of such a document.
pub(crate) fn absence(document: &Value) -> Option<Problem> {
    document.get(ABSENT)?;
    let problem = Problem::new("metadata.name", "there are no GatewaySettings of this name");
    Some(problem.hint("create them, or serve with another --settings-name"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn absent_settings_are_refused_and_named() {
        let document = absent_settings("edge");
        assert!(crate::parse_settings(&document).is_err());
        let mistakes = crate::settings_mistakes(&document);
        assert_eq!(mistakes.len(), 1, "{mistakes:?}");
        assert!(mistakes[0].message.contains("there are no GatewaySettings"), "{mistakes:?}");
        let (other, _) = crate::without_references(&document);
        assert!(crate::parse_settings(&other).is_err());
    }
}
