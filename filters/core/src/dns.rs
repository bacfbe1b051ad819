//! Names as Kubernetes validates them (apimachinery, `validation.go`).

/// A DNS-1123 label: a namespace's name.
pub(crate) fn is_label(name: &[u8]) -> bool {
    name.len() <= 63 && is_label_of_any_length(name)
}

/// A DNS-1123 subdomain: a service account's name, a label key's prefix.
pub(crate) fn is_subdomain(name: &[u8]) -> bool {
    name.len() <= 253 && name.split(|byte| *byte == b'.').all(is_label_of_any_length)
}

fn is_label_of_any_length(label: &[u8]) -> bool {
    let is_outer = |byte: Option<&u8>| byte.is_some_and(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit());
    is_outer(label.first())
        && is_outer(label.last())
        && label.iter().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || *byte == b'-')
}
