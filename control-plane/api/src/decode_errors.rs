//! Errors in the shape of a document: serde reports the first one, without its place.

use serde_json::{Map, Value, json};

use crate::problem::Problem;
use crate::problem::ProblemCode;

/// One step down in a document.
#[derive(Clone)]
enum Step {
    Field(String),
    Item(usize),
}

/// Every error of shape, each with its path. `read` reads a document; it must accept one that holds nothing but
/// `apiVersion`, `kind` and an empty `metadata`.
///
/// All fields below have defaults, so a document that is reduced to one value fails exactly if that value is wrong.
pub(crate) fn decode_errors(document: &Value, read: &dyn Fn(&Value) -> Result<(), String>) -> Vec<Problem> {
    let Some(fields) = document.as_object() else { return Vec::new() };
    let mut finder = Finder { read, found: Vec::new() };
    for (name, value) in fields {
        finder.look(&mut vec![Step::Field(name.clone())], value);
    }
    finder.found
}

/// Whether a list stands somewhere in a document where the schema says that an object does.
pub(crate) fn has_list_for_object(document: &Value, schema: &Value) -> bool {
    match document {
        Value::Array(_) if schema.get("type").is_some_and(|kind| kind == "object") => true,
        Value::Array(items) => {
            let of_items = schema.get("items").unwrap_or(&Value::Null);
            items.iter().any(|item| has_list_for_object(item, of_items))
        }
        Value::Object(fields) => {
            let known = schema.get("properties");
            fields.iter().any(|(name, field)| {
                known.and_then(|known| known.get(name)).is_some_and(|schema| has_list_for_object(field, schema))
            })
        }
        _ => false,
    }
}

struct Finder<'a> {
    read: &'a dyn Fn(&Value) -> Result<(), String>,
    found: Vec<Problem>,
}

impl Finder<'_> {
    /// Looks for errors in the value at `path`.
    fn look(&mut self, path: &mut Vec<Step>, value: &Value) {
        let Err(message) = (self.read)(&isolated(path, value.clone())) else { return };
        let before = self.found.len();
        let empty = match value {
            Value::Object(_) => Some(json!({})),
            Value::Array(_) => Some(json!([])),
            _ => None,
        };
        // The kind of the value is right, so the mistake is further down.
        if empty.is_some_and(|empty| (self.read)(&isolated(path, empty)).is_ok()) {
            self.look_inside(path, value);
        }
        if self.found.len() == before {
            self.found.push(problem(path, &message));
        }
    }

    fn look_inside(&mut self, path: &mut Vec<Step>, value: &Value) {
        let fields = value.as_object().into_iter().flatten().map(|(name, value)| (Step::Field(name.clone()), value));
        let items = value.as_array().into_iter().flatten().enumerate().map(|(index, item)| (Step::Item(index), item));
        for (step, value) in fields.chain(items) {
            path.push(step);
            self.look(path, value);
            path.pop();
        }
    }
}

/// A document that holds nothing but the value at this path.
fn isolated(path: &[Step], value: Value) -> Value {
    let inner = path.iter().rev().fold(value, |inner, step| match step {
        Step::Field(name) => Value::Object(Map::from_iter([(name.clone(), inner)])),
        Step::Item(_) => Value::Array(vec![inner]),
    });
    let mut document = json!({"apiVersion": "", "kind": "", "metadata": {}});
    if let (Some(all), Value::Object(fields)) = (document.as_object_mut(), inner) {
        all.extend(fields);
    }
    document
}

fn problem(path: &[Step], message: &str) -> Problem {
    let mut text = String::new();
    for step in path {
        match step {
            Step::Item(index) => text.push_str(&format!("[{index}]")),
            Step::Field(name) if name.contains(['.', '/', '[']) => text.push_str(&format!("[{name}]")),
            Step::Field(name) if text.is_empty() => text.push_str(name),
            Step::Field(name) => text.push_str(&format!(".{name}")),
        }
    }
    let problem = Problem::coded(ProblemCode::Invalid, text, message);
    match suggestion(path, message) {
        Some(hint) => problem.hint(hint),
        None => problem,
    }
}

/// The known field that is spelt most like an unknown one.
fn suggestion(path: &[Step], message: &str) -> Option<String> {
    let Some(Step::Field(written)) = path.last() else { return None };
    let (_, known) = message.strip_prefix("unknown field")?.split_once(", expected ")?;
    if let Some(renamed) = renamed(path) {
        return Some(format!("its name is {renamed} now"));
    }
    if is_of_authentication_configuration(path) {
        return Some(NO_CEL.to_owned());
    }
    let known = known.split('`').skip(1).step_by(2);
    let best = known.map(|name| (distance(written, name), name)).min()?;
    let close = best.0 <= 1 + best.1.len() / 4;
    close.then(|| format!("did you mean {}?", best.1))
}

/// Fields of [`crate::UpstreamCluster`] and [`crate::GatewaySettings`] whose names changed, with their new names. The definition
/// of `UpstreamCluster` still has them, so that kube-apiserver refuses what it would prune.
pub(crate) const RENAMED: [(&str, &str); 14] = [
    ("spec.portcullis.anonymous", "allowAnonymous"),
    ("spec.portcullis.credentialCache.allowedImpersonation", "authorizedTTL"),
    ("spec.portcullis.credentialCache.deniedImpersonation", "unauthorizedTTL"),
    ("spec.portcullis.credentialCache.rejectedToken", "rejectedTokenTTL"),
    ("spec.portcullis.credentialCache.token", "tokenTTL"),
    ("spec.portcullis.references.client.file.key", "privateKey"),
    ("spec.portcullis.references.client.secret.key", "privateKey"),
    ("spec.portcullis.references.serving.file.key", "privateKey"),
    ("spec.portcullis.references.serving.secret.key", "privateKey"),
    ("spec.portcullis.sessionLimit", "maxSessionDuration"),
    ("spec.defaultCertificate.file.key", "privateKey"),
    ("spec.namesBelowWildcards", "wildcardSubdomains"),
    ("spec.requestHeaders", "requestHeaderNames"),
    ("spec.wasmFile", "wasmModulePath"),
];

/// The names on a path, with `[]` for an item.
fn names_of(path: &[Step]) -> String {
    let names = path.iter().map(|step| match step {
        Step::Field(name) => name.as_str(),
        Step::Item(_) => "[]",
    });
    names.collect::<Vec<_>>().join(".")
}

/// The new name of the field at this path, if it has one.
fn renamed(path: &[Step]) -> Option<&'static str> {
    let path = names_of(path);
    RENAMED.iter().find(|(old, _)| *old == path).map(|(_, new)| *new)
}

/// Fields of kube-apiserver's `AuthenticationConfiguration` below an issuer that mean something here if they are passed over: rules
/// and mappings by CEL expressions, and further parts of a user.
const OF_AUTHENTICATION_CONFIGURATION: [&str; 7] = [
    "claimValidationRules.[].expression",
    "claimValidationRules.[].message",
    "claimMappings.username.expression",
    "claimMappings.groups.expression",
    "claimMappings.uid",
    "claimMappings.extra",
    "userValidationRules",
];
const NO_CEL: &str = "the gateway reads no CEL expression and no uid or extra of claims: leave the issuer out here, and the servers \
                      review its tokens by all of their AuthenticationConfiguration";

fn is_of_authentication_configuration(path: &[Step]) -> bool {
    let names = names_of(path);
    let below = names.strip_prefix("spec.portcullis.tokens.issuers.[].");
    below.is_some_and(|below| OF_AUTHENTICATION_CONFIGURATION.contains(&below))
}

/// How many letters have to be added, removed or replaced; upper and lower case count as the same.
pub(crate) fn distance(from: &str, to: &str) -> usize {
    let (from, to) = (from.to_ascii_lowercase(), to.to_ascii_lowercase());
    let mut row: Vec<usize> = (0..=to.len()).collect();
    for (line, a) in from.bytes().enumerate() {
        let mut diagonal = line;
        let mut left = line + 1;
        for (cell, b) in row.iter_mut().skip(1).zip(to.bytes()) {
            let best = (diagonal + usize::from(a != b)).min(left + 1).min(*cell + 1);
            diagonal = *cell;
            *cell = best;
            left = best;
        }
        if let Some(first) = row.first_mut() {
            *first = line + 1;
        }
    }
    row.last().copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::{NO_CEL, OF_AUTHENTICATION_CONFIGURATION, RENAMED};
    use crate::kind::{CLUSTER_API_VERSION, CLUSTER_KIND, SETTINGS_API_VERSION, SETTINGS_KIND};
    use crate::parse::{cluster_mistakes, settings_mistakes};
    use serde_json::{Value, json};

    fn nested(path: &str) -> Value {
        path.rsplit('.').fold(json!("1m"), |inner, name| json!({ name: inner }))
    }

    #[test]
    fn rules_by_cel_are_refused_with_advice() {
        for field in OF_AUTHENTICATION_CONFIGURATION {
            let below = field.rsplit('.').fold(json!("x"), |inner, name| match name {
                "[]" => json!([inner]),
                name => json!({ name: inner }),
            });
            let document = json!({"apiVersion": CLUSTER_API_VERSION, "kind": CLUSTER_KIND, "metadata": {"name": "a.test"},
                "spec": {"portcullis": {"tokens": {"issuers": [below]}}}});
            let found = cluster_mistakes(&document);
            let [problem] = found.as_slice() else { panic!("{field}: {found:?}") };
            assert_eq!(problem.hint.as_deref(), Some(NO_CEL), "{field}: {problem}");
            assert!(problem.message.starts_with("unknown field"), "{problem}");
        }
    }

    #[test]
    fn renamed_fields_are_refused_with_their_new_name() {
        for (path, new) in RENAMED {
            let is_cluster = path.starts_with("spec.portcullis");
            let (version, kind) =
                if is_cluster { (CLUSTER_API_VERSION, CLUSTER_KIND) } else { (SETTINGS_API_VERSION, SETTINGS_KIND) };
            let document = json!({"apiVersion": version, "kind": kind, "metadata": {"name": "a.test"}, "spec": nested(path)["spec"]});
            let found = if is_cluster { cluster_mistakes(&document) } else { settings_mistakes(&document) };
            let [problem] = found.as_slice() else { panic!("{path}: {found:?}") };
            assert_eq!((problem.path.as_str(), problem.hint.clone()), (path, Some(format!("its name is {new} now"))));
            assert!(problem.message.starts_with("unknown field"), "{problem}");
        }
    }
}
