use portcullis_filter_config::Rule;

use crate::display_text::one_line;

/// Most entries of a list that are named.
const MAX_ENTRIES: usize = 3;
/// Most characters of the text.
const MAX_TEXT: usize = 120;

/// A rule in a few words: `get,list pods,services in kube-system by alice`.
pub(crate) fn rule_text(rule: &Rule) -> String {
    let mut parts = vec![list(&rule.verbs)];
    parts.extend(
        [&rule.resources, &rule.non_resource_urls].into_iter().filter(|all| !all.is_empty()).map(|all| list(all)),
    );
    let is_core = rule.api_groups.iter().all(|group| group.is_empty() || group == "*");
    if !rule.resources.is_empty() && !is_core {
        parts.push(format!("of {}", list(&rule.api_groups)));
    }
    let accounts: Vec<String> =
        rule.service_accounts.iter().map(|one| format!("{}/{}", one.namespace, one.name)).collect();
    for (word, entries) in [
        ("named", &rule.resource_names),
        ("in", &rule.namespaces),
        ("by", &rule.users),
        ("by service account", &accounts),
        ("of group", &rule.user_groups),
    ] {
        if !entries.is_empty() && !entries.iter().any(|entry| entry == "*") {
            parts.push(format!("{word} {}", list(entries)));
        }
    }
    shortened(&parts.join(" "))
}

fn list(entries: &[String]) -> String {
    let named = entries.iter().take(MAX_ENTRIES).map(|entry| if entry.is_empty() { "\"\"" } else { entry });
    let mut text = named.collect::<Vec<_>>().join(",");
    if entries.len() > MAX_ENTRIES {
        text.push_str(",…");
    }
    text
}

fn shortened(text: &str) -> String {
    let text = one_line(text);
    if text.chars().count() <= MAX_TEXT {
        return text;
    }
    text.chars().take(MAX_TEXT - 1).chain(['…']).collect()
}
