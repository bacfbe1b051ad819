use std::borrow::Cow;

use super::field::{REFERENCE_FIELDS, Reference};
use crate::problem::Problem;
use crate::problem::ProblemCode;
use crate::secret::SecretBytes;
use crate::types::UpstreamCluster;

/// Most bytes of a path.
const MAX_PATH: usize = 1024;
/// As Kubernetes has it for keys of a Secret and for names.
const MAX_NAME: usize = 253;

/// Reports wrong references of an object, and that they are not resolved. Returns the object for further checks, with
/// placeholders: the result must not be served.
pub(crate) fn check_references<'a>(raw: &'a UpstreamCluster) -> (Vec<Problem>, Cow<'a, UpstreamCluster>) {
    let references = &raw.spec.portcullis.references;
    let mut problems = Vec::new();
    let mut assumed = Cow::Borrowed(raw);
    for field in &REFERENCE_FIELDS {
        let Some(reference) = (field.of)(references) else { continue };
        if (field.is_set)(&raw.spec) {
            let replaced: Vec<String> = field.replaced().collect();
            problems
                .push(Problem::new(field.path, format!("excludes {}: remove one of the two", replaced.join(" and "))));
            continue;
        }
        problems.push(match shape_error(&reference) {
            Some(shape_error) => Problem::new(field.path, shape_error),
            None => Problem::coded(ProblemCode::Unresolved, field.path, "is not resolved"),
        });
        (field.assume)(&mut assumed.to_mut().spec);
    }
    (problems, assumed)
}

/// The error in a reference that does not depend on its target.
pub(super) fn shape_error(reference: &Reference<'_>) -> Option<&'static str> {
    match (&reference.secret, &reference.files) {
        (None, None) | (Some(_), Some(_)) => Some("exactly one of secret and file is required"),
        (Some((name, keys)), None) => secret_error(name, keys),
        (None, Some(paths)) => paths.iter().find_map(|path| path_error(path)),
    }
}

pub(super) fn secret_error(name: &str, keys: &[&str]) -> Option<&'static str> {
    let is_name = |text: &str, allowed: fn(&u8) -> bool| {
        !text.is_empty() && text.len() <= MAX_NAME && text.as_bytes().iter().all(allowed)
    };
    let in_name = |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'-' | b'.');
    let in_key = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_');
    if !is_name(name, in_name) {
        return Some("secret.name must be the name of a Secret");
    }
    let all_keys = keys.iter().all(|key| is_name(key, in_key));
    (!all_keys).then_some("the keys of a Secret hold letters, digits, -, _ and . only")
}

fn path_error(path: &str) -> Option<&'static str> {
    if path.is_empty() || path.len() > MAX_PATH || path.contains('\0') {
        return Some("a file needs a path of at most 1024 bytes");
    }
    if path.starts_with('/') {
        return Some("a file's path must be relative to the root of references");
    }
    let odd = path.split('/').any(|step| matches!(step, "" | "." | ".."));
    odd.then_some("a file's path must not hold .. or . or //")
}

/// The error of a reference to a file that cannot be read.
pub(super) const NO_FILE: &str = "there is no file at this path below the root of references that the control plane can read \
                       (at most 1 MiB)";

/// The bytes, unless there are only blanks.
pub(super) fn filled(bytes: Option<&SecretBytes>) -> Option<&SecretBytes> {
    bytes.filter(|bytes| !bytes.expose().trim_ascii().is_empty())
}
