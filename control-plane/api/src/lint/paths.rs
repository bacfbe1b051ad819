use super::Told;
use portcullis_filter_config::Rule;

pub(super) fn lint(rule: &Rule, path: &str, told: &mut Told) {
    let all = &rule.non_resource_urls;
    if !all.is_empty() && all.iter().all(|entry| entry.starts_with('-') && entry != "-*") {
        let list = format!("{path}.nonResourceURLs");
        told.never(list, "no path can be excluded, so exclusions alone match nothing", "name the paths that are meant");
    }
    for (index, entry) in rule.non_resource_urls.iter().enumerate() {
        let text = entry.strip_prefix('-').unwrap_or(entry);
        let path = format!("{path}.nonResourceURLs[{index}]");
        if text == "*" || text != text.trim() {
            continue;
        }
        if !text.starts_with('/') && !"/".starts_with(text.strip_suffix('*').unwrap_or(text)) {
            let hint = format!("write /{}", text.trim_start_matches('*'));
            told.never(path, "every path starts with \"/\"", hint);
        } else if text.is_empty() {
            told.never(path, "no path is empty", "write /");
        } else if is_resource_path(text.strip_suffix('*').unwrap_or(text)) {
            let hint = "use apiGroups and resources: /api/<version>/... and /apis/<group>/<version>/... are resources";
            told.never(path, "requests to this path are resource requests", hint);
        }
    }
}

/// Whether the path and everything that begins like it is a resource's, as kube-apiserver takes them apart.
fn is_resource_path(path: &str) -> bool {
    let parts: Vec<&str> = path.trim_matches('/').split('/').collect();
    match parts.first() {
        Some(&"api") => parts.len() >= 3,
        Some(&"apis") => parts.len() >= 4,
        _ => false,
    }
}
